"""Attention layers to compare with, all (B, T, d_model) → (B, T, d_model) with the same projections.

- `SoftmaxAttention`: plain matrix products (the paper's unfused baseline), or PyTorch's fused one; optionally a sliding
  window, whose width the study matches to the gate's active keys.
- `LinearAttention`: causal kernel features elu + 1 (Katharopoulos et al. 2020), by chunks.
- `DeltaNetAttention`: the delta rule S ← S(I − βkkᵀ) + βvkᵀ with unit keys (Schlag et al. 2021), chunkwise by the WY
  form of Yang et al. 2024.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from expunge.errors import InputError

__all__ = ["DeltaNetAttention", "LinearAttention", "SoftmaxAttention"]


class _HeadProjections(nn.Module):
    """Projections into heads and back."""

    def __init__(self, d_model: int, heads: int, bias: bool) -> None:
        super().__init__()
        if heads < 1 or d_model % heads:
            raise InputError(f"d_model must be a multiple of heads; {d_model} is not one of {heads}")
        self.heads = heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if x.ndim != 3 or x.shape[2] != self.qkv.in_features or not x.shape[1]:
            raise InputError(f"x must be (B, T, {self.qkv.in_features}) with a token or more, not {tuple(x.shape)}")
        batch, length, width = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return parts[0], parts[1], parts[2]

    def merge(self, heads: Tensor) -> Tensor:
        batch, _, length, _ = heads.shape
        merged: Tensor = self.out(heads.transpose(1, 2).reshape(batch, length, -1))
        return merged


class SoftmaxAttention(_HeadProjections):
    """Causal softmax; with `window` w a query sees its own key and the w − 1 before it."""

    def __init__(
        self, d_model: int, heads: int, *, fused: bool = False, window: int | None = None, bias: bool = False
    ) -> None:
        super().__init__(d_model, heads, bias)
        if window is not None and window < 1:
            raise InputError(f"window must hold at least one key, not {window}")
        self.fused, self.window = fused, window

    def forward(self, x: Tensor) -> Tensor:
        """Attend within (B, T, d_model)."""
        queries, keys, values = self.split(x)
        if self.fused and self.window is None:
            return self.merge(functional.scaled_dot_product_attention(queries, keys, values, is_causal=True))
        place = torch.arange(x.shape[1], device=x.device)
        seen = place <= place[:, None]
        if self.window is not None:
            seen = seen & (place > place[:, None] - self.window)
        if self.fused:
            return self.merge(functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen))
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        return self.merge(torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=-1) @ values)


class LinearAttention(_HeadProjections):
    """Causal linear attention, O(T) in memory of past chunks."""

    def __init__(self, d_model: int, heads: int, *, chunk: int = 64, bias: bool = False) -> None:
        super().__init__(d_model, heads, bias)
        if chunk < 1:
            raise InputError(f"chunk must be positive, not {chunk}")
        self.chunk = chunk

    def forward(self, x: Tensor) -> Tensor:
        """Attend within (B, T, d_model)."""
        # Sums over a long context leave the range of half precision.
        queries, keys, values = (_widened(part) for part in self.split(x))
        queries, keys = functional.elu(queries) + 1.0, functional.elu(keys) + 1.0
        # The last column of ones carries the normalizer along.
        values = torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)
        q, k, v = (_chunked(part, self.chunk) for part in (queries, keys, values))
        states = k.transpose(-1, -2) @ v
        # Shifted, not subtracted: what a chunk is yet to say would cost its first tokens digits.
        before = functional.pad(states.cumsum(2)[:, :, :-1], (0, 0, 0, 0, 1, 0))
        mixed = q @ before + torch.tril(q @ k.transpose(-1, -2)) @ v
        mixed = mixed.flatten(2, 3)[:, :, : x.shape[1]]
        return self.merge((mixed[..., :-1] / mixed[..., -1:]).to(x.dtype))


class DeltaNetAttention(_HeadProjections):
    """Linear attention whose writes first subtract what the state already answers."""

    def __init__(self, d_model: int, heads: int, *, chunk: int = 64, bias: bool = False) -> None:
        super().__init__(d_model, heads, bias)
        if chunk < 1:
            raise InputError(f"chunk must be positive, not {chunk}")
        self.chunk = chunk
        self.beta = nn.Linear(d_model, heads, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within (B, T, d_model)."""
        queries, keys, values = (_widened(part) for part in self.split(x))
        queries, keys = functional.normalize(queries, dim=-1), functional.normalize(keys, dim=-1)
        beta = _widened(torch.sigmoid(self.beta(x)).transpose(1, 2)[..., None])
        q, k, v, b = (_chunked(part, self.chunk) for part in (queries, keys, values, beta))
        size = q.shape[-2]
        # (I + tril(βKKᵀ, −1)) U = βV, and the same for K: the writes of a chunk, each corrected for those before it.
        lower = torch.tril(b * (k @ k.transpose(-1, -2)), diagonal=-1)
        system = lower + torch.eye(size, dtype=lower.dtype, device=lower.device)
        solved = torch.linalg.solve_triangular(
            system, torch.cat([b * v, b * k], dim=-1), upper=False, unitriangular=True
        )
        writes, reads = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
        inner = torch.tril(q @ k.transpose(-1, -2))
        state = torch.zeros(*q.shape[:2], k.shape[-1], v.shape[-1], dtype=v.dtype, device=v.device)
        out = []
        for c in range(q.shape[2]):
            fresh = writes[:, :, c] - reads[:, :, c] @ state
            out.append(q[:, :, c] @ state + inner[:, :, c] @ fresh)
            state = state + k[:, :, c].transpose(-1, -2) @ fresh
        return self.merge(torch.stack(out, dim=2).flatten(2, 3)[:, :, : x.shape[1]].to(x.dtype))


def _widened(part: Tensor) -> Tensor:
    """fp32 for half precision; fp32 and fp64 as they are."""
    return part.float() if part.dtype in (torch.float16, torch.bfloat16) else part


def _chunked(part: Tensor, chunk: int) -> Tensor:
    """(B, h, T, d) → (B, h, ⌈T/chunk⌉, chunk, d), padded with zeros."""
    length = part.shape[2]
    padded = functional.pad(part, (0, 0, 0, -length % chunk))
    return padded.reshape(*part.shape[:2], -1, chunk, part.shape[3])
