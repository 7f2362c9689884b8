"""The parts of a stored memory that a summary or a readout needs, read without loading the rest.

The state of a memory is encrypted under the secrets of all its entries together, and says which of them have a weight.
So these reads take all secrets (32 bytes per entry), and the content of the entries with a weight alone.

What is checked: the state opens under the secrets, and so was written for exactly these entries; it counts as many live
entries as the table does; it has the digest of the last receipt beside it, the receipt's cap and its width. Of an entry
with a weight: its content opens under its secret, and gives the commitment that its number is part of; the weights are
within the box and sum to one. What is not checked: the digest, because it covers every entry, and that the weights are
the optimum, because that is a statement about every entry. Loading the memory checks both, and so does `Store.verify`.
A summary on request opens every entry in the same way, and recomputes the digest from them: only the optimum is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from sqlalchemy import select

from expunge.errors import ExpungeError, VerificationError
from expunge.ledger.commitment import (
    DIGEST_BYTES,
    blind_rows,
    combined,
    commit_rows,
    state_digest,
    weights_digest,
)
from expunge.ledger.receipt_format import Predicate
from expunge.memory.active_entries import ActiveEntries, Description
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.problem.check import require_weights
from expunge.problem.problem import Problem, fewest_keys
from expunge.problem.solution import Solution
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, forgotten, memories, secrets, states
from expunge.store.encryption import Content, decrypt_entries, decrypt_state
from expunge.store.rows import MALFORMED, inconsistent, matrix, number_of, read_state_row, unpack_state
from expunge.types import AnyArray, IndexArray

__all__ = ["LOADED_WHOLE", "StateSummary", "read_active", "read_attribute_kinds", "read_summary"]

# Numbers in one query.
BATCH = 5_000
# Up to this many entries a memory is opened whole, with its digest: that takes less than a second.
LOADED_WHOLE = 10_000


@dataclass(frozen=True)
class StateSummary:
    """What the state of a memory says without its entries, or with them, but without solving anything.

    ``checked`` names what was checked. *state*: no entry, and ``digest`` is the stored one; ``subjects`` is None then.
    *entries, digest*: each entry opens and has its commitment, and the digest is that of the entries and their weights.
    """

    entries: int
    margin: int
    bound: int
    reserve: int
    archived: int
    forgotten: int
    dimension: int
    value_dimension: int
    cap: float
    sigma: float
    offset: float
    deletable: int
    preprocessing: Preprocessing | None
    digest: str
    subjects: int | None = None
    checked: Literal["state", "entries, digest"] = "state"


@dataclass(frozen=True, eq=False)
class _State:
    """One state, decrypted: its header and arrays, the numbers of its entries in order, and their secrets."""

    header: dict[str, Any]
    arrays: dict[str, AnyArray]
    numbers: IndexArray
    secret_of: dict[int, bytes]
    digest: str

    @property
    def cap(self) -> float:
        return float.fromhex(self.header["cap"])

    @property
    def sigma(self) -> float:
        return float.fromhex(self.header["sigma"])

    @property
    def offset(self) -> float:
        return float.fromhex(self.header["offset"])

    @property
    def preprocessing(self) -> Preprocessing:
        """The columns."""
        return Preprocessing.from_json(self.header.get("preprocessing", Preprocessing().to_json()))


def read_summary(connection: CheckedConnection, number: int, *, opened: bool = False) -> StateSummary:
    """What the state of a memory says; with `opened`, every entry is opened, and the digest is recomputed from them.

    Raises VerificationError where what is stored does not fit together. Nothing is solved.
    """
    with _consistent(connection, number) as (row, last):
        state = _read_state(connection, number, row, last)
        alpha, live = state.arrays["alpha"], state.arrays["archived"] == 0
        size, archived = int(live.sum()), int((~live).sum())
        bound = int(np.count_nonzero(alpha == state.cap))
        active = int(np.count_nonzero(alpha))
        subjects = _open_all(connection, number, state, row.name) if opened else None
        return StateSummary(
            entries=size,
            margin=active - bound,
            bound=bound,
            reserve=size - active,
            archived=archived,
            forgotten=len(state.header["forgotten"]),
            dimension=state.header["dimension"],
            value_dimension=state.header["width"],
            cap=state.cap,
            sigma=state.sigma,
            offset=state.offset,
            deletable=max(0, size + archived - fewest_keys(state.cap)),
            preprocessing=state.preprocessing if state.preprocessing.keys else None,
            digest=state.digest,
            subjects=subjects,
            checked="entries, digest" if opened else "state",
        )


def _open_all(connection: CheckedConnection, number: int, state: _State, name: str) -> int:
    """Open every entry, and recompute the digest; how many subjects the live ones have.

    The transaction ends as soon as the rows are read.
    """
    rows = connection.rows(select(entries.c.number, entries.c.content).where(entries.c.memory == number))
    connection.rollback()
    content: dict[int, bytes] = {row.number: row.content for row in rows}
    wanted = state.numbers.tolist()
    salts = [state.secret_of[one] for one in wanted]
    contents = decrypt_entries([(salt, content[one]) for salt, one in zip(salts, wanted, strict=True)])
    blinds, commitments = _require_numbers(wanted, contents, salts)
    live = np.flatnonzero(state.arrays["archived"] == 0)
    order = sorted(live.tolist(), key=commitments.__getitem__)
    listed, hidden = (
        np.frombuffer(b"".join(digests[row] for row in order), np.uint8).reshape(-1, DIGEST_BYTES)
        for digests in (commitments, blinds)
    )
    weights = weights_digest(state.offset, state.arrays["alpha"][order], combined(hidden))
    if state_digest(state.cap, state.sigma, listed, weights, state.preprocessing.digest()) != state.digest:
        raise VerificationError(f"the stored memory {name!r} does not have the digest of its last receipt")
    return len({contents[row].subject for row in live.tolist()} - {None})


def read_active(connection: CheckedConnection, number: int) -> tuple[ActiveEntries, int, bytes]:
    """The entries with a weight of a memory, its number of edits, and the stored digest.

    Raises VerificationError where what is stored does not fit together.

    The transaction ends as soon as the rows are read.
    """
    with _consistent(connection, number) as (row, last):
        state = _read_state(connection, number, row, last)
        active = np.flatnonzero(state.arrays["alpha"])
        wanted, coefficients = state.numbers[active].tolist(), state.arrays["alpha"][active]
        content: dict[int, bytes] = {}
        for start in range(0, len(wanted), BATCH):
            part = entries.c.number.in_(wanted[start : start + BATCH])
            content |= {found.number: found.content for found in connection.rows(select(entries).where(part))}
        connection.rollback()
        contents = decrypt_entries([(state.secret_of[one], content[one]) for one in wanted])
        _require_numbers(wanted, contents, [state.secret_of[one] for one in wanted])
        require_weights(coefficients, state.cap)
        keys = matrix([one.key for one in contents], state.header["dimension"])
        solution = Solution(Problem(keys, state.cap, state.sigma), coefficients, state.offset)
        found = ActiveEntries.of(
            solution,
            matrix([one.value for one in contents], state.header["width"]),
            state.preprocessing,
            partial(_describe, [(one.id, one.subject, one.payload) for one in contents]),
            checked="active entries",
        )
        return found, last.edit, row.digest


def _describe(descriptions: list[Description], place: int) -> Description:
    return descriptions[place]


def read_attribute_kinds(connection: CheckedConnection, number: int) -> frozenset[str]:
    """Which attributes any entry of a memory has, as its state says; no entry is opened, and no receipt is read."""
    row = connection.first(
        select(memories.c.name, states.c.state)
        .join(memories, memories.c.number == states.c.memory)
        .where(memories.c.number == number)
    )
    if row is None:
        raise VerificationError("a memory of this store has lost its state")
    together: list[bytes] = []
    for table in (entries, forgotten):
        joined = select(secrets.c.secret).join(table, secrets.c.number == table.c.number)
        together += connection.values(joined.where(table.c.memory == number))
    try:
        header, _, _ = unpack_state(decrypt_state(b"".join(together), row.state))
        # Earlier states do not say.
        return frozenset(header.get("attributes", ("derived_from", "expires")))
    except MALFORMED as problem:
        raise inconsistent(row.name, problem) from None


@contextmanager
def _consistent(connection: CheckedConnection, number: int) -> Iterator[tuple[Any, Predicate]]:
    """The rows of a memory's state and its last receipt; what does not fit together inside is a VerificationError."""
    row, last = read_state_row(connection, number)
    if last.state_after != row.digest.hex():
        raise VerificationError(f"the stored memory {row.name!r} does not have the digest of its last receipt")
    try:
        yield row, last
    except ExpungeError as problem:
        if isinstance(problem, VerificationError):
            raise
        raise inconsistent(row.name, problem) from None
    except MALFORMED as problem:
        raise inconsistent(row.name, problem) from None


def _read_state(connection: CheckedConnection, number: int, row: Any, last: Predicate) -> _State:
    secret_of: dict[int, bytes] = {}
    together = []
    for table in (entries, forgotten):
        found = connection.rows(
            select(table.c.number, secrets.c.secret)
            .join(secrets, secrets.c.number == table.c.number)
            .where(table.c.memory == number)
        )
        together += [one.secret for one in found]
        if table is entries:
            secret_of = {one.number: one.secret for one in found}
    header, arrays, numbers = unpack_state(decrypt_state(b"".join(together), row.state))
    state = _State(header, arrays, numbers, secret_of, row.digest.hex())
    if set(numbers.tolist()) != secret_of.keys() or numbers.size != arrays["alpha"].size:
        raise VerificationError(f"the state of {row.name!r} is not that of the entries that are stored")
    if int((arrays["archived"] == 0).sum()) != row.size:
        raise VerificationError(f"{row.name!r} is listed with {row.size} entries, and its state has another number")
    if (state.cap, state.sigma) != (last.problem.cap, last.problem.sigma):
        raise VerificationError(f"{row.name!r} has another cap or width than its last receipt")
    return state


def _require_numbers(wanted: list[int], contents: list[Content], salts: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Blinds and commitments; raises VerificationError unless each entry has the number that its commitment gives."""
    blinds = blind_rows((salt, one.id, one.subject, one.payload) for salt, one in zip(salts, contents, strict=True))
    digests = commit_rows(
        (blind, one.key.tobytes(), one.value.tobytes()) for blind, one in zip(blinds, contents, strict=True)
    )
    if [number_of(digest) for digest in digests] != wanted:
        raise VerificationError("an entry has another number than its commitment gives it")
    return blinds, digests
