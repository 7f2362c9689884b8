"""Every numerical tolerance, in one place, with its reason. None is ever loosened to make a test pass."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ACCEPTANCE",
    "CAP_FLOOR",
    "NEARBY",
    "PARTITION_THRESHOLD",
    "PUBLISHED",
    "REFINED",
    "SATURATION_SLIP",
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

# A candidate with n·C this close to 1 starts with every key at its bound; `canonical` then finds the exact optimum.
SATURATION_SLIP: Final = 1e-14

# The least similarity that counts as near. κ = 0.001 at 2.63 widths.
NEARBY: Final = 1e-3

# Below it the partition threshold could no longer tell the two bounds apart.
CAP_FLOOR: Final = 1e-6
