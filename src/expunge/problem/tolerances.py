"""Every numerical tolerance, in one place, with its reason. None is ever loosened to make a test pass."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ACCEPTANCE",
    "CAP_FLOOR",
    "FEASIBILITY_SLIP",
    "PARTITION_THRESHOLD",
    "PUBLISHED",
    "REFINED",
    "SLACK_TOLERANCE",
]

# The paper's check: coefficients within this distance of a bound count as being at it.
PARTITION_THRESHOLD: Final = 1e-7

# The paper's acceptance: the largest of mass, box and stationarity errors.
ACCEPTANCE: Final = 1e-5

# What our own published states are held to.
PUBLISHED: Final = 1e-9

# What the solver works towards: a slack on the wrong side by less than this is rounding, since slacks are
# sums of about n products of numbers below one. Two orders below the 1e-12 that states are measured against.
SLACK_TOLERANCE: Final = 1e-14

# Margin slacks below this are not worth another solve.
REFINED: Final = 1e-15

# n·C ≥ 1 is decided up to this relative error, because C = 1/(ν n₀) is itself rounded.
FEASIBILITY_SLIP: Final = 1e-14

# Below it the partition threshold could no longer tell the two bounds apart.
CAP_FLOOR: Final = 1e-6
