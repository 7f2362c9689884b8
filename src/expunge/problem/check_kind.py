"""What the check of an edit takes its slacks from: a function of the entries, which receipts state."""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["LEAST_COORDINATES", "WITHIN_REACH", "CheckKind", "check_kind"]

# What the slacks of a check were taken from: every one from the keys, or from sums that are maintained from edit to
# edit, whose error is bounded rigorously.
CheckKind = Literal["keys", "sums"]
# Coordinates of kernel values up to which every edit recomputes all slacks: about a millisecond.
WITHIN_REACH: Final = 1_000_000
# A kernel value of fewer coordinates takes as long as one of so many.
LEAST_COORDINATES: Final = 16


def check_kind(entries: int, active: int, dimension: int) -> CheckKind:
    """What the check of an edit takes its slacks from, by the state after it: n · active · d decides.

    A function of the entries, so that it tells nothing else.
    """
    return "keys" if entries * active * max(dimension, LEAST_COORDINATES) <= WITHIN_REACH else "sums"
