"""Which entries of a memory carry the readout at a query (`search`), and which are nearest to it (`nearest`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from expunge.memory.active_entries import ActiveEntries
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.problem.kernel import kernel_block
from expunge.problem.nearest_keys import nearest_keys
from expunge.problem.readout import readout_weights
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["Hit", "Neighbour", "nearest", "nearest_rows", "search"]


@dataclass(frozen=True)
class Hit:
    """One entry of a search: its share of the readout at the query, and what it holds."""

    id: str
    share: float
    similarity: float
    value: Vector
    subject: str | None
    payload: Any


@dataclass(frozen=True)
class Neighbour:
    """One of the entries nearest to a query.

    Parameters
    ----------
    id : str
        Id of the entry.
    distance : float
        Euclidean distance of its key to the query, in key coordinates.
    similarity : float
        κ of key and query, from 0 to 1.
    archived : bool
        Whether a pruning set the entry aside.
    weight : float
        Its coefficient; 0 in reserve and in the archive, where it is in no readout.
    value : Vector
        Its value, (dv,).
    subject : str or None
        Its subject.
    payload : Any
        What else it holds.

    """

    id: str
    distance: float
    similarity: float
    archived: bool
    weight: float
    value: Vector
    subject: str | None
    payload: Any


def nearest_rows(version: Version, point: Matrix, count: int, *, archived: bool = True) -> tuple[IndexArray, Vector]:
    """Rows of the entries nearest to one point (1, d), and their distances; the archive follows the live entries."""
    archive = version.warranties.archive if archived else {}
    keys = version.keys if not archive else np.vstack([version.keys, *(entry.key for entry in archive.values())])
    return nearest_keys(keys, [*version.ids, *archive], point[0], count)


def nearest(version: Version, point: Matrix, count: int, *, archived: bool = True) -> list[Neighbour]:
    """Entries by distance of their keys to one point (1, d), whatever they weigh; equal distances by id."""
    rows, distances = nearest_rows(version, point, count, archived=archived)
    entries, archive = version.entries, list(version.warranties.archive.items())
    found = []
    for row, distance in zip(rows.tolist(), distances.tolist(), strict=True):
        if row < version.size:
            slot = int(version.slots[row])
            name, key, value = entries.ids[slot] or "", version.keys[row], version.values[row]
            subject, payload, weight = entries.subjects[slot], entries.payloads[slot], float(version.coefficients[row])
        else:
            name, entry = archive[row - version.size]
            key, value, subject, payload, weight = entry.key, entry.value, entry.subject, entry.payload, 0.0
        similarity = float(kernel_block(point, key[None, :], version.state.gram.sigma)[0, 0])
        found.append(
            Neighbour(name, distance, similarity, row >= version.size, weight, value, subject, decode_payload(payload))
        )
    return found


def search(active: ActiveEntries, point: Matrix, count: int) -> list[Hit]:
    """Entries by their share of the readout at one point (1, d), largest first."""
    if not active.coefficients.size:
        return []
    weights = readout_weights(active.keys, active.coefficients, point, active.sigma)[0]
    shares = weights / math.fsum(weights.tolist())
    similarity = kernel_block(point, active.keys, active.sigma)[0]
    hits = []
    for place in np.argsort(-shares, kind="stable")[:count].tolist():
        name, subject, payload = active.describe(place)
        value = active.values[place]
        value.setflags(write=False)
        hits.append(
            Hit(
                id=name,
                share=float(shares[place]),
                similarity=float(similarity[place]),
                value=value,
                subject=subject,
                payload=decode_payload(payload),
            )
        )
    return hits
