"""An erasure that does not overlook, and does not tell who was in the store."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, update

from expunge import InputError
from expunge.ledger.commitment import new_salts
from expunge.store import Conflict, LookAlike, Store, SubjectErasure, Unsearched, parse_event
from expunge.store.backends import tables

from .conftest import Place
from .sample_memory import fill, row_counts

DECOMPOSED = unicodedata.normalize("NFD", "José")


def memory_of(store: Store, name: str, subjects: list[str | None], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    size = len(subjects)
    store.create(
        name, rng.standard_normal((size, 2)), rng.standard_normal(size), sigma=1.0, nu=0.5, subjects=list(subjects)
    )


@pytest.fixture
def clinic(store: Store) -> Store:
    memory_of(store, "cardiology", [DECOMPOSED, "Ann", None, "Bob"] * 3)
    memory_of(store, "icu", ["jose", "Ann", "Bob"] * 4, seed=1)
    memory_of(store, "notes", [None] * 5, seed=2)
    store.create("empty", np.empty((0, 2)), np.empty((0, 1)), sigma=1.0, cap=1.0)
    return store


def test_a_person_under_three_spellings(clinic: Store) -> None:
    """José, stored decomposed in one memory and as jose in another, is found from the composed name, and erased."""
    unsearched = (Unsearched("cardiology", 3, 12), Unsearched("notes", 5, 5))
    alike = (LookAlike(DECOMPOSED, {"cardiology": 3}), LookAlike("jose", {"icu": 4}))
    told = clinic.erase_subject("José", dry_run=True)
    assert dict(told) == {}
    assert (told.search.not_searched, told.search.look_alikes) == (unsearched, alike)
    size = clinic.size
    done = clinic.erase_subject("José")
    assert (done.complete, done.memories, done.index) == (True, (), None)
    assert (done.not_searched, done.look_alikes) == (unsearched, alike)
    assert clinic.size == size, "a look-alike is never erased without being named"
    for left in (1, 0):
        erased = clinic.erase_subject(done.look_alikes[1 - left].subject)
        assert sum(map(len, erased.applied.values())) == 3 + (1 - left)
        assert len(erased.look_alikes) == left
    assert clinic.find_subject("José").look_alikes == ()
    assert not {DECOMPOSED, "jose"} & {subject for name in clinic for subject in clinic[name].subjects}
    clinic.verify()


def test_archived_and_forgotten_entries_are_searched(clinic: Store) -> None:
    clinic["cardiology"].prune("archive")
    clinic["icu"].prune("forget")
    found = clinic.find_subject("JOSÉ")
    assert found.look_alikes == (LookAlike(DECOMPOSED, {"cardiology": 3}), LookAlike("jose", {"icu": 4}))
    assert found.not_searched[0] == Unsearched("cardiology", 3, 12)
    assert clinic.find_subject("jose").memories == ("icu",)


def test_the_most_alike_come_first_and_twenty_are_enough(store: Store) -> None:
    slips = [f"Wilhelmina{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    memory_of(store, "many", [*slips, "wilhelmina"])
    alike = store.find_subject("Wilhelmina").look_alikes
    assert [one.subject for one in alike] == ["wilhelmina", *slips[:19]]


def test_a_row_that_cannot_be_read_is_counted_as_not_searched(clinic: Store, place: Place) -> None:
    """It is still found by its mark, which is under a secret that is elsewhere."""
    subject = next(name for name in clinic["cardiology"].subjects if name is not None)
    with clinic.writing("test") as connection:
        in_cardiology = tables.entries.c.memory == clinic["cardiology"].number
        row = connection.first(tables.entries.select().where(in_cardiology, tables.entries.c.mark.is_not(None)))
        altered = update(tables.entries).where(tables.entries.c.number == row.number).values(content=b"x" * 40)
        connection.execute(altered)
        connection.commit()
    found = place.open().find_subject("nobody")
    assert sum(one.unnamed for one in found.not_searched) == 9
    assert found.memories == ()
    assert "cardiology" in place.open().find_subject(subject).memories


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """Every statement that the database is sent meanwhile."""
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        sent.append(statement)

    event.listen(store._database.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(store._database.engine, "before_cursor_execute", note)


ASKED: dict[str, Callable[[Store, str], SubjectErasure]] = {
    "plainly": lambda store, subject: store.erase_subject(subject),
    "with a key": lambda store, subject: store.erase_subject(subject, idempotency_key="k" + subject),
    "with a case": lambda store, subject: store.erase_subject(subject, case="DSR-1", actor="desk"),
    "with a salt that is none": lambda store, subject: store.erase_subject(subject, salt=new_salts(1)),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_erased_before_and_never_there_are_answered_alike(
    clinic: Store, asked: Callable[[Store, str], SubjectErasure]
) -> None:
    """The attacker may erase, has no salt, and learns nothing: neither from the answer, nor from the work it takes."""
    erased = clinic.erase_subject("Bob")
    size, rows = clinic.size, row_counts(clinic)
    answers, work = [], []
    # The statements of a process's first request are not those of its second.
    for subject in ("Jim", "Bob", "Tom"):
        with statements(clinic) as sent:
            answers.append(asked(clinic, subject))
        work.append(sent)
    assert len({dataclasses.astuple(answer).__repr__() for answer in answers}) == 1
    assert answers[0].complete
    assert (answers[0].memories, answers[0].index, answers[0].salt, answers[0].earlier) == ((), None, None, None)
    assert work[1] == work[2]
    # Nothing is written but what makes a repeated key the same request.
    assert clinic.size == size
    new = {table: count - rows[table] for table, count in row_counts(clinic).items() if count != rows[table]}
    assert new == ({"expunge_requests": 3} if asked is ASKED["with a key"] else {})
    assert erased.index is not None


def test_only_the_salt_or_the_key_names_the_leaf(clinic: Store) -> None:
    erased = clinic.erase_subject("Bob", idempotency_key="ticket")
    assert erased.salt is not None
    assert clinic.erase_subject("Bob", salt=erased.salt).earlier == erased.index
    assert clinic.erase_subject("Bob", idempotency_key="ticket") == erased
    for subject, salt in (("Bob", new_salts(1)), ("Jim", erased.salt), ("bob", erased.salt)):
        assert clinic.erase_subject(subject, salt=salt).earlier is None
    with pytest.raises(InputError):
        clinic.erase_subject("Bob", salt=b"short")
    for wrong in ({"dry_run": True}, {"after": timedelta(days=1)}):
        with pytest.raises(InputError, match="salt"):
            clinic.erase_subject("Bob", salt=erased.salt, **wrong)
    # A second time there is something to erase again, and the first leaf is named as well.
    clinic["icu"].admit([0.0, 0.0], [1.0], subject="Bob")
    again = clinic.erase_subject("Bob", salt=erased.salt)
    assert again.earlier == erased.index
    assert sum(map(len, again.applied.values())) == 1


def test_a_key_that_found_nobody_is_the_same_request_afterwards(clinic: Store) -> None:
    nothing = clinic.erase_subject("Jim", idempotency_key="ticket")
    clinic["icu"].admit([0.0, 0.0], [1.0], subject="Jim")
    assert clinic.erase_subject("Jim", idempotency_key="ticket") == nothing
    with pytest.raises(Conflict):
        clinic.erase_subject("Bob", idempotency_key="ticket")
    assert sum(map(len, clinic.erase_subject("Jim").applied.values())) == 1


def test_a_delayed_erasure_is_recorded_for_anybody(clinic: Store) -> None:
    """Present, erased before, or never there: one leaf, of one form, with a salted commitment."""
    clinic.erase_subject("Bob")
    forms = []
    for subject in ("Ann", "Bob", "Jim"):
        waiting = clinic.erase_subject(subject, after=timedelta(days=1))
        stated = parse_event(clinic.leaf(waiting.leaf).statement)
        forms.append((stated.kind, tuple(sorted(stated.facts)), len(clinic.leaf(waiting.leaf).envelope)))
    assert len(set(forms)) == 1


def test_the_search_leaves_nothing_behind(sqlite_place: Place, folder: Any) -> None:
    store = sqlite_place.open()
    fill(store)
    memory_of(store, "names", ["Penthesilea Quux", "penthesilea  QUUX"] * 4)
    rows = row_counts(store)
    assert len(store.find_subject("Penthesilea Quux").look_alikes) == 1
    assert row_counts(store) == rows
    store.close()
    for file in folder.iterdir():
        assert b"enthesilea" not in file.read_bytes().lower()
