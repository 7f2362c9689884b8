"""Fused gated attention: the weights of a query block never leave the chip, forward or backward.

Forward keeps a running maximum and sum over key blocks and stores one number per query, the logarithm of its sum.
Backward recomputes the weights from it: one launch over key blocks for the cotangents of keys, values, gates and bias,
one over query blocks for those of the queries. Each output element is written by one program, so results do not depend
on timing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from expunge.errors import InputError

__all__ = ["backward", "forward"]

jit: Callable[[Callable[..., Any]], Any] = triton.jit


@jit
def _rows(
    base: tl.tensor, place: tl.tensor, stride: tl.tensor, length: tl.tensor, width: tl.tensor, DIM: tl.constexpr
) -> tl.tensor:
    column = tl.arange(0, DIM)
    inside = (place[:, None] < length) & (column[None, :] < width)
    return tl.load(base + place[:, None].to(tl.int64) * stride + column[None, :], mask=inside, other=0.0)


@jit
def _put(
    base: tl.tensor,
    place: tl.tensor,
    stride: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    value: tl.tensor,
    DIM: tl.constexpr,
) -> None:
    column = tl.arange(0, DIM)
    inside = (place[:, None] < length) & (column[None, :] < width)
    target = base + place[:, None].to(tl.int64) * stride + column[None, :]
    tl.store(target, value.to(base.dtype.element_ty), mask=inside)


@jit
def _logits(
    q: tl.tensor,
    k: tl.tensor,
    row: tl.tensor,
    column: tl.tensor,
    gate: tl.tensor,
    bias: tl.tensor,
    length: tl.tensor,
    scale: tl.tensor,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """Logits of a tile, −∞ where the key is not seen: later than the query, or closed by its gate."""
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    if BIAS:
        s += tl.load(bias + column, mask=column < length, other=0.0)[None, :]
    seen = (column[None, :] <= row[:, None]) & (column[None, :] < length) & (gate > 0.0)[None, :]
    return tl.where(seen, s, -float("inf"))


@jit
def _gate(
    gates: tl.tensor,
    problem: tl.tensor,
    chunk: tl.tensor,
    skipped: tl.tensor,
    gated: tl.tensor,
    column: tl.tensor,
    length: tl.tensor,
) -> tl.tensor:
    """Gate of a chunk for these keys; 1 for the chunks before the first gated one."""
    line = gates + (problem.to(tl.int64) * gated + (chunk - skipped)) * length
    return tl.load(line + column, mask=(column < length) & (chunk >= skipped), other=1.0)


@jit
def _forward(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    gates: tl.tensor,
    bias: tl.tensor,
    out: tl.tensor,
    level: tl.tensor,
    q_b: tl.tensor,
    q_h: tl.tensor,
    q_t: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_t: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_t: tl.tensor,
    o_b: tl.tensor,
    o_h: tl.tensor,
    o_t: tl.tensor,
    heads: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    chunk: tl.tensor,
    skipped: tl.tensor,
    gated: tl.tensor,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    block, problem = tl.program_id(0), tl.program_id(1)
    b, h = (problem // heads).to(tl.int64), (problem % heads).to(tl.int64)
    row = block * ROWS + tl.arange(0, ROWS)
    mine = (block * ROWS) // chunk
    x = _rows(q + b * q_b + h * q_h, row, q_t, length, width, DIM)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, DIM], tl.float32)
    for left in range(0, (block + 1) * ROWS, COLUMNS):
        column = left + tl.arange(0, COLUMNS)
        y = _rows(k + b * k_b + h * k_h, column, k_t, length, width, DIM)
        z = _rows(v + b * v_b + h * v_h, column, v_t, length, width, DIM)
        gate = _gate(gates, problem, mine, skipped, gated, column, length)
        s = _logits(x, y, row, column, gate, bias + problem.to(tl.int64) * length, length, scale, BIAS, PRECISION)
        new = tl.maximum(top, tl.max(s, 1))
        # A row that has seen nothing yet: any finite reference will do.
        safe = tl.where(new == -float("inf"), 0.0, new)
        weight = tl.exp(s - safe[:, None]) * gate[None, :]
        shrink = tl.exp(top - safe)
        total = total * shrink + tl.sum(weight, 1)
        mixed = mixed * shrink[:, None]
        mixed = tl.dot(weight.to(z.dtype), z, mixed, input_precision=PRECISION)
        top = new
    # Rows beyond the end have seen nothing; their results are not stored.
    divisor = tl.where(total > 0.0, total, 1.0)
    _put(out + b * o_b + h * o_h, row, o_t, length, width, mixed / divisor[:, None], DIM)
    tl.store(level + problem.to(tl.int64) * length + row, top + tl.log(divisor), mask=row < length)


@jit
def _backward_keys(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    gates: tl.tensor,
    bias: tl.tensor,
    out: tl.tensor,
    level: tl.tensor,
    out_bar: tl.tensor,
    k_bar: tl.tensor,
    v_bar: tl.tensor,
    gates_bar: tl.tensor,
    bias_bar: tl.tensor,
    q_b: tl.tensor,
    q_h: tl.tensor,
    q_t: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_t: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_t: tl.tensor,
    o_b: tl.tensor,
    o_h: tl.tensor,
    o_t: tl.tensor,
    d_b: tl.tensor,
    d_h: tl.tensor,
    d_t: tl.tensor,
    r_b: tl.tensor,
    r_h: tl.tensor,
    r_t: tl.tensor,
    heads: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    chunk: tl.tensor,
    skipped: tl.tensor,
    gated: tl.tensor,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    block, problem = tl.program_id(0), tl.program_id(1)
    b, h = (problem // heads).to(tl.int64), (problem % heads).to(tl.int64)
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    y = _rows(k + b * k_b + h * k_h, column, k_t, length, width, DIM)
    z = _rows(v + b * v_b + h * v_h, column, v_t, length, width, DIM)
    y_bar = tl.zeros([COLUMNS, DIM], tl.float32)
    z_bar = tl.zeros([COLUMNS, DIM], tl.float32)
    shift_bar = tl.zeros([COLUMNS], tl.float32)
    gate_bar = tl.zeros([COLUMNS], tl.float32)
    for start in range((block * COLUMNS) // ROWS * ROWS, length, ROWS):
        row = start + tl.arange(0, ROWS)
        mine = start // chunk
        x = _rows(q + b * q_b + h * q_h, row, q_t, length, width, DIM)
        o = _rows(out + b * o_b + h * o_h, row, o_t, length, width, DIM)
        w = _rows(out_bar + b * d_b + h * d_h, row, d_t, length, width, DIM)
        lev = tl.load(level + problem.to(tl.int64) * length + row, mask=row < length, other=float("inf"))
        mean = tl.sum(o.to(tl.float32) * w.to(tl.float32), 1)
        gate = _gate(gates, problem, mine, skipped, gated, column, length)
        s = _logits(x, y, row, column, gate, bias + problem.to(tl.int64) * length, length, scale, BIAS, PRECISION)
        ungated = tl.exp(s - lev[:, None])
        value_bar = tl.dot(w, tl.trans(z), input_precision=PRECISION)
        slope = ungated * (value_bar - mean[:, None])
        weight = ungated * gate[None, :]
        z_bar = tl.dot(tl.trans(weight).to(w.dtype), w, z_bar, input_precision=PRECISION)
        pulled = slope * gate[None, :]
        y_bar = tl.dot(tl.trans(pulled).to(x.dtype), x, y_bar, input_precision=PRECISION)
        shift_bar += tl.sum(pulled, 0)
        gate_bar += tl.sum(slope, 0)
        ends = ((start + ROWS) % chunk == 0) | (start + ROWS >= length)
        line = gates_bar + (problem.to(tl.int64) * gated + (mine - skipped)) * length
        tl.store(line + column, gate_bar, mask=(column < length) & ends & (mine >= skipped))
        gate_bar = tl.where(ends, 0.0, gate_bar)
    _put(k_bar + b * r_b + h * r_h, column, r_t, length, width, y_bar * scale, DIM)
    _put(v_bar + b * r_b + h * r_h, column, r_t, length, width, z_bar, DIM)
    if BIAS:
        tl.store(bias_bar + problem.to(tl.int64) * length + column, shift_bar, mask=column < length)


@jit
def _backward_queries(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    gates: tl.tensor,
    bias: tl.tensor,
    out: tl.tensor,
    level: tl.tensor,
    out_bar: tl.tensor,
    q_bar: tl.tensor,
    q_b: tl.tensor,
    q_h: tl.tensor,
    q_t: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_t: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_t: tl.tensor,
    o_b: tl.tensor,
    o_h: tl.tensor,
    o_t: tl.tensor,
    d_b: tl.tensor,
    d_h: tl.tensor,
    d_t: tl.tensor,
    r_b: tl.tensor,
    r_h: tl.tensor,
    r_t: tl.tensor,
    heads: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    chunk: tl.tensor,
    skipped: tl.tensor,
    gated: tl.tensor,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    block, problem = tl.program_id(0), tl.program_id(1)
    b, h = (problem // heads).to(tl.int64), (problem % heads).to(tl.int64)
    row = block * ROWS + tl.arange(0, ROWS)
    mine = (block * ROWS) // chunk
    x = _rows(q + b * q_b + h * q_h, row, q_t, length, width, DIM)
    o = _rows(out + b * o_b + h * o_h, row, o_t, length, width, DIM)
    w = _rows(out_bar + b * d_b + h * d_h, row, d_t, length, width, DIM)
    lev = tl.load(level + problem.to(tl.int64) * length + row, mask=row < length, other=float("inf"))
    mean = tl.sum(o.to(tl.float32) * w.to(tl.float32), 1)
    x_bar = tl.zeros([ROWS, DIM], tl.float32)
    for left in range(0, (block + 1) * ROWS, COLUMNS):
        column = left + tl.arange(0, COLUMNS)
        y = _rows(k + b * k_b + h * k_h, column, k_t, length, width, DIM)
        z = _rows(v + b * v_b + h * v_h, column, v_t, length, width, DIM)
        gate = _gate(gates, problem, mine, skipped, gated, column, length)
        s = _logits(x, y, row, column, gate, bias + problem.to(tl.int64) * length, length, scale, BIAS, PRECISION)
        value_bar = tl.dot(w, tl.trans(z), input_precision=PRECISION)
        pulled = tl.exp(s - lev[:, None]) * (value_bar - mean[:, None]) * gate[None, :]
        x_bar = tl.dot(pulled.to(y.dtype), y, x_bar, input_precision=PRECISION)
    _put(q_bar + b * r_b + h * r_h, row, r_t, length, width, x_bar * scale, DIM)


def _block(chunk: int) -> int:
    """Rows of a query block: the largest power of two up to 64 that divides the chunk."""
    rows = min(64, chunk & -chunk)
    if rows < 16:
        raise InputError(f"the fused readout needs a chunk that is a multiple of 16, not {chunk}; use op='reference'")
    return rows


def _constants(queries: Tensor, chunk: int, bias: Tensor | None) -> dict[str, Any]:
    exact = torch.get_float32_matmul_precision() == "highest" and not torch.backends.cuda.matmul.allow_tf32
    # Three products in place of one fill the registers: narrower blocks then keep everything in them.
    tight = queries.dtype == torch.float32 and exact
    return {
        "DIM": max(16, triton.next_power_of_2(queries.shape[-1])),
        "ROWS": _block(chunk),
        "COLUMNS": 32 if tight else 64,
        "BIAS": bias is not None,
        "PRECISION": "tf32x3" if exact else "tf32",
        "num_warps": 4,
        "num_stages": 1 if tight else 2,
    }


def _dense(tensor: Tensor) -> Tensor:
    """Rows must be contiguous; batch, head and place may be strided."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def forward(
    queries: Tensor, keys: Tensor, values: Tensor, gates: Tensor, bias: Tensor | None, *, scale: float, chunk: int
) -> tuple[Tensor, Tensor]:
    """Readout (B, h, T, d), laid out as (B, T, h, d), and the logarithm of each query's sum (B, h, T).

    Gates (B, h, c, T) fp32 belong to the last c chunks; the chunks before are not gated.
    """
    batch, heads, length, width = queries.shape
    q, k, v = _dense(queries), _dense(keys), _dense(values)
    out = torch.empty(batch, length, heads, width, dtype=queries.dtype, device=queries.device).transpose(1, 2)
    level = torch.empty(batch, heads, length, device=queries.device)
    constants = _constants(queries, chunk, bias)
    gated = gates.shape[2]
    skipped = triton.cdiv(length, chunk) - gated
    _forward[(triton.cdiv(length, constants["ROWS"]), batch * heads)](
        q, k, v, gates, gates if bias is None else bias, out, level,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        heads, length, width, scale, chunk, skipped, gated, **constants,
    )  # fmt: skip
    return out, level


def backward(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    gates: Tensor,
    bias: Tensor | None,
    out: Tensor,
    level: Tensor,
    out_bar: Tensor,
    *,
    scale: float,
    chunk: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Cotangents of queries, keys, values (B, h, T, d), gates (B, h, c, T) and bias (B, h, T) or None."""
    batch, heads, length, width = queries.shape
    q, k, v, w = _dense(queries), _dense(keys), _dense(values), _dense(out_bar)
    pulled = torch.empty(3, batch, length, heads, width, dtype=queries.dtype, device=queries.device)
    q_bar, k_bar, v_bar = pulled.transpose(2, 3).unbind(0)
    # Chunks do not see the keys after them: those entries stay zero.
    gates_bar = torch.zeros_like(gates)
    bias_bar = None if bias is None else torch.empty_like(bias)
    constants = _constants(queries, chunk, bias)
    gated = gates.shape[2]
    skipped = triton.cdiv(length, chunk) - gated
    shared = [q, k, v, gates, gates if bias is None else bias, out, level, w]
    strides = [stride for part in (q, k, v, out, w, q_bar) for stride in part.stride()[:3]]
    numbers = [heads, length, width, scale, chunk, skipped, gated]
    _backward_keys[(triton.cdiv(length, constants["COLUMNS"]), batch * heads)](
        *shared, k_bar, v_bar, gates_bar, gates if bias_bar is None else bias_bar, *strides, *numbers, **constants
    )
    _backward_queries[(triton.cdiv(length, constants["ROWS"]), batch * heads)](
        *shared, q_bar, *strides, *numbers, **constants
    )
    return q_bar, k_bar, v_bar, gates_bar, bias_bar
