"""A memory as rows, and back: what is written of a version, and how the version is rebuilt without solving.

Rows are a function of the entries, live and archived, of their order of admission, of cap and width, and of the records
of forgotten entries: two stores that hold the same have the same rows, whatever either held before. Edit numbers and
the size at the fit that set the cap are read from the ledger.

The state is one encrypted record: a JSON header (floats in hexadecimal, as in a snapshot), the numbers of the entries
in order of admission, one byte of group per entry, the coefficients that the groups do not give, and the anchors of
forget certificates. It is encrypted under all the memory's secrets together, because the coefficients of an earlier
state could confirm a guess at an entry that was part of it: with its salt every copy of such a state is destroyed.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import ScalarSelect, Select, select

from expunge.errors import ExpungeError, VerificationError
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.receipt_format import Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import parse_statement
from expunge.memory.memory import Memory
from expunge.memory.snapshot import build_memory, warranty_arrays, warranty_header
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, forgotten, leaves, memories, secrets, states
from expunge.store.encryption import decrypt_all, decrypt_entries, decrypt_state, encrypt_state
from expunge.types import AnyArray, IndexArray, Matrix, Vector

__all__ = [
    "MALFORMED",
    "ForgottenRows",
    "LoadedMemory",
    "MemorySummary",
    "encrypted_state",
    "inconsistent",
    "kept_slots",
    "last_edit",
    "last_edits",
    "load_memory",
    "load_records",
    "matrix",
    "memory_number",
    "number_of",
    "numbers_of",
    "pack_record",
    "read_records",
    "read_state_row",
    "read_summaries",
    "unpack_state",
]

_LENGTHS = struct.Struct("<6Q")
_RESERVE, _VALUE, _BOUND, _ARCHIVED = range(4)

# What taking a record apart can raise when something else than this module has encrypted it.
MALFORMED = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError),
    *(OverflowError, MemoryError, RecursionError, struct.error),
)


@dataclass(frozen=True, eq=False)
class ForgottenRows:
    """By id of a forgotten entry: the secret of its record, and its commitment, which names it in a receipt."""

    secrets: dict[str, bytes] = field(default_factory=dict)
    commitments: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class MemorySummary:
    """What the tables say of a memory without loading it."""

    name: str
    uuid: str
    edit: int
    size: int


@dataclass(frozen=True, eq=False)
class LoadedMemory:
    """One stored version in memory, and what its rows have of forgotten entries."""

    memory: Memory
    forgotten: ForgottenRows


def memory_number(name: str) -> int:
    """The number of a memory, which follows from its name."""
    return number_of(hashlib.sha256(b"expunge/memory/v1\n" + name.encode()).digest())


def number_of(commitment: bytes) -> int:
    """The number of the row of an entry, or of its record: the first 63 bits of its commitment."""
    return int.from_bytes(commitment[:8], "big") >> 1


def numbers_of(version: Version, slots: IndexArray) -> IndexArray:
    """`number_of` for entries at slots."""
    heads = np.ascontiguousarray(version.entries.commitments[slots, :8]).view(">u8")[:, 0]
    return (heads >> np.uint64(1)).astype(np.int64)


def kept_slots(version: Version) -> IndexArray:
    """Slots of live and archived entries, in order of admission."""
    archived = [entry.slot for entry in version.warranties.archive.values()]
    return np.sort(np.concatenate([version.slots, np.array(archived, dtype=np.int64)]))


def encrypted_state(version: Version, rows: ForgottenRows) -> bytes:
    """What is kept of a version beside its entries, encrypted."""
    slots, arrays, cap = kept_slots(version), warranty_arrays(version), version.state.cap
    header = {
        # An empty memory has no key and no value to tell them.
        "dimension": int(version.state.gram.keys.shape[1]),
        "width": int(version.entries.values.shape[1]),
        "cap": cap.hex(),
        "sigma": version.state.gram.sigma.hex(),
        "offset": version.state.offset.hex(),
        "preprocessing": version.preprocessing.to_json(),
        "attributes": version.attribute_kinds,
        **warranty_header(version),
    }
    for item in header["forgotten"]:
        # Id and subject are in the record.
        item["number"] = number_of(rows.commitments[item.pop("id")])
        del item["subject"]
    alpha = arrays["alpha"]
    group = np.select(
        [arrays["archived"] == 1, alpha == 0.0, alpha == cap], [_ARCHIVED, _RESERVE, _BOUND], default=_VALUE
    )
    parts = (
        json.dumps(header, sort_keys=True).encode(),
        numbers_of(version, slots).astype("<i8").tobytes(),
        group.astype("|u1").tobytes(),
        alpha[group == _VALUE].astype("<f8").tobytes(),
        arrays["anchor_rows"].astype("<i8").tobytes(),
        arrays["anchor_alpha"].astype("<f8").tobytes(),
    )
    salts = version.entries.salts
    together = b"".join([*(salts[slot] for slot in slots.tolist()), *rows.secrets.values()])
    return encrypt_state(together, _LENGTHS.pack(*(len(part) for part in parts)) + b"".join(parts))


def pack_record(name: str, subject: str | None, commitment: bytes) -> bytes:
    """What the row of a forgotten entry keeps, before encryption; the state has the numbers of its certificate."""
    return json.dumps({"id": name, "subject": subject, "commitment": commitment.hex()}).encode()


def _last_leaf(column: Any, uuid: Any) -> Select[Any]:
    """A column of the newest leaf that states what a memory is."""
    wanted = select(column).where(leaves.c.memory == uuid, leaves.c.edit.is_not(None))
    return wanted.order_by(leaves.c.number.desc()).limit(1)


def last_edit(uuid: Any) -> ScalarSelect[Any]:
    """The edit number of a memory, from the ledger."""
    return _last_leaf(leaves.c.edit, uuid).scalar_subquery()


def last_edits(connection: CheckedConnection, uuids: Collection[str]) -> dict[str, int]:
    """The edit number of each of these memories that exists, by UUID."""
    edit = last_edit(memories.c.uuid).label("edit")
    rows = connection.rows(select(memories.c.uuid, edit).where(memories.c.uuid.in_(uuids)))
    return {row.uuid: row.edit for row in rows}


def read_summaries(connection: CheckedConnection) -> list[MemorySummary]:
    """Name, UUID, edit number and size of every memory."""
    edit = last_edit(memories.c.uuid).label("edit")
    wanted = select(memories.c.name, memories.c.uuid, edit, states.c.size)
    rows = connection.rows(wanted.join(states, states.c.memory == memories.c.number))
    return [MemorySummary(row.name, row.uuid, row.edit, row.size) for row in rows]


def read_state_row(connection: CheckedConnection, number: int) -> tuple[Any, Predicate]:
    """Name, UUID and row of the state of a memory, and its last receipt."""
    row = connection.first(
        select(memories.c.name, memories.c.uuid, states)
        .join(states, states.c.memory == memories.c.number)
        .where(memories.c.number == number)
    )
    if row is None:
        raise VerificationError("a memory of this store has lost its state")
    envelope = connection.value(_last_leaf(leaves.c.envelope, row.uuid))
    if envelope is None:
        raise VerificationError(f"the ledger knows no memory {row.name!r}")
    last = parse_predicate(parse_statement(parse_envelope(envelope).payload))
    return row, last


def load_memory(
    connection: CheckedConnection, number: int, *, edit: int | None = None, release: bool = False
) -> LoadedMemory:
    """The stored version of a memory, rebuilt: its entries have their commitments, and it has the stored digest.

    That its weights are the exact optimum is for the first edit to find out, or for `Memory.make_ready`. A restored
    memory goes on under a later number of edits than its last receipt has: `edit`. With `release` the transaction ends
    as soon as the rows are read: while one is open, erased secrets stay in the database's files.
    """
    row, last = read_state_row(connection, number)
    try:
        edit = last.edit if edit is None else edit
        loaded = _rebuild(connection, number, row, edit, last.problem.initial_entries, release)
    except ExpungeError as problem:
        if isinstance(problem, VerificationError):
            raise
        raise inconsistent(row.name, problem) from None
    except MALFORMED as problem:
        raise inconsistent(row.name, problem) from None
    version = loaded.memory.version
    if version.digest != row.digest.hex():
        raise VerificationError(f"the stored memory {row.name!r} does not have the digest of its last receipt")
    return loaded


def inconsistent(name: str, problem: Exception) -> VerificationError:
    """The error for rows of a memory that do not fit together."""
    return VerificationError(f"the stored memory {name!r} is not consistent ({problem!r}); restore it from a backup")


def _rebuild(
    connection: CheckedConnection, number: int, row: Any, edit: int, initial_size: int | None, release: bool
) -> LoadedMemory:
    found = connection.rows(
        select(entries.c.number, entries.c.content, secrets.c.secret)
        .join(secrets, secrets.c.number == entries.c.number)
        .where(entries.c.memory == number)
    )
    records, rows = load_records(connection, number)
    if release:
        connection.rollback()
    together = b"".join([*(item.secret for item in found), *rows.secrets.values()])
    header, arrays, order = unpack_state(decrypt_state(together, row.state))
    at = {item.number: place for place, item in enumerate(found)}
    if len(found) != order.size:
        raise VerificationError(f"the state has {order.size} rows, but {len(found)} entries are stored")
    found = [found[at[stored]] for stored in order.tolist()]
    contents = decrypt_entries([(item.secret, item.content) for item in found])
    arrays |= {
        "keys": matrix([content.key for content in contents], header["dimension"]),
        "values": matrix([content.value for content in contents], header["width"]),
    }
    if len(header["forgotten"]) != len(records):
        raise VerificationError("the records of forgotten entries are not those that the state has numbers of")
    for item in header["forgotten"]:
        item |= records[item["number"]]
    header |= {
        "ids": [content.id for content in contents],
        "subjects": [content.subject for content in contents],
    }
    memory = build_memory(
        header,
        arrays,
        payloads=[content.payload for content in contents],
        salts=[item.secret for item in found],
        edit=edit,
        initial_size=initial_size,
    )
    if not np.array_equal(numbers_of(memory.version, np.arange(order.size)), order):
        raise VerificationError("an entry has another number than its commitment gives it")
    return LoadedMemory(memory, rows)


def matrix(rows: list[Vector], width: int) -> Matrix:
    """Rows of this many coordinates each, where there may be none."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def unpack_state(plain: bytes) -> tuple[dict[str, Any], dict[str, AnyArray], IndexArray]:
    """Header, arrays of a snapshot, and the numbers of the entries in order of admission."""
    at, parts = _LENGTHS.size, []
    for length in _LENGTHS.unpack_from(plain):
        parts.append(plain[at : at + length])
        at += length
    header: dict[str, Any] = json.loads(parts[0])
    group = np.frombuffer(parts[2], "|u1")
    alpha: npt.NDArray[np.float64] = np.zeros(group.size)
    alpha[group == _BOUND] = float.fromhex(header["cap"])
    alpha[group == _VALUE] = np.frombuffer(parts[3], "<f8")
    arrays: dict[str, AnyArray] = {
        "alpha": alpha,
        "archived": (group == _ARCHIVED).astype(np.uint8),
        "anchor_rows": np.frombuffer(parts[4], "<i8"),
        "anchor_alpha": np.frombuffer(parts[5], "<f8"),
    }
    return header, arrays, np.frombuffer(parts[1], "<i8")


def read_records(connection: CheckedConnection, number: int) -> tuple[str, ...]:
    """Ids of the forgotten entries of a memory."""
    records, _ = load_records(connection, number)
    return tuple(record["id"] for record in records.values())


def load_records(connection: CheckedConnection, number: int) -> tuple[dict[int, dict[str, Any]], ForgottenRows]:
    """Ids and subjects of the forgotten entries of a memory by number, and what the rows have of them."""
    found = connection.rows(
        select(forgotten.c.number, forgotten.c.record, secrets.c.secret)
        .join(secrets, secrets.c.number == forgotten.c.number)
        .where(forgotten.c.memory == number)
    )
    records: dict[int, dict[str, Any]] = {}
    known: dict[str, tuple[bytes, bytes]] = {}
    plains = decrypt_all("record", [(row.secret, row.record) for row in found])
    for row, plain in zip(found, plains, strict=True):
        record = json.loads(plain)
        commitment = bytes.fromhex(record["commitment"])
        if number_of(commitment) != row.number:
            raise VerificationError("a forgotten entry has another number than its commitment gives it")
        records[row.number] = {"id": record["id"], "subject": record["subject"]}
        known[record["id"]] = row.secret, commitment
    return records, _rows_of(known)


def _rows_of(known: Mapping[str, tuple[bytes, bytes]]) -> ForgottenRows:
    secret_of = {name: secret for name, (secret, _) in known.items()}
    return ForgottenRows(secret_of, {name: commitment for name, (_, commitment) in known.items()})
