"""The attention of each arm, over a stack of slots.

``hybrid`` weighs the frozen prefix by the support-vector coefficients (paper, appendix B), ``window`` sees the last so
many tokens, ``softmax`` sees all. Each is a function of ``(layer, q, k, v)``, tensors ``(slots·batch, heads, block,
head width)``, and of the learned powers ``(slots, heads)`` of a gate that has them. Slots of one stack may differ in
their gate and their window.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import torch
from torch.nn import functional

from expunge.torch.batched import prefix_coefficients
from expunge.torch.readout import gated_readout
from studies.config import Gate, Run
from studies.model import Attend, head_powers

__all__ = [
    "Observer",
    "attention",
    "chunk_mask",
    "even_coefficients",
    "gate_keys",
    "gate_weights",
    "spread",
    "window_mask",
]

# What the paper counts as active (its set threshold).
ACTIVE = 1e-3

# Keys closer together than this are one key.
SMALLEST_SPREAD = 1e-6

Observer = Callable[[int, torch.Tensor, torch.Tensor], None]


def spread(keys: torch.Tensor) -> torch.Tensor:
    """Root mean squared distance of keys (…, n, d) from their mean, (…)."""
    keys = keys.float()
    return (keys - keys.mean(-2, keepdim=True)).square().sum(-1).mean(-1).sqrt()


def gate_keys(keys: torch.Tensor, gate: Gate) -> torch.Tensor:
    """The keys that the gate is solved on."""
    if gate.gradient == 0:
        keys = keys.detach()
    elif gate.gradient != 1:
        # The values are the keys'; the gradient is scaled.
        keys = keys.detach() + gate.gradient * (keys - keys.detach())
    if gate.keys == "unit":
        return functional.normalize(keys.float(), dim=-1) * gate.radius
    if gate.keys == "scaled":
        first = keys[:, :, : gate.chunk].detach().float()
        scale = gate.radius / spread(first).clamp(min=SMALLEST_SPREAD)
        # The common mean cancels in every distance; taking it off first saves digits.
        return (keys.float() - first.mean(2, keepdim=True)) * scale[..., None, None]
    return keys


def even_coefficients(boundaries: range, keys: torch.Tensor) -> torch.Tensor:
    """1/n on every prefix, in the shape of its coefficients."""
    counts = torch.arange(boundaries.start, boundaries.stop, boundaries.step, device=keys.device)[:, None]
    even = (torch.arange(keys.shape[2], device=keys.device) < counts) / counts
    return even.expand(*keys.shape[:2], -1, -1)


def gate_weights(coefficients: torch.Tensor, gate: Gate, powers: torch.Tensor | None = None) -> torch.Tensor:
    """What a prefix key's attention is multiplied by.

    ``coefficients``: (…, heads, boundaries, block); ``powers`` of the number of active keys: (…, heads).
    """
    if gate.weight == "raw":
        return coefficients
    active = (coefficients.detach() > ACTIVE).sum(-1, keepdim=True)
    if gate.weight == "relative":
        return coefficients * active
    if powers is None:
        powers = head_powers(coefficients.shape[-3], coefficients.device)
    return coefficients * active ** powers[..., None, None]


def chunk_mask(block: int, chunk: int, near: int = 0) -> torch.Tensor:
    """1 where a key is in the query's own chunk or among the ``near`` ones before it, for every chunk but the first,
    ``(chunks − 1, block)``.
    """
    start = torch.arange(chunk, block, chunk)[:, None]
    place = torch.arange(block)
    return ((place >= start - near) & (place < start + chunk)).float()


def window_mask(windows: list[int], batch: int, block: int, *, device: str, kind: torch.dtype) -> torch.Tensor:
    """0 where a query may look, −∞ elsewhere, ``(slots·batch, 1, block, block)``: at itself and the tokens before it,
    ``window`` in all.
    """
    place = torch.arange(block, device=device)
    behind = place[:, None] - place[None, :]
    width = torch.tensor(windows, device=device).repeat_interleave(batch)[:, None, None, None]
    hidden = (behind < 0) | (behind >= width)
    return torch.zeros(hidden.shape, dtype=kind, device=device).masked_fill_(hidden, float("-inf"))


def _hybrid(run: Run, device: str, observe: Observer | None) -> Attend:
    block = run.shape.block
    # Slots with one gate are solved in one call.
    spans: list[tuple[Gate, slice]] = []
    start = 0
    for gate, members in groupby(run.slots, key=lambda slot: slot.recipe.gate):
        end = start + len(list(members)) * run.batch
        spans.append((gate, slice(start, end)))
        start = end
    own = {gate: chunk_mask(block, gate.chunk, gate.near).to(device) for gate, _ in spans}
    beyond = {gate: 1.0 - own[gate] for gate, _ in spans}
    caps = {gate: torch.tensor([gate.cap], device=device) for gate, _ in spans}
    widths = {gate: torch.tensor([gate.sigma], device=device) for gate, _ in spans}

    def attend(
        layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, powers: torch.Tensor | None = None
    ) -> torch.Tensor:
        heard, active, spreads = [], [], []
        for gate, here in spans:
            keys = gate_keys(k[here], gate)
            boundaries = range(gate.chunk, block, gate.chunk)
            if gate.keys == "none":
                alpha = even_coefficients(boundaries, keys)
            else:
                alpha, _ = prefix_coefficients(keys, boundaries, caps[gate], widths[gate])
            if observe is not None:
                active.append((alpha[:, :, -1] > ACTIVE).sum(-1).float())
                spreads.append(spread(keys[:, :, : boundaries[-1]]) / gate.sigma)
            learned = None
            if gate.weight == "learned" and powers is not None:
                learned = powers.repeat_interleave(run.batch, 0)[here]
            gates = gate_weights(alpha, gate, learned)
            gates = (gates * beyond[gate] if gate.near else gates) + own[gate]
            scale = q.shape[-1] ** -0.5
            heard.append(gated_readout(q[here], k[here], v[here], gates, scale=scale, chunk=gate.chunk))
        if observe is not None:
            slots = len(run.slots)
            observe(layer, torch.cat(active).view(slots, -1).mean(1), torch.cat(spreads).view(slots, -1).mean(1))
        return heard[0] if len(heard) == 1 else torch.cat(heard)

    return attend


def attention(
    run: Run, *, device: str = "cpu", kind: torch.dtype = torch.float32, observe: Observer | None = None
) -> Attend:
    """The arm's attention. ``observe`` is told, layer by layer, the mean active keys at the last boundary and the
    spread of that prefix in units of σ, (slots,) each.
    """
    if run.arm == "hybrid":
        return _hybrid(run, device, observe)
    windows = [slot.window or run.shape.block for slot in run.slots]
    # A window of the whole block is full softmax, which needs no mask.
    whole = run.arm == "softmax" or min(windows) >= run.shape.block
    mask = None if whole else window_mask(windows, run.batch, run.shape.block, device=device, kind=kind)

    def attend(
        layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, powers: torch.Tensor | None = None
    ) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=whole)

    return attend
