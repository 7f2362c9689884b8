"""A backup is a store of one moment, and an exported ledger is there whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_a_backup_overwrites_nothing_and_follows_no_link(sqlite_place: Place, folder: Path) -> None:
    """Also where the file or the link appears while the backup is written, and where there are no hard links."""
    from expunge.store.maintenance import backup

    store = sqlite_place.open()
    fill(store)
    elsewhere, link = folder / "elsewhere.db", folder / "link.db"
    link.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="never overwritten"):
        store.backup(link)

    def no_hard_links(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    publish = backup._publish
    for links in (True, False):
        for appear in (lambda path: path.write_bytes(b"mine"), lambda path: path.symlink_to(elsewhere)):
            path = folder / f"late-{links}-{appear.__code__.co_firstlineno}-{len(list(folder.iterdir()))}.db"

            def late(made: Path, name: Path, appear: Any = appear) -> None:
                appear(name)
                publish(made, name)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(backup, "_publish", late)
                if not links:
                    patch.setattr("os.link", no_hard_links)
                with pytest.raises(StoreError, match="never overwritten"):
                    store.backup(path)
            assert path.is_symlink() or path.read_bytes() == b"mine"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.link", no_hard_links)
        store.backup(folder / "copied.db")
    store.backup(folder / "linked.db")
    assert not elsewhere.exists()
    for name in ("copied.db", "linked.db"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
        with expunge.open(f"sqlite:///{folder / name}", folder / "ward.pem") as copy:
            copy.verify()
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
