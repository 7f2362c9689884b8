"""Every policy by name, and the one way to call them."""

from __future__ import annotations

from typing import Any

import numpy as np

from expunge.errors import InputError
from expunge.selection.attention_mass import AttentionMass
from expunge.selection.centre import FarthestFirst
from expunge.selection.context import Context, Policy, matched_budget
from expunge.selection.cover import Cover
from expunge.selection.density import Density
from expunge.selection.recency import Recency
from expunge.selection.support import Support
from expunge.selection.uniform import Uniform
from expunge.selection.warranted import WarrantedSupport
from expunge.selection.window import ObservationWindow
from expunge.types import IndexArray

__all__ = ["POLICIES", "select", "selected"]

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Cover(),
        Support(),
        WarrantedSupport(),
        FarthestFirst(),
        AttentionMass(),
        AttentionMass(normalised=True, name="attention, normalised"),
        AttentionMass(normalised=True, recent=0.5, name="attention, half recent"),
        ObservationWindow(),
        Density(),
        Uniform(),
        Recency(),
    )
}


def select(
    policy: str | Policy, keys: Any, *, budget: int | float, sigma: float, queries: Any = None, seed: int = 0
) -> IndexArray:
    """Rows of keys (n, d) that a policy keeps, ascending: exactly the budget, a count or a share of n.

    Keys are in order of arrival; `queries` (m, d) are those asked so far. Raises InputError for unusable arguments and
    for a policy that broke its contract.
    """
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise InputError(f"unknown policy {policy!r}: choose one of {', '.join(POLICIES)}")
        policy = POLICIES[policy]
    if not hasattr(policy, "choose"):
        raise InputError(f"a policy has a name and choose(context, budget, rng); {policy!r} has not")
    context = Context.of(keys, sigma=sigma, queries=queries)
    try:
        rng = np.random.RandomState(seed)
    except (TypeError, ValueError) as problem:
        raise InputError(f"seed {seed!r} is unusable ({problem})") from None
    return selected(policy, context, matched_budget(len(context), budget), rng)


def selected(policy: Policy, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
    """One policy's choice in a validated context, ascending and held to the contract."""
    if budget == len(context):
        return np.arange(budget, dtype=np.int64)
    rows = np.unique(policy.choose(context, budget, rng))
    # A mask or scores would pass for other rows than the policy meant.
    if rows.dtype.kind not in "iu" or rows.size != budget or rows[0] < 0 or rows[-1] >= len(context):
        raise InputError(f"policy {policy.name!r} did not choose {budget} distinct rows of {len(context)}")
    return rows.astype(np.int64)
