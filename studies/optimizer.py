"""AdamW for a stack of models, with one learning rate and one gradient norm a slot.

All parameters of a stack lie in one ``(slots, parameters)`` buffer, so a step is a few elementwise operations however
many tensors the model has, and needs nothing from the host: it can be captured in a CUDA graph. Weight decay is given
parameter by parameter; the paper's is one number for all, as ``torch.optim.AdamW`` has it by default.
"""

from __future__ import annotations

import math

import torch

from studies.config import Recipe

__all__ = ["learning_rates", "step"]

EPSILON = 1e-8


def learning_rates(recipes: list[Recipe], steps: int) -> torch.Tensor:
    """``(steps, slots)`` float32: linear warm-up, then a cosine that reaches zero at ``steps``."""
    rows = []
    for step in range(steps):
        cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
        rows.append([recipe.rate * min(1.0, (step + 1) / (recipe.warmup + 1)) * cosine for recipe in recipes])
    return torch.tensor(rows, dtype=torch.float32)


def step(
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    *,
    rate: torch.Tensor,
    count: torch.Tensor,
    betas: tuple[float, float],
    decay: torch.Tensor,
    clip: float,
) -> torch.Tensor:
    """One update in place of the parameters and both moments, ``(slots, parameters)`` each; returns the gradient norms.

    ``decay`` is shaped like the parameters; ``rate`` and the result are ``(slots,)``; ``count`` is 0-dimensional, the
    number of steps made so far.
    """
    norms = gradient.square().sum(1).sqrt()
    gradient = gradient * (clip / (norms + 1e-6)).clamp(max=1.0)[:, None]
    rate = rate.to(parameters.dtype)[:, None]
    done = (count + 1).to(parameters.dtype)
    parameters.mul_(1 - rate * decay)
    first.lerp_(gradient, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    scale = rate / (1 - torch.pow(betas[0], done))
    spread = (second / (1 - torch.pow(betas[1], done))).sqrt_().add_(EPSILON)
    parameters.sub_(scale * first / spread)
    return norms
