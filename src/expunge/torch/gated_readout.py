"""Gated causal attention with a gradient: the fused op on a GPU, plain PyTorch elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from expunge.torch.batched_coefficients import full_precision, uses_triton
from expunge.torch.ops.readout import plain_readout as reference
from expunge.torch.single_backward import refuse_twice

__all__ = ["gated_readout"]


class _Readout(torch.autograd.Function):
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
        from expunge.torch.ops.readout import fused_readout as triton

        out, level = triton.forward(queries, keys, values, gates, bias, scale=scale, chunk=chunk)
        ctx.save_for_backward(queries, keys, values, gates, bias, out, level)
        ctx.scale, ctx.chunk = scale, chunk
        return out

    @staticmethod
    def backward(ctx: Any, out_bar: Tensor) -> tuple[Tensor | None, ...]:
        from expunge.torch.ops.readout import fused_readout as triton

        queries, keys, values, gates, bias, out, level = ctx.saved_tensors
        with torch.no_grad():
            pulled = triton.backward(
                queries, keys, values, gates, bias, out, level, out_bar, scale=ctx.scale, chunk=ctx.chunk
            )
        sources = (queries, keys, values, gates, out_bar)
        gradients = refuse_twice([part for part in pulled if part is not None], sources)
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
    a key with a positive gate. bias is (B, h, T).
    """
    # The fused op takes chunks in multiples of 16.
    if not uses_triton(op, queries) or (op == "auto" and chunk % 16):
        with full_precision(queries):
            return reference.gated_readout(queries, keys, values, gates, bias, scale=scale, chunk=chunk)
    fused: Callable[..., Tensor] = _Readout.apply
    return fused(queries, keys, values, gates.float(), bias, scale, chunk)
