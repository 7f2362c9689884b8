"""Tombstones: they refuse a name until they end, and nobody finds the name in the database."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

import expunge
from expunge import InputError
from expunge.store.backends.tables import requests
from expunge.store.maintenance.expiry import KEPT_SECONDS
from expunge.store.tombstones import find_tombstone, write_tombstones

DAY = timedelta(days=1)


def test_a_name_is_refused_in_its_scope_until_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        until = write_tombstones(store, "threads", ["thread-of-ann"], DAY)
        assert until - datetime.now(UTC) > timedelta(hours=23)
        assert find_tombstone(store, "threads", "thread-of-ann") == until
        assert find_tombstone(store, "others", "thread-of-ann") is None
        assert find_tombstone(store, "threads", "thread-of-bob") is None
        # A shorter one does not end it sooner.
        write_tombstones(store, "threads", ["thread-of-ann"], timedelta(seconds=1))
        assert find_tombstone(store, "threads", "thread-of-ann") == until
        assert b"thread-of-ann" not in b"".join(file.read_bytes() for file in tmp_path.glob("agent.db*"))
        monkeypatch.setattr(time, "time", lambda: until.timestamp() + 1.0)
        assert find_tombstone(store, "threads", "thread-of-ann") is None


def test_its_row_goes_with_its_end(tmp_path: Path) -> None:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        until = write_tombstones(store, "threads", ["ann", "ann", "bob"], DAY)
        with store.reading() as connection:
            created = connection.values(select(requests.c.created))
        assert [abs(when / 1000 + KEPT_SECONDS - until.timestamp()) < 1.0 for when in created] == [True, True]


def test_spans(tmp_path: Path) -> None:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        write_tombstones(store, "threads", ["ann"], timedelta(0))
        assert find_tombstone(store, "threads", "ann") is None
        for span in (timedelta(seconds=-1), timedelta(days=8), 5):
            with pytest.raises(InputError):
                write_tombstones(store, "threads", ["ann"], span)  # type: ignore[arg-type]
