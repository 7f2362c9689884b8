"""A store as a collection of memories, dropped ones included, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from expunge import InputError, StoreError
from expunge.store import (
    Conflict,
    parse_event,
)

from .conftest import Place
from .sample_memory import arrival, fill


def test_a_memory_is_dropped_with_a_receipt(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    memory.prune("archive")
    fill(store, "other", seed=1)
    other = place.open()["icu"]
    assert len(other) == len(memory)
    leaf = store.drop("icu", idempotency_key="k")
    assert store.drop("icu", idempotency_key="k") == leaf
    assert parse_event(leaf.statement).memory == memory.uuid
    assert store.names() == ["other"]
    assert "icu" not in store
    for handle in (memory, other):
        with pytest.raises(StoreError, match="dropped"):
            handle.read([0.0] * 4)
        with pytest.raises(StoreError, match="dropped"):
            handle.delete("e1")
    with pytest.raises(InputError, match="no memory"):
        store.drop("icu")
    again = fill(store, "icu", seed=5)
    assert again.uuid != memory.uuid
    assert store["icu"] is again
    store.verify()


def test_the_store_is_a_collection_of_names(place: Place) -> None:
    store = place.open()
    assert (list(store), len(store), "icu" in store) == ([], 0, False)
    fill(store)
    fill(store, "älter ☃", seed=1)
    assert list(store) == store.names() == ["icu", "älter ☃"]
    assert "älter ☃" in place.open()
    assert 3 not in store
    assert store["icu"] is store["icu"]
    for wrong in ("", "a\nb", "x" * 201, None, 3, "\ud800"):
        with pytest.raises(InputError):
            fill(store, wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            store[wrong]  # type: ignore[index]
    with pytest.raises(InputError, match="already"):
        fill(store)
    with pytest.raises(InputError, match="already"):
        fill(place.open())
    with pytest.raises(InputError, match="sigma"):
        store.create("bad", [[0.0]], [0.0], sigma=-1.0, nu=0.5)
    assert len(store) == 2
    assert "StoredMemory 'icu'" in repr(store["icu"])
    assert store.origin in repr(store)


def test_a_closed_store_says_so(place: Place) -> None:
    with place.open() as store:
        fill(store)
    store.close()
    for call in (store.names, store.verify, store.checkpoint, lambda: store["icu"], lambda: fill(store, "x")):
        with pytest.raises(StoreError, match="closed"):
            call()
    assert place.open().names() == ["icu"]


def test_a_memory_is_dropped_only_as_it_was_seen(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    seen = memory.digest
    place.open()["icu"].admit(**arrival(1, far=3.0))
    with pytest.raises(Conflict, match="somebody edited it"):
        store.drop("icu", expected=seen)
    assert "new-1" in memory
    store.drop("icu", expected=memory.digest)
    assert "icu" not in store


def test_what_the_service_asks_of_a_store(place: Place) -> None:
    store, other = place.open(), place.open()
    memory = fill(store)
    memory.delete("e3")
    fill(store, "second", seed=1)
    (first, second) = sorted(store.memories(), key=lambda summary: summary.name)
    assert (first.name, first.uuid, first.edit, first.size) == ("icu", memory.uuid, 1, 39)
    assert store.name_of(second.uuid) == "second"
    assert store.name_of("nobody") is None
    leaves = store.receipts()
    assert store.newest_leaves() == leaves[::-1]
    assert store.newest_leaves(memories=[memory.uuid], before=2, limit=1) == [leaves[1]]
    assert store.newest_leaves(kinds=["created"]) == [leaves[2], leaves[0]]
    assert store.newest_leaves(memories=[]) == []
    assert store.mac(b"purpose") == other.mac(b"purpose") != store.mac(b"another")
    assert store.peppered_key("key") == other.peppered_key("key") != store.peppered_key("another")
    store.check_schema()
    with store.writing("test") as connection:
        connection.execute(text("UPDATE expunge_schema SET version = '9999'"))
        connection.commit()
    with pytest.raises(StoreError, match="9999"):
        store.check_schema()
