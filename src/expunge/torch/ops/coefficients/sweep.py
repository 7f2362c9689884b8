"""Coefficients of long prefixes: all prefixes of a head advance together over one Gram matrix.

A Gram matrix that does not fit on the chip is the cost of an iteration, and every prefix of a head reads the same one.
So the iteration is turned inside out: each problem asks for one product with K at a time, a *sweep* answers the
requests of all prefixes while it reads the matrix once, as a product with as many columns as prefixes, and a *step*
takes each problem from its answer to its next request. The method is that of `reference`, cut at its products. A sweep
reads only the rows of keys that some request weighs; once partitions are found, these are few.

The number of sweeps is fixed, because a captured graph cannot ask whether to go on; problems that are done ask for
nothing, and a sweep without requests returns at once. Outside a capture the host looks now and then and stops early.

Answers are 2Kx, summed tile by tile in fp32: matrix units cut off, rather than round, what they accumulate.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from expunge.torch.ops.coefficients.reference import (
    ADJOINT_TOLERANCE,
    BLOCK_STEPS,
    BLOCKS,
    FLOOR,
    LOOSE,
    PATIENCE,
    POWERS,
    ROUND_STEPS,
    ROUNDS,
    SAFETY,
    TOLERANCE,
)
from expunge.torch.ops.coefficients.triton import (
    _add2,
    _add2_most,
    _clipped,
    _doubled,
    _kernel_block,
    counts_on,
    jit,
)

__all__ = ["Work", "adjoint", "solve"]

# Products that a problem may ask for, in the solve and in its adjoint: about as many as the paper's 80 iterations.
SWEEPS, ADJOINT_SWEEPS = 88, 40

# Between looks from the host.
LOOK = 12

# What the answer that a problem waits for is: 2K times its coefficients, a direction of conjugate gradients, a vector
# of the power iteration, or the point ahead of accelerated gradients.
COEFFICIENTS = tl.constexpr(0)
DIRECTION = tl.constexpr(1)
POWER = tl.constexpr(2)
AHEAD = tl.constexpr(3)

# Numbers that a problem keeps between steps.
RUNNING = tl.constexpr(0)
PHASE = tl.constexpr(1)
GOAL = tl.constexpr(2)
TAKEN = tl.constexpr(3)
FEWEST = tl.constexpr(4)
STALLED = tl.constexpr(5)
TIGHT = tl.constexpr(6)
TURN = tl.constexpr(7)
ASKED = tl.constexpr(8)
SETTLED = tl.constexpr(9)
ATTEMPT = tl.constexpr(10)
LEFT = tl.constexpr(11)
STEP = tl.constexpr(12)
MOMENTUM = tl.constexpr(13)
SHIFT = tl.constexpr(14)
SCALE = tl.constexpr(15)
FIELDS = tl.constexpr(16)


@jit
def _gram(
    keys: tl.tensor,
    norms: tl.tensor,
    sigmas: tl.tensor,
    grams: tl.tensor,
    groups: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    extent: tl.tensor,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    problem = tl.program_id(2)
    sigma = tl.load(sigmas + problem % groups)
    base = keys + problem.to(tl.int64) * length * width
    norm = norms + problem.to(tl.int64) * length
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    norms_i = tl.load(norm + row, mask=row < length, other=0.0)
    norms_j = tl.load(norm + column, mask=column < length, other=0.0)
    doubled = _doubled(base, row, column, length, width, DIM)
    block = _kernel_block(doubled, norms_i, norms_j, row, column, length, 1.0 / (sigma * sigma))
    target = grams + problem.to(tl.int64) * extent * extent + row[:, None].to(tl.int64) * extent + column[None, :]
    tl.store(target, block, mask=(row[:, None] < extent) & (column[None, :] < extent))


@jit
def _gather(
    requests: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    places: tl.tensor,
    numbers: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """List the keys that some running request of a head weighs."""
    problem = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, SIZE)
    wanted = tl.zeros([SIZE], tl.int32)
    for prefix in range(prefixes):
        slot = problem * prefixes + prefix
        reach = tl.where(tl.load(states + slot * FIELDS + RUNNING) > 0.0, tl.load(counts + prefix), 0)
        x = tl.load(requests + slot * extent + i, mask=i < reach, other=0.0)
        wanted = tl.maximum(wanted, (x != 0.0).to(tl.int32))
    after = tl.cumsum(wanted, 0)
    tl.store(places + problem * extent + after - 1, i, mask=wanted > 0)
    tl.store(numbers + problem, tl.sum(wanted, 0))


@jit
def _sweep(
    grams: tl.tensor,
    requests: tl.tensor,
    answers: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    places: tl.tensor,
    numbers: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    PREFIXES: tl.constexpr,
    BLOCK: tl.constexpr,
    DEEP: tl.constexpr,
) -> None:
    """2Kx for the requests of one head, for a block of rows; zeros where a request is zero."""
    problem = tl.program_id(1).to(tl.int64)
    which = tl.arange(0, PREFIXES)
    slots = problem * prefixes + which
    running = tl.load(states + slots * FIELDS + RUNNING, mask=which < prefixes, other=0.0)
    sizes = tl.load(counts + which, mask=which < prefixes, other=0)
    sizes = tl.where(running > 0.0, sizes, 0)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) * BLOCK < tl.max(sizes, 0):
        listed = tl.load(numbers + problem)
        gram = grams + problem * extent * extent
        total = tl.zeros([PREFIXES, BLOCK], tl.float32)
        for left in range(0, listed, DEEP):
            entry = left + tl.arange(0, DEEP)
            key = tl.load(places + problem * extent + entry, mask=entry < listed, other=1 << 30)
            wanted = key[None, :] < sizes[:, None]
            x = tl.load(requests + slots[:, None] * extent + key[None, :], mask=wanted, other=0.0)
            inside = (key[:, None] < extent) & (row[None, :] < extent)
            k = tl.load(gram + key[:, None].to(tl.int64) * extent + row[None, :], mask=inside, other=0.0)
            total += 2.0 * tl.dot(x, k, input_precision="tf32x3")
        tl.store(answers + slots[:, None] * extent + row[None, :], total, mask=row[None, :] < sizes[:, None])


@jit
def _add5(
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
) -> tl.tensor:
    return a + f, b + g, c + h, d + i, e + j


@jit
def _advance(x: tl.tensor, d: tl.tensor, r: tl.tensor, s: tl.tensor, size: tl.tensor, ridge: tl.tensor) -> tl.tensor:
    """One step of conjugate gradients: (step length, new residual, new direction, the residual's squared norm)."""
    bent, flat, now, slip, long = tl.reduce((x * d, d * s, r * r, r, x * x), 0, _add5)
    # The ridge bounds the curvature from below. Where rounding has eaten it there is nothing more to gain.
    sound = bent > 0.5 * ridge * long
    along = tl.where(sound, now / bent, 0.0)
    # The residual's mean should be zero; rounding makes it something else.
    r = r - (along * (d - flat / size) + slip / size) * s
    # Summed anew: a recurrence has no digits left when one step takes all of the residual, and a direction that it
    # mixes can cancel to nothing, along which the next step is infinite.
    after = tl.where(sound, tl.sum(r * r, 0), 0.0)
    return along, r, r + tl.where(now > 0.0, after / now, 0.0) * x, after


@jit
def _shifted(x: tl.tensor, live: tl.tensor, cap: tl.tensor, shift: tl.tensor) -> tl.tensor:
    """Nearest feasible point and its common shift: Newton from a guess of the shift, inside a bracket."""
    low = tl.min(tl.where(live > 0.0, x, float("inf")), 0) - cap
    high = tl.max(tl.where(live > 0.0, x, -float("inf")), 0)
    shift = tl.where((shift > low) & (shift < high), shift, 0.5 * (low + high))
    turn = 0
    excess = shift * 0.0 + 1.0
    while (tl.abs(excess) > 1e-6) & (turn < 32):
        z = x - shift
        mass, free = tl.reduce((_clipped(z, live, cap), tl.where((z > 0.0) & (z < cap), live, 0.0)), 0, _add2)
        excess = mass - 1.0
        low = tl.where(excess > 0.0, shift, low)
        high = tl.where(excess > 0.0, high, shift)
        newton = shift + excess / tl.maximum(free, 1.0)
        moved = tl.where((free > 0.0) & (newton > low) & (newton < high), newton, 0.5 * (low + high))
        shift = tl.where(tl.abs(excess) > 1e-6, moved, shift)
        turn += 1
    return _clipped(x - shift, live, cap), shift


@jit
def _begin(
    requests: tl.tensor,
    alphas: tl.tensor,
    anchors: tl.tensor,
    margins: tl.tensor,
    uppers: tl.tensor,
    states: tl.tensor,
    alpha: tl.tensor,
    offsets: tl.tensor,
    out_margins: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    length: tl.tensor,
    SIZE: tl.constexpr,
    LOOSE: tl.constexpr,
) -> None:
    """Every problem at the uniform point, which is also its result until there is a better one."""
    slot = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + slot % prefixes)
    cap = tl.load(caps + (slot // prefixes) % groups)
    i = tl.arange(0, SIZE)
    total = count.to(tl.float32)
    a = tl.where(i < count, 1.0 / total, 0.0)
    place = slot * extent + i
    tl.store(alphas + place, a, mask=i < extent)
    tl.store(anchors + place, a, mask=i < extent)
    tl.store(requests + place, a, mask=i < extent)
    tl.store(margins + place, (i < count).to(tl.int8), mask=i < extent)
    tl.store(uppers + place, tl.zeros([SIZE], tl.int8), mask=i < extent)
    tl.store(alpha + slot * length + i, a, mask=i < length)
    tl.store(out_margins + slot * length + i, tl.zeros([SIZE], tl.int8), mask=i < length)
    tl.store(offsets + slot, 0.0)
    field = tl.arange(0, FIELDS)
    feasible = tl.where(total * cap > 1.0 + 1e-6, 1.0, 0.0)
    start = tl.where(field == RUNNING, feasible, 0.0)
    start = tl.where(field == FEWEST, 1e9, start)
    tl.store(states + slot * FIELDS + field, tl.where(field == TIGHT, LOOSE, start))


@jit
def _step(
    answers: tl.tensor,
    requests: tl.tensor,
    alphas: tl.tensor,
    anchors: tl.tensor,
    images: tl.tensor,
    residuals: tl.tensor,
    margins: tl.tensor,
    uppers: tl.tensor,
    states: tl.tensor,
    alpha: tl.tensor,
    offsets: tl.tensor,
    out_margins: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    length: tl.tensor,
    ridge: tl.tensor,
    tolerance: tl.tensor,
    closing: tl.tensor,
    SIZE: tl.constexpr,
    ROUNDS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCKS: tl.constexpr,
    PATIENCE: tl.constexpr,
    POWERS: tl.constexpr,
    SAFETY: tl.constexpr,
    LOOSE: tl.constexpr,
    FLOOR: tl.constexpr,
    ROUND_STEPS: tl.constexpr,
) -> None:
    """From the answer to the next request."""
    slot = tl.program_id(0).to(tl.int64)
    state = states + slot * FIELDS
    if tl.load(state + RUNNING) > 0.0:
        count = tl.load(counts + slot % prefixes)
        cap = tl.load(caps + (slot // prefixes) % groups)
        i = tl.arange(0, SIZE)
        live = (i < count).to(tl.float32)
        total = count.to(tl.float32)
        place, wide = slot * extent + i, slot * length + i
        q = tl.load(answers + place, mask=i < count, other=0.0)
        x = tl.load(requests + place, mask=i < count, other=0.0)
        phase, attempt, left = tl.load(state + PHASE), tl.load(state + ATTEMPT), tl.load(state + LEFT) - 1.0
        goal, settled, taken = tl.load(state + GOAL), tl.load(state + SETTLED), tl.load(state + TAKEN)
        tight, turn, asked = tl.load(state + TIGHT), tl.load(state + TURN), tl.load(state + ASKED)
        fewest, stalled = tl.load(state + FEWEST), tl.load(state + STALLED)
        step, momentum, shift = tl.load(state + STEP), tl.load(state + MOMENTUM), tl.load(state + SHIFT)
        # Every warp has read the state before any changes it.
        tl.debug_barrier()
        tl.store(state + ASKED, asked + 1.0)
        if phase == POWER:
            v = (0.5 * q - tl.sum(0.5 * q * live, 0) / total) * live
            largest = tl.maximum(tl.sqrt(tl.sum(v * v, 0)), 1e-30)
            anchor = tl.load(anchors + place, mask=i < count, other=0.0)
            tl.store(requests + place, tl.where(left > 0.0, v / largest, anchor), mask=i < count)
            tl.store(state + LEFT, tl.where(left > 0.0, left, STEPS * attempt))
            tl.store(state + PHASE, tl.where(left > 0.0, phase, 1.0 * AHEAD))
            tl.store(state + STEP, 1.0 / (2.0 * SAFETY * largest + ridge))
            tl.store(state + MOMENTUM, 1.0)
        elif phase == AHEAD:
            before = tl.load(anchors + place, mask=i < count, other=0.0)
            now, shift = _shifted(x - step * (q + ridge * x), live, cap, shift)
            momentum = tl.where(tl.sum((x - now) * (now - before), 0) > 0.0, 1.0, momentum)
            following = 0.5 * (1.0 + tl.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = now + (momentum - 1.0) / following * (now - before)
            tl.store(anchors + place, now, mask=i < count)
            tl.store(requests + place, tl.where(left > 0.0, ahead, now), mask=i < count)
            tl.store(state + SHIFT, shift)
            tl.store(state + MOMENTUM, following)
            tl.store(state + LEFT, left)
            if left <= 0.0:
                tl.store(alphas + place, now, mask=i < count)
                tl.store(margins + place, ((now > 0.0) & (now < cap)).to(tl.int8), mask=i < count)
                tl.store(uppers + place, (now >= cap).to(tl.int8), mask=i < count)
                tl.store(state + PHASE, 1.0 * COEFFICIENTS)
                tl.store(state + TURN, 0.0)
                tl.store(state + STALLED, 0.0)
                tl.store(state + FEWEST, 1e9)
                tl.store(state + TIGHT, LOOSE)
        else:
            a = tl.load(alphas + place, mask=i < count, other=0.0)
            s = tl.load(margins + place, mask=i < count, other=0).to(tl.float32)
            e = tl.load(uppers + place, mask=i < count, other=0).to(tl.float32)
            within = phase == DIRECTION
            reach = tl.where(within, count, 0)
            y = tl.where(within, tl.load(images + place, mask=i < reach, other=0.0), q)
            r = tl.load(residuals + place, mask=i < reach, other=0.0)
            # A margin is never empty: the reserve key that most wants weight is freed.
            if tl.sum(s, 0) == 0.0:
                rest = live - e
                least = tl.min(tl.where(rest > 0.0, y, float("inf")), 0)
                first = tl.min(tl.where((y == least) & (rest > 0.0), i, SIZE), 0)
                s = (i == first).to(tl.float32)
                tl.store(margins + place, s.to(tl.int8), mask=i < count)
            g = y + ridge * a - 1.0
            slope, size = tl.reduce((g * s, s), 0, _add2)
            if within:
                along, r, p, squared = _advance(x, q + ridge * x, r, s, size, ridge)
                a += along * x
                y += along * q
                taken += 1.0
            else:
                r = -(g - slope / size) * s
                p = r
                squared = tl.sum(r * r, 0)
                floor = FLOOR * FLOOR * tolerance * tolerance * size
                goal = tl.maximum(tight * tight * squared, floor)
                settled = tl.where(squared <= floor, 1.0, 0.0)
                taken = size * 0.0
                if (attempt > 0.0) & (turn == 0.0):
                    # What exchanges start from is the result if they fail.
                    clear = a >= closing / total
                    tl.store(alpha + wide, tl.where(clear, a, 0.0), mask=i < count)
                    tl.store(out_margins + wide, tl.where(clear, s, 0.0).to(tl.int8), mask=i < count)
                    tl.store(offsets + slot, -slope / size)
            if (squared > goal) & (taken < tl.minimum(2.0 * size + 4.0, 1.0 * ROUND_STEPS)):
                tl.store(alphas + place, a, mask=i < count)
                tl.store(images + place, y, mask=i < count)
                tl.store(residuals + place, r, mask=i < count)
                tl.store(requests + place, p, mask=i < count)
                tl.store(state + PHASE, 1.0 * DIRECTION)
                tl.store(state + GOAL, goal)
                tl.store(state + TAKEN, taken)
                tl.store(state + SETTLED, settled)
            else:
                g = y + ridge * a - 1.0
                rho = -tl.sum(g * s, 0) / size
                g += rho
                below, above = tl.where(a < 0.0, s, 0.0), tl.where(a > cap, s, 0.0)
                enter = tl.where(g < -tolerance, live - s - e, 0.0) + tl.where(g > tolerance, e, 0.0)
                wrong = below + above + enter
                number, mass, worst = tl.reduce((wrong, a, tl.abs(g) * s), 0, _add2_most)
                # Keys that are not numbers end the search, and the coefficients say so.
                odd = tl.where(rho == rho, 0.0, rho)
                worse = number >= fewest
                stalled += tl.where(worse & (number > 0.0), 1.0, 0.0)
                tl.store(state + STALLED, stalled)
                tl.store(state + FEWEST, tl.minimum(fewest, number))
                tl.store(state + TIGHT, tl.where((number == 0.0) | worse, tight * 0.1, tight))
                tl.store(state + TURN, turn + 1.0)
                tl.store(state + PHASE, 1.0 * COEFFICIENTS)
                even = ((worst <= tolerance) | (settled > 0.0)) & (tl.abs(mass - 1.0) <= tolerance)
                if ((number == 0.0) & even) | (odd != odd):
                    tl.store(state + RUNNING, 0.0)
                    clear = a >= closing / total
                    tl.store(alpha + wide, tl.where(clear, _clipped(a, live, cap), 0.0) + odd, mask=i < count)
                    tl.store(out_margins + wide, tl.where(clear, s, 0.0).to(tl.int8), mask=i < count)
                    tl.store(offsets + slot, rho)
                elif (stalled > PATIENCE) | (turn + 1.0 >= ROUNDS):
                    # Exchanges cycle: accelerated gradients, from where they stopped last time.
                    known = step > 0.0
                    v = ((i * 7919) % 127).to(tl.float32) * live
                    v = (v - tl.sum(v, 0) / total) * live
                    anchor = tl.load(anchors + place, mask=i < count, other=0.0)
                    tl.store(requests + place, tl.where(known, anchor, v), mask=i < count)
                    tl.store(state + PHASE, tl.where(known, 1.0 * AHEAD, 1.0 * POWER))
                    tl.store(state + LEFT, tl.where(known, STEPS * (attempt + 1.0), 1.0 * POWERS))
                    tl.store(state + MOMENTUM, 1.0)
                    tl.store(state + ATTEMPT, attempt + 1.0)
                    tl.store(state + RUNNING, tl.where(attempt + 1.0 > BLOCKS, -1.0, 1.0))
                else:
                    e = e * (1.0 - wrong) + above
                    s = s * (1.0 - wrong) + enter
                    rest = live - e
                    least = tl.min(tl.where(rest > 0.0, y, float("inf")), 0)
                    first = tl.min(tl.where((y == least) & (rest > 0.0), i, SIZE), 0)
                    s = tl.where(tl.sum(s, 0) == 0.0, (i == first).to(tl.float32), s)
                    f = e * cap + s * a
                    mass, size = tl.reduce((f, s), 0, _add2)
                    a = f + (1.0 - mass) / size * s
                    tl.store(alphas + place, a, mask=i < count)
                    tl.store(requests + place, a, mask=i < count)
                    tl.store(margins + place, s.to(tl.int8), mask=i < count)
                    tl.store(uppers + place, e.to(tl.int8), mask=i < count)


@jit
def _halt(
    requests: tl.tensor,
    alphas: tl.tensor,
    anchors: tl.tensor,
    margins: tl.tensor,
    uppers: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Bring a problem that is out of products to the feasible point nearest to where it is, and ask for that one's."""
    slot = tl.program_id(0).to(tl.int64)
    state = states + slot * FIELDS
    if tl.load(state + RUNNING) > 0.0:
        count = tl.load(counts + slot % prefixes)
        cap = tl.load(caps + (slot // prefixes) % groups)
        attempt = tl.load(state + ATTEMPT)
        i = tl.arange(0, SIZE)
        live = (i < count).to(tl.float32)
        place = slot * extent + i
        # Exchanges may be anywhere; accelerated gradients are always feasible.
        a = tl.load(alphas + place, mask=i < count, other=0.0)
        anchor = tl.load(anchors + place, mask=i < count, other=0.0)
        now, _ = _shifted(tl.where(attempt > 0.0, anchor, a), live, cap, attempt * 0.0)
        # Every warp has read before any writes.
        tl.debug_barrier()
        tl.store(alphas + place, now, mask=i < count)
        tl.store(requests + place, now, mask=i < count)
        tl.store(margins + place, ((now > 0.0) & (now < cap)).to(tl.int8), mask=i < count)
        tl.store(uppers + place, (now >= cap).to(tl.int8), mask=i < count)
        tl.store(state + PHASE, 1.0 * COEFFICIENTS)
        tl.store(state + TURN, 0.0)
        tl.store(state + ATTEMPT, tl.maximum(attempt, 1.0))


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
            along, r, p, squared = _advance(x, q + ridge * x, r, s, size, ridge)
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
    at_cap = tl.where((a >= cap) & (i < count), 1.0 - s, 0.0)
    tl.store(cap_bar + slot, tl.sum(at_cap * w, 0) - tl.sum(at_cap * (u_rho + y), 0) * scale)


class Work:
    """Buffers of one call, and the two launches that alternate."""

    def __init__(self, keys: Tensor, centred: Tensor, norms: Tensor, counts: tuple[int, ...], sigma: Tensor) -> None:
        batch, heads, length, width = keys.shape
        self.problems, self.prefixes, self.length = batch * heads, len(counts), length
        # Rows start at multiples of 16 numbers, so that loads are wide.
        self.extent = triton.cdiv(max(counts), 16) * 16
        self.slots = self.problems * self.prefixes
        self.size = triton.next_power_of_2(length)
        self.warps = min(16, max(4, self.size // 256))
        self.counts = counts_on(counts, keys.device)
        self.grams = torch.empty(self.problems, self.extent, self.extent, device=keys.device)
        tiles = triton.cdiv(self.extent, 64)
        _gram[(tiles, tiles, self.problems)](
            centred,
            norms,
            sigma,
            self.grams,
            sigma.numel(),
            length,
            width,
            self.extent,
            DIM=max(16, triton.next_power_of_2(width)),
            BLOCK=64,
            num_warps=4,
            num_stages=1,
        )
        shape = (self.slots, self.extent)
        self.requests, self.answers, self.images, self.residuals = (
            torch.empty(shape, device=keys.device) for _ in range(4)
        )
        self.states = torch.empty(self.slots, FIELDS.value, device=keys.device)
        self.places = torch.empty(self.problems, self.extent, dtype=torch.int32, device=keys.device)
        self.numbers = torch.empty(self.problems, dtype=torch.int32, device=keys.device)

    def sweep(self) -> None:
        """Answer every request."""
        _gather[(self.problems,)](
            self.requests,
            self.states,
            self.counts,
            self.places,
            self.numbers,
            self.prefixes,
            self.extent,
            SIZE=self.size,
            num_warps=self.warps,
        )
        _sweep[(triton.cdiv(self.extent, 64), self.problems)](
            self.grams,
            self.requests,
            self.answers,
            self.states,
            self.counts,
            self.places,
            self.numbers,
            self.prefixes,
            self.extent,
            PREFIXES=max(16, triton.next_power_of_2(self.prefixes)),
            BLOCK=64,
            DEEP=32,
            num_warps=4,
            num_stages=2,
        )

    def finished(self, turn: int) -> bool:
        """Whether nothing is left to do, as far as the host may ask."""
        if turn % LOOK != LOOK - 1 or torch.cuda.is_current_stream_capturing():
            return False
        return not bool((self.states[:, RUNNING.value] > 0.0).any())


def solve(
    keys: Tensor,
    centred: Tensor,
    norms: Tensor,
    counts: tuple[int, ...],
    cap: Tensor,
    sigma: Tensor,
    ridge: float,
    closing: float,
    report: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients (B, h, b, T), offsets (B, h, b) and margin (B, h, b, T) of keys (B, h, T, d)."""
    work = Work(keys, centred, norms, counts, sigma)
    batch, heads, length, _ = keys.shape
    alphas, anchors = (torch.empty(work.slots, work.extent, device=keys.device) for _ in range(2))
    margins, uppers = (torch.empty(work.slots, work.extent, dtype=torch.int8, device=keys.device) for _ in range(2))
    shape = (batch, heads, len(counts))
    alpha = torch.empty(*shape, length, device=keys.device)
    margin = torch.empty(*shape, length, dtype=torch.int8, device=keys.device)
    offset = torch.empty(shape, device=keys.device)
    trailing: list[Any] = [
        *(alpha, offset, margin),
        *(work.counts, cap, cap.numel(), work.prefixes, work.extent, length),
    ]
    shared = {"SIZE": work.size, "LOOSE": LOOSE, "num_warps": work.warps}
    grid = (work.slots,)
    _begin[grid](work.requests, alphas, anchors, margins, uppers, work.states, *trailing, **shared)

    def step() -> None:
        work.sweep()
        _step[grid](
            work.answers,
            work.requests,
            alphas,
            anchors,
            work.images,
            work.residuals,
            margins,
            uppers,
            work.states,
            *trailing,
            ridge,
            TOLERANCE[torch.float32],
            closing,
            ROUNDS=ROUNDS,
            STEPS=BLOCK_STEPS,
            BLOCKS=BLOCKS[torch.float32],
            PATIENCE=PATIENCE,
            POWERS=POWERS,
            SAFETY=SAFETY,
            FLOOR=FLOOR,
            ROUND_STEPS=ROUND_STEPS[torch.float32],
            **shared,
        )

    for turn in range(SWEEPS):
        step()
        if work.finished(turn):
            break
    else:
        _halt[grid](
            work.requests,
            alphas,
            anchors,
            margins,
            uppers,
            work.states,
            work.counts,
            cap,
            cap.numel(),
            work.prefixes,
            work.extent,
            SIZE=work.size,
            num_warps=work.warps,
        )
        step()
    if report is not None:
        attempts, done = work.states[:, ATTEMPT.value], work.states[:, RUNNING.value] == 0.0
        numbers = torch.stack([work.states[:, ASKED.value], 2.0 * (attempts + 1.0) + done.float()], dim=-1)
        report.copy_(numbers.reshape(report.shape))
    return alpha, offset, margin


def adjoint(
    work: Work,
    cap: Tensor,
    ridge: float,
    alpha: Tensor,
    margin: Tensor,
    alpha_bar: Tensor,
    offset_bar: Tensor,
    adjoints: Tensor,
    cap_bar: Tensor,
) -> None:
    """Fill the adjoints u (B, h, b, T) and the cotangents of the caps (B, h, b)."""
    shared = {"SIZE": work.size, "num_warps": work.warps}
    numbers: list[Any] = [work.prefixes, work.extent, work.length]
    grid = (work.slots,)
    _adjoint_begin[grid](
        margin, alpha_bar, offset_bar, work.requests, adjoints, work.states, work.counts, *numbers, **shared
    )
    for turn in range(ADJOINT_SWEEPS):
        work.sweep()
        _adjoint_step[grid](
            work.answers,
            work.requests,
            work.images,
            work.residuals,
            margin,
            alpha_bar,
            adjoints,
            work.states,
            work.counts,
            *numbers,
            ridge,
            ADJOINT_TOLERANCE[torch.float32],
            **shared,
        )
        if work.finished(turn):
            break
    _adjoint_end[grid](
        work.states,
        work.images,
        margin,
        alpha,
        alpha_bar,
        adjoints,
        cap_bar,
        work.counts,
        cap,
        cap.numel(),
        *numbers,
        ridge,
        **shared,
    )
