"""A process killed at any point of an edit leaves the edit done or not done, and the ledger right either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from expunge import StoreError
from expunge.store.edits import crash_points

from ..conftest import Place
from ..postgres_server import running_server
from ..sample_memory import fill
from .fork_server import ForkServer
from .killed_edits import KilledEdits, at_points, at_random


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as process:
        yield process


@pytest.fixture
def killed_edits(place: Place, folder: Path, fork_server: ForkServer) -> KilledEdits:
    files = [folder / f"ward.db{end}" for end in ("", "-wal", "-shm")] if place.kind == "sqlite" else []
    return KilledEdits(place.url, place.key, fork_server, files)


@pytest.mark.slow
@pytest.mark.long
def test_a_process_killed_at_every_point_leaves_all_or_nothing(killed_edits: KilledEdits) -> None:
    reached = [moment[1] for verb, moment in at_points(["delete"]) if killed_edits.run_edit(verb, moment, retries=1)]
    missed = set(crash_points.CRASH_POINTS) - set(reached)
    # PostgreSQL has nothing to settle.
    assert missed <= {"log_truncated"}
    assert killed_edits.fates["died, applied"] >= 2
    assert killed_edits.fates["died, not applied"] >= 8


@pytest.mark.slow
@pytest.mark.long
def test_a_process_killed_at_any_time_leaves_all_or_nothing(killed_edits: KilledEdits) -> None:
    span = killed_edits.span()
    for verb, delay in at_random(10, 1.2 * span):
        killed_edits.run_edit(verb, kill_after=delay, retries=1)
    assert sum(killed_edits.fates.values()) == 11


@pytest.mark.slow
@pytest.mark.long
def test_a_server_that_crashes_in_the_middle_loses_nothing_it_has_answered_for(folder: Path) -> None:
    """PostgreSQL ends without a word at each point of an edit, and recovers from its log."""
    with running_server() as server:
        place = Place("postgresql", server.new_schema(), folder / "ward.pem")
        store = place.open()
        memory = fill(store)
        for number, point in enumerate(("ledger_written", "committed")):
            before, leaves = memory.digest, store.size

            def crash(reached: str, point: str = point) -> None:
                if reached == point:
                    server.crash()

            crash_points.set_hook(crash)
            try:
                done = memory.delete(f"e{number}", idempotency_key=point).index
            except StoreError:
                done = None
            finally:
                crash_points.set_hook(None)
            server.start()
            assert (done is not None) == (point == "committed")
            assert (memory.digest != before) == (store.size > leaves) == (point == "committed")
            store.verify()
            receipt = memory.delete(f"e{number}", idempotency_key=point)
            assert done in (None, receipt.index)
        assert memory.edit == 2
        store.verify()
        place.close()
