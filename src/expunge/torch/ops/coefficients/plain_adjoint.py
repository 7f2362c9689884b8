"""The gradient of the batched coefficients in plain PyTorch: the meaning of the fused one."""

from __future__ import annotations

import torch
from torch import Tensor

from expunge.torch.ops.coefficients.plain_coefficients import (
    CENTRE,
    centred_keys,
    conjugate_gradients,
    flat_problems,
    gram_matrix,
)

__all__ = ["ADJOINT_STEPS", "ADJOINT_TOLERANCE", "adjoint", "pull_prefixes", "pullback"]

# Largest relative residual of the adjoint solve, and its steps at most.
ADJOINT_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-12}
ADJOINT_STEPS = {torch.float32: 128, torch.float64: 1024}


def pull_prefixes(
    keys: Tensor,
    cap: Tensor,
    sigma: Tensor,
    ridge: float,
    alpha: Tensor,
    margin: Tensor,
    alpha_bar: Tensor,
    offset_bar: Tensor,
    *,
    shortest: int = CENTRE,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cotangents of keys (B, h, T, d), caps (G,) and widths (G,) from those of coefficients and offsets."""
    flat, caps, sigmas = flat_problems(keys, cap, sigma)
    a, inside, a_bar, o_bar = (part.flatten(0, 1) for part in (alpha, margin, alpha_bar, offset_bar))
    gram = gram_matrix(flat, sigmas, shortest)
    u, u_offset = adjoint(gram, inside, a_bar, o_bar, ridge)
    keys_bar, sigma_bar = pullback(flat, gram, sigmas, a, u, shortest)
    # Without a margin n·C ≤ 1, and 1/n does not move with the cap.
    at_cap = ((a >= caps[:, None, None]) & ~inside & inside.any(-1, keepdim=True)).to(a.dtype)
    cap_bar = (a_bar * at_cap).sum(-1) - u_offset * at_cap.sum(-1) - 2.0 * ((at_cap @ gram) * u).sum(-1)
    return (
        keys_bar.reshape(keys.shape),
        cap_bar.sum(-1).reshape(-1, cap.numel()).sum(0),
        sigma_bar.reshape(-1, sigma.numel()).sum(0),
    )


def adjoint(
    gram: Tensor, margin: Tensor, cotangent: Tensor, offset_cotangent: Tensor, ridge: float
) -> tuple[Tensor, Tensor]:
    """Solve the margin system for the cotangents: u_ρ + Hu = ᾱ on the margin, Σu = ρ̄ → u (P, b, T), u_ρ (P, b)."""
    inside = margin.to(gram.dtype)
    size = inside.sum(-1, keepdim=True).clamp(min=1.0)
    # A gate just above zero can have a cotangent whose square overflows.
    scale = torch.maximum((cotangent * inside).abs().amax(-1), offset_cotangent.abs()).clamp(min=1e-30)
    cotangent, offset_cotangent = cotangent * inside / scale[..., None], offset_cotangent / scale
    u = inside * (offset_cotangent[..., None] / size)
    residual = (cotangent - 2.0 * u @ gram - ridge * u) * inside
    residual = (residual - residual.sum(-1, keepdim=True) / size) * inside
    squared = residual.square().sum(-1, keepdim=True)
    goal = squared * ADJOINT_TOLERANCE[gram.dtype] ** 2
    limit = ADJOINT_STEPS[gram.dtype]
    u, _ = conjugate_gradients(gram, inside, size, ridge, u, torch.zeros_like(u), residual, goal, limit)
    pulled = (cotangent - 2.0 * u @ gram - ridge * u) * inside
    return u * scale[..., None], (pulled.sum(-1, keepdim=True) / size).squeeze(-1) * scale


def pullback(
    keys: Tensor, gram: Tensor, sigma: Tensor, coefficients: Tensor, adjoints: Tensor, shortest: int = CENTRE
) -> tuple[Tensor, Tensor]:
    """Cotangents of keys (P, T, d) and widths (P,) from α and u (P, b, T).

    W = K ∘ (uαᵀ + αuᵀ), summed over the prefixes, since they share K; then x̄_i = (4/σ²) Σ_j W_ij (x_i − x_j) and
    σ̄ = −(2/σ³) Σ_ij W_ij ‖x_i − x_j‖².
    """
    outer = adjoints.transpose(1, 2) @ coefficients
    weights = gram * (outer + outer.transpose(1, 2))
    centred = centred_keys(keys, shortest)
    rows = weights.sum(-1, keepdim=True)
    difference = rows * centred - weights @ centred
    # Σ W‖x_i − x_j‖² = 2 Σ x_i · Σ_j W (x_i − x_j), W being symmetric.
    spread = 2.0 * (centred * difference).sum((1, 2))
    return difference * (4.0 / sigma**2)[:, None, None], -2.0 * spread / sigma**3
