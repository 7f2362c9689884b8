"""Auditing one's own keys: which settings they get, and how contexts are drawn from them.

The audits that take keys draw small contexts from them, as the paper does from its own data. The width defaults to
that of a memory, the median distance between keys, which the paper's σ = 2 is for its Gaussian keys up to a factor
of 1.7.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

from expunge.audit.engine import Plan
from expunge.errors import InputError
from expunge.preprocessing.width import choose_width
from expunge.problem.problem import as_points

__all__ = ["FEWEST", "OWN_REGIME", "describe_keys", "own_plan"]

OWN_REGIME = "own"
NU = 0.4
# Two thirds of them begin a trajectory, which needs more than the 16 that it jitters.
FEWEST = 26


def own_plan(
    keys: Any,
    *,
    source: str,
    sigma: float | None = None,
    nu: float | None = None,
    quick: bool = False,
    names: tuple[str, ...] | None = None,
) -> Plan:
    """Plan for one's own keys (n, d), checked, with the names of their columns where these are known."""
    points = as_points(keys, "keys")
    if points.shape[0] < FEWEST:
        raise InputError(f"an audit needs at least {FEWEST} keys, and {source} has {points.shape[0]}")
    if sigma is None and (points == points[0]).all():
        raise InputError("all keys are equal: there is no width to fit; give --sigma")
    sparsity = NU if nu is None else nu
    if not 0.0 < sparsity <= 0.9:
        raise InputError(
            f"nu must lie in (0, 0.9] for an audit, which deletes entries at a fixed cap, not {sparsity!r}"
        )
    width = choose_width(points, nu=sparsity) if sigma is None else sigma
    if not 0.0 < width < math.inf:
        raise InputError(f"sigma must be a positive width, not {width!r}")
    return Plan(quick=quick, keys=points, source=source, sigma=float(width), nu=float(sparsity), names=names)


def describe_keys(plan: Plan) -> dict[str, Any]:
    """What the settings of a run say of one's own keys."""
    if plan.keys is None:
        return {}
    return {
        "source": plan.source,
        "rows": int(plan.keys.shape[0]),
        "dimension": int(plan.keys.shape[1]),
        **({} if plan.names is None else {"columns": list(plan.names)}),
        "sha256": hashlib.sha256(plan.keys.tobytes()).hexdigest(),
        "sigma": plan.sigma,
        "nu": plan.nu,
    }
