"""A memory as rows, and back: what is written of a version, and how the version is rebuilt without solving.

The state is one encrypted record: a JSON header (floats in hexadecimal, as in a snapshot), the margin's rows in factor
order, coefficients, and one byte of status per row. Coefficients are those of the margin alone while the partition
says the others (0 in reserve, the ceiling at the bound); all of them after a rescue by a foreign backend. It is
encrypted anew with each edit, because the exact coefficients of an earlier state could confirm a guess at an entry
that was part of it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import select

from expunge.certificates.warranty import Anchor, Archived, Record
from expunge.errors import ExpungeError, VerificationError
from expunge.memory.memory import Memory
from expunge.memory.snapshot import build_memory
from expunge.memory.version import Version
from expunge.problem.tolerances import ACCEPTANCE
from expunge.solver.state import BOUND
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import anchors, entries, memories, pruned, secrets, states
from expunge.store.encryption import decrypt, decrypt_all, decrypt_entries
from expunge.types import AnyArray, IndexArray, Vector

__all__ = [
    "LoadedMemory",
    "MemoryAttributes",
    "MemorySummary",
    "RowNumbers",
    "load_memory",
    "pack_anchor",
    "pack_record",
    "pack_state",
    "read_summaries",
]

_LENGTHS = struct.Struct("<QQQQ")

# What taking a record apart can raise when something else than this module has encrypted it.
_MALFORMED = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError),
    *(OverflowError, MemoryError, RecursionError, struct.error),
)


@dataclass(frozen=True)
class MemoryAttributes:
    """What a memory knows about itself beside its version."""

    initial_size: int
    nu: float | None
    next_id: int

    @classmethod
    def of(cls, memory: Memory) -> MemoryAttributes:
        """As they stand."""
        return cls(memory.initial_size, memory.nu, memory.next_id)


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """The numbers under which the parts of a version are stored; arrays are in row order."""

    state: int
    entries: IndexArray
    sites: IndexArray
    archived: dict[str, int] = field(default_factory=dict)
    pruned: dict[str, int] = field(default_factory=dict)
    anchors: dict[int, int] = field(default_factory=dict)
    # Commitments of forgotten entries: the only thing that can still name them in a receipt.
    forgotten: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class MemorySummary:
    """What the tables say of a memory without loading it."""

    name: str
    uuid: str
    edit: int
    size: int


@dataclass(frozen=True, eq=False)
class LoadedMemory:
    """One stored version in memory, and the numbers of its rows."""

    memory: Memory
    row_numbers: RowNumbers


def pack_state(version: Version, attributes: MemoryAttributes) -> bytes:
    """What is kept of a version beside its entries, before encryption."""
    state, sites = version.state, version.sites
    header = {
        "cap": state.cap.hex(),
        "sigma": state.gram.sigma.hex(),
        "offset": state.offset.hex(),
        "exact": state.exact,
        "initial_size": attributes.initial_size,
        "nu": None if attributes.nu is None else attributes.nu.hex(),
        "next_id": attributes.next_id,
        "travel": version.warranties.travel.hex(),
        "anchors": [_anchor_header(number, anchor) for number, anchor in version.warranties.anchors.items()],
    }
    first = np.zeros(state.sites, dtype=np.int64)
    first[sites[::-1]] = np.arange(sites.size)[::-1]
    members = state.margin.members if state.exact else np.zeros(0, dtype=np.int64)
    alpha = state.alpha[members] if state.exact else state.alpha[sites]
    parts = (
        json.dumps(header).encode(),
        first[members].astype("<i8").tobytes(),
        alpha.astype("<f8").tobytes(),
        state.status[sites].astype("|i1").tobytes(),
    )
    return _LENGTHS.pack(*(len(part) for part in parts)) + b"".join(parts)


def pack_anchor(anchor: Anchor, version: Version) -> bytes:
    """Weights and similarities of an anchor by row of a version, before encryption; rows added later are left out."""
    sites = version.sites
    known = np.minimum(sites, anchor.alpha.size - 1)
    here = sites < anchor.alpha.size
    table = np.stack([np.where(here, column[known], 0.0) for column in (anchor.alpha, anchor.similarity)])
    return table.astype("<f8").tobytes()


def pack_record(name: str, record: Record, site_numbers: IndexArray, commitment: bytes | None) -> bytes:
    """What is kept of one pruned entry, before encryption; neighbours are named by the numbers of their sites."""
    return json.dumps(
        {
            "id": name,
            "anchor": record.anchor,
            "mode": record.mode,
            "subject": record.subject,
            "similarity": record.similarity.hex(),
            "rest": record.rest.hex(),
            "neighbours": site_numbers[record.neighbours].tolist(),
            "kernels": [kernel.hex() for kernel in record.kernels.tolist()],
            "expired_at": record.expired_at,
            "commitment": None if commitment is None else commitment.hex(),
        }
    ).encode()


def read_summaries(connection: CheckedConnection) -> list[MemorySummary]:
    """Name, UUID, edit number and size of every memory."""
    wanted = select(memories.c.name, memories.c.uuid, states.c.edit, states.c.size)
    rows = connection.rows(wanted.join(states, states.c.memory == memories.c.number))
    return [MemorySummary(row.name, row.uuid, row.edit, row.size) for row in rows]


def load_memory(connection: CheckedConnection, number: int, *, edit: int | None = None) -> LoadedMemory:
    """The stored version of a memory, rebuilt and checked: digest, partition, residuals.

    A restored memory goes on under a later number of edits than it was stored with: `edit`.
    """
    row = connection.first(
        select(memories.c.name, states, secrets.c.secret.label("state_secret"))
        .join(states, states.c.memory == memories.c.number)
        .join(secrets, secrets.c.number == states.c.secret)
        .where(memories.c.number == number)
    )
    if row is None:
        raise VerificationError("a memory of this store has lost its state")
    try:
        loaded = _rebuild(connection, number, row, row.edit if edit is None else edit)
    except ExpungeError as problem:
        if isinstance(problem, VerificationError):
            raise
        raise _inconsistent(row.name, problem) from None
    except _MALFORMED as problem:
        raise _inconsistent(row.name, problem) from None
    version = loaded.memory.version
    if version.digest != row.digest.hex():
        raise VerificationError(f"the stored memory {row.name!r} does not have the digest of its last receipt")
    if not version.check.passed:
        raise VerificationError(f"the stored memory {row.name!r} fails the check: residual {version.check.worst:.3g}")
    return loaded


def _inconsistent(name: str, problem: Exception) -> VerificationError:
    return VerificationError(f"the stored memory {name!r} is not consistent ({problem!r}); restore it from a backup")


def _rebuild(connection: CheckedConnection, number: int, row: Any, edit: int) -> LoadedMemory:
    header, margin, alpha, status = _unpack_state(decrypt(row.state_secret, "state", row.state))
    found = connection.rows(
        select(entries.c.number, entries.c.site, entries.c.content, secrets.c.secret)
        .join(secrets, secrets.c.number == entries.c.number)
        .where(entries.c.memory == number)
        .order_by(entries.c.number)
    )
    contents = decrypt_entries([(item.secret, item.content) for item in found])
    records, archived, pruned_numbers, forgotten = _load_records(connection, number)
    by_number = {item.number: (content, item.secret) for item, content in zip(found, contents, strict=True)}
    archive = {}
    for name, stored in archived.items():
        content, salt = by_number.pop(stored)
        archive[name] = Archived(content.key.copy(), content.value.copy(), content.subject, content.payload, salt)
    live = [(item, content) for item, content in zip(found, contents, strict=True) if item.number in by_number]
    row_sites = np.array([item.site for item, _ in live], dtype=np.int64)
    site_numbers, first, site = np.unique(row_sites, return_index=True, return_inverse=True)
    keys = np.array([content.key for _, content in live])
    if not np.array_equal(keys[first][site], keys):
        raise VerificationError("entries of one site have different keys")
    arrays = _state_arrays(header, margin, alpha, status, site, first.size)
    arrays |= {"keys": keys[first], "site": site, "values": np.array([content.value for _, content in live])}
    anchor_arrays, anchor_numbers = _load_anchors(connection, number, header["anchors"], site, first.size)
    for record in records:
        places = np.searchsorted(site_numbers, record["neighbours"])
        if not np.array_equal(site_numbers[np.minimum(places, site_numbers.size - 1)], record["neighbours"]):
            raise VerificationError("a warranty refers to a neighbour that is not there")
        record["neighbours"] = places.tolist()
    header |= {
        "ids": [content.id for _, content in live],
        "subjects": [content.subject for _, content in live],
        "edit": edit,
        "pruned": records,
    }
    memory = build_memory(
        header,
        arrays | anchor_arrays,
        payloads=[content.payload for _, content in live],
        salts=[item.secret for item, _ in live],
        archive=archive,
    )
    row_numbers = RowNumbers(
        state=row.secret,
        entries=np.array([item.number for item, _ in live], dtype=np.int64),
        sites=row_sites,
        archived=archived,
        pruned=pruned_numbers,
        anchors=anchor_numbers,
        forgotten=forgotten,
    )
    return LoadedMemory(memory, row_numbers)


def _unpack_state(plain: bytes) -> tuple[dict[str, Any], IndexArray, Vector, AnyArray]:
    at, parts = _LENGTHS.size, []
    for length in _LENGTHS.unpack_from(plain):
        parts.append(plain[at : at + length])
        at += length
    header: dict[str, Any] = json.loads(parts[0])
    return header, np.frombuffer(parts[1], "<i8"), np.frombuffer(parts[2], "<f8"), np.frombuffer(parts[3], "|i1")


def _state_arrays(
    header: dict[str, Any], margin: IndexArray, alpha: Vector, status: AnyArray, site: IndexArray, sites: int
) -> dict[str, AnyArray]:
    """Coefficients and partition by site, from what the record keeps of them by row."""
    if status.size != site.size:
        raise VerificationError(f"the state has {status.size} rows, but {site.size} entries are stored")
    by_site = np.zeros(sites, dtype=np.int8)
    by_site[site] = status
    weights = np.zeros(sites)
    if header["exact"]:
        cap = float.fromhex(header["cap"])
        ceiling = np.bincount(site, minlength=sites).astype(np.float64) * cap
        weights[by_site == BOUND] = ceiling[by_site == BOUND]
        weights[site[margin]] = alpha
    else:
        weights[site] = alpha
    return {"alpha": weights, "status": by_site, "margin": site[margin]}


def _load_records(
    connection: CheckedConnection, number: int
) -> tuple[list[dict[str, Any]], dict[str, int], dict[str, int], dict[str, bytes]]:
    """Records of pruned entries; by id, the rows of archived entries, those of the records, and commitments."""
    found = connection.rows(
        select(pruned.c.number, pruned.c.entry, pruned.c.record, secrets.c.secret)
        .join(secrets, secrets.c.number == pruned.c.number)
        .where(pruned.c.memory == number)
        .order_by(pruned.c.number)
    )
    records: list[dict[str, Any]] = []
    archived: dict[str, int] = {}
    numbers: dict[str, int] = {}
    commitments: dict[str, bytes] = {}
    plains = decrypt_all("record", [(row.secret, row.record) for row in found])
    for row, plain in zip(found, plains, strict=True):
        record = json.loads(plain)
        name = record["id"]
        numbers[name] = row.number
        if row.entry is not None:
            archived[name] = row.entry
        if record["commitment"] is not None:
            commitments[name] = bytes.fromhex(record["commitment"])
        records.append(record)
    return records, archived, numbers, commitments


def _load_anchors(
    connection: CheckedConnection, number: int, headers: Sequence[dict[str, Any]], site: IndexArray, sites: int
) -> tuple[dict[str, AnyArray], dict[int, int]]:
    """Weights and similarities of the anchors by site; and the numbers of their secrets."""
    stored = {
        row.number: row
        for row in connection.rows(
            select(anchors.c.number, anchors.c.secret, anchors.c.weights, secrets.c.secret.label("weights_secret"))
            .join(secrets, secrets.c.number == anchors.c.secret)
            .where(anchors.c.memory == number)
        )
    }
    alpha, similarity = np.zeros((len(headers), sites)), np.zeros((len(headers), sites))
    for at, header in enumerate(headers):
        row = stored[header["number"]]
        table = np.frombuffer(decrypt(row.weights_secret, "anchor", row.weights), "<f8").reshape(2, -1)
        # Entries of one site have one value; entries added since have none.
        known = site[: table.shape[1]]
        alpha[at, known], similarity[at, known] = table
        # What was active then is here, or counted as gone; together it weighs one.
        if not abs(alpha[at].sum() + float.fromhex(header["gone"]) - 1.0) <= ACCEPTANCE:
            raise VerificationError("the weights that a warranty was issued against do not add up to one")
    numbers = {number: row.secret for number, row in stored.items()}
    return {"anchor_alpha": alpha, "anchor_similarity": similarity}, numbers


def _anchor_header(number: int, anchor: Anchor) -> dict[str, Any]:
    scalars = {name: getattr(anchor, name).hex() for name in ("offset", "norm_squared", "reach", "gone")}
    return {"number": number, "edit": anchor.edit, **scalars}
