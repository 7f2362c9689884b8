"""Paired comparison of two arms over seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from expunge.errors import InputError

__all__ = ["Paired", "paired"]


@dataclass(frozen=True)
class Paired:
    """First minus second, seed by seed. ``interval`` is 95%, Student's t; ``p`` is two-sided."""

    first: float
    second: float
    difference: float
    interval: tuple[float, float]
    p: float
    relative: float
    wins: int
    count: int


def paired(first: list[float], second: list[float]) -> Paired:
    """The paired t-test of the paper's appendix B and its interval; ``relative`` is the mean of the relative falls."""
    if len(first) != len(second) or len(first) < 2:
        raise InputError(f"a paired test needs two lists of one length above 1, not {len(first)} and {len(second)}")
    a, b = np.array(first), np.array(second)
    difference = a - b
    test = stats.ttest_rel(a, b)
    low, high = test.confidence_interval(0.95)
    return Paired(
        float(a.mean()),
        float(b.mean()),
        float(difference.mean()),
        (float(low), float(high)),
        float(test.pvalue),
        float(((b - a) / b).mean()),
        int((difference < 0).sum()),
        len(a),
    )
