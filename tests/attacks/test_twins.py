"""Histories over all hard problems end where a fresh fit, a permuted fit and an independent evaluation do."""

from __future__ import annotations

import pytest

from histories import FAMILIES, play
from twins import compare


@pytest.mark.parametrize("start", range(0, 2 * len(FAMILIES), 22))
def test_histories_equal_their_twins(start: int) -> None:
    for number in range(start, start + 22):
        outcome = compare(20, number)
        assert not outcome.failures, (outcome.number, outcome.family, outcome.failures)


def test_enough_histories_prune_restore_and_readmit() -> None:
    histories = [play(20, number) for number in range(0, 2 * len(FAMILIES), 3)]
    assert sum(history.special for history in histories) >= 0.3 * len(histories)
