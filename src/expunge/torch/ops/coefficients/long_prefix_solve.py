"""Coefficients of long prefixes: the method of `plain_coefficients`, cut at its products (`product_rounds`)."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from expunge.torch.ops.coefficients import plain_coefficients
from expunge.torch.ops.coefficients.key_tiles import _add2, _add2_most, _clipped, jit
from expunge.torch.ops.coefficients.product_rounds import FIELDS, GOAL, PHASE, RUNNING, ProductRounds, _conjugate_step

__all__ = ["solve"]

# Rounds, that is, products that a problem may request: about as many as the paper's 80 iterations.
ROUNDS = 88

# What the answer that a problem waits for is: 2K times its coefficients, a direction of conjugate gradients, a vector
# of the power iteration, or the point ahead of accelerated gradients.
COEFFICIENTS = tl.constexpr(0)
DIRECTION = tl.constexpr(1)
POWER = tl.constexpr(2)
AHEAD = tl.constexpr(3)

# Numbers that a problem keeps between steps, beside those of `product_rounds`.
TAKEN = tl.constexpr(3)
FEWEST = tl.constexpr(4)
STALLED = tl.constexpr(5)
TIGHT = tl.constexpr(6)
EXCHANGE = tl.constexpr(7)
ASKED = tl.constexpr(8)
SETTLED = tl.constexpr(9)
ATTEMPT = tl.constexpr(10)
LEFT = tl.constexpr(11)
STEP = tl.constexpr(12)
MOMENTUM = tl.constexpr(13)
SHIFT = tl.constexpr(14)


@jit
def _project(x: tl.tensor, live: tl.tensor, cap: tl.tensor, shift: tl.tensor) -> tl.tensor:
    """Nearest feasible point and its common shift: Newton from a guess of the shift, inside a bracket."""
    low = tl.min(tl.where(live > 0.0, x, float("inf")), 0) - cap
    high = tl.max(tl.where(live > 0.0, x, -float("inf")), 0)
    shift = tl.where((shift > low) & (shift < high), shift, 0.5 * (low + high))
    steps = 0
    excess = shift * 0.0 + 1.0
    while (tl.abs(excess) > 1e-6) & (steps < 32):
        z = x - shift
        mass, free = tl.reduce((_clipped(z, live, cap), tl.where((z > 0.0) & (z < cap), live, 0.0)), 0, _add2)
        excess = mass - 1.0
        low = tl.where(excess > 0.0, shift, low)
        high = tl.where(excess > 0.0, high, shift)
        newton = shift + excess / tl.maximum(free, 1.0)
        moved = tl.where((free > 0.0) & (newton > low) & (newton < high), newton, 0.5 * (low + high))
        shift = tl.where(tl.abs(excess) > 1e-6, moved, shift)
        steps += 1
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
    SIZE: tl.constexpr,
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
        tight, exchange, asked = tl.load(state + TIGHT), tl.load(state + EXCHANGE), tl.load(state + ASKED)
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
            now, shift = _project(x - step * (q + ridge * x), live, cap, shift)
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
                tl.store(state + EXCHANGE, 0.0)
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
                along, r, p, squared = _conjugate_step(x, q + ridge * x, r, s, size, ridge)
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
                if (attempt > 0.0) & (exchange == 0.0):
                    # What exchanges start from is the result if they fail.
                    tl.store(alpha + wide, a, mask=i < count)
                    tl.store(out_margins + wide, s.to(tl.int8), mask=i < count)
                    tl.store(offsets + slot, -slope / size)
            if (squared > goal) & (taken < tl.minimum(2.0 * size + 4.0, 1.0 * EXCHANGE_STEPS)):
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
                tl.store(state + EXCHANGE, exchange + 1.0)
                tl.store(state + PHASE, 1.0 * COEFFICIENTS)
                even = ((worst <= tolerance) | (settled > 0.0)) & (tl.abs(mass - 1.0) <= tolerance)
                if ((number == 0.0) & even) | (odd != odd):
                    tl.store(state + RUNNING, 0.0)
                    tl.store(alpha + wide, _clipped(a, live, cap) + odd, mask=i < count)
                    tl.store(out_margins + wide, s.to(tl.int8), mask=i < count)
                    tl.store(offsets + slot, rho)
                elif (stalled > PATIENCE) | (exchange + 1.0 >= EXCHANGES):
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
def _end_feasible(
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
        now, _ = _project(tl.where(attempt > 0.0, anchor, a), live, cap, attempt * 0.0)
        # Every warp has read before any writes.
        tl.debug_barrier()
        tl.store(alphas + place, now, mask=i < count)
        tl.store(requests + place, now, mask=i < count)
        tl.store(margins + place, ((now > 0.0) & (now < cap)).to(tl.int8), mask=i < count)
        tl.store(uppers + place, (now >= cap).to(tl.int8), mask=i < count)
        tl.store(state + PHASE, 1.0 * COEFFICIENTS)
        tl.store(state + EXCHANGE, 0.0)
        tl.store(state + ATTEMPT, tl.maximum(attempt, 1.0))


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
    rounds = ProductRounds(keys, centred, norms, counts, sigma)
    batch, heads, length, _ = keys.shape
    alphas, anchors = (torch.empty(rounds.slots, rounds.extent, device=keys.device) for _ in range(2))
    margins, uppers = (torch.empty(rounds.slots, rounds.extent, dtype=torch.int8, device=keys.device) for _ in range(2))
    shape = (batch, heads, len(counts))
    alpha = torch.empty(*shape, length, device=keys.device)
    margin = torch.empty(*shape, length, dtype=torch.int8, device=keys.device)
    offset = torch.empty(shape, device=keys.device)
    problems = [rounds.requests, alphas, anchors, margins, uppers, rounds.states]
    results = [alpha, offset, margin]
    numbers: list[Any] = [rounds.counts, cap, cap.numel(), rounds.prefixes, rounds.extent]
    shared = {"SIZE": rounds.size, "LOOSE": plain_coefficients.LOOSE, "num_warps": rounds.warps}
    grid = (rounds.slots,)
    _begin[grid](*problems, *results, *numbers, length, **shared)

    def step() -> None:
        rounds.answer()
        _step[grid](
            *(rounds.answers, rounds.requests, alphas, anchors, rounds.images, rounds.residuals),
            *(margins, uppers, rounds.states, *results, *numbers, length),
            ridge,
            plain_coefficients.TOLERANCE[torch.float32],
            EXCHANGES=plain_coefficients.EXCHANGES,
            STEPS=plain_coefficients.BLOCK_STEPS,
            BLOCKS=plain_coefficients.BLOCKS[torch.float32],
            PATIENCE=plain_coefficients.PATIENCE,
            POWERS=plain_coefficients.POWERS,
            SAFETY=plain_coefficients.SAFETY,
            FLOOR=plain_coefficients.FLOOR,
            EXCHANGE_STEPS=plain_coefficients.EXCHANGE_STEPS[torch.float32],
            **shared,
        )

    for number in range(ROUNDS):
        step()
        if rounds.finished(number):
            break
    else:
        _end_feasible[grid](*problems, *numbers, SIZE=rounds.size, num_warps=rounds.warps)
        step()
    if report is not None:
        attempts, done = rounds.states[:, ATTEMPT.value], rounds.states[:, RUNNING.value] == 0.0
        found = torch.stack([rounds.states[:, ASKED.value], 2.0 * (attempts + 1.0) + done.float()], dim=-1)
        report.copy_(found.reshape(report.shape))
    return alpha, offset, margin
