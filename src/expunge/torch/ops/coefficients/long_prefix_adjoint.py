"""The adjoint of long prefixes: conjugate gradients on the margin, cut at their products (`product_rounds`)."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from expunge.torch.ops.coefficients.key_tiles import jit
from expunge.torch.ops.coefficients.plain_adjoint import ADJOINT_TOLERANCE
from expunge.torch.ops.coefficients.product_rounds import FIELDS, GOAL, PHASE, RUNNING, ProductRounds, _conjugate_step

__all__ = ["adjoint"]

# Rounds, that is, products that a problem may request.
ADJOINT_ROUNDS = 40

# The scale of a problem's cotangents, beside the numbers of `product_rounds`.
SCALE = tl.constexpr(15)


@jit
def _adjoint_begin(
    margins: tl.tensor,
    alpha_bar: tl.tensor,
    offset_bar: tl.tensor,
    requests: tl.tensor,
    adjoints: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    length: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    slot = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + slot % prefixes)
    i = tl.arange(0, SIZE)
    s = tl.load(margins + slot * length + i, mask=i < count, other=0).to(tl.float32)
    size = tl.sum(s, 0)
    # A gate just above zero can have a cotangent whose square overflows.
    lift = tl.load(offset_bar + slot)
    w = tl.load(alpha_bar + slot * length + i, mask=i < count, other=0.0)
    scale = tl.maximum(tl.maximum(tl.max(tl.abs(w) * s, 0), tl.abs(lift)), 1e-30)
    u = s * (lift / scale / tl.maximum(size, 1.0))
    tl.store(adjoints + slot * length + i, u, mask=i < length)
    tl.store(requests + slot * extent + i, u, mask=i < extent)
    field = tl.arange(0, FIELDS)
    start = tl.where(field == RUNNING, tl.where(size > 0.0, 1.0, 0.0), 0.0)
    tl.store(states + slot * FIELDS + field, tl.where(field == SCALE, scale, start))


@jit
def _adjoint_step(
    answers: tl.tensor,
    requests: tl.tensor,
    images: tl.tensor,
    residuals: tl.tensor,
    margins: tl.tensor,
    alpha_bar: tl.tensor,
    adjoints: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    length: tl.tensor,
    ridge: tl.tensor,
    tolerance: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    slot = tl.program_id(0).to(tl.int64)
    state = states + slot * FIELDS
    if tl.load(state + RUNNING) > 0.0:
        count = tl.load(counts + slot % prefixes)
        i = tl.arange(0, SIZE)
        place, wide = slot * extent + i, slot * length + i
        q = tl.load(answers + place, mask=i < count, other=0.0)
        s = tl.load(margins + wide, mask=i < count, other=0).to(tl.float32)
        u = tl.load(adjoints + wide, mask=i < count, other=0.0)
        within = tl.load(state + PHASE) > 0.0
        goal = tl.load(state + GOAL)
        size = tl.sum(s, 0)
        if within:
            x = tl.load(requests + place, mask=i < count, other=0.0)
            r = tl.load(residuals + place, mask=i < count, other=0.0)
            y = tl.load(images + place, mask=i < count, other=0.0)
            along, r, p, squared = _conjugate_step(x, q + ridge * x, r, s, size, ridge)
            u += along * x
            y += along * q
        else:
            # Only the margin's are scaled: beside them a key's at the cap may be out of range.
            w = tl.load(alpha_bar + wide, mask=i < count, other=0.0) * s / tl.load(state + SCALE)
            r = (w - q - ridge * u) * s
            r = (r - tl.sum(r, 0) / size) * s
            y = q
            p = r
            squared = tl.sum(r * r, 0)
            goal = squared * tolerance * tolerance
        tl.store(adjoints + wide, u, mask=i < count)
        tl.store(images + place, y, mask=i < count)
        tl.store(residuals + place, r, mask=i < count)
        tl.store(requests + place, p, mask=i < count)
        tl.store(state + PHASE, 1.0)
        tl.store(state + GOAL, goal)
        tl.store(state + RUNNING, tl.where(squared > goal, 1.0, 0.0))


@jit
def _adjoint_end(
    states: tl.tensor,
    images: tl.tensor,
    margins: tl.tensor,
    alpha: tl.tensor,
    alpha_bar: tl.tensor,
    adjoints: tl.tensor,
    cap_bar: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    length: tl.tensor,
    ridge: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Adjoints in the scale of their cotangents, and the cap's: ᾱ_E − u_ρ|E| − 2 uᵀKe, with 2Ku = y."""
    slot = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + slot % prefixes)
    cap = tl.load(caps + (slot // prefixes) % groups)
    i = tl.arange(0, SIZE)
    wide = slot * length + i
    s = tl.load(margins + wide, mask=i < count, other=0).to(tl.float32)
    size = tl.sum(s, 0)
    y = tl.load(images + slot * extent + i, mask=i < tl.where(size > 0.0, count, 0), other=0.0)
    scale = tl.load(states + slot * FIELDS + SCALE)
    w = tl.load(alpha_bar + wide, mask=i < count, other=0.0)
    u = tl.load(adjoints + wide, mask=i < count, other=0.0)
    # Threads may hold copies of an element: all have read before any writes.
    tl.debug_barrier()
    tl.store(adjoints + wide, u * scale, mask=i < count)
    a = tl.load(alpha + wide, mask=i < count, other=0.0)
    u_rho = tl.sum((w * s / scale - y - ridge * u) * s, 0) / tl.maximum(size, 1.0)
    # Without a margin n·C ≤ 1, and 1/n does not move with the cap.
    at_cap = tl.where((a >= cap) & (i < count), 1.0 - s, 0.0) * tl.minimum(size, 1.0)
    tl.store(cap_bar + slot, tl.sum(at_cap * w, 0) - tl.sum(at_cap * (u_rho + y), 0) * scale)


def adjoint(
    keys: Tensor,
    centred: Tensor,
    norms: Tensor,
    counts: tuple[int, ...],
    cap: Tensor,
    sigma: Tensor,
    ridge: float,
    alpha: Tensor,
    margin: Tensor,
    alpha_bar: Tensor,
    offset_bar: Tensor,
    adjoints: Tensor,
    cap_bar: Tensor,
    *,
    with_cap: bool,
) -> None:
    """Fill the adjoints u (B, h, b, T) and the cotangents of the caps (B, h, b), which cost nothing here."""
    rounds = ProductRounds(keys, centred, norms, counts, sigma)
    shared = {"SIZE": rounds.size, "num_warps": rounds.warps}
    numbers: list[Any] = [rounds.prefixes, rounds.extent, rounds.length]
    grid = (rounds.slots,)
    _adjoint_begin[grid](
        margin, alpha_bar, offset_bar, rounds.requests, adjoints, rounds.states, rounds.counts, *numbers, **shared
    )
    for number in range(ADJOINT_ROUNDS):
        rounds.answer()
        _adjoint_step[grid](
            rounds.answers,
            rounds.requests,
            rounds.images,
            rounds.residuals,
            margin,
            alpha_bar,
            adjoints,
            rounds.states,
            rounds.counts,
            *numbers,
            ridge,
            ADJOINT_TOLERANCE[torch.float32],
            **shared,
        )
        if rounds.finished(number):
            break
    _adjoint_end[grid](
        rounds.states,
        rounds.images,
        margin,
        alpha,
        alpha_bar,
        adjoints,
        cap_bar,
        rounds.counts,
        cap,
        cap.numel(),
        *numbers,
        ridge,
        **shared,
    )
