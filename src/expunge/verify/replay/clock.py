"""The times of leaves: they do not run back, and do not come after those who have seen the leaves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from expunge.verify.replay.contradiction import Place

__all__ = ["SKEW", "LedgerClock", "seconds_of"]

# How far two clocks may differ, in seconds.
SKEW: Final = 300


def seconds_of(time: str) -> int:
    """Seconds since 1970 of a time as receipts and events spell it."""
    return int(datetime.fromisoformat(time).timestamp())


class LedgerClock:
    """What times a leaf may have: ``seen`` has sizes of heads, and when somebody saw each, in seconds since 1970."""

    def __init__(self, now: int | None, seen: Iterable[tuple[int, int]]) -> None:
        self._now = now
        self._latest: tuple[int, int] | None = None
        heads = sorted(seen)
        self._sizes = [size for size, _ in heads]
        self._earliest = [time for _, time in heads]
        for at in range(len(heads) - 2, -1, -1):
            self._earliest[at] = min(self._earliest[at], self._earliest[at + 1])

    def check(self, place: Place) -> None:
        """Raise if the leaf is dated after now, or after a head that covers it was seen."""
        if self._now is not None and place.seconds > self._now + SKEW:
            raise place.contradiction(
                "ledger-time-future",
                f"it is dated {place.seconds - self._now} s later than now; check this machine's clock",
            )
        at = bisect_right(self._sizes, place.leaf)
        if at < len(self._sizes) and place.seconds > self._earliest[at] + SKEW:
            raise place.contradiction(
                "ledger-time-after-head",
                f"it is dated {place.seconds - self._earliest[at]} s after somebody saw a head with it",
            )

    def advance(self, place: Place) -> None:
        """Raise if the leaf is dated before an earlier one, and take its time up."""
        if self._latest is not None and place.seconds < self._latest[0] - SKEW:
            raise place.contradiction(
                "ledger-time-reversed",
                f"it is dated {self._latest[0] - place.seconds} s before leaf {self._latest[1]}",
            )
        if self._latest is None or place.seconds > self._latest[0]:
            self._latest = place.seconds, place.leaf
