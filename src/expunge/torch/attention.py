"""Causal attention whose prefix is gated by support-vector coefficients (paper, App. B).

The context is cut into chunks. A query of chunk c sees the keys of its own chunk as causal softmax does, and every
earlier key times a gate that was solved once, on the prefix up to the start of the chunk, and then frozen; the
weights are renormalized. A key with coefficient zero is not seen by any later chunk. Prefixes of fewer than ⌈1/C⌉ + 2
keys are not gated.

Beyond the paper: `gain` and `floor` rescale the gate (α itself sums to one over the prefix and competes with ones
inside the chunk), `window` leaves that many keys before the chunk ungated, and cap and width can differ by head and be
learned. `closing` replaces the paper's fixed threshold of 1e−3 below which a key is reserve: weights are α·exp(logit),
so the derivative is up to 1/α, out of all proportion for a key just above zero with a large logit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from expunge.errors import InputError
from expunge.torch.differentiable_ops import gated_readout
from expunge.torch.gate import SolvePath, Solver, SupportVectorGate, fewest_gated, real_number, whole_number

__all__ = ["SupportVectorAttention"]

Gain = Literal["unit", "cap", "count", "learned"]
Readout = Literal["softmax", "rbf"]


class SupportVectorAttention(nn.Module):
    """Multi-head causal attention (B, T, d_model) → (B, T, d_model) with a gated prefix.

    `gain` "unit" multiplies by α as the paper does, "cap" by α/C, which lies in [0, 1], "count" by nα, whose mean is
    one, and "learned" by αnᵖ with a power p for each head, which begins between 0 in the first head and 1 in the last;
    `power` holds p − 1, so that weight decay leads to "count". `floor` f replaces the gate γ by f + (1 − f)γ.
    `readout="rbf"` weighs by κ(q, k) at the gate's width instead of softmax.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        cap: float | Sequence[float] = 0.25,
        sigma: float | Sequence[float] = 2.0,
        chunk: int = 64,
        readout: Readout = "softmax",
        window: int = 0,
        gain: Gain = "unit",
        floor: float = 0.0,
        closing: float = 0.1,
        normalize: bool = False,
        learn_sigma: bool = False,
        learn_cap: bool = False,
        gate_gradient: bool = True,
        ridge: float = 1e-3,
        bias: bool = False,
        path: SolvePath = "batched",
        solver: Solver = "exact",
        op: str = "auto",
    ) -> None:
        super().__init__()
        d_model, heads = whole_number(d_model, "d_model"), whole_number(heads, "heads")
        chunk, window = whole_number(chunk, "chunk"), whole_number(window, "window")
        if heads < 1 or d_model % heads:
            raise InputError(f"d_model must be a multiple of heads; {d_model} is not one of {heads}")
        if chunk < 1 or window < 0:
            raise InputError(f"chunk must be positive and window not negative, not {chunk} and {window}")
        if readout not in ("softmax", "rbf"):
            raise InputError(f'readout must be "softmax" or "rbf", not {readout!r}')
        if gain not in ("unit", "cap", "count", "learned"):
            raise InputError(f'gain must be "unit", "cap", "count" or "learned", not {gain!r}')
        if not 0.0 <= real_number(floor, "floor") <= 1.0:
            raise InputError(f"floor must lie in [0, 1], not {floor!r}")
        self.heads, self.chunk, self.readout, self.window = heads, chunk, readout, window
        self.gain, self.floor, self.gate_gradient, self.op = gain, floor, gate_gradient, op
        self.gate = SupportVectorGate(
            cap,
            sigma,
            path,
            heads=heads,
            ridge=ridge,
            closing=closing,
            normalize=normalize,
            learn_sigma=learn_sigma,
            learn_cap=learn_cap,
            solver=solver,
            op=op,
        )
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)
        self.power = nn.Parameter(torch.arange(heads) / max(1, heads - 1) - 1.0) if gain == "learned" else None
        # Fixed caps let prefixes that no head gates be skipped without asking the device.
        self._fewest_gated = 1 if learn_cap else fewest_gated(max(cap) if isinstance(cap, Sequence) else cap)
        self._masks: dict[tuple[object, ...], tuple[Tensor, Tensor]] = {}
        # Another source of gates (keys → (B, heads, c, T)), for a layer whose coefficients were edited elsewhere.
        self.replaced_gates: Callable[[Tensor], Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Attend within (B, T, d_model)."""
        queries, keys, values = self.project(x)
        gates = self.gates(keys) if self.replaced_gates is None else self.replaced_gates(keys)
        scale, bias = 1.0 / math.sqrt(keys.shape[-1]), None
        if self.readout == "rbf":
            inverse = self.gate.sigma(keys).pow(-2)[:, None]
            # κ sees differences alone. Taken from the first key, which every query sees, and in the precision of the
            # width, they keep their digits.
            origin = keys[:, :, :1].detach().to(inverse.dtype)
            queries, keys, values = queries - origin, keys - origin, values.to(inverse.dtype)
            queries, scale = 2.0 * inverse[..., None] * queries, 1.0
            bias = -keys.square().sum(-1) * inverse
        out = gated_readout(queries, keys, values, gates, bias, scale=scale, chunk=self.chunk, op=self.op)
        projected: Tensor = self.out(out.to(x.dtype).transpose(1, 2).flatten(2))
        return projected

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of every head, (B, heads, T, d_head) each."""
        if x.ndim != 3 or x.shape[2] != self.qkv.in_features or not x.shape[1]:
            raise InputError(f"x must be (B, T, {self.qkv.in_features}) with a token or more, not {tuple(x.shape)}")
        batch, length, width = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind(0)
        return queries, keys, values

    def boundaries(self, length: int) -> list[int]:
        """Starts of the chunks whose prefix is gated in some head."""
        return [start for start in range(self.chunk, length, self.chunk) if start >= self._fewest_gated]

    def gates(self, keys: Tensor) -> Tensor:
        """Gates (B, heads, c, T) of the last c chunks, the gated ones, for keys (B, heads, T, d)."""
        starts = self.boundaries(keys.shape[2])
        if not starts:
            return torch.ones(*keys.shape[:2], 0, keys.shape[2], dtype=torch.float32, device=keys.device)
        return self.rescaled(self.gate.prefixes(keys if self.gate_gradient else keys.detach(), starts, even=True))

    def rescaled(self, alpha: Tensor, count: int | None = None) -> Tensor:
        """Turn coefficients (B, heads, b, T) at the gated boundaries into gates: gain, floor, ones where ungated.

        `count` is the number of keys that α was solved on, at every boundary; the boundary's own if not given.
        """
        # In whole chunks: a context that grows token by token would otherwise leave a mask behind for every length.
        length = -(-alpha.shape[-1] // self.chunk) * self.chunk
        if self.gate.learn_cap:
            factor, applies = self._rule(alpha, length, count)
        else:
            place = (length, count, self.window, self.gain, alpha.dtype, alpha.device)
            if place not in self._masks:
                # A tensor of inference mode could not be trained with later.
                with torch.inference_mode(False):
                    self._masks[place] = self._rule(alpha, length, count)
            factor, applies = self._masks[place]
        if self.power is not None:
            factor = factor ** (1.0 + self.power.to(alpha.dtype)[:, None, None])
        if self.gain != "unit":
            alpha = alpha * factor
        if self.floor > 0.0:
            alpha = self.floor + (1.0 - self.floor) * alpha
        return torch.where(applies[..., : alpha.shape[-1]], alpha, 1.0)

    def _rule(self, alpha: Tensor, length: int, count: int | None) -> tuple[Tensor, Tensor]:
        """What α is multiplied by (heads, b, 1), and where the gate applies (heads, b, length)."""
        begin = torch.tensor(self.boundaries(length), device=alpha.device)[:, None]
        cap = self.gate.cap(alpha).to(alpha.dtype).expand(self.heads)[:, None, None]
        size = begin if count is None else torch.full_like(begin, count)
        factor = 1.0 / cap if self.gain == "cap" else size.to(alpha.dtype).expand(self.heads, -1, -1)
        ready = begin >= torch.ceil((1.0 - 1e-6) / cap) + 2.0
        place = torch.arange(length, device=alpha.device)
        return factor, (place < begin - self.window) & ready

    @torch.no_grad()
    def coefficients(self, x: Tensor) -> Tensor:
        """Coefficients at every gated boundary, (B, heads, boundaries, T)."""
        keys, starts = self.project(x)[1], self.boundaries(x.shape[1])
        if not starts:
            return torch.zeros(*keys.shape[:2], 0, keys.shape[2], device=keys.device)
        return self.gate.prefixes(keys, starts, even=True)

    @torch.no_grad()
    def active(self, x: Tensor, threshold: float = 1e-3) -> Tensor:
        """How many keys carry weight at each gated boundary, (B, heads, boundaries)."""
        return (self.coefficients(x) > threshold).sum(-1)
