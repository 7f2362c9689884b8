"""Which backups still hold what was erased from the store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from expunge import StoreError, VerificationError
from expunge.store.backends import tables
from expunge.store.maintenance.erased_entries import ErasedEntries

from ..conftest import Place
from ..sample_memory import arrival, fill


def test_a_scan_counts_what_each_backup_still_holds(place: Place, folder: Path) -> None:
    store = place.open()
    memory = fill(store)
    other = fill(store, "other", seed=1)
    store.backup(folder / "monday.db")
    mine = sum(owner == "patient-3" for owner in memory.subjects)
    memory.delete(["e1", "e2"])
    memory.admit(**arrival(3))
    store.backup(folder / "tuesday.db")
    store.erase_subject("patient-3", after=timedelta(days=1))
    store.backup(folder / "wednesday.db")
    store.erase_subject("patient-3")
    store.backup(folder / "thursday.db")
    files = [folder / f"{day}.db" for day in ("monday", "tuesday", "wednesday", "thursday")]
    scans = store.scan_backups(*files)
    assert [scan.erased for scan in scans] == [2 * mine + 2, 2 * mine + 1, 2 * mine + 1, 0]
    assert [scan.of_subject for scan in scans] == [None] * 4
    assert [scan.leaves for scan in scans] == sorted(scan.leaves for scan in scans)
    assert [scan.entries for scan in scans][:2] == [80, 79]
    assert [scan.holds_erased for scan in scans] == [True, True, True, False]
    scans = store.scan_backups(*files, subject="patient-3")
    assert [scan.of_subject for scan in scans] == [2 * mine, 2 * mine + 1, 2 * mine + 1, 0]
    # The request itself, which has the name, is still open in the last two.
    assert [scan.requested for scan in scans] == [0, 0, 1, 1]
    forgotten = other.prune("forget").applied
    store.drop("other")
    before = scans[3].entries
    (last,) = store.scan_backups(files[3])
    assert last.erased is not None
    assert len(forgotten) <= last.erased == before - len(memory)
    assert sorted(file.name for file in folder.glob("*day.db*")) == sorted(file.name for file in files)


def test_files_that_are_no_backup_of_this_store(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    fill(store)
    (folder / "other").mkdir()
    other = Place("sqlite", f"sqlite:///{folder / 'other' / 'ward.db'}", sqlite_place.key)
    with other.open() as stranger:
        stranger.backup(folder / "stranger.db")
    (folder / "text.db").write_text("text")
    for file in ("stranger.db", "text.db", "nothing.db"):
        with pytest.raises(StoreError):
            store.scan_backups(folder / file)
    store.backup(folder / "copy.db")
    store["icu"].delete("e1")
    store.backup(folder / "newer.db")
    # A store that was put back to an older state cannot tell what was erased since.
    (folder / "back").mkdir()
    back = Place("sqlite", f"sqlite:///{folder / 'back' / 'ward.db'}", sqlite_place.key)
    with back.open() as older:
        older.restore(folder / "copy.db")
        (scan,) = older.scan_backups(folder / "newer.db")
        assert scan.erased is None


def test_an_entry_that_came_back_behind_the_store_is_found(place: Place) -> None:
    """The named check: erasures re-applied."""
    store = place.open()
    memory = fill(store)
    with store.reading() as connection:
        rows = {row.number: row._asdict() for row in connection.rows(tables.entries.select())}
        kept = {row.number: row._asdict() for row in connection.rows(tables.secrets.select())}
    memory.delete(["e1", "e2", "e3"])
    assert store.verify().erasures == 3
    with store.reading() as connection:
        left = {row.number for row in connection.rows(tables.entries.select())}
    number = min(rows.keys() - left)
    with store._database.engine.begin() as raw:
        raw.execute(insert(tables.secrets), kept[number])
        raw.execute(insert(tables.forgotten), {"number": number, "memory": memory.number, "mark": None, "record": b"x"})
    erased = ErasedEntries.of(leaf.statement for leaf in store.receipts())
    with store.reading() as connection, pytest.raises(VerificationError, match="erasures re-applied: 2 of 3"):
        erased.require_none_in(connection)
    with pytest.raises(VerificationError):
        store.verify()
