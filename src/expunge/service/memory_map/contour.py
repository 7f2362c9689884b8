"""Where a function on a grid is zero: marching squares, with segments joined into lines.

Every crossing lies on an edge of the grid and is found by linear interpolation there; a cell joins its crossings in
pairs. A saddle, where four meet, is decided by the mean of its corners. Lines that close end where they began.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from expunge.types import Matrix, Vector

__all__ = ["zero_lines"]

Edge = tuple[int, int, int]  # row, column, and 0 for the edge to the next column or 1 for that to the next row


def zero_lines(x: Vector, y: Vector, values: Matrix) -> list[list[list[float]]]:
    """Lines of [x, y] points on which values (len(y), len(x)) change their sign."""
    inside = values > 0.0
    mixed = inside[:-1, :-1] + 0 + inside[:-1, 1:] + inside[1:, :-1] + inside[1:, 1:]
    joined: defaultdict[Edge, list[Edge]] = defaultdict(list)
    for row, column in np.argwhere((mixed > 0) & (mixed < 4)).tolist():
        for one, other in _pairs(row, column, values):
            joined[one].append(other)
            joined[other].append(one)
    # Open lines first, from an end; what is left afterwards is closed.
    starts = [*(edge for edge in joined if len(joined[edge]) == 1), *joined]
    lines = [_traced_line(start, joined) for start in starts if joined[start]]
    return [[_point(edge, x, y, values) for edge in line] for line in lines]


def _pairs(row: int, column: int, values: Matrix) -> list[tuple[Edge, Edge]]:
    """Pairs of crossed edges that a line joins in one cell."""
    bottom, top = (row, column, 0), (row + 1, column, 0)
    left, right = (row, column, 1), (row, column + 1, 1)
    corners = values[row, column], values[row, column + 1], values[row + 1, column + 1], values[row + 1, column]
    signs = [corner > 0.0 for corner in corners]
    crossed = [
        edge
        for edge, one, other in ((bottom, 0, 1), (right, 1, 2), (top, 2, 3), (left, 3, 0))
        if signs[one] != signs[other]
    ]
    if len(crossed) == 2:
        return [(crossed[0], crossed[1])]
    # The corner whose sign differs from the middle's is cut off.
    if signs[0] == (sum(corners) > 0.0):
        return [(bottom, right), (top, left)]
    return [(left, bottom), (right, top)]


def _traced_line(start: Edge, joined: defaultdict[Edge, list[Edge]]) -> list[Edge]:
    """The line that starts at an edge; its joints are removed."""
    line, here = [start], start
    while joined[here]:
        following = joined[here].pop()
        joined[following].remove(here)
        line.append(following)
        here = following
    return line


def _point(edge: Edge, x: Vector, y: Vector, values: Matrix) -> list[float]:
    row, column, upward = edge
    ahead = (row + 1, column) if upward else (row, column + 1)
    here, there = values[row, column], values[ahead]
    part = float(here / (here - there))
    if upward:
        return [float(x[column]), float(y[row] + part * (y[row + 1] - y[row]))]
    return [float(x[column] + part * (x[column + 1] - x[column])), float(y[row])]
