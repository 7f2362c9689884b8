"""Products in rounds: all prefixes of a head advance together over one Gram matrix.

A Gram matrix that does not fit on the chip is the cost of an iteration, and every prefix of a head reads the same one.
So the iteration is cut at its products: in each *round* every problem requests one product with K, one launch answers
the requests of all prefixes while it reads the matrix once, as a product with as many columns as prefixes, and a second
launch, the *step*, takes each problem from its answer to its next request (`long_prefix_solve`, and
`long_prefix_adjoint` for the gradient). A round reads only the rows of keys that some request weighs; once partitions
are found, these are few.

The number of rounds is fixed, because a captured graph cannot ask whether to go on; problems that are done request
nothing, and a round without requests returns at once. Outside a capture the host looks now and then and stops early.

Answers are 2Kx, summed tile by tile in fp32: matrix units cut off, rather than round, what they accumulate.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from expunge.torch.ops.coefficients.key_tiles import _doubled, _kernel_block, counts_on, jit

__all__ = ["FIELDS", "GOAL", "PHASE", "RUNNING", "ProductRounds"]

# Rounds between two looks of the host.
ROUNDS_PER_LOOK = 12

# Numbers that a problem keeps between steps; those of one kind of step alone stand with it.
RUNNING = tl.constexpr(0)
PHASE = tl.constexpr(1)
GOAL = tl.constexpr(2)
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
def _products(
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
def _conjugate_step(
    x: tl.tensor, d: tl.tensor, r: tl.tensor, s: tl.tensor, size: tl.tensor, ridge: tl.tensor
) -> tl.tensor:
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


class ProductRounds:
    """Buffers of one call, and the launches that answer the requests of one round."""

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

    def answer(self) -> None:
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
        _products[(triton.cdiv(self.extent, 64), self.problems)](
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

    def finished(self, number: int) -> bool:
        """Whether nothing is left to do after this round, as far as the host may ask."""
        if number % ROUNDS_PER_LOOK != ROUNDS_PER_LOOK - 1 or torch.cuda.is_current_stream_capturing():
            return False
        return not bool((self.states[:, RUNNING.value] > 0.0).any())
