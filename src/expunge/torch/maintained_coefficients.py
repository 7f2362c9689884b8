"""Coefficients from the maintained solver, with the implicit gradient through its stored inverse.

Each problem is fitted by `Memory` in fp64, so forward values are the audited ones (KKT to about 1e−15), and the
backward pass is one product with R = M⁻¹ of the margin system, which the memory already holds (paper, §3 and App. B).

Where the function is not smooth
- A key that changes between margin, bound and reserve: α is continuous there and has two one-sided derivatives. The
  one returned belongs to the partition of the fit, that is, to the side on which the fit finds itself.
- Identical keys: the optimum splits their weight equally, and the gradient returned is that of the whole group moving
  together, shared equally. Moving one of them alone is not a differentiable act.
- An empty margin: α does not move with the keys; ρ is the least t of the bound keys and moves with it. A falling cap
  gives weight to the reserve key that most wants it, a rising one takes it from a bound key: the derivative by the cap
  is the former's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge.torch.single_backward import refuse_second_derivative

__all__ = ["maintained_coefficients"]


class _Maintained(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Tensor, cap: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        from expunge.memory.memory import Memory

        points = keys.detach().double().cpu().numpy()
        memories = [
            Memory.fit(one, np.zeros(len(one)), sigma=float(width), cap=float(limit))
            for one, width, limit in zip(points, sigma.tolist(), cap.tolist(), strict=True)
        ]
        alpha = torch.from_numpy(np.stack([memory.coefficients for memory in memories]))
        offset = torch.tensor([memory.offset for memory in memories], dtype=torch.float64)
        ctx.memories = memories
        ctx.save_for_backward(keys, cap, sigma)
        return alpha.to(keys.device), offset.to(keys.device)

    @staticmethod
    def backward(ctx: Any, alpha_bar: Tensor, offset_bar: Tensor) -> tuple[Tensor, ...]:
        keys, cap, sigma = ctx.saved_tensors
        with torch.no_grad():
            pulled = [
                _pull_back(memory, bar, float(offset))
                for memory, bar, offset in zip(
                    ctx.memories, alpha_bar.double().cpu().numpy(), offset_bar.tolist(), strict=True
                )
            ]
            gradients = [
                torch.from_numpy(np.stack([part[place] for part in pulled])).to(like)
                for place, like in enumerate((keys, cap, sigma))
            ]
        return refuse_second_derivative(gradients, (keys, cap, sigma, alpha_bar, offset_bar))


def _pull_back(memory: Any, alpha_bar: Any, offset_bar: float) -> tuple[Any, Any, Any]:
    """Cotangents of keys (n, d), cap and width of one problem."""
    from expunge.problem.kernel import kernel_block, squared_distances
    from expunge.solver.cold_fit import distinct_sites

    keys, alpha, sigma = memory.keys, memory.coefficients, memory.sigma
    groups = memory.partition
    u = np.zeros(len(keys))
    u_offset = 0.0
    if groups.margin.size:
        # Identical keys are one row of R: the offset first, then the distinct margin keys in row order.
        group = distinct_sites(keys[groups.margin])[1]
        copies = np.bincount(group).astype(np.float64)
        shared = np.bincount(group, weights=alpha_bar[groups.margin]) / copies
        solved = memory.inverse @ np.concatenate([[offset_bar], shared])
        u_offset = float(solved[0])
        u[groups.margin] = (solved[1:] / copies)[group]
    else:
        least = np.argmin(1.0 - 2.0 * kernel_block(keys[groups.bound], keys, sigma) @ alpha)
        u[groups.bound[least]] = offset_bar
    distances = squared_distances(keys, keys)
    gram = kernel_block(keys, keys, sigma)
    weights = gram * (np.outer(u, alpha) + np.outer(alpha, u))
    # The common mean cancels; taking it off first saves digits.
    centred = keys - keys.mean(0)
    keys_bar = 4.0 / sigma**2 * (weights.sum(1)[:, None] * centred - weights @ centred)
    sigma_bar = -2.0 / sigma**3 * float((weights * distances).sum())
    # How the coefficients move with the cap, those of the margin aside, which u has.
    moved = np.zeros(len(keys))
    if groups.margin.size or groups.reserve.size:
        moved[groups.bound] = 1.0
    if not groups.margin.size and groups.reserve.size:
        reserve = groups.reserve
        neediest = reserve[np.argmin(gram[reserve] @ alpha)]
        copies = reserve[(keys[reserve] == keys[neediest]).all(1)]
        moved[copies] = -groups.bound.size / copies.size
    cap_bar = float(alpha_bar @ moved) - u_offset * moved.sum() - 2.0 * float(u @ gram @ moved)
    return keys_bar, cap_bar, sigma_bar


@torch.compiler.disable  # type: ignore[untyped-decorator]
def maintained_coefficients(keys: Tensor, cap: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients (P, n) and offsets (P,), fp64, of keys (P, n, d) with caps and widths (P,)."""
    solve: Callable[..., tuple[Tensor, Tensor]] = _Maintained.apply
    return solve(keys.double(), cap.double(), sigma.double())
