"""The plane in which a memory is drawn: two coordinates, or the two directions in which the live keys spread most.

With two coordinates the plane shows them as they are. With more it shows principal components, computed without chance,
signs fixed, so the same version always gives the same plane. A point of the plane can be lifted back to a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from expunge.memory.version import Version
from expunge.types import Matrix, Vector

__all__ = ["Projection", "projection_of", "slack_grid"]

_MAX_DENSE = 512
_GRID_POINTS = 72


@dataclass(frozen=True, eq=False)
class Projection:
    """A plane through the space of keys: ``mean`` (d,), orthonormal ``axes`` (2, d), share of the variance on each."""

    kind: str
    mean: Vector
    axes: Matrix
    explained: tuple[float, float]

    def project(self, keys: Matrix) -> Matrix:
        """Keys (m, d) → points (m, 2)."""
        return np.asarray((keys - self.mean) @ self.axes.T)

    def lift(self, points: Matrix) -> Matrix:
        """Keys (m, d) at points (m, 2) of the plane, or one key at one point."""
        return np.asarray(self.mean + points @ self.axes)


_planes: WeakKeyDictionary[Version, Projection] = WeakKeyDictionary()


def projection_of(version: Version) -> Projection:
    """The plane that shows most of the live keys."""
    found = _planes.get(version)
    if found is None:
        found = _planes[version] = _projection(version.keys)
    return found


def slack_grid(version: Version, plane: Projection) -> tuple[Vector, Vector, Matrix]:
    """The slack g in a plane, on a grid around all entries, positive inside: x (m,), y (m,), slack (m, m)."""
    keys = np.vstack([version.keys, *(entry.key for entry in version.warranties.archive.values())])
    places = plane.project(keys)
    room = 0.5 * version.state.gram.sigma + 0.1 * np.ptp(places, axis=0)
    low, high = places.min(axis=0) - room, places.max(axis=0) + room
    x, y = np.linspace(low[0], high[0], _GRID_POINTS), np.linspace(low[1], high[1], _GRID_POINTS)
    across, up = np.meshgrid(x, y)
    points = plane.lift(np.column_stack([across.ravel(), up.ravel()]))
    return x, y, version.solution.slack(points).reshape(_GRID_POINTS, _GRID_POINTS)


def _projection(keys: Matrix) -> Projection:
    size, dimension = keys.shape
    if dimension <= 2:
        axes = np.zeros((2, dimension))
        axes[:dimension, :dimension] = np.eye(dimension)
        spread = np.append(keys.var(axis=0) if size else np.zeros(dimension), [0.0, 0.0])[:2]
        return Projection("identity", np.zeros(dimension), axes, _shares(spread, float(spread.sum())))
    if not size:
        # Any plane shows the entries of an empty memory.
        return Projection("pca", np.zeros(dimension), _orthonormal(np.zeros((0, dimension))), (0.0, 0.0))
    mean = keys.mean(axis=0)
    centred = keys - mean
    total = float(np.einsum("ij,ij->", centred, centred))
    if min(size, dimension) <= _MAX_DENSE:
        few = centred @ centred.T if size < dimension else centred.T @ centred
        powers, vectors = np.linalg.eigh(few)
        vectors = vectors[:, ::-1][:, :2]
        powers = powers[::-1][:2]
        axes = (centred.T @ vectors).T if size < dimension else vectors.T
    else:
        apply = LinearOperator((dimension, dimension), matvec=lambda v: centred.T @ (centred @ v), dtype=np.float64)
        powers, vectors = eigsh(apply, k=2, v0=np.ones(dimension))
        powers, axes = powers[::-1], vectors.T[::-1]
    return Projection("pca", mean, _orthonormal(axes), _shares(np.maximum(powers, 0.0), total))


def _orthonormal(axes: Matrix) -> Matrix:
    """Unit length, at right angles, the largest coordinate of each positive; coordinate axes where nothing spreads."""
    found = np.zeros((2, axes.shape[1]))
    for row in range(2):
        axis = axes[row] if row < axes.shape[0] else np.zeros(axes.shape[1])
        for trial in (axis, *np.eye(3, axes.shape[1])):
            rest = trial - found[:row].T @ (found[:row] @ trial)
            length = float(np.linalg.norm(rest))
            if length > 1e-9 * max(1.0, float(np.linalg.norm(trial))):
                found[row] = rest / length
                break
        found[row] *= np.sign(found[row, np.argmax(np.abs(found[row]))])
    return found


def _shares(powers: Vector, total: float) -> tuple[float, float]:
    if not total > 0.0:
        return 0.0, 0.0
    return float(powers[0] / total), float(powers[1] / total) if powers.size > 1 else 0.0
