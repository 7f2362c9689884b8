"""Search: which entries of one version carry the readout at a query."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.problem.kernel import kernel_block
from expunge.problem.readout import canonical_order, readout_weights
from expunge.types import Matrix, Vector

__all__ = ["Hit", "search"]


@dataclass(frozen=True)
class Hit:
    """One entry of a search: its share of the readout at the query, and what it holds."""

    id: str
    share: float
    similarity: float
    value: Vector
    subject: str | None
    payload: Any


def search(version: Version, point: Matrix, count: int) -> list[Hit]:
    """Entries by their share of the readout at one point (1, d), largest first."""
    active = canonical_order(version.keys, version.values, version.coefficients)
    sigma = version.state.gram.sigma
    weights = readout_weights(version.keys[active], version.coefficients[active], point, sigma)[0]
    shares = weights / math.fsum(weights.tolist())
    similarity = kernel_block(point, version.keys[active], sigma)[0]
    entries, hits = version.entries, []
    for place in np.argsort(-shares, kind="stable")[:count].tolist():
        slot = int(version.slots[active[place]])
        hits.append(
            Hit(
                id=entries.ids[slot] or "",
                share=float(shares[place]),
                similarity=float(similarity[place]),
                value=version.values[active[place]],
                subject=entries.subjects[slot],
                payload=decode_payload(entries.payloads[slot]),
            )
        )
    return hits
