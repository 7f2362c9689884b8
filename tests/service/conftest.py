from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from expunge.service.settings import Limits, Settings
from service.service_client import ServiceClient, fill_store
from store.postgres_server import Server, quick_folder, running_server

SMALL = Limits(body_bytes=200_000, dimension=64, batch=20, queries=20, page=50)


@pytest.fixture(scope="session")
def prepared() -> Iterator[Path]:
    """A folder with a filled store, to be copied."""
    made = quick_folder("prepared")
    fill_store(f"sqlite:///{made / 'ward.db'}")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def folder(prepared: Path) -> Iterator[Path]:
    """A copy of it of one's own."""
    made = quick_folder("service")
    for name in ("ward.db", "ward.db.key"):
        shutil.copy2(prepared / name, made / name)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def service(folder: Path) -> Iterator[ServiceClient]:
    """One worker over the copy."""
    made = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}", limits=SMALL, timeout=5.0))
    with made.client:
        yield made


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running
