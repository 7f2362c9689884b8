"""A store's mirrors in every system: what is admitted is there, what is erased is gone, and the ledger says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from expunge import InputError, StoreError
from expunge.ledger.event import parse_event
from expunge.mirrors import Mirror, open_mirror
from expunge.store import Store
from expunge.store.backends import tables
from expunge.store.mirroring import mirror_pass
from expunge.verify import verify_ledger
from mirrors.conftest import KINDS
from raising import raises_code

from ..conftest import Place
from ..sample_memory import row_counts

NewUrl = Callable[[str], str]


def notes(count: int, start: int = 0) -> dict[str, Any]:
    """Notes of three people, each with a mark that nobody else has."""
    rng = np.random.default_rng(start)
    rows = range(start, start + count)
    return {
        "keys": rng.standard_normal((count, 6)),
        "values": np.ones((count, 1)),
        "ids": [f"note-{row:04d}" for row in rows],
        "subjects": [f"person-{row % 3}" for row in rows],
        "payloads": [
            {"text": f"what person {row % 3} said, in the words of mark-{row:04d}", "metadata": {"topic": f"t{row}"}}
            for row in rows
        ],
    }


def fill(store: Store, name: str = "notes", count: int = 12, start: int = 0) -> Any:
    return store.create(name, **notes(count, start), sigma=2.0, nu=0.5)


def ids_in(url: str) -> set[str]:
    with open_mirror(url) as mirror:
        return {copy.id for copy in mirror.entries()}


def findings(store: Store) -> list[dict[str, int]]:
    """What the ledger says was found, by erasure."""
    events = [parse_event(leaf.statement) for leaf in store.receipts() if leaf.kind == "mirror_checked"]
    parts: list[Any] = [part for event in events for part in event.facts["findings"]]  # type: ignore[union-attr]
    return [dict(part) for part in parts]


def verified(store: Store) -> Any:
    """The store holds together, and its ledger replays."""
    store.verify()
    envelopes = [leaf.envelope for leaf in store.receipts()]
    return verify_ledger(
        envelopes, store.checkpoint().to_bytes(), store.public_keys, store.log_keys, store.origin
    ).tally


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, new_url: NewUrl) -> str:
    return new_url(request.param)


class TestEverySystem:
    """The contract, on both kinds of stores."""

    def test_a_life_of_copies(self, place: Place, url: str) -> None:
        store = place.open()
        memory = fill(store)
        mirror = store.mirror(url, memory="notes")
        assert mirror.pending == 0
        assert ids_in(url) == set(memory.ids)
        with open_mirror(url) as system:
            (copy,) = system.read(["note-0003"])
        assert copy.text == "what person 0 said, in the words of mark-0003"
        assert dict(copy.metadata) == {"topic": "t3", "subject": "person-0"}
        assert np.allclose(copy.coordinates, memory.keys[memory.ids.index("note-0003")], atol=1e-6) or (
            # Qdrant normalises.
            mirror.kind == "qdrant"
        )
        memory.admit_many(**notes(3, 12))
        assert ids_in(url) == set(memory.ids)
        memory.delete("note-0003")
        memory.delete(["note-0004", "note-0005"])
        store.erase_subject("person-1")
        assert ids_in(url) == set(memory.ids)
        assert [found["entries"] for found in findings(store)] == [1, 2, 4]
        assert all(found["absent"] == found["entries"] for found in findings(store)), findings(store)
        tally = verified(store)
        assert (tally.mirrors, tally.mirrors_pending, tally.copies_absent) == (1, 0, 7)
        store.drop("notes")
        assert ids_in(url) == set()
        assert findings(store)[-1]["absent"] == 8
        verified(store)

    def test_a_system_that_is_down(self, place: Place, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [datetime.now(UTC)]
        store = place.open(clock=lambda: now[0])
        memory = fill(store)
        store.mirror(url, memory="notes")
        monkeypatch.setattr(mirror_pass, "open_mirror", unreachable)
        receipt = memory.delete("note-0002")
        memory.admit(np.zeros(6), [1.0], id="later", payload="a later note")
        assert receipt.outcome == "decrement" or receipt.outcome == "certified_zero"
        (mirror,) = store.mirrors()
        assert (mirror.writes, mirror.erasures, mirror.failures) == (1, 1, 1)
        assert verified(store).mirrors_pending == 1
        (tried,) = store.sync_mirrors()
        assert tried.problem is not None
        assert not tried.complete
        monkeypatch.undo()
        assert "note-0002" in ids_in(url)
        # It is put off: an edit does not try it.
        memory.delete("note-0006")
        assert store.mirrors()[0].erasures == 2
        now[0] += timedelta(hours=1)
        memory.delete("note-0007")
        assert store.mirrors()[0].pending == 0
        assert ids_in(url) == set(memory.ids)
        assert [found["absent"] for found in findings(store)] == [1, 1, 1]
        verified(store)


def unreachable(url: str) -> Mirror:
    raise StoreError("nobody answers", code="mirror-down")


def test_all_memories_share_a_mirror(place: Place, new_url: NewUrl) -> None:
    store, url = place.open(), new_url("lancedb")
    fill(store, "icu", 4)
    store.mirror(url)
    fill(store, "ward", 4, 100)
    assert ids_in(url) == {
        *(f"icu/note-{row:04d}" for row in range(4)),
        *(f"ward/note-{row:04d}" for row in range(100, 104)),
    }
    store["ward"].delete("note-0102")
    store.drop("icu")
    assert ids_in(url) == {f"ward/note-{row:04d}" for row in (100, 101, 103)}
    assert [found["absent"] for found in findings(store)] == [1, 4]
    verified(store)


def test_an_entry_that_took_the_place_of_an_erased_one_stays(
    place: Place, new_url: NewUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, url = place.open(), new_url("lancedb")
    memory = fill(store)
    store.mirror(url)
    store.mirror_keeper.at_once = False
    memory.delete("note-0001")
    memory.admit(np.ones(6), [1.0], id="note-0001", payload="another note under its id")
    store.sync_mirrors()
    with open_mirror(url) as system:
        (copy,) = system.read(["notes/note-0001"])
    assert copy.text == "another note under its id"
    assert findings(store) == [{"leaf": 2, "entries": 1, "absent": 1, "in_files": 0, "not_checkable": 0}]


def test_what_was_erased_before_it_was_written_is_not_written(place: Place, new_url: NewUrl) -> None:
    store, url = place.open(), new_url("lancedb")
    memory = fill(store)
    store.mirror(url, memory="notes")
    store.mirror_keeper.at_once = False
    memory.admit(np.ones(6), [1.0], id="short", payload="a short-lived note")
    memory.delete("short")
    (done,) = store.sync_mirrors()
    assert done.complete
    assert "short" not in ids_in(url)
    # Nobody knows that its bytes were never there.
    assert dict(done.found) == {"absent": 0, "in_files": 0, "not_checkable": 1}


@pytest.mark.parametrize("how", ["retention", "derived", "forget", "later"])
def test_every_way_of_erasing_reaches_the_mirror(place: Place, new_url: NewUrl, how: str) -> None:
    now = [datetime.now(UTC)]
    store, url = place.open(clock=lambda: now[0]), new_url("lancedb")
    memory = fill(store, count=20)
    store.mirror(url, memory="notes")
    if how == "retention":
        memory.admit(np.arange(6.0), [1.0], id="ends", payload="a note that ends", expires=now[0] + timedelta(days=1))
        assert "ends" in ids_in(url)
        now[0] += timedelta(days=2)
        store.retain()
    elif how == "derived":
        memory.admit(np.ones(6), [1.0], id="made", payload="made of a note", derived_from=["note-0001"])
        memory.delete("note-0001")
        assert not {"made", "note-0001"} & ids_in(url)
    elif how == "forget":
        pruned = memory.prune("forget").applied
        assert pruned
        assert not set(pruned) & ids_in(url)
    else:
        store.erase_subject("person-2", after=timedelta(days=1))
        now[0] += timedelta(days=2)
        store.carry_out_erasures()
    assert ids_in(url) == set(memory.ids)
    assert sum(found["absent"] for found in findings(store)) == sum(found["entries"] for found in findings(store)) > 0
    assert verified(store).mirrors_pending == 0


def test_pruning_to_the_archive_keeps_the_copies(place: Place, new_url: NewUrl) -> None:
    store, url = place.open(), new_url("lancedb")
    memory = fill(store, count=20)
    store.mirror(url, memory="notes")
    everything = set(memory.ids)
    assert memory.prune("archive").applied
    assert ids_in(url) == everything
    assert findings(store) == []


def test_ids_are_kept_only_as_long_as_they_are_needed(sqlite_place: Place, new_url: NewUrl) -> None:
    store, url = sqlite_place.open(), new_url("lancedb")
    memory = fill(store)
    store.mirror(url, memory="notes")
    before = row_counts(store)
    store.mirror_keeper.at_once = False
    memory.delete(["note-0001", "note-0002"])
    waiting = row_counts(store)
    assert waiting["expunge_mirror_erasures"] == 1
    assert waiting["expunge_secrets"] == before["expunge_secrets"] - 2 + 1
    with store.reading() as connection:
        (terms,) = connection.values(select(tables.mirror_erasures.c.terms))
    assert b"note-0001" not in terms
    store.sync_mirrors()
    after = row_counts(store)
    assert after["expunge_mirror_erasures"] == 0
    assert after["expunge_secrets"] == before["expunge_secrets"] - 2


def test_an_address_with_a_password_is_refused(store: Store) -> None:
    fill(store)
    for url in (
        "postgresql://ann:secret@localhost/db#pgvector:notes",
        "postgresql://localhost/db?user=ann&password=secret#pgvector:notes",
    ):
        with raises_code("mirror-password") as caught:
            store.mirror(url)
        assert "secret" not in str(caught.value)
    with raises_code("mirror-unknown"):
        store.mirror("sqlite:////tmp/x.db")
    with raises_code("mirror-map"):
        store.mirror("lancedb:///x#y", map={"words": "text"})
    with pytest.raises(InputError, match="no memory"):
        store.mirror("lancedb:///x#y", memory="nowhere")
    assert store.mirrors() == []
    assert store.size == 1


def test_a_mirror_is_attached_once_and_removed_once(store: Store, new_url: NewUrl) -> None:
    memory, url = fill(store), new_url("lancedb")
    mirror = store.mirror(url, memory="notes", case="TICKET-1")
    with raises_code("mirror-taken"):
        store.mirror(url)
    store.mirror_keeper.at_once = False
    memory.delete("note-0001")
    leaf = store.remove_mirror(mirror.leaf)
    assert parse_event(leaf.statement).facts["pending"] == 1
    assert store.mirrors() == []
    with raises_code("mirror-unknown"):
        store.remove_mirror(mirror.leaf)
    tally = verified(store)
    assert (tally.mirrors, tally.mirrors_pending, tally.mirrors_given_up) == (0, 0, 1)
    store.mirror_keeper.at_once = True
    assert store.mirror(url, memory="notes").leaf > leaf.index
    memory.delete("note-0002")
    assert "note-0001" in ids_in(url)


def test_a_map_says_what_is_copied(store: Store, new_url: NewUrl) -> None:
    fill(store)
    url = new_url("lancedb")
    store.mirror(url, memory="notes", map={"vector": "value", "metadata": ["nothing"], "subject": ""})
    with open_mirror(url) as system:
        (copy,) = system.read(["note-0001"])
    assert (copy.coordinates, dict(copy.metadata)) == ([1.0], {})
    assert store.mirrors()[0].to_json()["map"] == {"vector": "value", "metadata": ["nothing"], "subject": ""}
