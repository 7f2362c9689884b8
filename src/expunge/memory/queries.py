"""Questions to one version of a memory: the readout, and which entries carry it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expunge.memory.entries import decode_payload
from expunge.memory.version import View
from expunge.problem.kernel import kernel_block, squared_distances
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["Hit", "readout", "search"]


@dataclass(frozen=True)
class Hit:
    """One entry of a search: its share of the readout at the query, and what it holds."""

    id: str
    share: float
    similarity: float
    value: Vector
    subject: str | None
    payload: Any


def readout(view: View, points: Matrix, coefficients: Vector) -> Matrix:
    """o(q) = Σακv / Σακ at points (m, d) → (m, dv)."""
    active = np.flatnonzero(coefficients)
    weights = _weights(view, points, active, coefficients)
    return np.asarray(weights @ view.values[active] / weights.sum(axis=1, keepdims=True))


def search(view: View, point: Matrix, count: int) -> list[Hit]:
    """Entries by their share of the readout at one point (1, d), largest first."""
    active = np.flatnonzero(view.coefficients)
    weights = _weights(view, point, active, view.coefficients)[0]
    shares = weights / weights.sum()
    similarity = kernel_block(point, view.keys[active], view.state.gram.sigma)[0]
    entries, hits = view.entries, []
    for place in np.argsort(-shares, kind="stable")[:count].tolist():
        slot = int(view.slots[active[place]])
        hits.append(
            Hit(
                id=entries.ids[slot] or "",
                share=float(shares[place]),
                similarity=float(similarity[place]),
                value=view.values[active[place]],
                subject=entries.subjects[slot],
                payload=decode_payload(entries.payloads[slot]),
            )
        )
    return hits


def _weights(view: View, points: Matrix, rows: IndexArray, coefficients: Vector) -> Matrix:
    """α κ(q, x), (m, rows), scaled by the nearest active key's κ, so that far queries do not become 0/0."""
    distances = squared_distances(points, view.keys[rows])
    distances -= distances.min(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        return np.asarray(coefficients[rows] * np.exp(-distances / view.state.gram.sigma**2))
