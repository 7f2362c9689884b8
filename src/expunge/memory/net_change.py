"""What a memory has to take over from another process that has edited the same entries."""

from __future__ import annotations

from dataclasses import dataclass

from expunge.certificates.warranty import Forgotten
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["NetChange"]


@dataclass(frozen=True, eq=False)
class NetChange:
    """The difference between a version and a later one, at the same cap and width: what was in between is not in it.

    ``gone`` are slots of entries, live or archived, that are no more. ``returned`` are ids of archived entries that are
    live. The new entries are live, in order of admission, with their salts. ``forgotten`` are the records of forgotten
    entries of the later version, and ``digest``, ``edit`` and ``offset`` its digest, number of edits and offset.
    ``weights`` has its coefficients of all entries, live and archived, at ``slots``, where new ones have the next ones.
    """

    gone: list[int]
    returned: list[str]
    ids: list[str]
    keys: Matrix
    values: Matrix
    subjects: list[str | None]
    payloads: list[bytes | None]
    salts: list[bytes]
    forgotten: dict[str, Forgotten]
    slots: IndexArray
    weights: Vector
    offset: float
    digest: str
    edit: int
