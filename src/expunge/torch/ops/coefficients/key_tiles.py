"""What both fused solves share: keys in fp32, κ of a tile of pairs, and the pull back to the keys.

Matrix units cut accumulators off rather than round them. A first, small launch therefore centres the keys and takes
their squared norms by the same products as the other entries, so that the same bias cancels between near-duplicates;
and products are taken 16 coordinates at a time and summed outside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

__all__ = ["counts_on", "jit", "prepare_keys", "pull_keys"]

jit: Callable[[Callable[..., Any]], Any] = triton.jit


@jit
def _add2(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor) -> tl.tensor:
    return a + c, b + d


@jit
def _add2_most(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor, e: tl.tensor, f: tl.tensor) -> tl.tensor:
    return a + d, b + e, tl.maximum(c, f)


@jit
def _clipped(x: tl.tensor, live: tl.tensor, cap: tl.tensor) -> tl.tensor:
    return tl.minimum(tl.maximum(x, 0.0), cap) * live


@jit
def _rows(
    keys: tl.tensor, place: tl.tensor, count: tl.tensor, width: tl.tensor, DIM: tl.constexpr, rest: tl.tensor
) -> tl.tensor:
    """Centred key rows (place, DIM), zero outside and beyond the `rest` of the coordinates."""
    column = tl.arange(0, DIM)
    inside = (place[:, None] < count) & (column[None, :] < rest)
    return tl.load(keys + place[:, None] * width + column[None, :], mask=inside, other=0.0)


@jit
def _doubled(
    keys: tl.tensor, i: tl.tensor, j: tl.tensor, count: tl.tensor, width: tl.tensor, DIM: tl.constexpr
) -> tl.tensor:
    """2⟨x_i, x_j⟩ of centred keys. The factor stands here because it keeps the sums out of the matrix units."""
    total = tl.zeros([i.shape[0], j.shape[0]], tl.float32)
    for left in range(0, DIM, 16):
        a = _rows(keys + left, i, count, width, 16, width - left)
        b = _rows(keys + left, j, count, width, 16, width - left)
        total += 2.0 * tl.dot(a, tl.trans(b), input_precision="tf32x3")
    return total


@jit
def _prepare(
    keys: tl.tensor,
    centred: tl.tensor,
    norms: tl.tensor,
    stride_b: tl.tensor,
    stride_h: tl.tensor,
    stride_t: tl.tensor,
    heads: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Keys about the mean of their head's first keys, in fp32, and their squared norms."""
    problem = tl.program_id(1)
    base = keys + (problem // heads).to(tl.int64) * stride_b + (problem % heads).to(tl.int64) * stride_h
    column = tl.arange(0, DIM)
    first = tl.arange(0, BLOCK)
    inside = (first[:, None] < length) & (column[None, :] < width)
    origin = tl.load(base + first[:, None] * stride_t + column[None, :], mask=inside, other=0.0).to(tl.float32)
    centre = tl.sum(origin, 0) / tl.minimum(length, BLOCK).to(tl.float32)
    place = tl.program_id(0) * BLOCK + first
    inside = (place[:, None] < length) & (column[None, :] < width)
    rows = tl.load(base + place[:, None].to(tl.int64) * stride_t + column[None, :], mask=inside, other=0.0)
    rows = tl.where(inside, rows.to(tl.float32) - centre[None, :], 0.0)
    head = problem.to(tl.int64) * length
    tl.store(centred + (head + place)[:, None] * width + column[None, :], rows, mask=inside)
    tl.debug_barrier()
    doubled = _doubled(centred + head * width, place, place, length, width, DIM)
    diagonal = 0.5 * tl.sum(tl.where(place[:, None] == place[None, :], doubled, 0.0), 1)
    tl.store(norms + head + place, diagonal, mask=place < length)


@jit
def _kernel_block(
    doubled: tl.tensor,
    norms_i: tl.tensor,
    norms_j: tl.tensor,
    i: tl.tensor,
    j: tl.tensor,
    count: tl.tensor,
    inverse: tl.tensor,
) -> tl.tensor:
    """κ from doubled inner products and norms: 1 on the diagonal, 0 beyond the prefix."""
    exponent = doubled - norms_i[:, None] - norms_j[None, :]
    value = tl.exp(tl.minimum(exponent, 0.0) * inverse)
    value = tl.where(i[:, None] == j[None, :], 1.0, value)
    return tl.where((i[:, None] < count) & (j[None, :] < count), value, 0.0)


@jit
def _pull(
    keys: tl.tensor,
    norms: tl.tensor,
    sigmas: tl.tensor,
    alpha: tl.tensor,
    adjoints: tl.tensor,
    keys_bar: tl.tensor,
    spreads: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    longest: tl.tensor,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    PREFIXES: tl.constexpr,
) -> None:
    """x̄_i = (4/σ²) Σ_j W_ij (x_i − x_j) for a block of rows, W = K ∘ Σ_prefixes (uαᵀ + αuᵀ)."""
    problem = tl.program_id(1)
    sigma = tl.load(sigmas + problem % groups)
    inverse = 1.0 / (sigma * sigma)
    base = keys + problem.to(tl.int64) * length * width
    norm = norms + problem.to(tl.int64) * length
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    which = tl.arange(0, PREFIXES)
    slots = (problem.to(tl.int64) * prefixes + which) * length
    xi = _rows(base, row, longest, width, DIM, width)
    norms_i = tl.load(norm + row, mask=row < longest, other=0.0)
    inside = (which[:, None] < prefixes) & (row[None, :] < longest)
    ui = tl.load(adjoints + slots[:, None] + row[None, :], mask=inside, other=0.0)
    ai = tl.load(alpha + slots[:, None] + row[None, :], mask=inside, other=0.0)
    total = tl.zeros([BLOCK], tl.float32)
    moved = tl.zeros([BLOCK, DIM], tl.float32)
    for left in range(0, longest, BLOCK):
        column = left + tl.arange(0, BLOCK)
        xj = _rows(base, column, longest, width, DIM, width)
        norms_j = tl.load(norm + column, mask=column < longest, other=0.0)
        inside = (which[:, None] < prefixes) & (column[None, :] < longest)
        uj = tl.load(adjoints + slots[:, None] + column[None, :], mask=inside, other=0.0)
        aj = tl.load(alpha + slots[:, None] + column[None, :], mask=inside, other=0.0)
        outer = tl.dot(tl.trans(ui), aj, input_precision="tf32x3")
        outer = tl.dot(tl.trans(ai), uj, outer, input_precision="tf32x3")
        doubled = 2.0 * tl.dot(xi, tl.trans(xj), input_precision="tf32x3")
        weight = _kernel_block(doubled, norms_i, norms_j, row, column, longest, inverse) * outer
        total += tl.sum(weight, 1)
        moved = tl.dot(weight, xj, moved, input_precision="tf32x3")
    difference = total[:, None] * xi - moved
    spread = tl.sum(tl.sum(xi * difference, 1), 0)
    tl.store(spreads + problem * tl.num_programs(0) + tl.program_id(0), 2.0 * spread)
    dims = tl.arange(0, DIM)
    target = keys_bar + problem.to(tl.int64) * length * width + row[:, None] * width + dims[None, :]
    inside = (row[:, None] < length) & (dims[None, :] < width)
    tl.store(target, (4.0 * inverse * difference).to(keys_bar.dtype.element_ty), mask=inside)


@cache
def counts_on(counts: tuple[int, ...], device: torch.device) -> Tensor:
    """Prefix lengths on a device, copied there once and kept: a captured step goes on reading them."""
    return torch.tensor(counts, dtype=torch.int32, device=device)


def prepare_keys(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Centred keys (B·h, T, d) and their squared norms (B·h, T), fp32."""
    batch, heads, length, width = keys.shape
    centred = torch.empty(batch * heads, length, width, device=keys.device)
    norms = torch.empty(batch * heads, length, device=keys.device)
    _prepare[(triton.cdiv(length, 32), batch * heads)](
        keys,
        centred,
        norms,
        *keys.stride()[:3],
        heads,
        length,
        width,
        DIM=max(16, triton.next_power_of_2(width)),
        BLOCK=32,
        num_warps=4,
        # The norms read what the program has just written: no copy may run ahead of that.
        num_stages=1,
    )
    return centred, norms


def pull_keys(
    keys: Tensor,
    prepared: tuple[Tensor, Tensor],
    counts: tuple[int, ...],
    sigma: Tensor,
    alpha: Tensor,
    adjoints: Tensor,
) -> tuple[Tensor, Tensor]:
    """Cotangents of keys (B, h, T, d), and the part of each tile of rows in the widths' (B·h, tiles)."""
    batch, heads, length, width = keys.shape
    keys_bar = torch.empty(batch, heads, length, width, dtype=keys.dtype, device=keys.device)
    tiles = triton.cdiv(length, 32)
    spreads = torch.empty(batch * heads, tiles, device=keys.device)
    _pull[(tiles, batch * heads)](
        *prepared,
        sigma,
        alpha,
        adjoints,
        keys_bar,
        spreads,
        sigma.numel(),
        len(counts),
        length,
        width,
        max(counts),
        DIM=max(16, triton.next_power_of_2(width)),
        BLOCK=32,
        PREFIXES=max(16, triton.next_power_of_2(len(counts))),
        num_warps=4,
        num_stages=1,
    )
    return keys_bar, spreads
