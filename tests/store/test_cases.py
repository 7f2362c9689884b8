"""Case and actor of an edit: committed to in the ledger, kept in the store until they are erased."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from expunge import Conflict, DeletionRefused, InputError, VerificationError
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.store import Store, actor_commitment, case_commitment, parse_event
from expunge.store.backends.tables import cases

from .byte_search import files_under
from .conftest import Place
from .sample_memory import arrival, fill, row_counts

CASE, ACTOR = "DSR-2026-114", "privacy-desk"


def test_every_edit_commits_to_its_case_and_its_actor(store: Store) -> None:
    asked: Any = {"case": CASE, "actor": ACTOR}
    memory = store.create("icu", [[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3], sigma=1.0, nu=0.5, **asked)
    indices = [store.size - 1]
    indices.append(memory.admit([5.0], 1, id="new", **asked).index)
    indices.append(memory.delete("new", **asked).index)
    indices.append(memory.prune(**asked).index)
    indices.append(memory.rebuild(nu=0.6, **asked).index)
    hold = store.hold("icu", "0", reason="court", **asked)
    indices.append(store.size - 1)
    with pytest.raises(DeletionRefused):
        memory.delete("0", **asked)
    indices.append(store.size - 1)
    indices += [store.release(hold, **asked).index, store.drop("icu", **asked).index]
    kept = [store.case_of(index) for index in indices]
    for index, case in zip(indices, kept, strict=True):
        assert case is not None
        assert (case.case, case.actor) == (CASE, ACTOR)
        assert index in case.leaves
        statement = store.leaf(index).statement
        event = statement.predicate_type.endswith("store-event:v2")
        request = parse_event(statement).request if event else parse_predicate(statement).request
        assert case.case_salt is not None
        assert case.actor_salt is not None
        assert request.case == case_commitment(case.case_salt, CASE)
        assert request.actor == actor_commitment(case.actor_salt, ACTOR)
        assert CASE.encode() not in store.leaf(index).envelope
    # Each edit has salts of its own.
    assert len({case.case_salt for case in kept if case is not None}) == len(indices)
    store.verify()


def test_the_leaves_of_one_erasure_share_a_case(store: Store) -> None:
    for name, seed in (("icu", 0), ("ward", 1)):
        fill(store, name, seed=seed)
    done = store.erase_subject("patient-3", case=CASE, idempotency_key="k")
    assert done.index is not None
    wanted = {done.index, *(part.receipt.index for part in done.memories if part.receipt is not None)}
    (kept,) = store.cases()
    assert (set(kept.leaves), kept.actor, kept.actor_salt) == (wanted, None, None)
    assert store.case_of(0) is None
    assert [store.case_of(index) for index in sorted(wanted)] == [kept] * 3
    ids = {parse_predicate(store.leaf(index).statement).request.id for index in sorted(wanted)[:-1]}
    assert len(ids) == 2
    # The case is part of what was asked, the actor is not: another client may repeat the request.
    assert store.erase_subject("patient-3", case=CASE, actor="another", idempotency_key="k") == done
    with pytest.raises(Conflict):
        store.erase_subject("patient-3", case="DSR-1", idempotency_key="k")
    store.verify()


def test_an_erased_case_opens_nothing_any_more(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    before = row_counts(store)
    first = memory.delete("e1", case=CASE, actor=ACTOR)
    second = memory.delete("e2", case=CASE)
    third = memory.delete("e3", actor=ACTOR)
    assert [kept.leaves for kept in store.cases(CASE)] == [(first.index,), (second.index,)]
    assert store.erase_cases(leaf=0) == 0
    assert store.erase_cases(case="DSR-1") == 0
    assert store.erase_cases(leaf=third.index) == 1
    assert store.case_of(third.index) is None
    assert store.erase_cases(case=CASE) == 2
    assert store.cases() == []
    assert row_counts(store)["expunge_cases"] == before["expunge_cases"] == 0
    store.verify()
    store.vacuum()
    if place.kind == "sqlite":
        store.close()
        for file in files_under(Path(place.url.removeprefix("sqlite:///")).parent):
            assert CASE.encode() not in file.read_bytes()
            assert ACTOR.encode() not in file.read_bytes()


def test_cases_are_erased_by_age(place: Place) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    store = place.open(clock=lambda: now)
    memory = fill(store)
    memory.admit(**arrival(1), case="old")
    now = datetime(2026, 3, 20, tzinfo=UTC)
    memory.admit(**arrival(2), case="new")
    assert store.erase_cases(older_than=timedelta(days=30)) == 0
    assert store.erase_cases(older_than=timedelta(days=10)) == 1
    assert [kept.case for kept in store.cases()] == ["new"]
    wrong: Any
    for wrong in ({}, {"leaf": 1, "case": "x"}, {"older_than": 3}, {"older_than": timedelta(days=-1)}):
        with pytest.raises(InputError):
            store.erase_cases(**wrong)


def test_texts_that_cannot_be_kept_are_refused_before_anything(store: Store) -> None:
    memory = fill(store)
    size = store.size
    wrong: Any
    for wrong in ("", "a\nb", "x" * 201, 3, "\ud800"):
        for given in ({"case": wrong}, {"actor": wrong}):
            for edit in (
                lambda given=given: memory.delete("e1", **given),
                lambda given=given: memory.admit(**arrival(1), **given),
                lambda given=given: memory.prune(**given),
                lambda given=given: memory.rebuild(nu=0.5, **given),
                lambda given=given: store.erase_subject("patient-3", **given),
                lambda given=given: store.hold("icu", "e1", reason="r", **given),
                lambda given=given: store.drop("icu", **given),
            ):
                with pytest.raises(InputError, match="printable characters"):
                    edit()
    assert store.size == size


def test_a_case_that_was_altered_is_found(store: Store) -> None:
    memory = fill(store)
    memory.delete("e1", case="one")
    memory.delete("e2", case="two")
    with store._database.writing("test") as connection:
        rows = connection.rows(cases.select())
        contents = [row.content for row in rows]
        for row, content in zip(rows, reversed(contents), strict=True):
            connection.execute(update(cases).where(cases.c.number == row.number).values(content=content))
        connection.commit()
    with pytest.raises(VerificationError):
        store.verify()
    with pytest.raises(VerificationError):
        store.cases()


@pytest.mark.parametrize("by", ["store", "numbers", "nothing"])
def test_a_restore_brings_back_no_case_that_was_erased(sqlite_place: Place, folder: Path, by: str) -> None:
    store = sqlite_place.open()
    memory = fill(store)
    kept, gone = memory.delete("e1", case="kept").index, memory.delete("e2", case="gone").index
    store.backup(folder / "copy.db")
    store.erase_cases(case="gone")
    store.export_ledger(folder / "log.jsonl")
    (folder / "new").mkdir()
    new = Place("sqlite", f"sqlite:///{folder / 'new' / 'ward.db'}", sqlite_place.key)
    with new.open() as fresh:
        if by == "store":
            result = fresh.restore(folder / "copy.db", ledger=store)
        else:
            numbers = store.case_numbers() if by == "numbers" else None
            result = fresh.restore(folder / "copy.db", ledger=folder / "log.jsonl", cases=numbers)
        assert fresh.case_of(gone) is None
        found = fresh.case_of(kept)
        assert (found is None) == (by == "nothing")
        assert result.cases_lost == (2 if by == "nothing" else 1)
        assert found is None or found == store.case_of(kept)
        fresh.verify()
