"""The paper's limits of vital signs, restated for the tests of samples and cohorts."""

from __future__ import annotations

import math

__all__ = ["LIMITS", "RANGES", "outside_limits"]

# The paper's limits for an event, restated; diastolic pressure has none.
LIMITS = {"hr": (40, 130), "sbp": (90, 200), "rr": (6, 30), "spo2": (90, math.inf), "temp": (35, 38.5)}
RANGES = {"hr": (10, 300), "sbp": (20, 300), "dbp": (5, 220), "rr": (2, 80), "spo2": (30, 100), "temp": (25, 45)}


def outside_limits(hour: dict[str, float]) -> bool:
    return any(hour[name] < low or hour[name] > high for name, (low, high) in LIMITS.items())
