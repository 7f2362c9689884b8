"""A memory as rows, and back: what is written of a version, and how the version is rebuilt without solving.

The state is one sealed record: a JSON head (floats in hexadecimal, as in `savefile`), the margin's rows in factor
order, coefficients, and one byte of status a row. Coefficients are those of the margin alone while the partition says
the others (0 in reserve, the ceiling at the bound); all of them after a rescue by a foreign backend. It is sealed
anew with each edit, because the exact coefficients of an earlier state could confirm a guess at an entry that was
part of it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from expunge.certificates.warranty import Anchor, Record
from expunge.errors import ExpungeError, VerificationError
from expunge.memory.memory import Memory
from expunge.memory.snapshot import rebuild
from expunge.memory.version import View
from expunge.problem.tolerances import ACCEPTANCE
from expunge.solver.state import BOUND
from expunge.store.backends.tables import anchors, entries, memories, pruned, secrets, states
from expunge.store.encryption import Content, open_content, unseal
from expunge.types import AnyArray, IndexArray, Matrix, Vector

__all__ = ["Facts", "Image", "Numbering", "load_image", "pack_anchor", "pack_record", "pack_state"]

_LENGTHS = struct.Struct("<QQQQ")

# What taking a record apart can raise when somebody else than this module has sealed it.
_MALFORMED = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError),
    *(OverflowError, MemoryError, RecursionError, struct.error),
)


@dataclass(frozen=True)
class Facts:
    """What a memory knows about itself beside its view."""

    initial_size: int
    nu: float | None
    next_id: int

    @classmethod
    def of(cls, memory: Memory) -> Facts:
        """As they stand."""
        return cls(memory.initial_size, memory.nu, memory.next_id)


@dataclass(frozen=True, eq=False)
class Numbering:
    """The numbers under which the parts of a version are stored; arrays are in row order."""

    state: int
    numbers: IndexArray
    sites: IndexArray
    archived: dict[str, int] = field(default_factory=dict)
    pruned: dict[str, int] = field(default_factory=dict)
    anchors: dict[int, int] = field(default_factory=dict)
    # Commitments of forgotten entries: the only thing that can still name them in a receipt.
    forgotten: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Image:
    """One stored version, rebuilt."""

    memory: Memory
    numbering: Numbering


def pack_state(view: View, facts: Facts) -> bytes:
    """What is kept of a version beside its entries, before sealing."""
    state, sites = view.state, view.sites
    head = {
        "cap": state.cap.hex(),
        "sigma": state.gram.sigma.hex(),
        "offset": state.offset.hex(),
        "exact": state.exact,
        "initial_size": facts.initial_size,
        "nu": None if facts.nu is None else facts.nu.hex(),
        "next_id": facts.next_id,
        "travel": view.warranties.travel.hex(),
        "anchors": [_anchor_head(number, anchor) for number, anchor in view.warranties.anchors.items()],
    }
    first = np.zeros(state.sites, dtype=np.int64)
    first[sites[::-1]] = np.arange(sites.size)[::-1]
    members = state.margin.members if state.exact else np.zeros(0, dtype=np.int64)
    alpha = state.alpha[members] if state.exact else state.alpha[sites]
    parts = (
        json.dumps(head).encode(),
        first[members].astype("<i8").tobytes(),
        alpha.astype("<f8").tobytes(),
        state.status[sites].astype("|i1").tobytes(),
    )
    return _LENGTHS.pack(*(len(part) for part in parts)) + b"".join(parts)


def pack_anchor(anchor: Anchor, view: View) -> bytes:
    """Weights and similarities of an anchor by row of a view, before sealing; rows added later are left out."""
    sites = view.sites
    known = np.minimum(sites, anchor.alpha.size - 1)
    here = sites < anchor.alpha.size
    table = np.stack([np.where(here, column[known], 0.0) for column in (anchor.alpha, anchor.similarity)])
    return table.astype("<f8").tobytes()


def pack_record(name: str, record: Record, site_numbers: IndexArray, commitment: bytes | None) -> bytes:
    """What is kept of one pruned entry, before sealing; neighbours are named by the numbers of their sites."""
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


def load_image(connection: Connection, number: int) -> Image:
    """Rebuild the stored version of a memory, and check it: digest, partition, residuals."""
    row = connection.execute(
        select(memories.c.name, states, secrets.c.secret.label("opens"))
        .join(states, states.c.memory == memories.c.number)
        .join(secrets, secrets.c.number == states.c.secret)
        .where(memories.c.number == number)
    ).first()
    if row is None:
        raise VerificationError("a memory of this store has lost its state")
    try:
        image = _rebuilt(connection, number, row)
    except ExpungeError as problem:
        if isinstance(problem, VerificationError):
            raise
        raise _inconsistent(row.name, problem) from None
    except _MALFORMED as problem:
        raise _inconsistent(row.name, problem) from None
    view = image.memory._view
    if view.digest != bytes(row.digest).hex():
        raise VerificationError(f"the stored memory {row.name!r} does not have the digest of its last receipt")
    if not view.check.passed:
        raise VerificationError(f"the stored memory {row.name!r} fails the check: residual {view.check.worst:.3g}")
    return image


def _inconsistent(name: str, problem: Exception) -> VerificationError:
    return VerificationError(f"the stored memory {name!r} is not consistent ({problem!r}); restore it from a backup")


def _rebuilt(connection: Connection, number: int, row: Any) -> Image:
    head, margin, alpha, status = _open_state(unseal(bytes(row.opens), "state", bytes(row.state)))
    found = connection.execute(
        select(entries.c.number, entries.c.site, entries.c.content, secrets.c.secret)
        .join(secrets, secrets.c.number == entries.c.number)
        .where(entries.c.memory == number)
        .order_by(entries.c.number)
    ).all()
    set_aside, records, record_numbers, commitments = _records(connection, number)
    aside = set(set_aside.values())
    rows = [item for item in found if item.number not in aside]
    salts = [bytes(item.secret) for item in rows]
    contents = [open_content(salt, bytes(item.content)) for salt, item in zip(salts, rows, strict=True)]
    numbers = np.array([item.number for item in rows], dtype=np.int64)
    row_sites = np.array([item.site for item in rows], dtype=np.int64)
    site_numbers, first, site = np.unique(row_sites, return_index=True, return_inverse=True)
    keys = np.array([content.key for content in contents])
    if not np.array_equal(keys[first][site], keys):
        raise VerificationError("entries of one site have different keys")
    arrays = _state_arrays(head, margin, alpha, status, site, first.size)
    arrays |= {"keys": keys[first], "site": site, "values": np.array([content.value for content in contents])}
    arrays |= _payload_arrays("", [content.payload for content in contents], salts)
    kept = {item.number: item for item in found if item.number in aside}
    cold: dict[str, tuple[Content, bytes]] = {}
    for name, at in set_aside.items():
        salt = bytes(kept[at].secret)
        cold[name] = open_content(salt, bytes(kept[at].content)), salt
    arrays |= _archive_arrays(cold, keys.shape[1], arrays["values"].shape[1])
    weights, anchor_numbers = _anchors(connection, number, head["anchors"], site, first.size)
    arrays |= weights
    for record in records:
        places = np.searchsorted(site_numbers, record["neighbours"])
        if not np.array_equal(site_numbers[np.minimum(places, site_numbers.size - 1)], record["neighbours"]):
            raise VerificationError("a warranty refers to a neighbour that is not there")
        record["neighbours"] = places.tolist()
    header = head | {
        "ids": [content.id for content in contents],
        "subjects": [content.subject for content in contents],
        "edit": row.edit,
        "pruned": records,
        "archived": [[name, content.subject] for name, (content, _) in cold.items()],
    }
    numbering = Numbering(
        state=row.secret,
        numbers=numbers,
        sites=row_sites,
        archived=set_aside,
        pruned=record_numbers,
        anchors=anchor_numbers,
        forgotten=commitments,
    )
    return Image(rebuild(arrays, header), numbering)


def _open_state(plain: bytes) -> tuple[dict[str, Any], IndexArray, Vector, AnyArray]:
    at, parts = _LENGTHS.size, []
    for length in _LENGTHS.unpack_from(plain):
        parts.append(plain[at : at + length])
        at += length
    head: dict[str, Any] = json.loads(parts[0])
    return head, np.frombuffer(parts[1], "<i8"), np.frombuffer(parts[2], "<f8"), np.frombuffer(parts[3], "|i1")


def _state_arrays(
    head: dict[str, Any], margin: IndexArray, alpha: Vector, status: AnyArray, site: IndexArray, sites: int
) -> dict[str, AnyArray]:
    """Coefficients and partition by site, from what the record keeps of them by row."""
    if status.size != site.size:
        raise VerificationError(f"the state has {status.size} rows, but {site.size} entries are stored")
    by_site = np.zeros(sites, dtype=np.int8)
    by_site[site] = status
    weights = np.zeros(sites)
    if head["exact"]:
        cap = float.fromhex(head["cap"])
        ceiling = np.bincount(site, minlength=sites).astype(np.float64) * cap
        weights[by_site == BOUND] = ceiling[by_site == BOUND]
        weights[site[margin]] = alpha
    else:
        weights[site] = alpha
    return {"alpha": weights, "status": by_site, "margin": site[margin]}


def _records(
    connection: Connection, number: int
) -> tuple[dict[str, int], list[dict[str, Any]], dict[str, int], dict[str, bytes]]:
    found = connection.execute(
        select(pruned.c.number, pruned.c.entry, pruned.c.record, secrets.c.secret)
        .join(secrets, secrets.c.number == pruned.c.number)
        .where(pruned.c.memory == number)
        .order_by(pruned.c.number)
    )
    set_aside: dict[str, int] = {}
    numbers: dict[str, int] = {}
    commitments: dict[str, bytes] = {}
    records = []
    for row in found:
        record: dict[str, Any] = json.loads(unseal(bytes(row.secret), "record", bytes(row.record)))
        name = record["id"]
        numbers[name] = row.number
        if row.entry is not None:
            set_aside[name] = row.entry
        if record["commitment"] is not None:
            commitments[name] = bytes.fromhex(record["commitment"])
        records.append(record)
    return set_aside, records, numbers, commitments


def _anchors(
    connection: Connection, number: int, heads: Sequence[dict[str, Any]], site: IndexArray, sites: int
) -> tuple[dict[str, AnyArray], dict[int, int]]:
    stored = {
        row.number: row
        for row in connection.execute(
            select(anchors.c.number, anchors.c.secret, anchors.c.weights, secrets.c.secret.label("opens"))
            .join(secrets, secrets.c.number == anchors.c.secret)
            .where(anchors.c.memory == number)
        )
    }
    alpha, similarity = np.zeros((len(heads), sites)), np.zeros((len(heads), sites))
    for place, head in enumerate(heads):
        row = stored[head["number"]]
        table = np.frombuffer(unseal(bytes(row.opens), "anchor", bytes(row.weights)), "<f8").reshape(2, -1)
        # Entries of one site have one value; entries added since have none.
        known = site[: table.shape[1]]
        alpha[place, known], similarity[place, known] = table
        # What was active then is here, or counted as gone; together it weighs one.
        if not abs(alpha[place].sum() + float.fromhex(head["gone"]) - 1.0) <= ACCEPTANCE:
            raise VerificationError("the weights that a warranty was issued against do not add up to one")
    numbers = {number: row.secret for number, row in stored.items()}
    return {"anchor_alpha": alpha, "anchor_similarity": similarity}, numbers


def _anchor_head(number: int, anchor: Anchor) -> dict[str, Any]:
    scalars = {name: getattr(anchor, name).hex() for name in ("offset", "norm_squared", "reach", "gone")}
    return {"number": number, "edit": anchor.edit, **scalars}


def _payload_arrays(prefix: str, payloads: Sequence[bytes | None], salts: Sequence[bytes]) -> dict[str, AnyArray]:
    parts = [payload or b"" for payload in payloads]
    return {
        f"{prefix}payload": np.frombuffer(b"".join(parts), dtype=np.uint8),
        f"{prefix}payload_end": np.cumsum([len(part) for part in parts], dtype=np.int64),
        f"{prefix}salt": np.frombuffer(b"".join(salts), dtype=np.uint8),
    }


def _archive_arrays(cold: dict[str, tuple[Content, bytes]], dimension: int, width: int) -> dict[str, AnyArray]:
    contents = [content for content, _ in cold.values()]
    keys: Matrix = np.array([content.key for content in contents]).reshape(-1, dimension)
    values: Matrix = np.array([content.value for content in contents]).reshape(-1, width)
    extras = _payload_arrays("archive_", [content.payload for content in contents], [salt for _, salt in cold.values()])
    return {"archive_keys": keys, "archive_values": values, **extras}
