"""Time to live of LangGraph's items: their entries end, reads put the end off, and a sweep erases with receipts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

import expunge
from expunge import InputError
from expunge.integrations.langgraph import ExpungeStore, ItemReceipt
from expunge.store import Store

NAMESPACE = ("memories", "ann")


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_minutes(self, count: float) -> None:
        self.now += timedelta(minutes=count)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}", clock=clock) as store:
        yield store


def keys(store: ExpungeStore) -> list[str]:
    return sorted(item.key for item in store.search((), limit=100, refresh_ttl=False))


def test_an_item_ends(ledger: Store, clock: Clock) -> None:
    """From its end on it is not there; the sweep erases it, and says so in the ledger."""
    heard: list[ItemReceipt] = []
    store = ExpungeStore(ledger, ttl={"default_ttl": 10.0, "refresh_on_read": False}, on_receipt=heard.append)
    store.put(NAMESPACE, "default", {"n": 1})
    store.put(NAMESPACE, "short", {"n": 2}, ttl=2.5)
    store.put(("memories", "bob"), "always", {"n": 3}, ttl=None)
    assert store.sweep_ttl() == 0
    clock.pass_minutes(2.5)
    assert keys(store) == ["always", "default"]
    assert store.get(NAMESPACE, "short") is None
    clock.pass_minutes(7.5)
    assert keys(store) == ["always"]
    assert store.list_namespaces() == [("memories", "bob")]
    assert len(store.notebook) == 3
    heard.clear()
    assert store.sweep_ttl() == 2
    assert len(store.notebook) == 1
    assert {receipt.key for receipt in heard} == {"default", "short"}
    assert store.sweep_ttl() == 0
    ledger.verify()


def test_a_read_puts_the_end_off(ledger: Store, clock: Clock) -> None:
    store = ExpungeStore(ledger, ttl={"default_ttl": 10.0})
    for key in ("got", "found", "alone"):
        store.put(NAMESPACE, key, {"key": key})
    made = store.get(NAMESPACE, "got", refresh_ttl=False)
    for _ in range(3):
        clock.pass_minutes(6)
        store.get(NAMESPACE, "got")
        store.search(NAMESPACE, filter={"key": "found"})
    assert keys(store) == ["found", "got"]
    again = store.get(NAMESPACE, "got", refresh_ttl=False)
    assert made is not None
    assert again is not None
    assert (again.value, again.created_at, again.updated_at) == (made.value, made.created_at, made.updated_at)
    # It begins anew once a tenth of it has passed, and not at every read.
    size = ledger.size
    store.get(NAMESPACE, "got")
    assert ledger.size == size
    clock.pass_minutes(9.9)
    assert keys(store) == ["found", "got"]
    clock.pass_minutes(0.1)
    assert keys(store) == []
    assert store.sweep_ttl() == 3
    assert len(store.notebook) == 0
    ledger.verify()


def test_an_update_begins_a_new_time_to_live(ledger: Store, clock: Clock) -> None:
    store = ExpungeStore(ledger)
    store.put(NAMESPACE, "k", {"n": 1}, ttl=5)
    clock.pass_minutes(4)
    store.put(NAMESPACE, "k", {"n": 2}, ttl=5)
    clock.pass_minutes(4)
    assert keys(store) == ["k"]
    store.put(NAMESPACE, "k", {"n": 3})
    clock.pass_minutes(100)
    assert (keys(store), store.sweep_ttl()) == (["k"], 0)


def test_a_read_beside_a_put_or_an_erasure(ledger: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else erases between a read and the new end does not come back."""
    store, other = ExpungeStore(ledger), ExpungeStore(ledger)
    for key in ("erased", "stays"):
        store.put(NAMESPACE, key, {"key": key}, ttl=5)
    clock.pass_minutes(2)
    write = store.notebook.write_many

    def beside(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        other.delete(NAMESPACE, "erased")
        return write(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store.notebook, "write_many", beside)
    assert len(store.search(NAMESPACE)) == 2
    assert keys(store) == ["stays"]
    assert len(store.notebook) == 1
    # In one batch the put is what counts.
    clock.pass_minutes(2)
    store.batch([GetOp(NAMESPACE, "stays"), PutOp(NAMESPACE, "stays", {"key": "new"}), SearchOp(())])
    assert len(store.notebook) == 1
    clock.pass_minutes(100)
    assert keys(store) == ["stays"]


def test_a_held_item_is_read_and_swept_later(ledger: Store, clock: Clock) -> None:
    store = ExpungeStore(ledger)
    store.put(NAMESPACE, "k", {"n": 1}, ttl=5)
    hold = ledger.hold("langgraph", subject="ann", reason="court")
    clock.pass_minutes(4)
    assert store.get(NAMESPACE, "k") is not None
    clock.pass_minutes(2)
    assert (keys(store), store.sweep_ttl(), len(store.notebook)) == ([], 0, 1)
    ledger.release(hold)
    assert (store.sweep_ttl(), len(store.notebook)) == (1, 0)


def test_bad_times_to_live(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    for ttl in (0.0, -1.0, float("nan"), float("inf"), 1e12):
        with pytest.raises(InputError):
            store.put(NAMESPACE, "k", {}, ttl=ttl)
    assert ledger.size == 0


def test_items_that_have_ended_are_read_until_a_sweep_where_they_are_not_omitted(ledger: Store, clock: Clock) -> None:
    """As LangGraph's `TTLConfig` has it for stores that are told so; a read then puts their end off."""
    store = ExpungeStore(ledger, ttl={"default_ttl": 10.0, "refresh_on_read": True, "omit_expired": False})
    for key in ("read", "left"):
        store.put(NAMESPACE, key, {"n": 1})
    clock.pass_minutes(11)
    assert keys(store) == ["left", "read"]
    assert store.list_namespaces() == [NAMESPACE]
    omitting = ExpungeStore(ledger, ttl={"omit_expired": True})
    assert keys(omitting) == keys(ExpungeStore(ledger)) == []
    assert omitting.get(NAMESPACE, "left") is None
    assert store.get(NAMESPACE, "read") is not None
    assert store.sweep_ttl() == 1
    assert keys(store) == keys(omitting) == ["read"]
