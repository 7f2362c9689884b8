"""The map of a memory: every entry in the plane, by group, and the boundary between inside and outside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from expunge.display.card import counted
from expunge.memory.projection import slack_grid
from expunge.memory.reader import MemoryReader
from expunge.memory.version import Version
from expunge.memory.version_table import group_names
from expunge.plots.plane import Plane, plane_of
from expunge.plots.style import BLACK, MARKS, Plot, legend_below, styled

__all__ = ["SECTION", "draw_boundary", "draw_entries", "map_of"]

SECTION = (
    "The line is where the boundary meets this plane: an entry before or behind the plane may lie on its other side."
)
# More marks than this are kept as pixels in PDF and SVG files.
MANY = 2000


@styled
def map_of(memory: MemoryReader, columns: Sequence[str | int] | None = None) -> Plot:
    """Map of a memory: every entry a mark in the plane, by group, with the boundary as a line.

    Parameters
    ----------
    memory : Memory or StoredMemory
        A memory with at least one live entry.
    columns : two of str or int, optional
        Key columns to draw, by name or number; the plane lies at the mean of the others. Without it keys of two
        coordinates are drawn as they are, and longer ones along the two directions in which they spread most.

    Returns
    -------
    matplotlib.figure.Figure
        On the boundary the score is 1 − 2ρ; inside it is larger. Keys of one coordinate are drawn over their score.

    Raises
    ------
    InputError
        For an empty memory, or a column that is not there.

    """
    version = memory.look(_with_entries)
    figure = Plot(figsize=(6.6, 4.9), layout="constrained")
    axes = figure.subplots()
    names = group_names(version)
    active = len(names) - names.count("reserve")
    live, aside = counted(len(names), "live entry"), len(version.warranties.archive)
    kept = f" and {aside} kept aside" if aside else ""
    figure.suptitle(f"{live}{kept}: {active} of them carry weight and draw the boundary", fontsize=9)
    if version.keys.shape[1] == 1:
        _draw_line(axes, version)
    else:
        plane = plane_of(version, columns)
        draw_boundary(axes, version, plane, BLACK, "-", "boundary")
        draw_entries(axes, version, plane)
        _label(axes, plane)
        if not plane.whole:
            axes.annotate(SECTION, (0.0, -0.155), xycoords="axes fraction", fontsize=6.5, color="#444444", va="top")
    legend_below(figure, axes, 2)
    return figure


def draw_entries(axes: Axes, version: Version, plane: Plane) -> None:
    """Draw every entry by its group."""
    names = np.array(group_names(version))
    keys = dict.fromkeys(MARKS, version.keys[:0])
    for group in ("reserve", "bound", "margin"):
        keys[group] = version.keys[names == group]
    archived = [entry.key for entry in version.warranties.archive.values()]
    keys["archived"] = np.reshape(archived, (-1, version.keys.shape[1]))
    for order, (group, mark) in enumerate(MARKS.items()):
        if not len(keys[group]):
            continue
        places = plane.places(keys[group])
        axes.scatter(
            places[:, 0],
            places[:, 1],
            marker=mark.marker,
            s=mark.size,
            c=mark.colour,
            edgecolors="white",
            linewidths=0.4,
            zorder=3 + order,
            label=f"{group}: {mark.about} ({len(keys[group])})",
            rasterized=len(keys[group]) > MANY,
        )


def draw_boundary(axes: Axes, version: Version, plane: Plane, colour: str, dashes: str, label: str) -> None:
    """Draw the line on which the slack is zero, that is the score 1 − 2ρ, and shade the inside."""
    x, y, slack = slack_grid(version, plane.projection)
    x, y = plane.shown(np.column_stack([x, y])).T
    if not (slack.min() < 0.0 < slack.max()):
        return
    axes.contour(x, y, slack, levels=[0.0], colors=colour, linestyles=dashes, linewidths=1.2, zorder=2)
    axes.plot([], [], dashes, color=colour, linewidth=1.2, label=label)


def _draw_line(axes: Axes, version: Version) -> None:
    """The score over keys of one coordinate."""
    plane = plane_of(version, None)
    x, _, _ = slack_grid(version, plane.projection)
    solution = version.solution
    shown = x * plane.scale[0] + plane.centre[0]
    axes.plot(shown, solution.score(x[:, None]), color=BLACK, linewidth=1.0, label="score")
    axes.axhline(1.0 - 2.0 * solution.offset, color=BLACK, linestyle="--", linewidth=1.0, label="boundary, 1 − 2ρ")
    names = np.array(group_names(version))
    for group in ("reserve", "bound", "margin"):
        mark, keys = MARKS[group], version.keys[names == group]
        if len(keys):
            axes.scatter(
                plane.places(keys)[:, 0],
                solution.score(keys),
                marker=mark.marker,
                s=mark.size,
                c=mark.colour,
                edgecolors="white",
                linewidths=0.4,
                zorder=3,
                label=f"{group}: {mark.about} ({len(keys)})",
            )
    axes.set_xlabel(plane.labels[0])
    axes.set_ylabel("score (larger is further inside)")


def _label(axes: Axes, plane: Plane) -> None:
    axes.set_xlabel(plane.labels[0])
    axes.set_ylabel(plane.labels[1])


def _with_entries(version: Version) -> Version:
    version.require_entries()
    return version
