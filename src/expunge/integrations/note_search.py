"""Notes for a text: by its words, by its meaning, or by both. See `search_notes`.

A note's payload is its text, or ``{"text": ..., "metadata": {...}}``; a filter looks at the metadata. Everything that a
score is made of is counted over the notes that the search may see: those of the subject, where one is given, that have
what the filter asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np

from expunge.errors import InputError
from expunge.integrations.note_view import note_text, visible_slots
from expunge.integrations.text_search import query_terms, text_index
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.problem.kernel import kernel_block, squared_distances
from expunge.problem.nearest_keys import nearest_keys
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["Hit", "SearchMode", "check_mode", "search_notes"]

SearchMode = Literal["hybrid", "text", "meaning"]

# What the words weigh in a hybrid score; the meaning weighs the rest. The best of a grid on half of LoCoMo.
WORDS_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Hit:
    """One note that a search found.

    Parameters
    ----------
    id : str
        Id of the note.
    subject : str or None
        Whose it is.
    payload : Any
        What it holds.
    score : float
        What the order is by, largest first: BM25 for ``text``, a number from 0 to 1 for ``hybrid``, the negative
        distance for ``meaning``. Scores of different searches cannot be compared.
    distance : float or None
        Euclidean distance of its key to the query's; None for ``text``, which embeds nothing.
    similarity : float or None
        κ of the two keys, from 0 to 1; None for ``text``.
    weight : float
        Its coefficient; 0 in reserve and in the archive.

    """

    id: str
    subject: str | None
    payload: Any
    score: float
    distance: float | None
    similarity: float | None
    weight: float


@dataclass(frozen=True)
class _Visible:
    """The notes that a search may see: rows in the version, slots and keys. The archive is last, in the row `size`."""

    rows: IndexArray
    slots: IndexArray
    keys: Matrix
    names: list[str]


def check_mode(mode: Any) -> SearchMode:
    """Raise InputError unless it is a mode of search."""
    if mode not in get_args(SearchMode):
        raise InputError(f"a mode of search is {', '.join(get_args(SearchMode))}, not {mode!r}")
    found: SearchMode = mode
    return found


def search_notes(
    version: Version,
    text: str,
    point: Vector | None,
    *,
    count: int,
    offset: int = 0,
    mode: SearchMode,
    subject: str | None = None,
    where: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> list[Hit]:
    """Notes of one version for a text, best first; equal scores by id. Archived notes are found, too.

    ``text`` ranks the notes that share a word with the query, by BM25 (`expunge.integrations.text_search`). ``meaning``
    ranks every note by the distance of its key to the query's. ``hybrid`` ranks every note by the mean of two numbers
    from 0 to 1: its BM25 score over the largest one, and where its squared distance lies between the largest (0) and
    the smallest (1). For unit vectors the cosine gives this second number, too.

    Parameters
    ----------
    version : Version
        The notes, as they are now.
    text : str
        The query.
    point : array (d,) or None
        Its key; needed but for ``text``.
    count, offset : int
        How many notes to return, and how many of the best to pass over.
    mode : {"hybrid", "text", "meaning"}
        What to rank by.
    subject : str or None
        Whose notes alone the search sees.
    where : mapping or None
        What the metadata of a note must have (`expunge.integrations.filters`).
    now : datetime or None
        A time with a zone: the search sees no note that has ended by then.

    Returns
    -------
    list of Hit
        At most `count` notes.

    """
    seen = _visible(version, visible_slots(version, subject, where, now))
    if not seen.rows.size:
        return []
    last = offset + count
    if point is not None and point.size != seen.keys.shape[1]:
        raise InputError(f"the query has {point.size} coordinates, and the notes' keys have {seen.keys.shape[1]}")
    if mode == "meaning":
        order, distances = nearest_keys(seen.keys, seen.names, _needed(point), last)
        return _hits(version, seen, order[offset:], -distances[offset:], point, distances[offset:])
    relevance = _relevance(version, text, seen)
    if mode == "text":
        order = _best(relevance, seen.names, np.flatnonzero(relevance), last)[offset:]
        return _hits(version, seen, order, relevance[order], None, None)
    squared = squared_distances(_needed(point)[None, :], seen.keys)[0]
    scores = WORDS_SHARE * _share_of_best(relevance) + (1.0 - WORDS_SHARE) * _share_of_best(squared.max() - squared)
    order = _best(scores, seen.names, np.arange(scores.size), last)[offset:]
    return _hits(version, seen, order, scores[order], point, np.sqrt(squared[order]))


def _visible(version: Version, slots: IndexArray) -> _Visible:
    entries, archive = version.entries, version.warranties.archive
    live = slots[version.alive[slots]]
    at = {entry.slot: entry for entry in archive.values()}
    kept = slots[live.size :].tolist()
    rows = np.concatenate([np.searchsorted(version.slots, live), np.full(len(kept), version.size, dtype=np.int64)])
    keys = version.keys if live.size == version.size else version.keys[rows[: live.size]]
    keys = np.vstack([keys, *(at[slot].key for slot in kept)]) if kept else keys
    return _Visible(rows, slots, keys, [entries.ids[slot] or "" for slot in slots.tolist()])


def _relevance(version: Version, text: str, seen: _Visible) -> Vector:
    """BM25 of each visible note."""
    index = text_index(version.entries, version.count, _encoded_text)
    mask = np.zeros(version.count, dtype=bool)
    mask[seen.slots] = True
    return index.scores(query_terms(text), mask)[seen.slots]


def _encoded_text(payload: bytes | None) -> str | None:
    return note_text(decode_payload(payload))


def _share_of_best(numbers: Vector) -> Vector:
    """Numbers from 0 up, over the largest; all 0 where it is 0."""
    largest = float(numbers.max())
    return numbers / largest if largest > 0.0 else np.zeros(numbers.size)


def _best(scores: Vector, names: list[str], rows: IndexArray, count: int) -> IndexArray:
    """The rows with the largest scores, largest first; equal ones by name."""
    if count < rows.size:
        least = np.partition(scores[rows], rows.size - count)[rows.size - count]
        rows = rows[scores[rows] >= least]
    ordered = sorted(rows.tolist(), key=lambda row: (-scores[row], names[row]))
    return np.array(ordered[:count], dtype=np.int64)


def _hits(
    version: Version,
    seen: _Visible,
    order: IndexArray,
    scores: Vector,
    point: Vector | None,
    distances: Vector | None,
) -> list[Hit]:
    found = []
    for place, row in enumerate(order.tolist()):
        slot, at = int(seen.slots[row]), int(seen.rows[row])
        similarity = None
        if point is not None:
            similarity = float(kernel_block(point[None, :], seen.keys[row][None, :], version.state.gram.sigma)[0, 0])
        found.append(
            Hit(
                id=seen.names[row],
                subject=version.entries.subjects[slot],
                payload=decode_payload(version.entries.payloads[slot]),
                score=float(scores[place]),
                distance=None if distances is None else float(distances[place]),
                similarity=similarity,
                weight=float(version.coefficients[at]) if at < version.size else 0.0,
            )
        )
    return found


def _needed(point: Vector | None) -> Vector:
    if point is None:
        raise InputError("a search by meaning needs the query's key: give embed, or mode='text'")
    return point
