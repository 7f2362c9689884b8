"""Fused coefficients and their gradient: the entry, which sends problems where they fit.

Up to LONGEST_ON_CHIP keys a prefix stays on the chip (`on_chip_solve`); longer ones take their products in rounds
(`long_prefix_solve`). The pull back to the keys is one launch over tiles for both, once for all prefixes (`key_tiles`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from expunge.errors import InputError
from expunge.torch.ops.coefficients import long_prefix_adjoint, long_prefix_solve, on_chip_solve
from expunge.torch.ops.coefficients.key_tiles import prepare_keys, pull_keys

__all__ = ["LONGEST_ON_CHIP", "LONGEST_PREFIX", "prepare_keys", "pull_prefixes", "solve_prefixes"]

# Longest prefix whose Gram matrix is held in registers, and longest prefix at all.
LONGEST_ON_CHIP, LONGEST_PREFIX = 192, 8192


def solve_prefixes(
    keys: Tensor,
    counts: Sequence[int],
    cap: Tensor,
    sigma: Tensor,
    ridge: float,
    *,
    prepared: tuple[Tensor, Tensor] | None = None,
    report: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients (B, h, b, T), offsets (B, h, b) and margin (B, h, b, T) int8 of keys (B, h, T, d).

    Caps and widths (G,), fp32: head h of the flattened (B·h) uses place h mod G. `report` (B, h, b, 2) int32, if given,
    receives the number of products with the Gram matrix and 2·attempts + converged.
    """
    lengths = tuple(counts)
    if max(lengths) > LONGEST_PREFIX:
        raise InputError(
            f"the fused op takes prefixes of up to {LONGEST_PREFIX} keys, not {max(lengths)}; use op='reference'"
        )
    prepared = prepare_keys(keys) if prepared is None else prepared
    solve = long_prefix_solve.solve if max(lengths) > LONGEST_ON_CHIP else on_chip_solve.solve
    return solve(keys, *prepared, lengths, cap, sigma, ridge, report)


def pull_prefixes(
    keys: Tensor,
    counts: Sequence[int],
    cap: Tensor,
    sigma: Tensor,
    ridge: float,
    alpha: Tensor,
    margin: Tensor,
    alpha_bar: Tensor,
    offset_bar: Tensor,
    *,
    prepared: tuple[Tensor, Tensor] | None = None,
    with_cap: bool = True,
    with_sigma: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cotangents of keys (B, h, T, d), caps (G,) and widths (G,)."""
    lengths = tuple(counts)
    prepared = prepare_keys(keys) if prepared is None else prepared
    alpha_bar, offset_bar = alpha_bar.contiguous(), offset_bar.contiguous()
    adjoints = torch.empty_like(alpha)
    cap_bar = torch.empty(alpha.shape[:3], device=keys.device)
    adjoint = long_prefix_adjoint.adjoint if max(lengths) > LONGEST_ON_CHIP else on_chip_solve.adjoint
    given = (alpha, margin, alpha_bar, offset_bar)
    adjoint(keys, *prepared, lengths, cap, sigma, ridge, *given, adjoints, cap_bar, with_cap=with_cap)
    keys_bar, spreads = pull_keys(keys, prepared, lengths, sigma, alpha, adjoints)
    # Not asked for, not computed: every launch counts when a layer is small.
    groups = sigma.numel()
    sigma_bar = -2.0 * spreads.reshape(-1, groups, spreads.shape[1]).sum((0, 2)) / sigma**3 if with_sigma else sigma
    total_cap = cap_bar.reshape(-1, groups, len(lengths)).sum((0, 2)) if with_cap else cap
    return keys_bar, total_cap, sigma_bar
