"""A memory as a map: every entry a point in the plane, and where there are two dimensions, the boundary itself.

With two coordinates the map shows them as they are. With more it shows the two directions in which the live keys
spread most (principal components, computed without chance, signs fixed), so the same version always gives the same
map. A point of the plane can be lifted back to a key, to ask a question there. Entries whose content is gone have no
place on it: forgotten ones are named, and of erased ones there is nothing left but the commitment in their receipt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from expunge.ledger.receipt_parsing import parse_predicate
from expunge.memory.version import Version
from expunge.service.json_response import groups_of, remaining_fraction
from expunge.service.memory_map.contour import zero_lines
from expunge.store import Leaf
from expunge.types import Matrix, Vector

__all__ = ["ERASURES", "Projection", "erased_content", "map_content", "projection_of"]

ERASURES = ("certified_zero", "decrement")

_MAX_DENSE = 512
_GRID_POINTS = 72
_MAX_ERASED = 500


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

    def lift(self, point: Vector) -> Vector:
        """The key at a point (2,) of the plane."""
        return np.asarray(self.mean + point @ self.axes)


_planes: WeakKeyDictionary[Version, Projection] = WeakKeyDictionary()


def projection_of(version: Version) -> Projection:
    """The plane that shows most of the live keys."""
    found = _planes.get(version)
    if found is None:
        found = _planes[version] = _projection(version.keys)
    return found


def map_content(version: Version) -> dict[str, Any]:
    """The map, without what the ledger knows of erased entries."""
    plane = projection_of(version)
    archive = version.warranties.archive
    places = plane.project(version.keys)
    slack = version.slacks(np.arange(version.size))
    live = [
        {"id": name, "subject": subject, "group": group, "x": x, "y": y, "coefficient": weight, "slack": gap}
        for name, subject, group, (x, y), weight, gap in zip(
            version.ids,
            version.subjects,
            groups_of(version),
            places.tolist(),
            version.coefficients.tolist(),
            slack.tolist(),
            strict=True,
        )
    ]
    archived, forgotten = [], []
    for row in version.warranties.rows(version.fit):
        about = {
            "id": row.id,
            "subject": version.warranties.subject(row.id),
            "slack": row.slack,
            "remaining": row.remaining,
            "fraction": remaining_fraction(row),
            "status": row.status,
        }
        if row.id in archive:
            x, y = plane.project(archive[row.id].key[None, :])[0].tolist()
            archived.append(about | {"x": x, "y": y})
        else:
            forgotten.append(about)
    return {
        "digest": version.digest,
        "edit": version.edit,
        "dimension": int(version.keys.shape[1]),
        "projection": {"kind": plane.kind, "mean": plane.mean, "axes": plane.axes, "explained": plane.explained},
        "entries": live,
        "archived": archived,
        "forgotten": forgotten,
        "boundary": _boundary(version) if version.keys.shape[1] == 2 else None,
    }


def erased_content(leaves: Iterable[Leaf]) -> tuple[list[dict[str, Any]], int]:
    """Entries that deletions took, as their receipts name them, in the order of the leaves; and how many in all."""
    found: list[dict[str, Any]] = []
    total = 0
    for leaf in leaves:
        stated = parse_predicate(leaf.statement)
        if stated.action != "deletion":
            continue
        total += stated.applied.count
        about = {"index": leaf.index, "edit": stated.edit, "outcome": stated.outcome, "time": stated.time}
        room = _MAX_ERASED - len(found)
        found += [{"commitment": digest, **about} for digest in stated.applied.commitments[:room]]
    return found, total


def _projection(keys: Matrix) -> Projection:
    size, dimension = keys.shape
    if dimension <= 2:
        axes = np.zeros((2, dimension))
        axes[:dimension, :dimension] = np.eye(dimension)
        spread = np.append(keys.var(axis=0), [0.0, 0.0])[:2]
        return Projection("identity", np.zeros(dimension), axes, _shares(spread, float(spread.sum())))
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


def _boundary(version: Version) -> dict[str, Any]:
    """The slack g on a grid around all entries, positive inside, and the lines on which it is zero."""
    sigma = version.state.gram.sigma
    keys = np.vstack([version.keys, *(entry.key for entry in version.warranties.archive.values())])
    room = 0.5 * sigma + 0.1 * np.ptp(keys, axis=0)
    low, high = keys.min(axis=0) - room, keys.max(axis=0) + room
    x, y = np.linspace(low[0], high[0], _GRID_POINTS), np.linspace(low[1], high[1], _GRID_POINTS)
    across, up = np.meshgrid(x, y)
    points = np.column_stack([across.ravel(), up.ravel()])
    values = version.solution.slack(points).reshape(_GRID_POINTS, _GRID_POINTS)
    return {"polylines": zero_lines(x, y, values), "grid": {"x": x, "y": y, "values": values}}
