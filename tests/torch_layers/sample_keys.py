"""Keys for the tests of the gate."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["keys_for"]


def keys_for(seed: int, count: int = 14, width: int = 3, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(count, width, generator=generator, dtype=torch.float64)).requires_grad_()
