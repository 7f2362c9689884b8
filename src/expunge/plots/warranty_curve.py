"""Warranties of pruned entries: how much they can still take, or what became of them edit by edit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes

from expunge.certificates.warranty import Warranty
from expunge.display.card import counted
from expunge.errors import InputError
from expunge.memory.reader import MemoryReader
from expunge.memory.receipt import EditRecord
from expunge.plots.style import BLUE, GREEN, GREY, ORANGE, VERMILION, Plot, legend_below, styled

__all__ = ["warranty_survival"]

# What can become of a pruned entry, from the bottom of the stack up.
FATES = (
    ("holds", BLUE, ""),
    ("came back, because it would matter", GREEN, "//"),
    ("expired: not proved for now", ORANGE, ".."),
    ("ended: its numbers were erased", VERMILION, "xx"),
    ("erased itself", GREY, "\\\\"),
)


@styled
def warranty_survival(source: MemoryReader | Iterable[EditRecord]) -> Plot:
    """How long certificates of pruned entries hold: what is left of them now, or their fate edit by edit.

    Parameters
    ----------
    source : Memory or StoredMemory, or receipts in order
        Of a memory: the share of certificates that would survive a fall of their slack, over the size of the fall. Of
        receipts, as its edits returned them: how many pruned entries are still certified after each edit.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        Where no entry was ever pruned.

    """
    figure = Plot(figsize=(6.6, 3.2), layout="constrained")
    axes = figure.subplots()
    if isinstance(source, MemoryReader):
        figure.suptitle(_draw_slacks(axes, source.warranties()), fontsize=9)
    else:
        figure.suptitle(_draw_fates(axes, [*source]), fontsize=9)
    legend_below(figure, axes, 2)
    return figure


def _draw_slacks(axes: Axes, rows: Sequence[Warranty]) -> str:
    """Draw the share of certificates with more than a given slack; return the title."""
    if not rows:
        raise InputError("no entry is pruned, so there is no warranty to draw: prune the memory first")
    kinds = (
        ("archive", "slack", "kept aside: slack now", "-", GREEN),
        ("forget", "slack", "forgotten: slack at the pruning", "--", GREY),
        ("forget", "remaining", "forgotten: slack that is proved to remain", "-", BLUE),
    )
    largest = 0.0
    for mode, column, label, dashes, colour in kinds:
        here = [row for row in rows if row.mode == mode]
        left = np.sort([getattr(row, column) or 0.0 for row in here])
        if not left.size:
            continue
        held = np.append(left[left >= 0.0], [])
        shares = np.arange(held.size, -1, -1) / left.size
        x = np.concatenate([[0.0], held])
        axes.step(x, shares, dashes, where="post", color=colour, label=f"{label} ({left.size})")
        largest = max(largest, float(x[-1]))
    axes.set_xlim(0.0, 1.02 * largest or 1.0)
    axes.set_ylim(0.0, 1.03)
    axes.grid(axis="y")
    axes.set_xlabel("how far the slack falls (an entry on the boundary has none left)")
    axes.set_ylabel("share of certificates\nthat would survive it")
    valid = sum(row.status == "valid" for row in rows)
    return f"{counted(len(rows), 'pruned entry')}: {valid} certified to weigh nothing now"


def _draw_fates(axes: Axes, records: Sequence[EditRecord]) -> str:
    """Draw how many pruned entries are in which state after each edit; return the title."""
    fate: dict[str, int] = {}
    history = []
    for record in records:
        for word, state in (("reactivated", 1), ("expired", 2), ("ended", 3), ("renewed", 0)):
            fate |= dict.fromkeys(set(record.details.get(word, ())) & set(fate), state)
        if record.outcome == "pruned":
            fate |= dict.fromkeys(record.applied, 0)
        if record.action == "deletion":
            fate |= dict.fromkeys(set(record.applied) & set(fate), 4)
        if fate:
            history.append([list(fate.values()).count(state) for state in range(len(FATES))])
    if not history:
        raise InputError("none of these receipts is of a pruning, so there is no warranty to draw")
    counts = np.array([*history, history[-1]], dtype=np.float64).T
    x = np.arange(counts.shape[1])
    below = np.zeros(counts.shape[1])
    for (name, colour, hatch), row in zip(FATES, counts, strict=True):
        if row.any():
            axes.fill_between(
                x,
                below,
                below + row,
                step="post",
                facecolor=colour,
                alpha=0.75,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.0,
                label=f"{name} ({int(row[-1])} now)",
            )
        below = below + row
    axes.set_xlim(0, max(1, counts.shape[1] - 1))
    axes.set_ylim(0.0, 1.03 * float(below.max()))
    axes.set_xlabel("edits since the first pruning")
    axes.set_ylabel("pruned entries")
    return (
        f"{int(counts[0, -1])} of {len(fate)} certificates of pruned entries hold after {len(history) - 1} more edits"
    )
