"""Prefixes whose Gram matrix stays on the chip: one program holds one problem, from its keys to its coefficients.

Every prefix of every head is one program; a small batch is one launch. The Gram matrix is formed by matrix units and
kept in registers, as the blocks K₀₀, K₀₁, K₁₁ of a symmetric matrix whose parts have sizes that are powers of two. The
adjoint has the same shape. `plain_coefficients` has the method.

Masks are floats, 0 or 1: they multiply. A vector is two parts (x0, x1). Barriers, not arithmetic, are what an iteration
waits for, so sums that are needed together are reduced together.

The file is long because it is one family of kernels: the solve and its adjoint hold the same blocks in registers and
share every product, sum and step below.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from expunge.torch.ops.coefficients import plain_coefficients
from expunge.torch.ops.coefficients.key_tiles import (
    _add2,
    _add2_most,
    _clipped,
    _doubled,
    _kernel_block,
    counts_on,
    jit,
)
from expunge.torch.ops.coefficients.plain_adjoint import ADJOINT_STEPS, ADJOINT_TOLERANCE

__all__ = ["adjoint", "solve"]


@jit
def _add7(
    a: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    d: tl.tensor,
    e: tl.tensor,
    f: tl.tensor,
    g: tl.tensor,
    h: tl.tensor,
    i: tl.tensor,
    j: tl.tensor,
    k: tl.tensor,
    o: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
) -> tl.tensor:
    return a + h, b + i, c + j, d + k, e + o, f + m, g + n


@jit
def _sum(x0: tl.tensor, x1: tl.tensor) -> tl.tensor:
    return tl.sum(x0, 0) + tl.sum(x1, 0)


@jit
def _sums(x0: tl.tensor, x1: tl.tensor, y0: tl.tensor, y1: tl.tensor) -> tl.tensor:
    """Σx and Σy, together."""
    a0, b0 = tl.reduce((x0, y0), 0, _add2)
    a1, b1 = tl.reduce((x1, y1), 0, _add2)
    return a0 + a1, b0 + b1


@jit
def _gram_blocks(
    keys: tl.tensor,
    norms: tl.tensor,
    i0: tl.tensor,
    i1: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    sigma: tl.tensor,
    DIM: tl.constexpr,
) -> tl.tensor:
    """The three blocks of a prefix's Gram matrix."""
    n0 = tl.load(norms + i0, mask=i0 < count, other=0.0)
    n1 = tl.load(norms + i1, mask=i1 < count, other=0.0)
    inverse = 1.0 / (sigma * sigma)
    k00 = _kernel_block(_doubled(keys, i0, i0, count, width, DIM), n0, n0, i0, i0, count, inverse)
    k01 = _kernel_block(_doubled(keys, i0, i1, count, width, DIM), n0, n1, i0, i1, count, inverse)
    k11 = _kernel_block(_doubled(keys, i1, i1, count, width, DIM), n1, n1, i1, i1, count, inverse)
    return k00, k01, k11


@jit
def _gram_times(x0: tl.tensor, x1: tl.tensor, k00: tl.tensor, k01: tl.tensor, k11: tl.tensor) -> tl.tensor:
    """K x."""
    y0 = tl.sum(k00 * x0[None, :], 1) + tl.sum(k01 * x1[None, :], 1)
    y1 = tl.sum(k01 * x0[:, None], 0) + tl.sum(k11 * x1[None, :], 1)
    return y0, y1


@jit
def _conjugate_step(
    p0: tl.tensor,
    p1: tl.tensor,
    d0: tl.tensor,
    d1: tl.tensor,
    s0: tl.tensor,
    s1: tl.tensor,
    r0: tl.tensor,
    r1: tl.tensor,
    size: tl.tensor,
    ridge: tl.tensor,
    goal: tl.tensor,
) -> tl.tensor:
    """A step of conjugate gradients along p, with d = Hp: its length, the mean of d on the margin, the squared norm of
    the residual after it, the part of p in the next direction, and the mean of the residual, which should be zero and
    by rounding is not. All sums are reduced together.

    The squared norm afterwards is a difference, without digits once a step takes all but a millionth of the residual,
    as the last one on a small margin does. A next direction mixed by it can cancel to nothing, and a step along that
    is infinite: such a step starts over from the residual, and ends the solve if that is within `goal`.
    """
    pd0, ds0, dd0, rd0, rr0, r00, pp0 = tl.reduce(
        (p0 * d0, d0 * s0, d0 * d0 * s0, r0 * d0, r0 * r0, r0, p0 * p0), 0, _add7
    )
    pd1, ds1, dd1, rd1, rr1, r11, pp1 = tl.reduce(
        (p1 * d1, d1 * s1, d1 * d1 * s1, r1 * d1, r1 * r1, r1, p1 * p1), 0, _add7
    )
    bent, now, level = pd0 + pd1, rr0 + rr1, (ds0 + ds1) / size
    # The ridge bounds the curvature from below. Where rounding has eaten it there is nothing more to gain.
    sound = (bent > 0.5 * ridge * (pp0 + pp1)) & (now > goal)
    along = tl.where(sound, now / bent, 0.0)
    after = now - 2.0 * along * (rd0 + rd1) + along * along * (dd0 + dd1 - level * (ds0 + ds1))
    after = tl.where(sound, tl.maximum(after, 0.0), 0.0)
    return along, level, after, tl.where(after > 1e-5 * now, after / now, 0.0), (r00 + r11) / size


@jit
def _neediest(
    y0: tl.tensor, y1: tl.tensor, rest0: tl.tensor, rest1: tl.tensor, i0: tl.tensor, i1: tl.tensor
) -> tl.tensor:
    """Place of the reserve key with the smallest (Kα): the one that most wants weight."""
    w0, w1 = tl.where(rest0 > 0.0, y0, float("inf")), tl.where(rest1 > 0.0, y1, float("inf"))
    least = tl.minimum(tl.min(w0, 0), tl.min(w1, 0))
    first0, first1 = tl.where(w0 == least, i0, 1 << 30), tl.where(w1 == least, i1, 1 << 30)
    return tl.minimum(tl.min(first0, 0), tl.min(first1, 0))


@jit
def _project(
    x0: tl.tensor, x1: tl.tensor, live0: tl.tensor, live1: tl.tensor, cap: tl.tensor, shift: tl.tensor
) -> tl.tensor:
    """Nearest feasible point and its common shift: Newton from a guess of the shift, inside a bracket."""
    low = tl.minimum(
        tl.min(tl.where(live0 > 0.0, x0, float("inf")), 0), tl.min(tl.where(live1 > 0.0, x1, float("inf")), 0)
    )
    high = tl.maximum(
        tl.max(tl.where(live0 > 0.0, x0, -float("inf")), 0), tl.max(tl.where(live1 > 0.0, x1, -float("inf")), 0)
    )
    low = low - cap
    shift = tl.where((shift > low) & (shift < high), shift, 0.5 * (low + high))
    steps = 0
    excess = shift * 0.0 + 1.0
    while (tl.abs(excess) > 1e-6) & (steps < 32):
        z0, z1 = x0 - shift, x1 - shift
        free0, free1 = tl.where((z0 > 0.0) & (z0 < cap), live0, 0.0), tl.where((z1 > 0.0) & (z1 < cap), live1, 0.0)
        mass, free = _sums(_clipped(z0, live0, cap), _clipped(z1, live1, cap), free0, free1)
        excess = mass - 1.0
        low = tl.where(excess > 0.0, shift, low)
        high = tl.where(excess > 0.0, high, shift)
        newton = shift + excess / tl.maximum(free, 1.0)
        moved = tl.where((free > 0.0) & (newton > low) & (newton < high), newton, 0.5 * (low + high))
        shift = tl.where(tl.abs(excess) > 1e-6, moved, shift)
        steps += 1
    return _clipped(x0 - shift, live0, cap), _clipped(x1 - shift, live1, cap), shift


@jit
def _solve(
    keys: tl.tensor,
    norms: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    sigmas: tl.tensor,
    alpha: tl.tensor,
    offsets: tl.tensor,
    margins: tl.tensor,
    reports: tl.tensor,
    groups: tl.tensor,
    problems: tl.tensor,
    prefixes: tl.tensor,
    last: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    ridge: tl.tensor,
    tolerance: tl.tensor,
    A: tl.constexpr,
    B: tl.constexpr,
    DIM: tl.constexpr,
    EXCHANGES: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCKS: tl.constexpr,
    PATIENCE: tl.constexpr,
    POWERS: tl.constexpr,
    SAFETY: tl.constexpr,
    LOOSE: tl.constexpr,
    FLOOR: tl.constexpr,
    EXCHANGE_STEPS: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    # The longest prefixes start first, so that short ones fill the gaps at the end.
    prefix = last - program // problems
    problem = program % problems
    slot = problem.to(tl.int64) * prefixes + prefix
    count = tl.load(counts + prefix)
    cap = tl.load(caps + problem % groups)
    sigma = tl.load(sigmas + problem % groups)
    i0 = tl.arange(0, A)
    i1 = A + tl.arange(0, B)
    live0 = (i0 < count).to(tl.float32)
    live1 = (i1 < count).to(tl.float32)
    origin = problem.to(tl.int64) * length
    k00, k01, k11 = _gram_blocks(keys + origin * width, norms + origin, i0, i1, count, width, sigma, DIM)

    total = count.to(tl.float32)
    a0, a1 = live0 / total, live1 / total
    y0, y1 = _gram_times(a0, a1, k00, k01, k11)
    s0, s1 = live0, live1
    e0, e1 = tl.zeros_like(live0), tl.zeros_like(live1)
    c0, c1 = a0, a1
    rho = total * 0.0
    step = total * 0.0
    feasible = total * cap > 1.0 + 1e-6
    # Keys that are not numbers give coefficients that are not: 1/n plus what they gave.
    mean = _sum(y0 * a0, y1 * a1)
    odd = tl.where(mean == mean, 0.0, mean)
    place = slot * length
    tl.store(alpha + place + i0, a0 + odd, mask=i0 < length)
    tl.store(alpha + place + i1, a1 + odd, mask=i1 < length)
    tl.store(margins + place + i0, tl.zeros([A], tl.int8), mask=i0 < length)
    tl.store(margins + place + i1, tl.zeros([B], tl.int8), mask=i1 < length)
    tl.store(offsets + slot, rho)
    for rest in range(A + B, length, A):
        tl.store(alpha + place + rest + i0, tl.zeros([A], tl.float32), mask=rest + i0 < length)
        tl.store(margins + place + rest + i0, tl.zeros([A], tl.int8), mask=rest + i0 < length)
    tl.debug_barrier()

    attempt = 0
    done = tl.where(feasible & (mean == mean), 0, 1)
    products = 1
    while (attempt <= BLOCKS) & (done == 0):
        if attempt > 0:
            if attempt == 1:
                # The largest curvature along Σα = const, by power iteration.
                v0, v1 = ((i0 * 7919) % 127).to(tl.float32) * live0, ((i1 * 7919) % 127).to(tl.float32) * live1
                level = _sum(v0, v1) / total
                v0, v1 = (v0 - level) * live0, (v1 - level) * live1
                largest = tl.sqrt(_sum(v0 * v0, v1 * v1))
                v0, v1 = v0 / largest, v1 / largest
                for _ in range(POWERS):
                    v0, v1 = _gram_times(v0, v1, k00, k01, k11)
                    level = _sum(v0 * live0, v1 * live1) / total
                    v0, v1 = (v0 - level) * live0, (v1 - level) * live1
                    largest = tl.maximum(tl.sqrt(_sum(v0 * v0, v1 * v1)), 1e-30)
                    v0, v1 = v0 / largest, v1 / largest
                step = 1.0 / (2.0 * SAFETY * largest + ridge)
                products += POWERS
            z0, z1 = c0, c1
            momentum = total * 0.0 + 1.0
            shift = total * 0.0
            for _ in range(STEPS * attempt):
                q0, q1 = _gram_times(z0, z1, k00, k01, k11)
                q0, q1 = z0 - step * (2.0 * q0 + ridge * z0), z1 - step * (2.0 * q1 + ridge * z1)
                n0, n1, shift = _project(q0, q1, live0, live1, cap, shift)
                uphill = _sum((z0 - n0) * (n0 - c0), (z1 - n1) * (n1 - c1)) > 0.0
                momentum = tl.where(uphill, 1.0, momentum)
                following = 0.5 * (1.0 + tl.sqrt(1.0 + 4.0 * momentum * momentum))
                push = (momentum - 1.0) / following
                z0, z1 = n0 + push * (n0 - c0), n1 + push * (n1 - c1)
                c0, c1 = n0, n1
                momentum = following
            a0, a1 = c0, c1
            s0 = tl.where((a0 > 0.0) & (a0 < cap), live0, 0.0)
            s1 = tl.where((a1 > 0.0) & (a1 < cap), live1, 0.0)
            e0, e1 = tl.where(a0 >= cap, live0, 0.0), tl.where(a1 >= cap, live1, 0.0)
            y0, y1 = _gram_times(a0, a1, k00, k01, k11)
            if _sum(s0, s1) == 0.0:
                first = _neediest(y0, y1, live0 - e0, live1 - e1, i0, i1)
                s0, s1 = (i0 == first).to(tl.float32), (i1 == first).to(tl.float32)
            # What exchanges start from is the result if they fail.
            g0, g1 = 2.0 * y0 + ridge * a0 - 1.0, 2.0 * y1 + ridge * a1 - 1.0
            slope, size = _sums(g0 * s0, g1 * s1, s0, s1)
            tl.store(alpha + place + i0, a0, mask=i0 < length)
            tl.store(alpha + place + i1, a1, mask=i1 < length)
            tl.store(margins + place + i0, s0.to(tl.int8), mask=i0 < length)
            tl.store(margins + place + i1, s1.to(tl.int8), mask=i1 < length)
            tl.store(offsets + slot, -slope / size)
            tl.debug_barrier()
            products += STEPS * attempt + 1
        exchange = 0
        fewest = total * 0.0 + 1e9
        stalled = total * 0.0
        loose = total * 0.0 + LOOSE
        while (exchange < EXCHANGES) & (done == 0) & (stalled <= PATIENCE):
            g0, g1 = 2.0 * y0 + ridge * a0 - 1.0, 2.0 * y1 + ridge * a1 - 1.0
            slope, size = _sums(g0 * s0, g1 * s1, s0, s1)
            rho = -slope / size
            r0, r1 = -(g0 + rho) * s0, -(g1 + rho) * s1
            p0, p1 = r0, r1
            squared = _sum(r0 * r0, r1 * r1)
            floor = FLOOR * FLOOR * tolerance * tolerance * size
            goal = tl.maximum(loose * loose * squared, floor)
            settled = squared <= floor
            limit = tl.minimum(2.0 * size + 4.0, 1.0 * EXCHANGE_STEPS)
            steps = total * 0.0
            while (squared > goal) & (steps < limit):
                q0, q1 = _gram_times(p0, p1, k00, k01, k11)
                d0, d1 = 2.0 * q0 + ridge * p0, 2.0 * q1 + ridge * p1
                along, level, fresh, again, slip = _conjugate_step(p0, p1, d0, d1, s0, s1, r0, r1, size, ridge, goal)
                a0, a1 = a0 + along * p0, a1 + along * p1
                y0, y1 = y0 + along * q0, y1 + along * q1
                r0, r1 = r0 - (along * (d0 - level) + slip) * s0, r1 - (along * (d1 - level) + slip) * s1
                p0, p1 = r0 + again * p0, r1 + again * p1
                squared = fresh
                steps += 1.0
            g0, g1 = 2.0 * y0 + ridge * a0 - 1.0, 2.0 * y1 + ridge * a1 - 1.0
            rho = -_sum(g0 * s0, g1 * s1) / size
            g0, g1 = g0 + rho, g1 + rho
            below0, below1 = tl.where(a0 < 0.0, s0, 0.0), tl.where(a1 < 0.0, s1, 0.0)
            above0, above1 = tl.where(a0 > cap, s0, 0.0), tl.where(a1 > cap, s1, 0.0)
            rest0, rest1 = live0 - s0 - e0, live1 - s1 - e1
            enter0 = tl.where(g0 < -tolerance, rest0, 0.0) + tl.where(g0 > tolerance, e0, 0.0)
            enter1 = tl.where(g1 < -tolerance, rest1, 0.0) + tl.where(g1 > tolerance, e1, 0.0)
            wrong0, wrong1 = below0 + above0 + enter0, below1 + above1 + enter1
            number0, mass0, worst0 = tl.reduce((wrong0, a0, tl.abs(g0) * s0), 0, _add2_most)
            number1, mass1, worst1 = tl.reduce((wrong1, a1, tl.abs(g1) * s1), 0, _add2_most)
            number = number0 + number1
            even = (tl.maximum(worst0, worst1) <= tolerance) | settled
            # Rounding lets the mass drift while keys are nearly dependent; it is restored and solved again.
            whole = tl.abs(mass0 + mass1 - 1.0) <= tolerance
            done = tl.where((number == 0.0) & even & whole, 1, 0)
            products += steps.to(tl.int32)
            worse = number >= fewest
            loose = tl.where((number == 0.0) | worse, loose * 0.1, loose)
            stalled += tl.where(worse & (number > 0.0), 1.0, 0.0)
            fewest = tl.minimum(fewest, number)
            if (done == 0) & (stalled <= PATIENCE):
                e0, e1 = e0 * (1.0 - wrong0) + above0, e1 * (1.0 - wrong1) + above1
                s0, s1 = s0 * (1.0 - wrong0) + enter0, s1 * (1.0 - wrong1) + enter1
                f0, f1 = e0 * cap + s0 * a0, e1 * cap + s1 * a1
                mass, size = _sums(f0, f1, s0, s1)
                if size == 0.0:
                    first = _neediest(y0, y1, live0 - e0, live1 - e1, i0, i1)
                    s0, s1 = (i0 == first).to(tl.float32), (i1 == first).to(tl.float32)
                    f0, f1 = e0 * cap + s0 * a0, e1 * cap + s1 * a1
                    mass, size = _sums(f0, f1, s0, s1)
                missing = (1.0 - mass) / size
                a0, a1 = f0 + missing * s0, f1 + missing * s1
                y0, y1 = _gram_times(a0, a1, k00, k01, k11)
                products += 1
            exchange += 1
        if done == 1:
            tl.store(alpha + place + i0, _clipped(a0, live0, cap), mask=i0 < length)
            tl.store(alpha + place + i1, _clipped(a1, live1, cap), mask=i1 < length)
            tl.store(margins + place + i0, s0.to(tl.int8), mask=i0 < length)
            tl.store(margins + place + i1, s1.to(tl.int8), mask=i1 < length)
            tl.store(offsets + slot, rho)
        attempt += 1
    tl.store(reports + 2 * slot, products)
    tl.store(reports + 2 * slot + 1, done + attempt * 2)


@jit
def _adjoint(
    keys: tl.tensor,
    norms: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    sigmas: tl.tensor,
    alpha: tl.tensor,
    margins: tl.tensor,
    alpha_bar: tl.tensor,
    offset_bar: tl.tensor,
    adjoints: tl.tensor,
    cap_bar: tl.tensor,
    groups: tl.tensor,
    problems: tl.tensor,
    prefixes: tl.tensor,
    last: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    ridge: tl.tensor,
    tolerance: tl.tensor,
    A: tl.constexpr,
    B: tl.constexpr,
    DIM: tl.constexpr,
    ADJOINT_STEPS: tl.constexpr,
    WITH_CAP: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    prefix = last - program // problems
    problem = program % problems
    slot = problem.to(tl.int64) * prefixes + prefix
    count = tl.load(counts + prefix)
    cap = tl.load(caps + problem % groups)
    sigma = tl.load(sigmas + problem % groups)
    i0 = tl.arange(0, A)
    i1 = A + tl.arange(0, B)
    origin = problem.to(tl.int64) * length
    k00, k01, k11 = _gram_blocks(keys + origin * width, norms + origin, i0, i1, count, width, sigma, DIM)

    place0, place1 = slot * length + i0, slot * length + i1
    s0 = tl.load(margins + place0, mask=i0 < count, other=0).to(tl.float32)
    s1 = tl.load(margins + place1, mask=i1 < count, other=0).to(tl.float32)
    w0 = tl.load(alpha_bar + place0, mask=i0 < count, other=0.0)
    w1 = tl.load(alpha_bar + place1, mask=i1 < count, other=0.0)
    size = tl.maximum(_sum(s0, s1), 1.0)
    # A gate just above zero can have a cotangent whose square overflows.
    lift = tl.load(offset_bar + slot)
    scale = tl.maximum(tl.max(tl.abs(w0) * s0, 0), tl.max(tl.abs(w1) * s1, 0))
    scale = tl.maximum(tl.maximum(scale, tl.abs(lift)), 1e-30)
    # Only the margin's are scaled: beside them a key's at the cap may be out of range.
    m0, m1 = w0 * s0 / scale, w1 * s1 / scale
    start = lift / scale / size
    u0, u1 = s0 * start, s1 * start
    y0, y1 = _gram_times(u0, u1, k00, k01, k11)
    r0, r1 = (m0 - 2.0 * y0 - ridge * u0) * s0, (m1 - 2.0 * y1 - ridge * u1) * s1
    level = _sum(r0, r1) / size
    r0, r1 = (r0 - level) * s0, (r1 - level) * s1
    p0, p1 = r0, r1
    squared = _sum(r0 * r0, r1 * r1)
    goal = squared * tolerance * tolerance
    limit = tl.minimum(2.0 * size + 4.0, 1.0 * ADJOINT_STEPS)
    steps = size * 0.0
    while (squared > goal) & (steps < limit):
        q0, q1 = _gram_times(p0, p1, k00, k01, k11)
        d0, d1 = 2.0 * q0 + ridge * p0, 2.0 * q1 + ridge * p1
        along, level, fresh, again, slip = _conjugate_step(p0, p1, d0, d1, s0, s1, r0, r1, size, ridge, goal)
        u0, u1 = u0 + along * p0, u1 + along * p1
        y0, y1 = y0 + along * q0, y1 + along * q1
        r0, r1 = r0 - (along * (d0 - level) + slip) * s0, r1 - (along * (d1 - level) + slip) * s1
        p0, p1 = r0 + again * p0, r1 + again * p1
        squared = fresh
        steps += 1.0
    tl.store(adjoints + place0, u0 * scale, mask=i0 < length)
    tl.store(adjoints + place1, u1 * scale, mask=i1 < length)
    for rest in range(A + B, length, A):
        tl.store(adjoints + slot * length + rest + i0, tl.zeros([A], tl.float32), mask=rest + i0 < length)
    if WITH_CAP:
        # Keys at the cap move with it, and take the margin along: ᾱ_E − u_ρ|E| − 2 uᵀKe, with Ku = y.
        u_rho = _sum((m0 - 2.0 * y0 - ridge * u0) * s0, (m1 - 2.0 * y1 - ridge * u1) * s1) / size
        c0 = tl.load(alpha + place0, mask=i0 < count, other=0.0)
        c1 = tl.load(alpha + place1, mask=i1 < count, other=0.0)
        # Without a margin n·C ≤ 1, and 1/n does not move with the cap.
        moves = tl.minimum(_sum(s0, s1), 1.0)
        c0 = tl.where((c0 >= cap) & (i0 < count), 1.0 - s0, 0.0) * moves
        c1 = tl.where((c1 >= cap) & (i1 < count), 1.0 - s1, 0.0) * moves
        along = _sum(c0 * (u_rho + 2.0 * y0), c1 * (u_rho + 2.0 * y1))
        tl.store(cap_bar + slot, _sum(c0 * w0, c1 * w1) - along * scale)


@lru_cache(maxsize=64)
def _classes(counts: tuple[int, ...], problems: int, device: torch.device) -> list[tuple[int, int]]:
    """Ranges of prefixes that share a launch: all of them, until there are more than twice as many as multiprocessors.

    From there on short prefixes get launches of their own, in which several fit on one multiprocessor.
    """
    everything = [(0, len(counts))]
    if device.type != "cuda" or list(counts) != sorted(counts):
        return everything
    if problems * len(counts) <= 2 * torch.cuda.get_device_properties(device).multi_processor_count:
        return everything
    edges = [0, *(sum(count <= limit for count in counts) for limit in (64, 128)), len(counts)]
    return [(low, high) for low, high in pairwise(edges) if low < high][::-1]


def _launches(
    keys: Tensor, counts: tuple[int, ...], cap: Tensor
) -> Iterator[tuple[tuple[int], list[int], dict[str, int]]]:
    """Grid, trailing arguments and constants of each launch of the solve or its adjoint."""
    batch, heads, length, width = keys.shape
    problems = batch * heads
    for low, high in _classes(counts, problems, keys.device):
        longest = max(counts[low:high])
        first = max(16, triton.next_power_of_2(longest) // 2)
        constants = {
            "A": first,
            "B": max(16, triton.next_power_of_2(longest - first)),
            "DIM": max(16, triton.next_power_of_2(width)),
            "num_warps": 8 if first > 64 else 4,
        }
        if first <= 32 and keys.is_cuda:
            # Four programs to a multiprocessor.
            constants["maxnreg"] = 128
        trailing = [cap.numel(), problems, len(counts), high - 1, length, width]
        yield (problems * (high - low),), trailing, constants


def solve(
    keys: Tensor,
    centred: Tensor,
    norms: Tensor,
    counts: tuple[int, ...],
    cap: Tensor,
    sigma: Tensor,
    ridge: float,
    report: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients (B, h, b, T), offsets (B, h, b) and margin (B, h, b, T) of keys (B, h, T, d)."""
    batch, heads, length, _ = keys.shape
    shape = (batch, heads, len(counts))
    if report is None:
        report = torch.empty(*shape, 2, dtype=torch.int32, device=keys.device)
    alpha = torch.empty(*shape, length, device=keys.device)
    margin = torch.empty(*shape, length, dtype=torch.int8, device=keys.device)
    offset = torch.empty(shape, device=keys.device)
    for grid, trailing, constants in _launches(keys, counts, cap):
        _solve[grid](
            centred,
            norms,
            counts_on(counts, keys.device),
            cap,
            sigma,
            alpha,
            offset,
            margin,
            report,
            *trailing,
            ridge,
            plain_coefficients.TOLERANCE[torch.float32],
            **constants,
            EXCHANGES=plain_coefficients.EXCHANGES,
            STEPS=plain_coefficients.BLOCK_STEPS,
            BLOCKS=plain_coefficients.BLOCKS[torch.float32],
            PATIENCE=plain_coefficients.PATIENCE,
            POWERS=plain_coefficients.POWERS,
            SAFETY=plain_coefficients.SAFETY,
            LOOSE=plain_coefficients.LOOSE,
            FLOOR=plain_coefficients.FLOOR,
            EXCHANGE_STEPS=plain_coefficients.EXCHANGE_STEPS[torch.float32],
        )
    return alpha, offset, margin


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
    """Fill the adjoints u (B, h, b, T) and, if asked for, the cotangents of the caps (B, h, b)."""
    for grid, trailing, constants in _launches(keys, counts, cap):
        _adjoint[grid](
            centred,
            norms,
            counts_on(counts, keys.device),
            cap,
            sigma,
            alpha,
            margin,
            alpha_bar,
            offset_bar,
            adjoints,
            cap_bar,
            *trailing,
            ridge,
            ADJOINT_TOLERANCE[torch.float32],
            **constants,
            ADJOINT_STEPS=ADJOINT_STEPS[torch.float32],
            WITH_CAP=with_cap,
        )
