"""Sweeps: what has ended goes, with what was made from it, but for what holds keep."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from expunge.ledger.event import parse_event
from expunge.store import Store

from .conftest import Place
from .plain_families import START, Clock, Families, Node
from .test_derived_entries import check_ledger


def ward(place: Place) -> tuple[Clock, Store, Families]:
    clock = Clock()
    store = place.open(clock=clock)
    families = Families(store)
    families.create("talks", "facts")
    return clock, store, families


def test_a_sweep_takes_what_has_ended_with_one_edit_per_memory(place: Place) -> None:
    clock, store, families = ward(place)
    families.admit("talks", "short", end=START + timedelta(hours=1))
    families.admit("talks", "other", end=START + timedelta(hours=1))
    families.admit("talks", "long", end=START + timedelta(hours=3))
    families.admit("facts", "fact", ("talks", "short"))
    families.admit("facts", "own", end=START + timedelta(hours=2))
    size = store.size
    assert (store.retain().memories, store.due(), store.size) == ((), {}, size)
    clock.turn(hours=1)
    assert store.due() == {"talks": ["short", "other"]}
    assert store["talks"].due() == ["short", "other"]
    preview = store.retain(dry_run=True)
    assert {name: one.applied for name, one in preview.items()} == {"talks": ("short", "other"), "facts": ("fact",)}
    assert [str(one) for one in preview["facts"].derived] == ["fact (made from short of talks)"]
    assert families.agree()
    done = store.retain(case="policy-7", actor="sweeper")
    assert (done.complete, done.due, store.size) == (True, clock.now, size + 3)
    assert done.applied == {"facts": ("fact",), "talks": ("short", "other")}
    assert done.index == size + 2
    event = parse_event(store.leaf(done.index).statement)
    assert (event.kind, event.facts["due"], event.facts["held"]) == ("erased", "2031-01-01T01:00:00Z", 0)
    asked = store.case_of(done.index)
    assert asked is not None
    assert (asked.case, asked.actor, len(asked.leaves)) == ("policy-7", "sweeper", 3)
    families.forget([("talks", "short"), ("talks", "other"), ("facts", "fact")])
    assert families.agree(place.open())
    # Another process, that has loaded nothing.
    clock.turn(hours=5)
    assert place.open(clock=clock).retain().applied == {"facts": ("own",), "talks": ("long",)}
    store.verify()
    check_ledger(store)


def test_a_sweep_leaves_what_a_hold_keeps_and_takes_the_rest(place: Place) -> None:
    clock, store, families = ward(place)
    for number in range(4):
        families.admit("talks", f"note-{number}", end=START + timedelta(hours=1), subject="ann")
        families.admit("facts", f"fact-{number}", ("talks", f"note-{number}"))
    families.admit("facts", "more", ("facts", "fact-1"))
    holds = [store.hold("talks", "note-0", reason="court"), store.hold("facts", "fact-1", reason="court")]
    clock.turn(hours=1)
    expected = {"talks": ("note-1", "note-2", "note-3"), "facts": ("fact-2", "fact-3")}
    assert {name: one.applied for name, one in store.retain(dry_run=True).items()} == expected
    assert store.retain(dry_run=True).held == {"talks": ("note-0",), "facts": ("fact-1",)}
    done = store.retain()
    assert (done.applied, done.held) == (expected, {"talks": ("note-0",), "facts": ("fact-1",)})
    assert not done.complete
    # No refusal is signed for it, however often.
    size = store.size
    assert (store.retain().held, store.size) == (done.held, size)
    assert done.index is not None
    assert parse_event(store.leaf(done.index).statement).facts["held"] == 2
    check_ledger(store)
    for hold in holds:
        store.release(hold)
    assert store.retain().applied == {"talks": ("note-0",), "facts": ("fact-0", "fact-1", "more")}
    assert families.there() == {node for node in families.sources if not node[1].startswith(("note", "fact-", "more"))}
    check_ledger(store)


def test_what_has_ended_stays_in_the_fit_until_it_is_swept(store: Store) -> None:
    clock = Clock()
    store._identity = store._identity.__class__(**{**vars(store._identity), "clock": clock})
    families = Families(store)
    families.create("talks")
    families.admit("talks", "note", end=START + timedelta(hours=1))
    before = store["talks"].read([0.1, 0.2]).tolist()
    clock.turn(hours=2)
    assert store["talks"].read([0.1, 0.2]).tolist() == before
    store.retain()
    assert store["talks"].read([0.1, 0.2]).tolist() != before


def test_archived_entries_end_and_orphans_of_a_drop_go(place: Place) -> None:
    clock, store, families = ward(place)
    for row in range(12):
        families.admit("talks", f"note-{row}", end=START + timedelta(hours=1 + row % 2))
    store["talks"].rebuild(nu=0.2)
    assert store["talks"].prune("archive").applied
    clock.turn(hours=1)
    done = store.retain()
    assert set(done.applied["talks"]) == {f"note-{row}" for row in range(0, 12, 2)}
    families.forget([("talks", name) for name in done.applied["talks"]])
    assert families.agree()
    check_ledger(store)


def test_a_restored_store_is_swept(place: Place, folder: Path) -> None:
    """What had ended when the backup is restored goes again, and so does what has lost its source meanwhile."""
    clock, store, families = ward(place)
    families.admit("talks", "ends", end=START + timedelta(hours=1))
    families.admit("facts", "from it", ("talks", "ends"))
    families.admit("talks", "note")
    families.admit("facts", "fact", ("talks", "note"))
    families.admit("facts", "held", ("talks", "note"))
    store.backup(folder / "copy.db")
    store.hold("facts", "held", reason="court")
    store["talks"].delete("note")
    clock.turn(hours=1)
    key = folder / "ward.pem"
    from expunge import open as open_store

    with open_store(f"sqlite:///{folder / 'again.db'}", key, clock=clock) as again:
        restored = again.restore(folder / "copy.db", ledger=store)
        # The refusal for a hold of after the backup is no erasure, and the hold is lost.
        assert restored.erased_again == {"talks": ("note",)}
        assert restored.retained.applied == {"talks": ("ends",), "facts": ("from it", "fact", "held")}
        assert {node for node in families.sources if not node[1].startswith(("note", "fact", "held", "ends", "from"))}
        again.verify()
        check_ledger(again)


def _play(families: Families, clock: Clock, rng: random.Random, steps: int) -> dict[str, int]:
    """Random admissions, deletions, erasures of subjects, drops and sweeps; the reference is told of each."""
    did: dict[str, int] = {}
    store = families.store
    for step in range(steps):
        there = sorted(families.sources)
        act = rng.choices(["admit", "delete", "subject", "sweep", "drop", "prune"], [10, 4, 2, 2, 0.4, 1])[0]
        did[act] = did.get(act, 0) + 1
        if act == "admit":
            memory = rng.choice(sorted(store))
            sources: list[Node] = rng.sample(there, min(len(there), rng.choice([0, 1, 1, 2, 3])))
            end = clock.now + timedelta(hours=rng.randint(1, 30)) if rng.random() < 0.4 else None
            families.admit(memory, f"n{step}", *sources, end=end, subject=rng.choice(["ann", "bob", None]))
        elif act == "delete" and there:
            memory, name = rng.choice(there)
            names = [one for other, one in there if other == memory]
            families.erase(memory, *{name, rng.choice(names)})
        elif act == "subject":
            owner = rng.choice(["ann", "bob"])
            done = store.erase_subject(owner)
            gone = families.closure(node for node, subject in families.subjects.items() if subject == owner)
            assert {(name, one) for name, ids in done.applied.items() for one in ids} == gone
            families.forget(gone)
        elif act == "sweep":
            clock.turn(hours=rng.randint(1, 10))
            gone = families.closure(node for node, end in families.ends.items() if end <= clock.now)
            preview = store.retain(dry_run=True)
            assert {(name, one) for name, found in preview.items() for one in found.applied} == gone
            done_sweep = store.retain()
            assert {(name, one) for name, ids in done_sweep.applied.items() for one in ids} == gone
            families.forget(gone)
        elif act == "drop" and len(store) > 2:
            memory = rng.choice(sorted(store))
            store.drop(memory)
            families.forget(families.closure(node for node in there if node[0] == memory))
            families.create(f"m{step}")
        elif act == "prune" and families.there():
            store[rng.choice(sorted(store))].prune("archive")
        assert families.agree(), (step, act)
    return did


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_leave_what_a_plain_reference_says(place: Place, seed: int) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    families = Families(store)
    families.create("a", "b", "c")
    did = _play(families, clock, random.Random(seed), 45)
    assert did["admit"] > 10
    assert families.agree(place.open(clock=clock))
    store.verify()
    check_ledger(store)
