"""From an edit to the statement that is signed: commitments in place of ids, codes in place of words.

:func:`attest` takes what a memory's journal is given, *while it is given it*: once an edit counts, the content of
removed entries is overwritten, and with it what is needed to name them. It returns in-toto statements: the receipt, and
after it the lists of entries that are too long for it, in parts. :func:`expunge.ledger.envelope.sign_statement` signs
each. Nothing in a statement comes from free text.
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
from expunge.ledger.encoding import Json
from expunge.ledger.event import LISTS, Event, list_parts
from expunge.ledger.receipt_format import (
    DOES_NOT_COVER,
    MAX_LISTED,
    Listed,
    Predicate,
    ProblemStated,
    Pruning,
    Refusal,
    RequestStated,
    Sizes,
    Solver,
)
from expunge.ledger.statement import Statement, Subject
from expunge.memory.receipt import Receipt, RefusalReason
from expunge.memory.version import Version

__all__ = [
    "Clock",
    "attest",
    "attest_creation",
    "attest_restoration",
    "commitment_of",
    "drop_statements",
    "edit_predicate",
    "expiry_predicate",
    "statements_of",
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
    request: RequestStated | None = None,
) -> list[Statement]:
    """Return the statements about one edit, refused ones included: the receipt, then what its lists have no room for.

    ``memory`` is the memory's random UUID, never its name. ``edit`` numbers the edits of one memory in rising order.
    ``forgotten`` has the commitments of entries pruned in the mode *forget*, which a memory no longer knows.
    ``request`` states a case and an actor; by default there are none. Raises InputError if receipt and versions do not
    belong together, or if an entry cannot be named.
    """
    predicate = edit_predicate(
        receipt,
        before,
        after,
        memory=memory,
        edit=edit,
        clock=clock,
        initial_size=initial_size,
        forgotten=forgotten,
        request=request,
    )
    return statements_of(predicate)


def edit_predicate(
    receipt: Receipt,
    before: Version,
    after: Version,
    *,
    memory: str,
    edit: int,
    clock: Clock = utc_now,
    initial_size: int | None = None,
    forgotten: Mapping[str, bytes] | None = None,
    request: RequestStated | None = None,
) -> Predicate:
    """What the receipt of an edit states, as for `attest`. Call it while no later edit has begun."""
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
    return Predicate(
        memory=memory,
        edit=edit,
        action=done,
        outcome=receipt.recorded_outcome,
        time=_time(clock),
        state_before=before.digest,
        state_after=after.digest,
        before=_sizes(before),
        after=_sizes(after),
        applied=named.all(receipt.applied),
        problem=_problem(after, initial_size),
        solver=_solver(),
        request=request or RequestStated.new(),
        ended=named.all(details.get("ended", ())),
        expired=named.all(details.get("expired", ())),
        renewed=named.all(details.get("renewed", ())),
        reactivated=named.all(returned),
        pruning=_pruning(details) if done == "pruning" and receipt.outcome != "refused" else None,
        refusal=None if receipt.refusal is None else _refusal(receipt.refusal),
        check_kind=after.check_kind,
    )


def attest_creation(
    version: Version,
    *,
    memory: str,
    edit: int = 0,
    clock: Clock = utc_now,
    initial_size: int | None = None,
    request: RequestStated | None = None,
) -> list[Statement]:
    """Return the statements about a new memory: what every later receipt of it goes back to."""
    predicate = replace(
        _standing(version, memory, edit, clock, initial_size, request),
        action="creation",
        outcome="created",
        state_before=None,
        before=Sizes(0, 0),
        applied=Listed.of(bytes(row) for row in version.entries.commitments[version.slots]),
    )
    return statements_of(predicate)


def expiry_predicate(
    receipt: Receipt,
    before: Version,
    after: Version,
    *,
    memory: str,
    edit: int,
    clock: Clock = utc_now,
    initial_size: int | None = None,
    forgotten: Mapping[str, bytes] | None = None,
    request: RequestStated | None = None,
) -> Predicate:
    """What a notice of the certificates states that an edit ended or expired, apart from the edit's own receipt.

    It tells the holder of a certificate that it is over, and nothing about the edit that ended it.
    """
    named = _Names(before, after, forgotten or {})
    return replace(
        _standing(after, memory, edit, clock, initial_size, request),
        ended=named.all(receipt.details.get("ended", ())),
        expired=named.all(receipt.details.get("expired", ())),
    )


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
    request: RequestStated | None = None,
) -> list[Statement]:
    """Return the statement that a memory went back to an older state, which erasures are applied to again.

    ``state_before`` and ``entries_before`` are those that the memory's last receipt left; ``restored_edit`` is the edit
    that made the older state.
    """
    predicate = replace(
        _standing(version, memory, edit, clock, initial_size, request),
        action="restoration",
        outcome="restored",
        state_before=state_before,
        before=entries_before,
        restored_edit=restored_edit,
    )
    return statements_of(predicate)


def drop_statements(
    version: Version | None,
    state: str,
    sizes: Sizes,
    *,
    memory: str,
    clock: Clock = utc_now,
    forgotten: Mapping[str, bytes] | None = None,
    request: RequestStated | None = None,
) -> list[Statement]:
    """Return the statements that a memory was dropped in a state of some sizes.

    They name every entry that went with it, those that were pruned included; without a ``version``, because the memory
    cannot be loaded, they name none.
    """
    entries: Listed | None = None
    if version is not None:
        kept = [bytes(row) for row in version.entries.commitments[version.slots]]
        pruned = _Names(version, version, forgotten or {}).digests(
            (*version.warranties.archive, *version.warranties.forgotten)
        )
        entries = Listed.of([*kept, *pruned])
    stated = request or RequestStated.new()
    short = entries if entries is None or entries.count <= MAX_LISTED else Listed.root_of(entries.commitments)
    listed: Json = None
    if short is not None:
        listed = {"commitments": short.commitments, "count": short.count, "root": short.root}
    event = Event.at(
        clock,
        "dropped",
        memory,
        Subject("state", state),
        stated,
        live=sizes.live,
        pruned=sizes.pruned,
        entries=listed,
    )
    long = {"entries": entries.commitments} if entries is not None and short != entries else {}
    return [event.to_statement(), *_parts(long, stated, memory, event.time, state)]


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

    def all(self, names: Iterable[str]) -> Listed:
        """Commitments of all these entries."""
        return Listed.of(self.digests(names))

    def digests(self, names: Iterable[str]) -> list[bytes]:
        """Commitment of each of these entries; InputError where it is not known."""
        wanted = tuple(names)
        found = {name: self.of(name) for name in wanted}
        unknown = [name for name, digest in found.items() if digest is None]
        if unknown:
            raise InputError(
                f"{len(unknown)} of {len(wanted)} entries have no known commitment, {unknown[0]!r} first: "
                "pass those of forgotten entries as `forgotten`"
            )
        return [digest for digest in found.values() if digest is not None]

    def of(self, name: str) -> bytes | None:
        """Commitment of one entry, or None."""
        found = (commitment_of(version, name) for version in self.versions)
        return next((digest for digest in found if digest is not None), self.forgotten.get(name))


def statements_of(predicate: Predicate, clock: Clock | None = None) -> list[Statement]:
    """The statement of a receipt, and those that carry its longest lists where it has no room for all of them.

    A ``clock`` dates them anew.
    """
    if clock is not None:
        predicate = replace(predicate, time=_time(clock))
    full = {name: getattr(predicate, name) for name in LISTS if name != "entries"}
    short = dict(full)
    for name in sorted(full, key=lambda name: -full[name].count):
        if sum(len(listed.commitments) for listed in short.values()) > MAX_LISTED:
            short[name] = Listed.root_of(full[name].commitments)
    long = {name: listed.commitments for name, listed in full.items() if short[name] != listed}
    first = replace(predicate, **short) if long else predicate
    return [
        first.to_statement(),
        *_parts(long, predicate.request, predicate.memory, predicate.time, predicate.state_after),
    ]


def _parts(
    lists: Mapping[str, tuple[str, ...]], receipt: RequestStated, memory: str, time: str, state: str
) -> list[Statement]:
    """Events that carry the lists of one receipt."""
    return [
        Event("listed", memory, time, Subject("state", state), facts).to_statement()
        for name, commitments in lists.items()
        for facts in list_parts(name, commitments, receipt)
    ]


def _standing(
    version: Version,
    memory: str,
    edit: int,
    clock: Clock,
    initial_size: int | None,
    request: RequestStated | None,
) -> Predicate:
    """A statement about a version as it stands; it is to be made into one of a kind."""
    if not version.confirmed.passed:
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
        request=request or RequestStated.new(),
        check_kind=version.check_kind,
    )


def _refusal(grounds: RefusalReason) -> Refusal:
    """With counts of entries, and without a residual: it could confirm a guess at content."""
    stated = grounds.recorded()
    sides = (stated.measured, stated.allowed)
    measured, allowed = (None if side is None else int(side) for side in sides)
    return Refusal(stated.reason, measured, allowed, stated.holds)


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
