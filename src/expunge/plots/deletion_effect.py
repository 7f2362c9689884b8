"""What a deletion changes: the score over the map, and the answer at every entry that remains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

from expunge.display.card import counted
from expunge.errors import InputError
from expunge.memory.memory import Memory
from expunge.memory.projection import slack_grid
from expunge.memory.reader import MemoryReader
from expunge.memory.version import Version
from expunge.plots.memory_map import draw_boundary
from expunge.plots.plane import Plane, plane_of
from expunge.plots.style import BLACK, BLUE, GREY, Plot, legend_below, styled
from expunge.problem.problem import widened_cap

__all__ = ["Applied", "deletion_changes", "version_without"]


class Applied(Protocol):
    """A preview: it names the entries that would go."""

    @property
    def applied(self) -> tuple[str, ...]:
        """Ids of the entries."""


@styled
def deletion_changes(
    memory: MemoryReader,
    ids: str | Iterable[str] | Applied | None = None,
    *,
    subject: str | None = None,
    columns: Sequence[str | int] | None = None,
) -> Plot:
    """What the removal of entries would change; nothing is removed.

    Parameters
    ----------
    memory : Memory or StoredMemory
        The memory that still has the entries.
    ids : str, iterable of str, or Preview
        Entries to remove, or a dry run that names them.
    subject : str, optional
        Instead of `ids`: all entries of a subject.
    columns : two of str or int, optional
        Key columns of the map; see `map_of`.

    Returns
    -------
    matplotlib.figure.Figure
        Left the change of the score over the map, with the boundary before and after. Right the change of the readout
        at the key of every remaining entry, in percent of the range of the values. The remaining entries are fitted
        afresh for it, at the cap that a deletion leaves, so it takes as long as a fit.

    Raises
    ------
    InputError
        For an unknown id or subject, or where no entry would remain.

    """
    named = ids if ids is None or isinstance(ids, str | Iterable) else ids.applied
    before, gone = memory.look(lambda version: (version, version.named(named, subject)))
    slots, pruned = gone
    after = version_without(before, slots, pruned)
    names = {before.entries.ids[slot] or "" for slot in slots}
    removed = np.array([name in names for name in before.ids])
    change = _readout_changes(before, after, before.keys[~removed])
    figure = Plot(figsize=(7.4, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.45, 1.0])
    plane = plane_of(before, columns)
    _draw_map(figure, left, before, after, plane, removed)
    _draw_changes(right, change)
    weights = before.coefficients[~removed]
    moved = int(np.count_nonzero(weights != _weights_of(after, before, removed)))
    count = counted(len(slots) + len(pruned), "entry")
    answers = f"answers at their keys by up to {change.max():.2g} %"
    figure.suptitle(f"Without {count}, {moved} of {weights.size} weights change, and {answers}", fontsize=9)
    legend_below(figure, left, 4)
    return figure


def version_without(before: Version, slots: list[int], pruned: list[str]) -> Version:
    """The version that a fresh fit of the remaining entries gives, archived ones included."""
    archive = before.warranties.archive
    gone = [*slots, *(archive[name].slot for name in pruned if name in archive)]
    keys, columns = before.columns(archived=True, without=gone)
    if not len(keys):
        raise InputError("no entry would remain, so there is nothing to compare with")
    cap = widened_cap(before.state.cap, len(keys))
    return Memory.fit(keys, columns[0], sigma=before.state.gram.sigma, cap=cap, ids=columns[1]).version


def _weights_of(after: Version, before: Version, removed: np.ndarray) -> np.ndarray:
    """Weights after the removal, in the order of the rows that remain."""
    weight = dict(zip(after.ids, after.coefficients.tolist(), strict=True))
    return np.array([weight[name] for name, is_gone in zip(before.ids, removed, strict=True) if not is_gone])


def _readout_changes(before: Version, after: Version, keys: np.ndarray) -> np.ndarray:
    """Largest change of the readout at keys (m, d), in percent of the values' range, (m,)."""
    spread = float(np.max(np.ptp(before.values, axis=0))) or 1.0
    return np.asarray(100.0 * np.max(np.abs(after.readout(keys) - before.readout(keys)), axis=1) / spread)


def _draw_map(figure: Plot, axes: Axes, before: Version, after: Version, plane: Plane, removed: np.ndarray) -> None:
    x, y, _ = slack_grid(before, plane.projection)
    across, up = np.meshgrid(x, y)
    points = plane.projection.lift(np.column_stack([across.ravel(), up.ravel()]))
    # The score relative to the boundary: what says inside or outside.
    change = (after.solution.slack(points) - before.solution.slack(points)).reshape(across.shape)
    x, y = plane.shown(np.column_stack([x, y])).T
    largest = float(np.abs(change).max()) or 1.0
    mesh = axes.pcolormesh(
        x, y, change, cmap="PuOr", norm=TwoSlopeNorm(0.0, -largest, largest), shading="gouraud", rasterized=True
    )
    bar = figure.colorbar(mesh, ax=axes, shrink=0.85, pad=0.02)
    bar.set_label("change of the slack:\n− further out, + further in")
    bar.outline.set_visible(False)
    draw_boundary(axes, before, plane, GREY, "--", "boundary before")
    draw_boundary(axes, after, plane, BLACK, "-", "boundary after")
    kept, gone = plane.places(before.keys[~removed]), plane.places(before.keys[removed])
    axes.scatter(
        kept[:, 0], kept[:, 1], s=4.0, c="#444444", alpha=0.6, linewidths=0.0, zorder=3, label=f"remain ({len(kept)})"
    )
    removed_label = f"removed ({len(gone)})"
    axes.scatter(
        gone[:, 0],
        gone[:, 1],
        s=26.0,
        c=BLACK,
        marker="X",
        edgecolors="white",
        linewidths=0.5,
        zorder=4,
        label=removed_label,
    )
    axes.set_xlabel(plane.labels[0])
    axes.set_ylabel(plane.labels[1])


def _draw_changes(axes: Axes, change: np.ndarray) -> None:
    ordered = np.sort(change)[::-1]
    edges = np.arange(ordered.size + 1) + 0.5
    axes.stairs(ordered, edges, fill=True, color=BLUE)
    axes.set_xlim(0.5, ordered.size + 0.5)
    axes.set_ylim(0.0, 1.08 * float(ordered[0]) or 1.0)
    axes.set_xlabel("remaining entries, most changed first")
    axes.set_ylabel("change of the answer at its key,\n% of the range of values")
