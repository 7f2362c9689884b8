"""Coefficients of long prefixes: all prefixes of a head advance together over one Gram matrix.

A Gram matrix that does not fit on the chip is the cost of an iteration, and every prefix of a head reads the same one.
So the iteration is turned inside out: each problem asks for one product with K at a time, a *sweep* answers the
requests of all prefixes while it reads the matrix once, as a product with as many columns as prefixes, and a *step*
takes each problem from its answer to its next request. The method is that of `reference`, cut at its products.

The number of sweeps is fixed, because a captured graph cannot ask whether to go on; problems that are done ask for
nothing, and a sweep without requests returns at once. Outside a capture the host looks now and then and stops early.
A problem that is not done at the end is projected onto the constraints.

Answers are 2Kx, summed tile by tile in fp32: matrix units cut off, rather than round, what they accumulate.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from expunge.torch.ops.coefficients.reference import ADJOINT_TOLERANCE, FLOOR, LOOSE, PATIENCE, ROUNDS, TOLERANCE
from expunge.torch.ops.coefficients.triton import (
    _add2,
    _add5,
    _add_most,
    _kernel_block,
    _rows,
    counts_on,
    jit,
)

__all__ = ["Work", "adjoint", "solve"]

# Products that a problem may ask for, in the solve and in its adjoint.
SWEEPS, ADJOINT_SWEEPS = 96, 64

# Between looks from the host.
LOOK = 12

# Numbers that a problem keeps between steps.
RUNNING = tl.constexpr(0)
PHASE = tl.constexpr(1)
SQUARED = tl.constexpr(2)
GOAL = tl.constexpr(3)
TAKEN = tl.constexpr(4)
FEWEST = tl.constexpr(5)
STALLED = tl.constexpr(6)
TIGHT = tl.constexpr(7)
OFFSET = tl.constexpr(8)
TURN = tl.constexpr(9)
ASKED = tl.constexpr(10)
SETTLED = tl.constexpr(11)
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
    xi, xj = _rows(base, row, length, width, DIM), _rows(base, column, length, width, DIM)
    norms_i = tl.load(norm + row, mask=row < length, other=0.0)
    norms_j = tl.load(norm + column, mask=column < length, other=0.0)
    inner = tl.dot(xi, tl.trans(xj), input_precision="tf32x3")
    block = _kernel_block(inner, norms_i, norms_j, row, column, length, 1.0 / (sigma * sigma))
    target = grams + problem.to(tl.int64) * extent * extent + row[:, None].to(tl.int64) * extent + column[None, :]
    tl.store(target, block, mask=(row[:, None] < extent) & (column[None, :] < extent))


@jit
def _sweep(
    grams: tl.tensor,
    requests: tl.tensor,
    answers: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    PREFIXES: tl.constexpr,
    BLOCK: tl.constexpr,
    DEEP: tl.constexpr,
) -> None:
    """2Kx for the requests of one head, for a block of rows."""
    problem = tl.program_id(1)
    which = tl.arange(0, PREFIXES)
    slots = problem.to(tl.int64) * prefixes + which
    running = tl.load(states + slots * FIELDS + RUNNING, mask=which < prefixes, other=0.0)
    sizes = tl.load(counts + which, mask=which < prefixes, other=0)
    needed = tl.max(tl.where(running > 0.0, sizes, 0), 0)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) * BLOCK < needed:
        gram = grams + problem.to(tl.int64) * extent * extent
        total = tl.zeros([PREFIXES, BLOCK], tl.float32)
        for left in range(0, needed, DEEP):
            column = left + tl.arange(0, DEEP)
            wanted = (running[:, None] > 0.0) & (column[None, :] < sizes[:, None])
            x = tl.load(requests + slots[:, None] * extent + column[None, :], mask=wanted, other=0.0)
            inside = (column[:, None] < needed) & (row[None, :] < needed)
            k = tl.load(gram + column[:, None].to(tl.int64) * extent + row[None, :], mask=inside, other=0.0)
            total += 2.0 * tl.dot(x, k, input_precision="tf32x3")
        wanted = (running[:, None] > 0.0) & (row[None, :] < sizes[:, None])
        tl.store(answers + slots[:, None] * extent + row[None, :], total, mask=wanted)


@jit
def _advance(x: tl.tensor, d: tl.tensor, r: tl.tensor, s: tl.tensor, size: tl.tensor, active: tl.tensor) -> tl.tensor:
    """One step of conjugate gradients: (step length, new residual, new direction, its squared norm)."""
    bent, flat, deep, mixed, now = tl.reduce((x * d, d * s, d * d * s, r * d, r * r), 0, _add5)
    # Without curvature there is nothing more to gain: rounding has eaten the ridge.
    along = tl.where(active & (bent > 0.0), now / bent, 0.0)
    level = flat / size
    fresh = tl.maximum(now - 2.0 * along * mixed + along * along * (deep - level * flat), 0.0)
    r = r - along * (d - level) * s
    return along, r, r + fresh / now * x, tl.where(bent > 0.0, fresh, 0.0)


@jit
def _begin(
    requests: tl.tensor,
    alphas: tl.tensor,
    margins: tl.tensor,
    uppers: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    SIZE: tl.constexpr,
    LOOSE: tl.constexpr,
) -> None:
    slot = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + slot % prefixes)
    cap = tl.load(caps + (slot // prefixes) % groups)
    i = tl.arange(0, SIZE)
    total = count.to(tl.float32)
    a = tl.where(i < count, 1.0 / total, 0.0)
    place = slot * extent + i
    tl.store(alphas + place, a, mask=i < extent)
    tl.store(requests + place, a, mask=i < extent)
    tl.store(margins + place, (i < count).to(tl.int8), mask=i < extent)
    tl.store(uppers + place, tl.zeros([SIZE], tl.int8), mask=i < extent)
    state = states + slot * FIELDS
    field = tl.arange(0, FIELDS)
    tl.store(state + field, tl.zeros([FIELDS], tl.float32))
    tl.debug_barrier()
    tl.store(state + RUNNING, tl.where(total * cap > 1.0 + 1e-6, 1.0, 0.0))
    tl.store(state + FEWEST, 1e9)
    tl.store(state + TIGHT, LOOSE)


@jit
def _step(
    answers: tl.tensor,
    requests: tl.tensor,
    alphas: tl.tensor,
    images: tl.tensor,
    residuals: tl.tensor,
    margins: tl.tensor,
    uppers: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    ridge: tl.tensor,
    tolerance: tl.tensor,
    SIZE: tl.constexpr,
    ROUNDS: tl.constexpr,
    PATIENCE: tl.constexpr,
    FLOOR: tl.constexpr,
) -> None:
    """From the answer to the next request: within a linear solve, or through an exchange of the partition."""
    slot = tl.program_id(0).to(tl.int64)
    state = states + slot * FIELDS
    if tl.load(state + RUNNING) > 0.0:
        count = tl.load(counts + slot % prefixes)
        cap = tl.load(caps + (slot // prefixes) % groups)
        i = tl.arange(0, SIZE)
        live = (i < count).to(tl.float32)
        place = slot * extent + i
        q = tl.load(answers + place, mask=i < count, other=0.0)
        a = tl.load(alphas + place, mask=i < count, other=0.0)
        x = tl.load(requests + place, mask=i < count, other=0.0)
        s = tl.load(margins + place, mask=i < count, other=0).to(tl.float32)
        e = tl.load(uppers + place, mask=i < count, other=0).to(tl.float32)
        within = tl.load(state + PHASE) > 0.0
        reach = tl.where(within, count, 0)
        y = tl.load(images + place, mask=i < reach, other=0.0)
        r = tl.load(residuals + place, mask=i < reach, other=0.0)
        squared, goal = tl.load(state + SQUARED), tl.load(state + GOAL)
        taken, settled = tl.load(state + TAKEN), tl.load(state + SETTLED)
        tight, turn = tl.load(state + TIGHT), tl.load(state + TURN)

        g = tl.where(within, y, q) + ridge * a - 1.0
        slope, size = tl.reduce((g * s, s), 0, _add2)
        if within:
            along, r, p, squared = _advance(x, q + ridge * x, r, s, size, within)
            a += along * x
            y += along * q
            taken += 1.0
        else:
            y = q
            r = -(g - slope / size) * s
            p = r
            squared = tl.sum(r * r, 0)
            floor = FLOOR * FLOOR * tolerance * tolerance * size
            goal = tl.maximum(tight * tight * squared, floor)
            settled = tl.where(squared <= floor, 1.0, 0.0)
            taken = size * 0.0
        tl.store(state + ASKED, tl.load(state + ASKED) + 1.0)
        if (squared > goal) & (taken < tl.minimum(2.0 * size + 4.0, 128.0)):
            tl.store(alphas + place, a, mask=i < count)
            tl.store(images + place, y, mask=i < count)
            tl.store(residuals + place, r, mask=i < count)
            tl.store(requests + place, p, mask=i < count)
            tl.store(state + PHASE, 1.0)
            tl.store(state + SQUARED, squared)
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
            number, worst = tl.reduce((wrong, tl.abs(g) * s), 0, _add_most)
            over = (number == 0.0) & ((worst <= tolerance) | (settled > 0.0))
            # Keys that are not numbers: give up, and let the coefficients say so.
            over = over | (number != number) | (rho != rho)
            fewest = tl.load(state + FEWEST)
            worse = number >= fewest
            stalled = tl.load(state + STALLED) + tl.where(worse & (number > 0.0), 1.0, 0.0)
            tl.store(state + STALLED, stalled)
            tl.store(state + FEWEST, tl.minimum(fewest, number))
            tl.store(state + TIGHT, tl.where((number == 0.0) | worse, tight * 0.1, tight))
            tl.store(state + OFFSET, rho)
            tl.store(state + TURN, turn + 1.0)
            tl.store(state + PHASE, 0.0)
            if over | (turn + 1.0 >= ROUNDS):
                tl.store(state + RUNNING, tl.where(over, 0.0, -1.0))
                tl.store(alphas + place, a, mask=i < count)
            else:
                last = tl.max(tl.where(wrong > 0.0, i, -1), 0)
                chosen = tl.where(stalled > PATIENCE, (i == last).to(tl.float32), 1.0) * wrong
                e = e * (1.0 - chosen) + chosen * above
                s = s * (1.0 - chosen) + chosen * enter
                # A margin is never empty: the key that most wants weight is freed.
                least = tl.min(tl.where(live > 0.0, y, float("inf")), 0)
                first = tl.min(tl.where((y == least) & (live > 0.0), i, SIZE), 0)
                s = tl.where(tl.sum(s, 0) == 0.0, (i == first).to(tl.float32), s)
                e = e * (1.0 - s)
                f = e * cap + s * a
                mass, size = tl.reduce((f, s), 0, _add2)
                a = f + tl.where(number > 0.0, (1.0 - mass) / size, 0.0) * s
                tl.store(alphas + place, a, mask=i < count)
                tl.store(requests + place, a, mask=i < count)
                tl.store(margins + place, s.to(tl.int8), mask=i < count)
                tl.store(uppers + place, e.to(tl.int8), mask=i < count)


@jit
def _end(
    alphas: tl.tensor,
    margins: tl.tensor,
    states: tl.tensor,
    counts: tl.tensor,
    caps: tl.tensor,
    alpha: tl.tensor,
    offsets: tl.tensor,
    out_margins: tl.tensor,
    reports: tl.tensor,
    groups: tl.tensor,
    prefixes: tl.tensor,
    extent: tl.tensor,
    length: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Results of every problem; those that are not done are projected onto the constraints."""
    slot = tl.program_id(0).to(tl.int64)
    state = states + slot * FIELDS
    count = tl.load(counts + slot % prefixes)
    cap = tl.load(caps + (slot // prefixes) % groups)
    i = tl.arange(0, SIZE)
    live = (i < count).to(tl.float32)
    a = tl.load(alphas + slot * extent + i, mask=i < count, other=0.0)
    s = tl.load(margins + slot * extent + i, mask=i < count, other=0).to(tl.float32)
    total = count.to(tl.float32)
    feasible = total * cap > 1.0 + 1e-6
    done = tl.load(state + RUNNING) == 0.0
    if (done == 0) & feasible:
        low = tl.min(tl.where(live > 0.0, a, float("inf")), 0) - cap
        high = tl.max(tl.where(live > 0.0, a, -float("inf")), 0)
        for _ in range(32):
            middle = 0.5 * (low + high)
            mass = tl.sum(tl.minimum(tl.maximum(a - middle, 0.0), cap) * live, 0)
            low = tl.where(mass > 1.0, middle, low)
            high = tl.where(mass > 1.0, high, middle)
        a = tl.minimum(tl.maximum(a - 0.5 * (low + high), 0.0), cap) * live
        s = tl.where((a > 0.0) & (a < cap), live, 0.0)
    number = a == a
    clipped = tl.where(number, tl.minimum(tl.maximum(a, 0.0), cap), a)
    a = tl.where(feasible, clipped, 1.0 / total) * live
    s = tl.where(feasible, s, 0.0)
    inside = i < length
    tl.store(alpha + slot * length + i, a, mask=inside)
    tl.store(out_margins + slot * length + i, s.to(tl.int8), mask=inside)
    tl.store(offsets + slot, tl.where(feasible, tl.load(state + OFFSET), 0.0))
    tl.store(reports + 2 * slot, tl.load(state + ASKED).to(tl.int32))
    tl.store(reports + 2 * slot + 1, 2 + done.to(tl.int32))


@jit
def _adjoint_begin(
    margins: tl.tensor,
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
    u = s * (tl.load(offset_bar + slot) / tl.maximum(size, 1.0))
    tl.store(adjoints + slot * length + i, u, mask=i < length)
    tl.store(requests + slot * extent + i, u, mask=i < extent)
    state = states + slot * FIELDS
    field = tl.arange(0, FIELDS)
    tl.store(state + field, tl.zeros([FIELDS], tl.float32))
    tl.debug_barrier()
    tl.store(state + RUNNING, tl.where(size > 0.0, 1.0, 0.0))


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
            along, r, p, squared = _advance(x, q + ridge * x, r, s, size, within)
            u += along * x
            y += along * q
        else:
            w = tl.load(alpha_bar + wide, mask=i < count, other=0.0)
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
    """Cotangent of the cap: ᾱ_E − u_ρ|E| − 2 uᵀKe, with 2Ku = y."""
    slot = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + slot % prefixes)
    cap = tl.load(caps + (slot // prefixes) % groups)
    i = tl.arange(0, SIZE)
    wide = slot * length + i
    s = tl.load(margins + wide, mask=i < count, other=0).to(tl.float32)
    size = tl.sum(s, 0)
    y = tl.load(images + slot * extent + i, mask=i < tl.where(size > 0.0, count, 0), other=0.0)
    w = tl.load(alpha_bar + wide, mask=i < count, other=0.0)
    u = tl.load(adjoints + wide, mask=i < count, other=0.0)
    a = tl.load(alpha + wide, mask=i < count, other=0.0)
    u_rho = tl.sum((w - y - ridge * u) * s, 0) / tl.maximum(size, 1.0)
    at_cap = tl.where((a >= cap) & (i < count), 1.0 - s, 0.0)
    tl.store(cap_bar + slot, tl.sum(at_cap * (w - u_rho - y), 0))


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

    def sweep(self) -> None:
        """Answer every request."""
        _sweep[(triton.cdiv(self.extent, 64), self.problems)](
            self.grams,
            self.requests,
            self.answers,
            self.states,
            self.counts,
            self.prefixes,
            self.extent,
            PREFIXES=max(16, triton.next_power_of_2(self.prefixes)),
            BLOCK=64,
            DEEP=32,
            num_warps=4,
            num_stages=3,
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
    report: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients (B, h, b, T), offsets (B, h, b) and margin (B, h, b, T) of keys (B, h, T, d)."""
    work = Work(keys, centred, norms, counts, sigma)
    batch, heads, length, _ = keys.shape
    alphas = torch.empty(work.slots, work.extent, device=keys.device)
    margins, uppers = (torch.empty(work.slots, work.extent, dtype=torch.int8, device=keys.device) for _ in range(2))
    numbers: list[Any] = [work.counts, cap, cap.numel(), work.prefixes, work.extent]
    shared = {"SIZE": work.size, "num_warps": work.warps}
    grid = (work.slots,)
    _begin[grid](work.requests, alphas, margins, uppers, work.states, *numbers, LOOSE=LOOSE, **shared)
    for turn in range(SWEEPS):
        work.sweep()
        _step[grid](
            work.answers,
            work.requests,
            alphas,
            work.images,
            work.residuals,
            margins,
            uppers,
            work.states,
            *numbers,
            ridge,
            TOLERANCE[torch.float32],
            ROUNDS=2 * ROUNDS,
            PATIENCE=PATIENCE,
            FLOOR=FLOOR,
            **shared,
        )
        if work.finished(turn):
            break
    shape = (batch, heads, len(counts))
    alpha = torch.empty(*shape, length, device=keys.device)
    margin = torch.empty(*shape, length, dtype=torch.int8, device=keys.device)
    offset = torch.empty(shape, device=keys.device)
    _end[grid](
        alphas,
        margins,
        work.states,
        work.counts,
        cap,
        alpha,
        offset,
        margin,
        report,
        cap.numel(),
        work.prefixes,
        work.extent,
        length,
        **shared,
    )
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
    _adjoint_begin[grid](margin, offset_bar, work.requests, adjoints, work.states, work.counts, *numbers, **shared)
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
