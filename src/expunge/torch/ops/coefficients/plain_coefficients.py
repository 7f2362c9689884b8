"""Batched coefficients in plain PyTorch: the meaning of the fused op, on any device and in any float type.

One head holds keys (T, d); the prefixes of lengths `counts` are separate problems over the same Gram matrix

    min αᵀKα + (r/2)‖α‖² − 1ᵀα   subject to  Σα = 1, 0 ≤ α ≤ C,   K = exp(−‖x − y‖²/σ²),

the paper's training problem (App. B) with its ridge r written into the objective. With H = 2K + rI the conditions are
Hα − 1 + ρ = 0 on the margin, ≥ 0 where α = 0, ≤ 0 where α = C.

`solve` guesses the partition, solves on its margin by conjugate gradients, and exchanges every key that is on the
wrong side (a primal–dual active set). That takes a few exchanges unless keys crowd together, where they cycle; then
accelerated projected gradients bring the partition close, and exchanges finish. The gradient's length is set by the
largest curvature *on the simplex*: crowded keys have K ≈ 11ᵀ, a direction in which Σα = 1 allows no movement, and
counting it makes steps hundreds of times too short. A few products estimate it, and the steps themselves correct the
estimate where it is too small. A problem that exchanges cannot finish keeps the last of those
steps. No coefficient ever leaves [0, C], unless n·C < 1, where nothing is feasible and 1/n is returned.

Deviations from the paper
1. The ridge is part of the problem, so partition and linear solve belong together. The paper iterates on the
   unridged problem.
2. Iteration ends on the measured residual, not after 80 steps. `solve_paper` is the paper's procedure, for comparison:
   where keys cluster its masks are wrong and the linear solve then leaves the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "BatchedProblem",
    "Solved",
    "centred_keys",
    "conjugate_gradients",
    "flat_problems",
    "gram_matrix",
    "live_mask",
    "natural_residual",
    "solve",
    "solve_paper",
    "solve_prefixes",
]

# Exchanges of a partition before it is given up, blocks of accelerated steps, and steps of the first block; the second
# block has twice as many, and so on.
EXCHANGES, BLOCKS, BLOCK_STEPS = 12, {torch.float32: 3, torch.float64: 12}, 48

# Products that estimate the curvature on the simplex, and the margin added to the estimate, which is a lower bound.
POWERS, SAFETY = 5, 1.2

# Part of the cap below which the way between two accelerated steps says nothing of the curvature.
SHORT = 0.01

# The linear solve of an exchange is first this loose; it tightens when the number of wrong keys stops falling.
LOOSE = 0.03

# Exchanges without progress after which they count as cycling.
PATIENCE = 2

# Slack on the wrong side below which a key counts as right, by precision of the arithmetic.
TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-12}

# A linear solve ends at this part of the tolerance, root mean square: less would let keys at the edge change sides.
FLOOR = 0.1

# Steps of conjugate gradients in one exchange at most. More are wasted on a partition that will change.
EXCHANGE_STEPS = {torch.float32: 24, torch.float64: 1024}

# Keys whose mean is taken off all, if the shortest prefix has so many.
CENTRE = 32


@dataclass(frozen=True)
class Solved:
    """Coefficients (P, b, T), offsets (P, b), margin mask (P, b, T), residual (P, b), whether it converged (P, b)."""

    coefficients: Tensor
    offset: Tensor
    margin: Tensor
    residual: Tensor
    converged: Tensor


def centred_keys(keys: Tensor, shortest: int) -> Tensor:
    """Keys less the mean of the first ones, which no later key changes: the past does not lose digits to the future."""
    return keys - keys[:, : min(CENTRE, shortest)].mean(dim=1, keepdim=True)


def gram_matrix(keys: Tensor, sigma: Tensor, shortest: int = CENTRE) -> Tensor:
    """κ of all pairs within each head: (P, T, d), (P,) → (P, T, T), with κ(x, x) = 1 exactly.

    `shortest` is the length of the shortest prefix that is solved.
    """
    scaled = centred_keys(keys, shortest) / sigma[:, None, None]
    norms = scaled.square().sum(-1)
    exponent = 2.0 * (scaled @ scaled.transpose(1, 2)) - norms[:, :, None] - norms[:, None, :]
    # Squares of finite keys may overflow, and ∞ − ∞ is no number: such keys are far from all others.
    finite = keys.isfinite().all(-1)
    far = exponent.isnan() & finite[:, :, None] & finite[:, None, :]
    eye = torch.eye(keys.shape[1], dtype=torch.bool, device=keys.device)
    return exponent.clamp(max=0.0).masked_fill(far, -torch.inf).masked_fill(eye, 0.0).exp()


def live_mask(counts: Sequence[int], size: int, like: Tensor) -> Tensor:
    """1 on each prefix: (b, T), in the dtype and on the device of `like`."""
    lengths = torch.tensor(list(counts), device=like.device)
    return (torch.arange(size, device=like.device) < lengths[:, None]).to(like.dtype)


def flat_problems(keys: Tensor, cap: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys (P, T, d) of the P = B·h heads, and the cap and the width of each, (P,)."""
    problems = keys.shape[0] * keys.shape[1]
    return keys.flatten(0, 1), cap.repeat(problems // cap.numel()), sigma.repeat(problems // sigma.numel())


def solve_prefixes(
    keys: Tensor, counts: Sequence[int], cap: Tensor, sigma: Tensor, ridge: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients (B, h, b, T), offsets (B, h, b) and margin mask (B, h, b, T) of keys (B, h, T, d)."""
    flat, caps, sigmas = flat_problems(keys, cap, sigma)
    solved = solve(gram_matrix(flat, sigmas, min(counts)), counts, caps, ridge)
    shape = (*keys.shape[:2], len(counts), keys.shape[2])
    return solved.coefficients.reshape(shape), solved.offset.reshape(shape[:3]), solved.margin.reshape(shape)


def solve(gram: Tensor, counts: Sequence[int], cap: Tensor, ridge: float) -> Solved:
    """Coefficients of every prefix: gram (P, T, T), caps (P,). A prefix with n·C ≤ 1 gets 1/n, offset 0, no margin."""
    live = live_mask(counts, gram.shape[1], gram).expand(gram.shape[0], -1, -1)
    size = live.sum(-1, keepdim=True)
    bound = cap[:, None, None].to(gram.dtype)
    feasible = size * bound > 1.0 + 1e-6
    problem = BatchedProblem(gram, live, bound, ridge)
    uniform = live / size
    alpha, offset, margin, done = problem.exchange(uniform, live.bool(), torch.zeros_like(live, dtype=torch.bool))
    done |= ~feasible
    anchor = uniform.clone()
    for block in range(1, BLOCKS[gram.dtype] + 1):
        # Heads with a prefix that is not done; the others wait, since they would only repeat what they have.
        rows = (~done).any(1).flatten().nonzero().flatten()
        if not rows.numel():
            break
        here = BatchedProblem(gram[rows], live[rows], bound[rows], ridge)
        start = here.accelerate(anchor[rows], steps=BLOCK_STEPS * block)
        upper = here.live.bool() & (start >= here.bound)
        inside = here.opened(start @ here.gram, (start > 0.0) & ~upper, upper)
        moved, moved_offset, moved_margin, finished = here.exchange(start, inside, upper)
        kept = done[rows]
        for whole, after, before in (
            (alpha, moved, start),
            (offset, moved_offset, here.offset(start, inside)),
            (margin, moved_margin, inside),
        ):
            whole[rows] = torch.where(kept, whole[rows], torch.where(finished, after, before))
        anchor[rows], done[rows] = start, kept | finished
    alpha = torch.where(feasible, torch.minimum(alpha.clamp(min=0.0), bound), uniform) * live
    margin = margin & feasible
    offset = torch.where(feasible, offset, 0.0)
    residual = natural_residual(gram, live, alpha, offset.squeeze(-1), cap, ridge)
    return Solved(alpha, offset.squeeze(-1), margin, residual, done.squeeze(-1))


def natural_residual(gram: Tensor, live: Tensor, alpha: Tensor, offset: Tensor, cap: Tensor, ridge: float) -> Tensor:
    """Largest |α − clip(α − slack, 0, C)| of each problem, (P, b): zero exactly at the optimum."""
    slack = 2.0 * alpha @ gram + ridge * alpha - 1.0 + offset[..., None]
    moved = torch.minimum((alpha - slack).clamp(min=0.0), cap[:, None, None].to(gram.dtype))
    return ((alpha - moved).abs() * live).amax(-1)


def solve_paper(
    gram: Tensor,
    counts: Sequence[int],
    cap: Tensor,
    ridge: float = 1e-3,
    *,
    iterations: int = 80,
    threshold: float = 1e-3,
) -> tuple[Tensor, Tensor]:
    """The paper's training solve (App. B), differentiable by autograd: α (P, b, T) and ρ (P, b).

    Accelerated projected gradients, masks by threshold, ridged linear solve; the result may leave the box.
    """
    live = live_mask(counts, gram.shape[1], gram).expand(gram.shape[0], -1, -1)
    bound = cap[:, None, None].to(gram.dtype)
    with torch.no_grad():
        problem = BatchedProblem(gram.detach(), live, bound.detach(), 0.0)
        largest = 2.0 * (live @ gram.detach() * live).amax(-1, keepdim=True)
        guess = problem.accelerate(live / live.sum(-1, keepdim=True), steps=iterations, curvature=largest)
        upper = (guess >= bound - threshold) & (live > 0)
        inside = ((guess > threshold) & ~upper).to(gram.dtype)
    at_cap = upper.to(gram.dtype) * bound
    size = gram.shape[1]
    block = (2.0 * gram)[:, None] * inside[..., :, None] * inside[..., None, :]
    system = gram.new_zeros(*live.shape[:2], size + 1, size + 1)
    system[..., 1:, 1:] = block + torch.diag_embed(ridge * inside + (1.0 - inside))
    system[..., 0, 1:] = inside
    system[..., 1:, 0] = inside
    # Without a margin the first row would be zero.
    system[..., 0, 0] = (inside.sum(-1) == 0).to(gram.dtype)
    right = torch.cat([1.0 - at_cap.sum(-1, keepdim=True), inside * (1.0 - 2.0 * at_cap @ gram)], dim=-1)
    solution = torch.linalg.solve(system, right)
    return solution[..., 1:] * inside + at_cap, solution[..., 0]


class BatchedProblem:
    """The matrices of one call, and the two iterations on them."""

    def __init__(self, gram: Tensor, live: Tensor, bound: Tensor, ridge: float) -> None:
        self.gram, self.live, self.bound, self.ridge = gram, live, bound, ridge
        self.tolerance = TOLERANCE[gram.dtype]
        self.place = torch.arange(gram.shape[1], device=gram.device)

    def offset(self, alpha: Tensor, inside: Tensor) -> Tensor:
        """ρ that makes the mean slack of the margin zero."""
        gradient = 2.0 * alpha @ self.gram + self.ridge * alpha - 1.0
        return -(gradient * inside).sum(-1, keepdim=True) / inside.sum(-1, keepdim=True)

    def exchange(self, alpha: Tensor, inside: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Active-set exchanges from a partition: (α, ρ, margin, converged), the last three (P, b, 1) or (P, b, T)."""
        gram, bound, tolerance = self.gram, self.bound, self.tolerance
        live = self.live.bool()
        done = torch.zeros_like(bound, dtype=torch.bool).expand(*alpha.shape[:2], 1).clone()
        fewest = torch.full_like(alpha[..., :1], float("inf"))
        stalled = torch.zeros_like(fewest)
        loose = torch.full_like(fewest, LOOSE)
        offset = torch.zeros_like(fewest)
        product = alpha @ gram
        for _ in range(EXCHANGES):
            weight = inside.to(alpha.dtype)
            size = weight.sum(-1, keepdim=True)
            gradient = 2.0 * product + self.ridge * alpha - 1.0
            rho = -(gradient * weight).sum(-1, keepdim=True) / size
            residual = -(gradient + rho) * weight
            scale = residual.square().sum(-1, keepdim=True)
            floor = (FLOOR * tolerance) ** 2 * size
            goal = torch.maximum(loose.square() * scale, floor)
            settled = scale <= floor
            goal = torch.where(done | (stalled > PATIENCE), torch.inf, goal)
            limit = EXCHANGE_STEPS[gram.dtype]
            moved, moved_product = conjugate_gradients(
                gram, weight, size, self.ridge, alpha, product, residual, goal, limit
            )
            gradient = 2.0 * moved_product + self.ridge * moved - 1.0
            rho = -(gradient * weight).sum(-1, keepdim=True) / size
            slack = gradient + rho
            below, above = inside & (moved < 0.0), inside & (moved > bound)
            entering = live & ~inside & torch.where(upper, slack > tolerance, slack < -tolerance)
            wrong = below | above | entering
            count = wrong.sum(-1, keepdim=True).to(alpha.dtype)
            level = ((slack.abs() * weight).amax(-1, keepdim=True) <= tolerance) | settled
            # Rounding lets the mass drift while keys are nearly dependent; it is restored and solved again.
            level = level & ((moved.sum(-1, keepdim=True) - 1.0).abs() <= tolerance)
            fixed = done | (stalled > PATIENCE)
            alpha, offset = torch.where(fixed, alpha, moved), torch.where(fixed, offset, rho)
            done |= (count == 0) & level & (stalled <= PATIENCE)
            if bool(done.all()):
                break
            tighten = (count == 0) | (count >= fewest)
            loose = torch.where(tighten, loose * 0.1, loose)
            stalled = stalled + ((count > 0) & (count >= fewest)).to(alpha.dtype)
            fewest = torch.minimum(fewest, count)
            given_up = stalled > PATIENCE
            if bool((done | given_up).all()):
                break
            new_upper = (upper & ~entering) | above
            new_inside = (inside & ~(below | above)) | entering
            changed = ~done & ~given_up
            upper = torch.where(changed, new_upper, upper)
            inside = self.opened(moved_product, torch.where(changed, new_inside, inside), upper)
            settled = torch.where(upper, bound, torch.where(inside, alpha, 0.0))
            missing = (1.0 - settled.sum(-1, keepdim=True)) / inside.sum(-1, keepdim=True)
            alpha = torch.where(changed, settled + missing * inside.to(alpha.dtype), alpha)
            product = alpha @ gram
        return alpha, offset, inside, done

    def opened(self, product: Tensor, inside: Tensor, upper: Tensor) -> Tensor:
        """A margin is never empty: the reserve key that most wants weight is freed, and its slack sets the offset."""
        empty = ~inside.any(-1, keepdim=True)
        reserve = self.live.bool() & ~upper
        neediest = torch.where(reserve, product, torch.inf).argmin(-1, keepdim=True)
        return torch.where(empty, (self.place == neediest) & reserve, inside)

    def accelerate(self, alpha: Tensor, *, steps: int, curvature: Tensor | None = None) -> Tensor:
        """Accelerated projected gradients from a feasible α, dropping the momentum where it points uphill.

        `curvature` is the largest of 2K + rI; without it, that on the simplex is estimated.
        """
        given, curvature = curvature is not None, self.curvature() if curvature is None else curvature
        ahead, momentum = alpha, torch.ones_like(alpha[..., :1])
        gradient, here = None, alpha
        for _ in range(steps):
            before, gradient = gradient, 2.0 * ahead @ self.gram + self.ridge * ahead
            if before is not None and not given:
                # An estimate is a lower bound, and so is the curvature along the way just made: steps that turn out too
                # long get shorter. A short way measures rounding.
                way = ahead - here
                length = way.square().sum(-1, keepdim=True)
                bend = (way * (gradient - before)).sum(-1, keepdim=True) / length.clamp(min=1e-30)
                steep = (bend > curvature) & (length > (SHORT * self.bound) ** 2)
                curvature = torch.where(steep, SAFETY * bend, curvature)
                momentum = torch.where(steep, 1.0, momentum)
            here = ahead
            new = self.project(ahead - gradient / curvature)
            uphill = ((ahead - new) * (new - alpha)).sum(-1, keepdim=True) > 0.0
            momentum = torch.where(uphill, 1.0, momentum)
            following = 0.5 * (1.0 + (1.0 + 4.0 * momentum.square()).sqrt())
            ahead = new + (momentum - 1.0) / following * (new - alpha)
            alpha, momentum = new, following
        return alpha

    def curvature(self) -> Tensor:
        """Largest curvature along Σ = const, by power iteration from a fixed start, with a margin: (P, b, 1)."""
        size = self.live.sum(-1, keepdim=True)
        vector = ((self.place * 7919) % 127).to(self.gram.dtype) * self.live
        vector = (vector - vector.sum(-1, keepdim=True) / size) * self.live
        largest = torch.zeros_like(size)
        for _ in range(POWERS):
            image = vector @ self.gram
            image = (image - (image * self.live).sum(-1, keepdim=True) / size) * self.live
            norm = image.square().sum(-1, keepdim=True).sqrt()
            largest = norm / vector.square().sum(-1, keepdim=True).sqrt().clamp(min=1e-30)
            vector = image / norm.clamp(min=1e-30)
        return 2.0 * SAFETY * largest + self.ridge

    def project(self, point: Tensor) -> Tensor:
        """Nearest point with Σα = 1, 0 ≤ α ≤ C, on the live keys: bisection on the common shift."""
        live = self.live.bool()
        low = torch.where(live, point, torch.inf).amin(-1, keepdim=True) - self.bound
        high = torch.where(live, point, -torch.inf).amax(-1, keepdim=True)
        for _ in range(32):
            middle = 0.5 * (low + high)
            mass = (torch.minimum((point - middle).clamp(min=0.0), self.bound) * self.live).sum(-1, keepdim=True)
            low, high = torch.where(mass > 1.0, middle, low), torch.where(mass > 1.0, high, middle)
        shift = 0.5 * (low + high)
        return torch.minimum((point - shift).clamp(min=0.0), self.bound) * self.live


def conjugate_gradients(
    gram: Tensor,
    weight: Tensor,
    size: Tensor,
    ridge: float,
    x: Tensor,
    product: Tensor,
    residual: Tensor,
    goal: Tensor,
    limit: int,
) -> tuple[Tensor, Tensor]:
    """Conjugate gradients for H on the margin's zero-sum directions, from a residual that already sums to zero.

    Returns x and its product with the Gram matrix, each problem stopped once its squared residual is within `goal`.
    """
    direction, squared = residual, residual.square().sum(-1, keepdim=True)
    running = squared > goal
    for _ in range(min(2 * int(size.max()) + 4, limit)):
        if not bool(running.any()):
            break
        image = direction @ gram
        applied = 2.0 * image + ridge * direction
        bend = (direction * applied).sum(-1, keepdim=True)
        # The ridge bounds the curvature from below. Where rounding has eaten it there is nothing more to gain.
        running = running & (bend > 0.5 * ridge * direction.square().sum(-1, keepdim=True))
        step = torch.where(running, squared / bend, 0.0)
        x, product = x + step * direction, product + step * image
        level = (applied * weight).sum(-1, keepdim=True) / size
        residual = residual - step * (applied - level) * weight
        residual = residual - residual.sum(-1, keepdim=True) / size * weight
        new = residual.square().sum(-1, keepdim=True)
        direction = torch.where(running, residual + new / squared * direction, direction)
        squared = torch.where(running, new, squared)
        running = running & (squared > goal)
    return x, product
