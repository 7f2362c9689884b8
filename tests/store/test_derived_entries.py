"""What was made from an entry goes with it, in every memory of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select, update

from expunge import Conflict, DeletionRefused, InputError, StoreError, VerificationError
from expunge.ledger.event import parse_event
from expunge.store import SignedReceipt, Store
from expunge.store.backends.tables import entries, memories
from expunge.store.edits import crash_points
from expunge.verify import verify_ledger

from .conftest import Place
from .plain_families import Clock, Families


def family(store: Store, *, circle: bool = True) -> Families:
    """Ann's talk; a summary of it, and a plan from the summary, in other memories; a note here from the plan.

    So the memories are made from each other in a ``circle``.
    """
    families = Families(store)
    families.create("talks", "summaries", "plans")
    families.admit("talks", "talk", subject="ann")
    families.admit("summaries", "summary", ("talks", "talk"), ("summaries", "summaries-0"))
    families.admit("plans", "plan", ("summaries", "summary"))
    families.admit("talks", "note", ("plans", "plan") if circle else ("talks", "talk"), subject="bob")
    families.admit("talks", "own", ("talks", "talk"))
    families.admit("plans", "other", ("plans", "plans-0"))
    return families


def damage(store: Store, name: str) -> None:
    """Spoil the content of a memory that is not loaded."""
    with store.writing("damage") as connection:
        number = connection.value(select(memories.c.number).where(memories.c.name == name))
        connection.execute(update(entries).where(entries.c.memory == number).values(content=b"damaged"))
        connection.commit()


FAMILY = {
    "talks": {"talk", "note", "own"},
    "summaries": {"summary"},
    "plans": {"plan"},
}


def erased(receipt: SignedReceipt) -> dict[str, set[str]]:
    found = {} if receipt.elsewhere is None else receipt.elsewhere.applied
    return {name: set(ids) for name, ids in {**found, "talks": receipt.applied}.items()}


def check_ledger(store: Store) -> None:
    """By the verifier that knows nothing of stores."""
    envelopes = [leaf.envelope for leaf in store.receipts()]
    verify_ledger(envelopes, store.checkpoint().to_bytes(), store.public_keys, store.log_keys, store.origin)


def test_a_deletion_takes_its_closure_with_one_summary(place: Place) -> None:
    store = place.open()
    families = family(store)
    preview = store["talks"].delete("talk", dry_run=True)
    assert {name: set(one.applied) for name, one in preview.elsewhere.items()} | {
        "talks": set(preview.applied)
    } == FAMILY
    why = {(one.memory, one.id): set(one.sources) for one in preview.derived}
    assert why == {("talks", "own"): {("talks", "talk")}, ("talks", "note"): {("plans", "plan")}}
    (plan,) = preview.elsewhere["plans"].derived
    assert str(plan) == "plan (made from summary of summaries)"
    assert families.agree()

    receipt = store["talks"].delete("talk")
    assert erased(receipt) == FAMILY
    families.forget(families.closure([("talks", "talk")]))
    assert families.agree()
    assert families.agree(place.open())
    elsewhere = receipt.elsewhere
    assert elsewhere is not None
    assert elsewhere.complete
    assert elsewhere.index == store.size - 1
    stated = parse_event(store.leaf(elsewhere.index).statement).facts["memories"]
    assert {(part["memory"], part["leaf"], part["entries"]) for part in stated} == {  # type: ignore[index,union-attr,call-overload]
        (store[name].uuid, leaf, len(FAMILY[name]))
        for name, leaf in [
            ("talks", receipt.index),
            *((one.memory, one.receipt.index) for one in elsewhere.memories if one.receipt),
        ]
    }
    store.verify()
    check_ledger(store)


def test_a_closure_in_one_memory_needs_no_summary(store: Store) -> None:
    families = family(store)
    before = store.size
    receipt = store["plans"].delete("plans-0")
    assert (set(receipt.applied), receipt.elsewhere, store.size) == ({"plans-0", "other"}, None, before + 1)
    families.forget(families.closure([("plans", "plans-0")]))
    assert families.agree()


def test_an_erasure_of_a_subject_takes_what_was_made_from_them(place: Place) -> None:
    store = place.open()
    families = family(store)
    previews = store.erase_subject("ann", dry_run=True)
    assert {name: set(one.applied) for name, one in previews.items()} == FAMILY
    done = store.erase_subject("ann", idempotency_key="k")
    assert done.complete
    assert {name: set(ids) for name, ids in done.applied.items()} == FAMILY
    families.forget(families.closure([("talks", "talk")]))
    assert families.agree()
    assert store.erase_subject("ann", idempotency_key="k") == done
    check_ledger(store)


def test_a_request_with_a_delay_takes_it_too(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    families = family(store)
    store.erase_subject("ann", after=timedelta(minutes=1))
    clock.turn(hours=1)
    (done,) = store.carry_out_erasures()
    assert {name: set(ids) for name, ids in done.applied.items()} == FAMILY
    families.forget(families.closure([("talks", "talk")]))
    assert families.agree()
    check_ledger(store)


def test_a_drop_takes_what_was_made_from_the_memory(place: Place) -> None:
    store = place.open()
    families = family(store)
    with pytest.raises(Conflict) as problem:
        store.drop("talks", derived="refuse")
    assert problem.value.code == "derived-entries"
    assert families.agree()
    store.drop("talks")
    gone = {node for node in families.sources if node[0] == "talks"}
    families.forget(families.closure(gone))
    assert families.agree()
    check_ledger(store)


@pytest.mark.parametrize(
    "erase",
    [
        lambda store: store["talks"].delete(["talk", "own"], derived="refuse"),
        lambda store: store["talks"].delete(["talk", "own"], derived="refuse", dry_run=True),
        lambda store: store["talks"].delete(subject="ann", derived="refuse"),
        lambda store: store.erase_subject("ann", derived="refuse"),
        lambda store: store.erase_subject("ann", derived="refuse", dry_run=True),
    ],
)
def test_a_caller_may_have_it_refused(store: Store, erase: Callable[[Store], Any]) -> None:
    families = family(store)
    before = store.size
    with pytest.raises(Conflict) as problem:
        erase(store)
    assert problem.value.code == "derived-entries"
    assert families.agree()
    assert store.size == before
    # Nothing is made from these.
    assert store["plans"].delete("other", derived="refuse").applied == ("other",)


def test_holds_win_per_memory_and_a_sweep_takes_the_rest_when_they_end(place: Place) -> None:
    store = place.open()
    families = family(store)
    hold = store.hold("summaries", "summary", reason="court")
    receipt = store["talks"].delete("talk")
    assert receipt.elsewhere is not None
    assert not receipt.elsewhere.complete
    outcomes = {one.memory: one.outcome for one in receipt.elsewhere.memories}
    assert outcomes["summaries"] == "refused"
    families.forget(families.closure([("talks", "talk")]) - {("summaries", "summary")})
    assert families.agree()
    # Its id would be taken for the source that is gone.
    held = store.retain()
    assert (held.memories, held.held, held.index) == ((), {"summaries": ("summary",)}, None)
    store.release(hold)
    assert store.retain().applied == {"summaries": ("summary",)}
    families.forget([("summaries", "summary")])
    assert families.agree()
    assert store.retain().memories == ()
    check_ledger(store)


def test_nothing_goes_elsewhere_where_the_entries_themselves_are_held(store: Store) -> None:
    families = family(store)
    store.hold("talks", subject="ann", reason="court")
    assert store["talks"].delete("talk", dry_run=True).outcome == "refused"
    with pytest.raises(DeletionRefused):
        store["talks"].delete("talk")
    assert not store.erase_subject("ann").complete
    with pytest.raises(DeletionRefused):
        store.drop("talks")
    assert families.agree()
    check_ledger(store)


def test_a_request_that_a_derived_entry_holds_back_is_over_when_it_is_gone(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    families = family(store)
    hold = store.hold("plans", "plan", reason="court")
    store.erase_subject("ann", after=timedelta(minutes=1))
    clock.turn(hours=1)
    (done,) = store.carry_out_erasures()
    assert not done.complete
    assert store.erasures()[0].held_back
    families.forget(families.closure([("talks", "talk")]) - {("plans", "plan")})
    assert families.agree()
    store.release(hold)
    (done,) = store.carry_out_erasures()
    assert (done.complete, done.applied) == (True, {"plans": ("plan",)})
    assert store.erasures() == []
    check_ledger(store)


def test_a_request_is_not_over_while_what_a_hold_kept_cannot_be_read(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    family(store)
    hold = store.hold("plans", "plan", reason="court")
    waiting = store.erase_subject("ann", after=timedelta(minutes=1))
    clock.turn(hours=1)
    store.carry_out_erasures()
    store.close()
    store = place.open(clock=clock)
    damage(store, "plans")
    store.release(hold)
    with pytest.raises(StoreError, match="plans cannot be read"):
        store.carry_out_erasures()
    assert [one.leaf for one in store.erasures()] == [waiting.leaf]
    check_ledger(store)
    store.drop("plans")
    (done,) = store.carry_out_erasures()
    assert done.complete
    check_ledger(store)


def test_archived_sources_and_derived_entries_go_too(place: Place) -> None:
    store = place.open()
    families = Families(store)
    families.create("talks", "facts", size=14)
    for row in range(14):
        families.admit("facts", f"fact-{row}", ("talks", f"talks-{row}"))
    for name in ("talks", "facts"):
        store[name].rebuild(nu=0.2)
        assert store[name].prune("archive").applied
    families.erase("talks", *(f"talks-{row}" for row in range(0, 14, 2)))
    assert families.agree()
    store["facts"].rebuild(nu=0.9)
    families.erase("talks", "talks-1")
    assert families.agree()
    assert families.agree(place.open())
    store.verify()


def test_a_forgotten_source_is_one(store: Store) -> None:
    """Its content is gone; what was made from it stays until the entry itself is erased."""
    keys = np.random.default_rng(6).standard_normal((60, 2))
    store.create("talks", keys, keys, sigma=1.5, nu=0.1)
    families = Families(store)
    families.create("facts")
    for row in range(60):
        families.admit("facts", f"fact-{row}", ("talks", str(row)))
    forgotten = store["talks"].prune("forget").applied
    assert store.retain().memories == ()
    gone = forgotten[0]
    receipt = store["talks"].delete(gone)
    assert receipt.elsewhere is not None
    assert receipt.elsewhere.applied == {"facts": (f"fact-{gone}",)}


def test_an_id_that_something_was_made_from_is_not_given_anew(store: Store) -> None:
    families = Families(store)
    families.create("talks")
    families.admit("talks", "talk")
    families.admit("talks", "note", ("talks", "talk"))
    hold = store.hold("talks", "note", reason="court")
    with pytest.raises(DeletionRefused):
        store["talks"].delete("talk")
    store.release(hold)
    store["talks"].delete("talk")
    families.forget(families.closure([("talks", "talk")]))
    families.admit("talks", "talk")
    assert families.agree()


def test_what_is_made_from_an_entry_between_plan_and_edit_is_not_left(place: Place, monkeypatch: Any) -> None:
    """Another process admits while the memories are edited one after the other."""
    store, other = place.open(), place.open()
    families = family(store, circle=False)
    others = Families(other)
    reached: list[str] = []

    def admit_meanwhile(point: str) -> None:
        if point == "part_done" and not reached:
            reached.append(point)
            others.admit("plans", "late", ("talks", "talk"))

    monkeypatch.setattr(crash_points, "_hook", admit_meanwhile)
    with pytest.raises(Exception, match="meanwhile"):
        store["talks"].delete("talk")
    monkeypatch.setattr(crash_points, "_hook", None)
    store["talks"].delete("talk")
    families.forget(families.closure([("talks", "talk")]))
    assert families.agree()
    check_ledger(store)


class Died(BaseException):
    """In place of a kill."""


# Before and after the commits of the three memories' edits, between them, and around the summary.
POINTS = [(point, passed) for point in ("ledger_written", "committed") for passed in range(3)]
POINTS += [("part_done", 0), ("part_done", 1), ("part_done", 2), ("summary_written", 0), ("summary_committed", 0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "again"),
    [
        ("sqlite", "with its key"),
        ("sqlite", "without a key"),
        ("sqlite", "by a sweep"),
        ("postgres", "by a sweep"),
    ],
)
def test_a_process_that_dies_between_memories_leaves_what_a_repeated_call_finds(
    request: pytest.FixtureRequest, kind: str, again: str
) -> None:
    """At each point of each memory's edit: the repeated call, or a sweep, leaves nothing of the closure."""
    place: Place = request.getfixturevalue(f"{kind}_place")
    keyed = again == "with its key"
    for point, passed in POINTS:
        store = place.open()
        for name in store:
            store.drop(name)
        # Memories in a circle cannot be put in order: what is left of one, a sweep finds.
        families = family(store, circle=again == "by a sweep")
        left = [passed]

        def die(reached: str, point: str = point, left: list[int] = left) -> None:
            if reached == point:
                left[0] -= 1
                if left[0] < 0:
                    raise Died

        crash_points.set_hook(die)
        options: dict[str, Any] = {"idempotency_key": f"{point} {passed}"} if keyed else {}
        try:
            with pytest.raises(Died):
                store["talks"].delete("talk", **options)
        finally:
            crash_points.set_hook(None)
        store = place.open()
        if keyed:
            receipt = store["talks"].delete("talk", **options)
            assert receipt == store["talks"].delete("talk", **options)
            assert receipt.elsewhere is not None
            assert receipt.elsewhere.index is not None
        elif ("talks", "talk") in families.there(store):
            # Derived entries go before their sources: so the call is not refused as one of an unknown id.
            store["talks"].delete("talk")
        if again == "by a sweep":
            store.retain()
        families.forget(families.closure([("talks", "talk")]))
        assert families.agree(store), point
    store.verify()
    check_ledger(store)


def test_a_damaged_memory_keeps_no_other_from_going_and_is_named(place: Place) -> None:
    store = place.open()
    families = family(store)
    store.close()
    store = place.open()
    damage(store, "plans")
    receipt = store["talks"].delete("talk")
    assert receipt.elsewhere is not None
    assert receipt.elsewhere.not_read == ("plans",)
    assert receipt.elsewhere.applied == {"summaries": ("summary",)}
    with pytest.raises(VerificationError):
        _ = store["plans"].ids
    assert families


def test_sources_are_not_lost_by_a_process_that_has_not_loaded_them(place: Place) -> None:
    """The graph is read from the rows where nothing is loaded."""
    family(place.open())
    store = place.open()
    receipt = store["talks"].delete("talk")
    assert erased(receipt) == FAMILY
    with pytest.raises(InputError):
        store["talks"].delete("talk")
