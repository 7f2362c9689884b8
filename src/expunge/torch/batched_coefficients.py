"""Coefficients of many prefixes with an implicit gradient: the batched path (paper, App. B).

At the optimum M(ρ, α_S) = rhs with M = [[0, 1ᵀ], [1, 2K_SS + rI]]. One solve with the same matrix turns the cotangents
of α and ρ into those of keys, width and cap; bound and reserve coefficients do not move with the keys, so they pass no
gradient to them. The function is piecewise smooth: where a key changes between margin, bound and reserve the two
one-sided derivatives differ, and the one returned belongs to the partition that the solve reports.
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
from expunge.torch.ops.coefficients import plain_coefficients as reference
from expunge.torch.single_backward import refuse_twice

__all__ = ["OPS", "full_precision", "prefix_coefficients", "prefix_lengths", "reference_pull", "uses_triton"]


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
            from expunge.torch.ops.coefficients import fused_coefficients as triton

            ready = triton.prepared(keys)
            alpha, offset, margin = triton.solve(keys, counts, cap, sigma, ridge, prepared_keys=ready)
            ctx.save_for_backward(keys, cap, sigma, alpha, margin, *ready)
        else:
            flat, caps, sigmas = _flat(keys, cap, sigma)
            solved = reference.solve(reference.gram_matrix(flat, sigmas, min(counts)), counts, caps, ridge)
            shape = (*keys.shape[:2], len(counts), keys.shape[2])
            alpha, margin = solved.coefficients.reshape(shape), solved.margin.reshape(shape)
            offset = solved.offset.reshape(shape[:3])
            ctx.save_for_backward(keys, cap, sigma, alpha, margin)
        ctx.counts, ctx.ridge, ctx.fused = counts, ridge, fused
        return alpha, offset

    @staticmethod
    def backward(ctx: Any, alpha_bar: Tensor, offset_bar: Tensor) -> tuple[Tensor | None, ...]:
        keys, cap, sigma, alpha, margin, *ready = ctx.saved_tensors
        with torch.no_grad(), full_precision(keys):
            if ctx.fused:
                from expunge.torch.ops.coefficients import fused_coefficients as triton

                pulled = triton.pull(
                    keys,
                    ctx.counts,
                    cap,
                    sigma,
                    ctx.ridge,
                    alpha,
                    margin,
                    alpha_bar,
                    offset_bar,
                    prepared_keys=tuple(ready),
                    with_cap=ctx.needs_input_grad[1],
                    with_sigma=ctx.needs_input_grad[2],
                )
            else:
                given = (alpha, margin, alpha_bar, offset_bar)
                pulled = reference_pull(keys, cap, sigma, ctx.ridge, *given, shortest=min(ctx.counts))
        return (*refuse_twice(pulled, (keys, cap, sigma, alpha_bar, offset_bar)), None, None, None)


def _flat(keys: Tensor, cap: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys (P, T, d), and the cap and width of each (P,)."""
    problems = keys.shape[0] * keys.shape[1]
    return keys.flatten(0, 1), cap.repeat(problems // cap.numel()), sigma.repeat(problems // sigma.numel())


def reference_pull(
    keys: Tensor,
    cap: Tensor,
    sigma: Tensor,
    ridge: float,
    alpha: Tensor,
    margin: Tensor,
    alpha_bar: Tensor,
    offset_bar: Tensor,
    *,
    shortest: int = reference.CENTRE,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cotangents of keys, caps and widths, by the reference ops."""
    flat, caps, sigmas = _flat(keys, cap, sigma)
    a, inside, a_bar, o_bar = (part.flatten(0, 1) for part in (alpha, margin, alpha_bar, offset_bar))
    gram = reference.gram_matrix(flat, sigmas, shortest)
    u, u_offset = reference.adjoint(gram, inside, a_bar, o_bar, ridge)
    keys_bar, sigma_bar = reference.pullback(flat, gram, sigmas, a, u, shortest)
    # Without a margin n·C ≤ 1, and 1/n does not move with the cap.
    at_cap = ((a >= caps[:, None, None]) & ~inside & inside.any(-1, keepdim=True)).to(a.dtype)
    cap_bar = (a_bar * at_cap).sum(-1) - u_offset * at_cap.sum(-1) - 2.0 * ((at_cap @ gram) * u).sum(-1)
    return (
        keys_bar.reshape(keys.shape),
        cap_bar.sum(-1).reshape(-1, cap.numel()).sum(0),
        sigma_bar.reshape(-1, sigma.numel()).sum(0),
    )


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
