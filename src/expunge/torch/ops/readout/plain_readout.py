"""Gated causal attention in plain PyTorch: the meaning of the fused op.

Query i of chunk c weighs key j ≤ i by γ_cj · exp(scale·⟨q_i, k_j⟩ + b_j), normalized over j. The gate γ is frozen at
the start of the chunk; its entries inside the chunk are whatever the caller put there, usually 1 (paper, App. B). With
scale = 2/σ² and b_j = −‖k_j‖²/σ² the weights are the RBF kernel's, because ‖q_i‖² cancels.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["gated_readout"]


def gated_readout(
    queries: Tensor, keys: Tensor, values: Tensor, gates: Tensor, bias: Tensor | None, *, scale: float, chunk: int
) -> Tensor:
    """Queries, keys, values (B, h, T, d), gates (B, h, c, T) ≥ 0, bias (B, h, T) or None → (B, h, T, d).

    The gates belong to the last c chunks; the chunks before are not gated. Half-precision inputs are weighed in fp32.
    """
    length = queries.shape[2]
    kind = torch.float64 if queries.dtype == torch.float64 else torch.float32
    logits = scale * queries.to(kind) @ keys.to(kind).transpose(-1, -2)
    if bias is not None:
        logits = logits + bias.to(kind)[..., None, :]
    place = torch.arange(length, device=queries.device)
    skipped = -(-length // chunk) - gates.shape[2]
    gated = gates[:, :, (place[skipped * chunk :] // chunk) - skipped].to(kind)
    gate = torch.cat([gated.new_ones(*gated.shape[:2], length - gated.shape[2], length), gated], dim=2)
    seen = (place <= place[:, None]) & (gate > 0.0)
    shifted = logits - logits.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True).detach()
    weights = torch.where(seen, shifted, -torch.inf).exp() * gate
    weights = weights / weights.sum(-1, keepdim=True)
    return (weights @ values.to(kind)).to(queries.dtype)
