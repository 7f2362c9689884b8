"""The two ops of the gated layer with their gradients: fused on a GPU, plain PyTorch elsewhere (paper, App. B).

`prefix_coefficients`: coefficients of many prefixes with an implicit gradient, the batched path. At the optimum
M(ρ, α_S) = rhs with M = [[0, 1ᵀ], [1, 2K_SS + rI]]. One solve with the same matrix maps the cotangents of α and ρ to
those of keys, width and cap; bound and reserve coefficients do not move with the keys, so they pass no gradient to
them. The function is piecewise smooth: where a key changes between margin, bound and reserve the two one-sided
derivatives differ, and the one returned belongs to the partition that the solve reports.

`gated_readout`: causal attention whose earlier keys are weighed by a gate. Query i of chunk c weighs key j ≤ i by
γ_cj · exp(scale·⟨q_i, k_j⟩ + b_j), normalized over j. The gate γ is frozen at the start of the chunk; its entries
inside the chunk are whatever the caller put there, usually 1. With scale = 2/σ² and b_j = −‖k_j‖²/σ² the weights are
the RBF kernel's, because ‖q_i‖² cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from operator import index
from typing import Any

import torch
from torch import Tensor

from expunge.errors import InputError, MissingExtra
from expunge.torch.ops.coefficients.plain_adjoint import pull_prefixes
from expunge.torch.ops.coefficients.plain_coefficients import solve_prefixes
from expunge.torch.single_backward import refuse_second_derivative

__all__ = ["OPS", "full_precision", "gated_readout", "prefix_coefficients", "prefix_lengths", "uses_triton"]

OPS = ("auto", "reference", "triton")


def uses_triton(op: str, keys: Tensor) -> bool:
    """Whether a call runs the fused op: on a CUDA device with Triton, unless the caller chose."""
    if op not in OPS:
        raise InputError(f"op must be one of {', '.join(OPS)}, not {op!r}")
    if op == "reference" or (op == "auto" and not keys.is_cuda) or keys.dtype == torch.float64:
        return False
    if find_spec("triton") is None:
        if op == "triton":
            raise MissingExtra("the fused op needs Triton, which comes with PyTorch for CUDA; use op='reference'")
        return False
    return True


def full_precision(like: Tensor) -> torch.autocast:
    """A region in which autocast, if the caller has it on, is off."""
    return torch.autocast(like.device.type, enabled=False)


class _Coefficients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        keys: Tensor,
        cap: Tensor,
        sigma: Tensor,
        counts: tuple[int, ...],
        ridge: float,
        fused: bool,
    ) -> tuple[Tensor, Tensor]:
        if fused:
            from expunge.torch.ops.coefficients import fused_coefficients

            prepared = fused_coefficients.prepare_keys(keys)
            alpha, offset, margin = fused_coefficients.solve_prefixes(
                keys, counts, cap, sigma, ridge, prepared=prepared
            )
            ctx.save_for_backward(keys, cap, sigma, alpha, margin, *prepared)
        else:
            alpha, offset, margin = solve_prefixes(keys, counts, cap, sigma, ridge)
            ctx.save_for_backward(keys, cap, sigma, alpha, margin)
        ctx.counts, ctx.ridge, ctx.fused = counts, ridge, fused
        return alpha, offset

    @staticmethod
    def backward(ctx: Any, alpha_bar: Tensor, offset_bar: Tensor) -> tuple[Tensor | None, ...]:
        keys, cap, sigma, alpha, margin, *prepared = ctx.saved_tensors
        given = (alpha, margin, alpha_bar, offset_bar)
        with torch.no_grad(), full_precision(keys):
            if ctx.fused:
                from expunge.torch.ops.coefficients import fused_coefficients

                pulled = fused_coefficients.pull_prefixes(
                    keys,
                    ctx.counts,
                    cap,
                    sigma,
                    ctx.ridge,
                    *given,
                    prepared=tuple(prepared),
                    with_cap=ctx.needs_input_grad[1],
                    with_sigma=ctx.needs_input_grad[2],
                )
            else:
                pulled = pull_prefixes(keys, cap, sigma, ctx.ridge, *given, shortest=min(ctx.counts))
        gradients = refuse_second_derivative(pulled, (keys, cap, sigma, alpha_bar, offset_bar))
        return (*gradients, None, None, None)


def prefix_lengths(counts: Sequence[int], most: int) -> tuple[int, ...]:
    """The lengths of prefixes of `most` keys, checked."""
    try:
        lengths = tuple(index(count) for count in counts)
    except TypeError as error:
        raise InputError(f"prefix lengths must be whole numbers, not {counts!r}") from error
    if not lengths or min(lengths) < 1 or max(lengths) > most:
        raise InputError(f"prefix lengths must lie between 1 and {most}, not {lengths}")
    return lengths


def prefix_coefficients(
    keys: Tensor,
    counts: Sequence[int],
    cap: Tensor,
    sigma: Tensor,
    *,
    ridge: float = 1e-3,
    closing: float = 0.0,
    op: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Coefficients (B, h, b, T) and offsets (B, h, b) of the prefixes of lengths `counts` of keys (B, h, T, d).

    Coefficients below `closing`/n are closed: exactly zero, and nothing flows back through them. A readout that
    multiplies by α has derivatives of up to 1/α, out of all proportion for a coefficient just above zero. Caps and
    widths are (1,) or (h,). fp16 and bf16 keys are solved in fp32, within autocast too; fp64 stays fp64, in the
    reference op.
    """
    lengths = prefix_lengths(counts, keys.shape[2])
    fused = uses_triton(op, keys)
    working = keys if fused or keys.dtype in (torch.float32, torch.float64) else keys.float()
    if fused and working.stride(-1) != 1:
        working = working.contiguous()
    kind = torch.float64 if keys.dtype == torch.float64 else torch.float32
    if cap.numel() != sigma.numel():
        # The fused op finds the cap and the width of a head at the same place.
        size = max(cap.numel(), sigma.numel())
        cap, sigma = cap.expand(size).contiguous(), sigma.expand(size).contiguous()
    solve: Callable[..., tuple[Tensor, Tensor]] = _Coefficients.apply
    with full_precision(keys):
        alpha, offset = solve(working, cap.to(kind), sigma.to(kind), lengths, float(ridge), fused)
    if closing > 0.0:
        # Closed outside the solve: the others are the solution with these keys in it, and so is their gradient.
        closed = alpha.detach() * _lengths_on(lengths, alpha.device) < closing
        alpha = torch.where(closed, 0.0, alpha)
    return alpha, offset


@cache
def _lengths_on(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Prefix lengths (b, 1) on a device, copied there once and kept: a captured step goes on reading them."""
    with torch.inference_mode(False):
        return torch.tensor(lengths, device=device)[:, None]


class _FusedReadout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        gates: Tensor,
        bias: Tensor | None,
        scale: float,
        chunk: int,
    ) -> Tensor:
        from expunge.torch.ops import fused_readout

        out, level = fused_readout.forward(queries, keys, values, gates, bias, scale=scale, chunk=chunk)
        ctx.save_for_backward(queries, keys, values, gates, bias, out, level)
        ctx.scale, ctx.chunk = scale, chunk
        return out

    @staticmethod
    def backward(ctx: Any, out_bar: Tensor) -> tuple[Tensor | None, ...]:
        from expunge.torch.ops import fused_readout

        queries, keys, values, gates, bias, out, level = ctx.saved_tensors
        with torch.no_grad():
            pulled = fused_readout.backward(
                queries, keys, values, gates, bias, out, level, out_bar, scale=ctx.scale, chunk=ctx.chunk
            )
        sources = (queries, keys, values, gates, out_bar)
        gradients = refuse_second_derivative([part for part in pulled if part is not None], sources)
        return (*gradients, *((None,) if bias is None else ()), None, None)


def gated_readout(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    gates: Tensor,
    bias: Tensor | None = None,
    *,
    scale: float,
    chunk: int,
    op: str = "auto",
) -> Tensor:
    """Softmax of scale·⟨q, k⟩ + b, times the gate of the query's chunk, renormalized: (B, h, T, d) → (B, h, T, d).

    Gates (B, h, c, T), nonnegative, belong to the last c chunks; the chunks before are not gated. Every query must keep
    a key with a positive gate. bias is (B, h, T). Half-precision inputs of the reference op are weighed in fp32.
    """
    # The fused op takes chunks in multiples of 16.
    if uses_triton(op, queries) and not (op == "auto" and chunk % 16):
        fused: Callable[..., Tensor] = _FusedReadout.apply
        return fused(queries, keys, values, gates.float(), bias, scale, chunk)
    with full_precision(queries):
        return _plain_readout(queries, keys, values, gates, bias, scale, chunk)


def _plain_readout(
    queries: Tensor, keys: Tensor, values: Tensor, gates: Tensor, bias: Tensor | None, scale: float, chunk: int
) -> Tensor:
    """The reference op of `gated_readout`: what the fused op must compute."""
    length = queries.shape[2]
    kind = torch.float64 if queries.dtype == torch.float64 else torch.float32
    logits = scale * queries.to(kind) @ keys.to(kind).transpose(-1, -2)
    if bias is not None:
        logits = logits + bias.to(kind)[..., None, :]
    place = torch.arange(length, device=queries.device)
    skipped = -(-length // chunk) - gates.shape[2]
    gated = gates[:, :, (place[skipped * chunk :] // chunk) - skipped].to(kind)
    gate = torch.cat([gated.new_ones(*gated.shape[:2], length - gated.shape[2], length), gated], dim=2)
    seen = (place <= place[:, None]) & (gate > 0.0)
    shifted = logits - logits.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True).detach()
    weights = torch.where(seen, shifted, -torch.inf).exp() * gate
    weights = weights / weights.sum(-1, keepdim=True)
    return (weights @ values.to(kind)).to(queries.dtype)
