"""From an edit to the statement that is signed: commitments in place of ids, codes in place of words.

:func:`attest` takes what a memory's journal is given, *while it is given it*: once an edit counts, the content of
removed entries is overwritten, and with it what is needed to name them. It returns the in-toto statement;
:func:`expunge.ledger.envelope.sign_statement` signs it. Nothing in the statement comes from free text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import expunge
from expunge.certificates.certificate import DOES_NOT_COVER as DOES_NOT_COVER_WORDS
from expunge.errors import InputError
from expunge.ledger.commitment import blind, commit
from expunge.ledger.receipt_format import (
    DOES_NOT_COVER,
    MAX_LISTED,
    Listed,
    Predicate,
    ProblemStated,
    Pruning,
    Refusal,
    Sizes,
    Solver,
)
from expunge.ledger.statement import Statement
from expunge.memory.receipt import Receipt, RefusalReason
from expunge.memory.version import Version

__all__ = [
    "Clock",
    "attest",
    "attest_creation",
    "attest_expiry",
    "attest_restoration",
    "commitment_of",
    "utc_now",
]

Clock = Callable[[], datetime]

_NOT_COVERED: Final = dict(zip(DOES_NOT_COVER_WORDS, DOES_NOT_COVER, strict=True))


def utc_now() -> datetime:
    """The system's clock."""
    return datetime.now(UTC)


def attest(
    receipt: Receipt,
    before: Version,
    after: Version,
    *,
    memory: str,
    edit: int,
    clock: Clock = utc_now,
    initial_size: int | None = None,
    forgotten: Mapping[str, bytes] | None = None,
) -> Statement:
    """Return the statement about one edit, refused ones included.

    ``memory`` is the memory's random UUID, never its name. ``edit`` numbers the edits of one memory in rising order.
    ``forgotten`` has the commitments of entries pruned in the mode *forget*, which a memory no longer knows; an entry
    that is not in it is counted and not named. Raises InputError if receipt and versions do not belong together, or if
    more entries were asked for in one deletion than a receipt can name.
    """
    if receipt.state_before != before.digest or receipt.state_after != after.digest:
        raise InputError("the receipt is not about these two versions; attest an edit within its journal")
    done = receipt.action
    named = _Names(before, after, forgotten or {})
    details = receipt.details
    if any(words not in _NOT_COVERED for words in receipt.does_not_cover):
        raise InputError("the receipt excludes something that this format has no code for")
    if not receipt.check.passed:
        raise InputError("the state after the edit did not pass the check")
    archived = before.warranties.archive
    # Only a shorter archive can have given something back.
    shrunk = len(after.warranties.archive) < len(archived)
    returned = [name for name in archived if after.slot(name) is not None] if shrunk else []
    predicate = Predicate(
        memory=memory,
        edit=edit,
        action=done,
        outcome=receipt.recorded_outcome,
        time=_time(clock),
        state_before=before.digest,
        state_after=after.digest,
        before=_sizes(before),
        after=_sizes(after),
        applied=named.all(receipt.applied, must=done in ("admission", "deletion")),
        problem=_problem(after, initial_size),
        solver=_solver(),
        ended=named.all(details.get("ended", ())),
        expired=named.all(details.get("expired", ())),
        renewed=named.all(details.get("renewed", ())),
        reactivated=named.all(returned),
        pruning=_pruning(details) if done == "pruning" and receipt.outcome != "refused" else None,
        refusal=None if receipt.refusal is None else _refusal(receipt.refusal),
    )
    return predicate.to_statement()


def attest_creation(
    version: Version,
    *,
    memory: str,
    edit: int = 0,
    clock: Clock = utc_now,
    initial_size: int | None = None,
) -> Statement:
    """Return the statement about a new memory: what every later receipt of it goes back to."""
    predicate = replace(
        _standing(version, memory, edit, clock, initial_size),
        action="creation",
        outcome="created",
        state_before=None,
        before=Sizes(0, 0),
        applied=_few(bytes(row) for row in version.entries.commitments[version.slots]),
    )
    return predicate.to_statement()


def attest_expiry(
    receipt: Receipt,
    before: Version,
    after: Version,
    *,
    memory: str,
    edit: int,
    clock: Clock = utc_now,
    initial_size: int | None = None,
    forgotten: Mapping[str, bytes] | None = None,
) -> Statement:
    """Return a notice of the certificates that an edit ended or expired, apart from the edit's own receipt.

    It tells the holder of a certificate that it is over, and nothing about the edit that ended it.
    """
    named = _Names(before, after, forgotten or {})
    predicate = replace(
        _standing(after, memory, edit, clock, initial_size),
        ended=named.all(receipt.details.get("ended", ())),
        expired=named.all(receipt.details.get("expired", ())),
    )
    return predicate.to_statement()


def attest_restoration(
    version: Version,
    *,
    state_before: str,
    entries_before: Sizes,
    memory: str,
    edit: int,
    restored_edit: int,
    clock: Clock = utc_now,
    initial_size: int | None = None,
) -> Statement:
    """Return the statement that a memory went back to an older state, which erasures are applied to again.

    ``state_before`` and ``entries_before`` are those that the memory's last receipt left; ``restored_edit`` is the edit
    that made the older state.
    """
    predicate = replace(
        _standing(version, memory, edit, clock, initial_size),
        action="restoration",
        outcome="restored",
        state_before=state_before,
        before=entries_before,
        restored_edit=restored_edit,
    )
    return predicate.to_statement()


def commitment_of(version: Version, name: str) -> bytes | None:
    """The commitment of a live or archived entry; None for any other, a forgotten one included."""
    slot = version.slot(name)
    if slot is not None:
        return bytes(version.entries.commitments[slot])
    entry = version.warranties.archive.get(name)
    if entry is None:
        return None
    hidden = blind(entry.salt, name, entry.subject, entry.payload)
    return commit(hidden, entry.key.tobytes(), entry.value.tobytes())


class _Names:
    """Commitments of the entries of two versions, and of forgotten ones."""

    def __init__(self, before: Version, after: Version, forgotten: Mapping[str, bytes]) -> None:
        self.versions = (before, after)
        self.forgotten = forgotten

    def all(self, names: Iterable[str], *, must: bool = False) -> Listed:
        """Commitments of entries; with ``must``, too many of them are an error rather than just a count."""
        wanted = tuple(names)
        if must and len(wanted) > MAX_LISTED:
            raise InputError(f"{len(wanted)} entries in one edit; a receipt names at most {MAX_LISTED}, so use several")
        if len(wanted) > MAX_LISTED // 4 and not must:
            return Listed((), len(wanted))
        found = (self.of(name) for name in wanted)
        return Listed.of((digest for digest in found if digest is not None), len(wanted))

    def of(self, name: str) -> bytes | None:
        found = (commitment_of(version, name) for version in self.versions)
        return next((digest for digest in found if digest is not None), self.forgotten.get(name))


def _standing(version: Version, memory: str, edit: int, clock: Clock, initial_size: int | None) -> Predicate:
    """A statement about a version as it stands; it is to be made into one of a kind."""
    if not version.check.passed:
        raise InputError("the state did not pass the check")
    return Predicate(
        memory=memory,
        edit=edit,
        action="expiry",
        outcome="expired",
        time=_time(clock),
        state_before=version.digest,
        state_after=version.digest,
        before=_sizes(version),
        after=_sizes(version),
        applied=Listed(),
        problem=_problem(version, initial_size),
        solver=_solver(),
    )


def _few(digests: Iterable[bytes]) -> Listed:
    found = list(digests)
    return Listed.of(found if len(found) <= MAX_LISTED else (), len(found))


def _refusal(grounds: RefusalReason) -> Refusal:
    """With counts of entries, and without a residual: it could confirm a guess at content."""
    stated = grounds.recorded()
    sides = (stated.measured, stated.allowed)
    return Refusal(stated.reason, *(None if side is None else int(side) for side in sides))


def _pruning(details: Mapping[str, Any]) -> Pruning:
    return Pruning(details["mode"], int(details["unproved"]))


def _problem(version: Version, initial_size: int | None) -> ProblemStated:
    gram = version.state.gram
    return ProblemStated(version.state.cap, gram.sigma, int(gram.keys.shape[1]), initial_size)


def _sizes(version: Version) -> Sizes:
    return Sizes(version.size, len(version.warranties))


def _solver() -> Solver:
    return Solver("expunge", expunge.__version__)


def _time(clock: Clock) -> str:
    now = clock()
    if now.tzinfo is None:
        raise InputError("the clock must tell its time zone")
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
