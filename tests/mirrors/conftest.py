"""Real systems to keep mirrors in, each in a folder in memory."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.postgres_server import Server, quick_folder, running_server

KINDS = ("chroma", "pgvector", "lancedb", "qdrant")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    made = quick_folder("mirror")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def new_url(folder: Path, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A URL, of a kind, where nothing is yet."""

    def made(kind: str) -> str:
        name = f"c{uuid.uuid4().hex}"
        if kind == "pgvector":
            return f"{request.getfixturevalue('server').uri}#pgvector:{name}"
        if kind == "qdrant":
            return f"qdrant://{folder / name}"
        return f"{kind}://{folder / kind}#{name}"

    return made
