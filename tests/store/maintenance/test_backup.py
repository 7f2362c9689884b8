"""A backup is a store of one moment, and an exported ledger is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

import expunge
from expunge import StoreError

from ..conftest import Place
from ..sample_memory import appearance, fill


def test_a_ledger_that_could_not_be_written_is_not_left_behind(
    sqlite_place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite_place.open()
    fill(store)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full)
        with pytest.raises(StoreError, match="No space"):
            store.export_ledger(folder / "ledger.jsonl")
    assert not (folder / "ledger.jsonl").exists()
    store.export_ledger(folder / "ledger.jsonl")


def test_a_backup_is_a_store(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    memory = fill(store)
    memory.delete("e3")
    store.backup(folder / "copy.db")
    with expunge.open(f"sqlite:///{folder / 'copy.db'}", folder / "ward.pem") as copy:
        assert appearance(copy["icu"]) == appearance(memory)
        copy.verify()


def test_a_backup_is_of_one_moment(place: Place, folder: Path) -> None:
    """Edits made while it is written are in it as a whole or not at all; here, not."""
    store, other = place.open(), place.open()
    memory = fill(store)
    before = appearance(memory)
    from expunge.store.maintenance.backup import write_backup

    with other._database.reading() as connection:
        connection.connection.exec_driver_sql("SELECT count(*) FROM expunge_memories")
        memory.delete("e3")
        write_backup(connection, folder / "copy.db")
    with expunge.open(f"sqlite:///{folder / 'copy.db'}", folder / "ward.pem") as copy:
        assert appearance(copy["icu"]) == before
        copy.verify()
