"""Places to open stores at: a SQLite file, a schema of a PostgreSQL server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import expunge
from expunge.store import Store

from .postgres_server import Server, quick_folder, running_server


class Place:
    """Where a test may keep one store."""

    def __init__(self, kind: str, url: str, key: Path) -> None:
        self.kind = kind
        self.url = url
        self.key = key
        self._opened: list[Store] = []

    def open(self, **options: Any) -> Store:
        """Open the store; a second time is another handle on it."""
        options.setdefault("signing_key", self.key)
        store = expunge.open(self.url, **options)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one test."""
    made = quick_folder("ward")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def sqlite_place(folder: Path) -> Iterator[Place]:
    place = Place("sqlite", f"sqlite:///{folder / 'ward.db'}", folder / "ward.pem")
    yield place
    place.close()


@pytest.fixture
def postgres_place(server: Server, folder: Path) -> Iterator[Place]:
    place = Place("postgresql", server.new_schema(), folder / "ward.pem")
    yield place
    place.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> Place:
    """The contract: whatever uses this runs on both."""
    kind = "sqlite_place" if request.param == "sqlite" else "postgres_place"
    found: Place = request.getfixturevalue(kind)
    return found


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
