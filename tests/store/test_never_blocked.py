"""The audit of `make never-blocked`, on a few stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from never_blocked import Counts, erase_all_of_one_store

from .postgres_server import Server


@pytest.mark.parametrize("number", [0, 1, 4, 10])
def test_every_subject_of_a_random_store_is_erased(tmp_path: Path, number: int) -> None:
    """One entry to begin with; with a hold where the number is a multiple of five."""
    counts = Counts()
    erase_all_of_one_store(tmp_path, number, 1, counts)
    assert counts.failures == []
    assert (counts.refused_otherwise, counts.salts_left, counts.salts_missing) == (0, 0, 0)
    assert counts.complete + counts.held == counts.erasures > 0
    assert counts.salts_searched == counts.entries_erased
    assert 1 + number in counts.sizes
    assert counts.memories > 1
    assert counts.shared > 0


@pytest.mark.slow
def test_every_subject_of_a_store_in_postgresql_is_erased(tmp_path: Path, server: Server) -> None:
    """The salts that remain are found in its files, those that went are not."""
    counts = Counts()
    erase_all_of_one_store(tmp_path, 19, 1, counts, server)
    assert (counts.failures, counts.postgres) == ([], 1)
    assert (counts.refused_otherwise, counts.salts_left, counts.salts_missing) == (0, 0, 0)
    assert counts.complete == counts.erasures > 0
    assert counts.salts_searched == counts.entries_erased
    assert counts.salts_kept > 0
