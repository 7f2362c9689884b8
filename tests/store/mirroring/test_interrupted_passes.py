"""A process that dies between the edit and the mirror, or in a pass, loses nothing; a restored store has no mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import expunge
from expunge.mirrors import open_mirror
from expunge.store.edits.crash_points import CRASH_POINTS, MIRROR_CRASH_POINTS, set_hook

from ..conftest import Place
from ..sample_memory import row_counts
from .test_mirrors import NewUrl, fill, findings, ids_in, verified


class Died(BaseException):
    """The end of a process."""


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    set_hook(None)


def die_at(name: str) -> None:
    def hook(point: str) -> None:
        if point == name:
            set_hook(None)
            raise Died

    set_hook(hook)


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_crash_between_commit_and_mirror_loses_nothing(place: Place, new_url: NewUrl, point: str) -> None:
    store, url = place.open(), new_url("lancedb")
    memory = fill(store)
    store.mirror(url, memory="notes")
    die_at(point)
    with pytest.raises(Died):
        memory.delete("note-0003")
    set_hook(None)
    later = place.open(clock=lambda: datetime.now(UTC) + timedelta(hours=1))
    later.sync_mirrors()
    assert ids_in(url) == set(later["notes"].ids)
    gone = "note-0003" not in ids_in(url)
    assert gone == (point in CRASH_POINTS[CRASH_POINTS.index("committed") :])
    assert [found["absent"] for found in findings(later)] == ([1] if gone else [])
    verified(later)


@pytest.mark.parametrize("point", MIRROR_CRASH_POINTS)
@pytest.mark.parametrize("kind", ["lancedb", "qdrant"])
def test_a_pass_that_dies_is_repeated(place: Place, new_url: NewUrl, point: str, kind: str) -> None:
    now = [datetime.now(UTC)]
    store, url = place.open(clock=lambda: now[0]), new_url(kind)
    memory = fill(store)
    store.mirror(url, memory="notes")
    store.mirror_keeper.at_once = False
    memory.delete("note-0003")
    memory.admit([0.5] * 5 + [1.0], [1.0], id="new", payload="a new note")
    die_at(point)
    with pytest.raises(Died):
        store.sync_mirrors()
    set_hook(None)
    later = place.open(clock=lambda: now[0])
    # The lease of the one that died is over after two minutes.
    assert all(done.waits for done in later.sync_mirrors())
    now[0] += timedelta(minutes=3)
    later.sync_mirrors()
    assert ids_in(url) == set(later["notes"].ids)
    assert later.mirrors()[0].pending == 0
    (found,) = findings(later)
    # What a process had deleted before it died nobody can look for any more.
    assert found["absent"] + found["not_checkable"] == 1
    assert found["absent"] == (point not in ("mirror_erased", "ledger_written"))
    assert row_counts(later)["expunge_mirror_erasures"] == 0
    verified(later)


def test_a_backup_has_no_ids_of_erased_entries_and_a_restored_store_no_mirrors(
    place: Place, new_url: NewUrl, tmp_path: Path
) -> None:
    store, url = place.open(), new_url("lancedb")
    memory = fill(store)
    mirror = store.mirror(url, memory="notes")
    store.mirror_keeper.at_once = False
    memory.delete("note-0001")
    backup = tmp_path / "backup.db"
    store.backup(backup)
    memory.delete("note-0002")
    restored = expunge.open(f"sqlite:///{tmp_path / 'restored.db'}", signing_key=place.key)
    result = restored.restore(backup, ledger=store)
    assert result.mirrors_lost == 1
    assert restored.mirrors() == []
    tally = verified(restored)
    assert (tally.mirrors, tally.mirrors_pending, tally.mirrors_given_up) == (0, 0, 2)
    # What the lost store still had to delete there is found by its tags, and deleted.
    assert {"note-0001", "note-0002"} <= ids_in(url)
    again = restored.mirror(url, memory="notes")
    assert again.leaf != mirror.leaf
    found = restored.check_mirror(again.leaf)
    assert (found.stale, found.missing, found.agrees) == (("note-0001", "note-0002"), (), False)
    assert restored.check_mirror(again.leaf, delete=True).agrees
    assert ids_in(url) == set(restored["notes"].ids)
    assert restored.check_mirror(again.leaf).stale == ()
    verified(restored)
    restored.close()


def test_a_comparison_tells_missing_stale_and_foreign_copies(place: Place, new_url: NewUrl) -> None:
    store, url = place.open(), new_url("lancedb")
    memory = fill(store)
    mirror = store.mirror(url, memory="notes")
    with open_mirror(url) as system:
        kept = system.read(["note-0001"])
    memory.delete("note-0001")
    with open_mirror(url) as system:
        # Somebody restores it from a backup, deletes another, and adds one of their own.
        system.write([kept[0], type(kept[0])("own", kept[0].vector, "a note of somebody else")])
        system.delete(["note-0004"])
    found = store.check_mirror(mirror.leaf)
    assert (found.missing, found.stale, found.foreign, found.agrees) == (("note-0004",), ("note-0001",), 1, False)
    assert store.check_mirror(mirror.leaf, delete=True).deleted == 1
    assert "own" in ids_in(url)


def test_a_damaged_memory_is_dropped_and_its_copies_go_by_their_tags(sqlite_place: Place, new_url: NewUrl) -> None:
    from sqlalchemy import update

    from expunge.store.backends import tables

    store, url = sqlite_place.open(), new_url("lancedb")
    fill(store)
    store.mirror(url)
    fill(store, "ward", 4, 100)
    store.close()
    store = sqlite_place.open()
    with store.writing("damage") as connection:
        number = connection.value(tables.memories.select().where(tables.memories.c.name == "notes"))
        connection.execute(update(tables.states).where(tables.states.c.memory == number).values(state=b"damaged"))
        connection.commit()
    store.drop("notes")
    assert ids_in(url) == {f"ward/note-{row:04d}" for row in range(100, 104)}
    (found,) = findings(store)
    assert (found["entries"], found["absent"]) == (12, 12)
    verified(store)
