"""Erasures that are requested now and carried out later: undone in time, carried out once, forgotten afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from expunge import Conflict, InputError, StoreError, VerificationError
from expunge.store import Store, parse_event, subject_commitment, subject_erasure
from expunge.store.backends import tables
from expunge.store.edits.crash_points import set_hook
from expunge.store.encryption import decrypt

from .conftest import Place
from .sample_memory import fill, row_counts

DELAY = timedelta(hours=72)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Died(BaseException):
    """What a test raises in place of the end of a process."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ward(place: Place, clock: Clock) -> Store:
    store = place.open(clock=clock)
    for name, seed in (("icu", 0), ("ward", 1)):
        fill(store, name, seed=seed)
    return store


@pytest.fixture
def unhooked() -> Iterator[None]:
    yield
    set_hook(None)


def traceless(store: Store, subject: str) -> None:
    """Nothing in the requests' tables is left, and no row opens to the subject."""
    counts = row_counts(store)
    assert counts["expunge_erasures"] == 0
    store.verify()
    with store.reading() as connection:
        numbers = set(connection.values(select(tables.secrets.c.number)))
        used = {
            number
            for table in (tables.entries, tables.forgotten, tables.holds, tables.cases)
            for number in connection.values(select(table.c.number))
        }
    assert numbers == used


def test_an_erasure_is_carried_out_when_it_is_due(ward: Store, clock: Clock) -> None:
    waiting = ward.erase_subject("patient-3", after=DELAY, case="DSR-1", actor="desk")
    assert ward.erasures() == [waiting]
    assert (waiting.case, waiting.actor, waiting.due) == ("DSR-1", "desk", clock.now + DELAY)
    event = parse_event(ward.leaf(waiting.leaf).statement)
    assert event.kind == "erasure_requested"
    assert event.facts["due"] == "2026-03-04T12:00:00Z"
    assert event.subject.sha256 == subject_commitment(waiting.salt, "patient-3")
    assert ward.carry_out_erasures() == []
    assert ward["icu"].has_subject("patient-3")
    ward.verify()
    clock.now += DELAY
    (done,) = ward.carry_out_erasures()
    assert done.index is not None
    assert done.complete
    assert set(done.applied) == {"icu", "ward"}
    summary = parse_event(ward.leaf(done.index).statement)
    assert summary.facts["requested"] == waiting.leaf
    assert (summary.subject.sha256, done.salt) == (event.subject.sha256, waiting.salt)
    case = ward.case_of(done.index)
    assert case is not None
    assert case.leaves[0] == waiting.leaf
    assert case.leaves[-1] == done.index
    assert ward.carry_out_erasures() == []
    assert not any(ward[name].has_subject("patient-3") for name in ward)
    traceless(ward, "patient-3")


def test_an_erasure_is_cancelled_before_it_is_due(ward: Store, clock: Clock) -> None:
    waiting = ward.erase_subject("patient-3", after=DELAY, idempotency_key="k")
    assert ward.erase_subject("patient-3", after=DELAY, idempotency_key="k") == waiting
    later = ward.erase_subject("patient-4", after=DELAY)
    leaf = ward.cancel_erasure(waiting.leaf, case="DSR-1")
    event = parse_event(leaf.statement)
    assert event.facts == {"requested": waiting.leaf}
    assert event.subject.sha256 == subject_commitment(waiting.salt, "patient-3")
    with pytest.raises(Conflict):
        ward.erase_subject("patient-3", after=DELAY, idempotency_key="k")
    for wrong in (waiting.leaf, 0, 999):
        with pytest.raises(InputError):
            ward.cancel_erasure(wrong)
    clock.now += DELAY
    with pytest.raises(Conflict):
        ward.cancel_erasure(later.leaf)
    (done,) = ward.carry_out_erasures()
    assert done.index is not None
    assert parse_event(ward.leaf(done.index).statement).facts["requested"] == later.leaf
    assert ward["icu"].has_subject("patient-3")
    traceless(ward, "patient-4")


def test_bad_requests(ward: Store) -> None:
    size = ward.size
    for wrong in (timedelta(0), timedelta(days=-1), timedelta(days=367), 3):
        with pytest.raises(InputError):
            ward.erase_subject("patient-3", after=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        ward.erase_subject("patient-3", after=DELAY, dry_run=True)  # type: ignore[call-overload]
    assert ward.size == size


def test_a_hold_wins_until_it_is_released(ward: Store, clock: Clock) -> None:
    waiting = ward.erase_subject("patient-3", after=DELAY)
    holds = [ward.hold("icu", subject="patient-3", reason="court"), ward.hold("icu", subject="patient-3", reason="tax")]
    clock.now += DELAY
    (done,) = ward.carry_out_erasures()
    assert done.index is not None
    assert {part.memory: part.outcome for part in done.memories}["icu"] == "refused"
    assert not done.complete
    summary = parse_event(ward.leaf(done.index).statement)
    assert (summary.facts["complete"], summary.facts["requested"]) == (False, waiting.leaf)
    # It waits, and nothing is tried again before a hold is released.
    (held,) = ward.erasures()
    assert (held.leaf, held.begun, held.held_back) == (waiting.leaf, False, True)
    size = ward.size
    assert ward.carry_out_erasures() == []
    assert ward.size == size
    ward.verify()
    ward.release(holds[0])
    (again,) = ward.carry_out_erasures()
    assert not again.complete
    # What came in since goes, too.
    dimension = ward["ward"].dimension
    ward["ward"].admit([1.0] * dimension, ward["ward"].values[0], subject="patient-3")
    ward.release(holds[1])
    (over,) = ward.carry_out_erasures()
    assert over.complete
    assert not any(ward[name].has_subject("patient-3") for name in ward)
    assert over.index is not None
    assert parse_event(ward.leaf(over.index).statement).facts["requested"] == waiting.leaf
    assert ward.erasures() == []
    ward.verify()
    traceless(ward, "patient-3")


def test_a_request_that_is_held_back_can_be_cancelled(ward: Store, clock: Clock) -> None:
    waiting = ward.erase_subject("patient-3", after=DELAY)
    hold = ward.hold("icu", subject="patient-3", reason="court")
    clock.now += DELAY
    ward.carry_out_erasures()
    ward.cancel_erasure(waiting.leaf)
    assert ward.erasures() == []
    ward.release(hold)
    assert ward.carry_out_erasures() == []
    assert ward["icu"].has_subject("patient-3")
    ward.verify()


def test_a_hold_that_ends_before_the_summary_is_no_reason(
    ward: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process releases it; what the summary says is true when it is written."""
    hold = ward.hold("icu", subject="patient-3", reason="court")
    whole = subject_erasure._write_summary

    def released_first(*given: Any) -> Any:
        ward.release(hold)
        return whole(*given)

    monkeypatch.setattr(subject_erasure, "_write_summary", released_first)
    done = ward.erase_subject("patient-3", idempotency_key="k")
    assert {part.memory: part.outcome for part in done.memories}["icu"] == "failed"
    ward.verify()
    monkeypatch.undo()
    assert ward.erase_subject("patient-3", idempotency_key="k").complete
    assert not any(ward[name].has_subject("patient-3") for name in ward)
    ward.verify()


def test_nothing_is_left_of_the_subject_when_it_is_due(ward: Store, clock: Clock) -> None:
    waiting = ward.erase_subject("patient-3", after=DELAY)
    ward.erase_subject("patient-3")
    clock.now += DELAY
    (done,) = ward.carry_out_erasures()
    assert done.index is not None
    assert [(part.memory, part.outcome) for part in done.memories] == [("icu", "noop"), ("ward", "noop")]
    assert parse_event(ward.leaf(done.index).statement).facts["requested"] == waiting.leaf
    last = ward.erase_subject("patient-4", after=DELAY)
    for name in ward.names():
        ward.drop(name)
    clock.now += DELAY
    assert ward.carry_out_erasures() == []
    event = parse_event(ward.leaf(ward.size - 1).statement)
    assert (event.kind, event.facts["requested"]) == ("erasure_cancelled", last.leaf)
    traceless(ward, "patient-4")


def test_opening_a_store_carries_out_what_is_due(place: Place, ward: Store, clock: Clock) -> None:
    ward.erase_subject("patient-3", after=DELAY)
    clock.now += DELAY
    again = place.open(clock=clock)
    assert again.erasures() == []
    assert not again["icu"].has_subject("patient-3")
    traceless(again, "patient-3")


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("point", ["begun", "solved", "committed", "summary_written", "summary_committed"])
@pytest.mark.parametrize("passes", [1, 2])
def test_a_process_that_dies_on_the_way_is_followed_by_another(
    place: Place, ward: Store, clock: Clock, point: str, passes: int
) -> None:
    """At each step, and in the second memory: nothing is applied twice, and there is one summary."""
    waiting = ward.erase_subject("patient-3", after=DELAY, case="DSR-1")
    clock.now += DELAY
    left = passes

    def hook(name: str) -> None:
        nonlocal left
        left -= name == point
        if left == 0:
            left = -1
            raise Died

    set_hook(hook)
    try:
        ward.carry_out_erasures()
    except Died:
        set_hook(None)
        assert not ward.erasures() or ward.erasures()[0].begun
        if ward.erasures():
            with pytest.raises(Conflict):
                ward.cancel_erasure(waiting.leaf)
            # Its case is erased in between: the rest is carried out without one.
            ward.erase_cases(case="DSR-1")
    set_hook(None)
    again = place.open(clock=clock)
    again.carry_out_erasures()
    kinds = [leaf.kind for leaf in again.receipts()]
    assert kinds.count("subject_erased") == 1
    assert sum(kind in ("decrement", "certified_zero") for kind in kinds) == 2
    facts = parse_event(next(leaf for leaf in again.receipts() if leaf.kind == "subject_erased").statement).facts
    assert len(facts["memories"]) == 2  # type: ignore[arg-type]
    assert facts["requested"] == waiting.leaf
    traceless(again, "patient-3")


def test_a_memory_that_cannot_be_edited_keeps_the_request_open(ward: Store, clock: Clock) -> None:
    waiting = ward.erase_subject("patient-3", after=DELAY)
    other = ward.erase_subject("patient-4", after=DELAY)
    broken = ward["icu"]
    with ward._database.writing("test") as connection:
        condition = tables.states.c.memory == broken.number
        state = connection.value(select(tables.states.c.state).where(condition))
        connection.execute(update(tables.states).where(condition).values(state=state[:-1] + bytes([state[-1] ^ 1])))
        connection.commit()
    broken.let_go()
    clock.now += DELAY
    with pytest.raises(StoreError, match="tried again"):
        ward.carry_out_erasures()
    assert [pending.leaf for pending in ward.erasures()] == [waiting.leaf, other.leaf]
    assert not ward["ward"].has_subject("patient-3")
    with ward._database.writing("test") as connection:
        connection.execute(update(tables.states).where(condition).values(state=state))
        connection.commit()
    assert [done.complete for done in ward.carry_out_erasures()] == [True, True]
    traceless(ward, "patient-3")


def test_a_request_that_was_altered_is_found(ward: Store) -> None:
    ward.erase_subject("patient-3", after=DELAY)
    with ward._database.writing("test") as connection:
        connection.execute(update(tables.erasures).values(due=tables.erasures.c.due - 3600))
        connection.commit()
    with pytest.raises(VerificationError):
        ward.verify()
    with pytest.raises(VerificationError):
        ward.erasures()


def test_a_restore_knows_what_was_requested(sqlite_place: Place, folder: Path, clock: Clock) -> None:
    store = sqlite_place.open(clock=clock)
    fill(store)
    fill(store, "ward", seed=1)
    kept = store.erase_subject("patient-1", after=DELAY)
    cancelled = store.erase_subject("patient-2", after=DELAY)
    store.backup(folder / "copy.db")
    store.cancel_erasure(cancelled.leaf)
    lost = store.erase_subject("patient-3", after=DELAY)
    (folder / "new").mkdir()
    new = Place("sqlite", f"sqlite:///{folder / 'new' / 'ward.db'}", sqlite_place.key)
    with new.open(clock=clock) as fresh:
        result = fresh.restore(folder / "copy.db", ledger=store)
        assert result.requests_lost == 1
        assert fresh.erasures() == [kept]
        event = parse_event(fresh.leaf(fresh.size - 1).statement)
        assert (event.kind, event.facts["requested"]) == ("erasure_cancelled", lost.leaf)
        fresh.verify()
        clock.now += DELAY
        assert [done.complete for done in fresh.carry_out_erasures()] == [True]
        traceless(fresh, "patient-1")


def test_who_has_the_files_cannot_tell_whose_case_it_was(sqlite_place: Place, folder: Path, clock: Clock) -> None:
    """With every file of the database, its secrets opened: texts of the case are there, and no name beside them."""
    store = sqlite_place.open(clock=clock)
    fill(store)
    fill(store, "ward", seed=1)
    names = {f"patient-{number}" for number in range(8)}
    pending = store.erase_subject("patient-3", after=DELAY, case="DSR-1", actor="desk", idempotency_key="first")
    store.backup(folder / "waiting.db")
    clock.now += DELAY
    (done,) = store.carry_out_erasures()
    other = store.erase_subject("patient-5", case="DSR-2", idempotency_key="second")
    store.backup(folder / "after.db")
    store.close()
    opened = {name: everything_opened(folder / f"{name}.db") for name in ("ward", "after", "waiting")}
    for name in ("ward", "after"):
        assert any(b"DSR-1" in plain for plain in opened[name])
        for subject in ("patient-3", "patient-5"):
            assert not any(subject.encode() in plain for plain in opened[name])
        for salt in (done.salt, other.salt):
            assert salt is not None
            assert not any(salt in plain or salt.hex().encode() in plain for plain in opened[name])
        # None of the names that an attacker may guess opens a commitment, or a mark, with any secret that is left.
        events = {
            leaf.statement.subjects[0].sha256
            for leaf in sqlite_place.open(clock=clock).receipts()
            if leaf.kind in ("subject_erased", "erasure_requested")
        }
        assert len(events) == 2
        secrets_left = [plain for plain in opened[name] if len(plain) == 32]
        assert not events & {subject_commitment(salt, subject) for salt in secrets_left for subject in names}
    # While it waits, the name is there: that is what the row is for, and a backup of that time has it.
    assert any(b"patient-3" in plain and pending.salt.hex().encode() in plain for plain in opened["waiting"])


def everything_opened(file: Path) -> list[bytes]:
    """Every value in a database, and whatever its secrets open for any purpose."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as raw:
        tables_there = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        values = [
            value if isinstance(value, bytes) else str(value).encode()
            for table in tables_there
            for row in raw.execute(f"SELECT * FROM {table}")  # noqa: S608
            for value in row
        ]
        known = [secret for (secret,) in raw.execute("SELECT secret FROM expunge_secrets")]
        sealed = [
            value
            for table in ("expunge_entries", "expunge_forgotten", "expunge_holds", "expunge_cases", "expunge_erasures")
            for row in raw.execute(f"SELECT * FROM {table}")  # noqa: S608
            for value in row
            if isinstance(value, bytes) and len(value) > 16
        ]
    for purpose in ("case", "erasure", "hold", "record", "entry"):
        for secret in known:
            for value in sealed:
                with suppress(VerificationError):
                    values.append(decrypt(secret, purpose, value))
    return values
