"""The weights of a memory: how many entries carry it, and how evenly."""

from __future__ import annotations

import numpy as np

from expunge.memory.reader import MemoryReader
from expunge.memory.version import Version
from expunge.memory.version_table import group_names
from expunge.plots.style import BLACK, MARKS, Plot, legend_below, styled

__all__ = ["coefficients"]


@styled
def coefficients(memory: MemoryReader) -> Plot:
    """Weights of a memory's live entries, largest first, with the cap that none may exceed.

    Parameters
    ----------
    memory : Memory or StoredMemory
        A memory with at least one live entry.

    Returns
    -------
    matplotlib.figure.Figure
        One step per entry, in the colour of its group.

    Raises
    ------
    InputError
        For an empty memory.

    """

    def found(version: Version) -> tuple[np.ndarray, np.ndarray, float]:
        version.require_entries()
        return version.coefficients, np.array(group_names(version)), version.state.cap

    weights, names, cap = memory.look(found)
    order = np.argsort(-weights, kind="stable")
    weights, names = weights[order], names[order]
    figure = Plot(figsize=(6.6, 3.0), layout="constrained")
    axes = figure.subplots()
    edges = np.arange(weights.size + 1) + 0.5
    for group in ("bound", "margin", "reserve"):
        here = np.flatnonzero(names == group)
        if here.size:
            mark = MARKS[group]
            label = f"{group}: {mark.about} ({here.size})"
            axes.stairs(weights[here], edges[here[0] : here[-1] + 2], fill=True, color=mark.colour, label=label)
    axes.axhline(cap, color=BLACK, linestyle="--", linewidth=0.9, label="cap: the largest weight allowed")
    axes.set_xlim(0.5, weights.size + 0.5)
    axes.set_ylim(0.0, 1.15 * cap)
    axes.set_xlabel("entries, heaviest first")
    axes.set_ylabel("weight (all sum to 1)")
    active = int(np.count_nonzero(weights))
    figure.suptitle(
        f"{active} of {weights.size} entries carry weight; the others can go, and no answer changes", fontsize=9
    )
    legend_below(figure, axes, 2)
    return figure
