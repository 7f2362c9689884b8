"""The attention of each arm, over a stack of slots.

``hybrid`` weighs the frozen prefix by the support-vector coefficients (paper, appendix B), ``window`` sees the last so
many tokens, ``softmax`` sees all. Each is a function of ``(layer, q, k, v)``, tensors ``(slots·batch, heads, block,
head width)``, and of the parameters ``(slots, 4, heads)`` of a learned gate. Slots of one stack may differ in
their gate and their window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby

import torch
from torch.nn import functional

from expunge.torch.differentiable_ops import gated_readout, prefix_coefficients
from studies.config import Gate, Run
from studies.model import Attend, head_powers

__all__ = [
    "Observer",
    "attention",
    "chunk_mask",
    "even_coefficients",
    "floor_shares",
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


def gate_keys(keys: torch.Tensor, gate: Gate, learned: torch.Tensor | None = None) -> torch.Tensor:
    """The keys that the gate is solved on.

    ``keys``: (…, heads, n, d); ``learned``: (…, 4, heads), the third logarithms of what a learned width is divided by.
    """
    if gate.gradient == 0:
        keys = keys.detach()
    elif gate.gradient != 1:
        # The values are the keys'; the gradient is scaled.
        keys = keys.detach() + gate.gradient * (keys - keys.detach())
    if gate.keys == "unit":
        keys = functional.normalize(keys.float(), dim=-1) * gate.radius
    if gate.keys == "scaled":
        first = keys[:, :, : gate.chunk].detach().float()
        scale = gate.radius / spread(first).clamp(min=SMALLEST_SPREAD)
        # The common mean cancels in every distance; taking it off first saves digits.
        keys = (keys.float() - first.mean(2, keepdim=True)) * scale[..., None, None]
    if gate.width == "learned" and learned is not None:
        # Keys times a factor are a width divided by it.
        keys = keys.float() * learned[..., 2, :, None, None].exp()
    return keys


def even_coefficients(gate: Gate, block: int, device: torch.device | str) -> torch.Tensor:
    """1/n on the n keys of every prefix, ``(boundaries, block)``."""
    counts = torch.arange(gate.chunk, block, gate.chunk, device=device)[:, None]
    return (torch.arange(block, device=device) < counts) / counts


def floor_shares(logits: torch.Tensor, gate: Gate) -> torch.Tensor:
    """The share of 1/n, which a logit of 0 leaves where the gate begins."""
    return torch.sigmoid(logits + math.log(gate.floor / (1 - gate.floor)))


def gate_weights(coefficients: torch.Tensor, gate: Gate, learned: torch.Tensor | None = None) -> torch.Tensor:
    """What a prefix key's attention is multiplied by.

    ``coefficients``: (…, heads, boundaries, block); ``learned``: (…, 4, heads), the first powers less 1, the second
    logits of the floor, the last tempers.
    """
    if gate.weight == "raw":
        return coefficients
    active = (coefficients.detach() > ACTIVE).sum(-1, keepdim=True)
    if gate.weight == "relative":
        return coefficients * active
    powers = head_powers(coefficients.shape[-3], coefficients.device)
    if learned is not None:
        powers = 1 + learned[..., 0, :]
    if gate.tempered and learned is not None:
        # A closed key stays closed; it has no logarithm.
        held = coefficients > 0
        relative = torch.where(held, coefficients * active, 1.0).log()
        tempers = learned[..., 3, :, None, None]
        return held * torch.exp(tempers * relative + (powers - 1)[..., None, None] * active.clamp(min=1).log())
    if gate.floor and learned is not None:
        even = even_coefficients(gate, coefficients.shape[-1], coefficients.device)
        share = floor_shares(learned[..., 1, :], gate)[..., None, None]
        coefficients = coefficients + share * (even - coefficients)
        active = torch.count_nonzero(even, -1)[:, None]
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
    # Slots with one problem are solved and read in one call; those with one gate are weighed in one.
    problems: list[tuple[Gate, slice]] = []
    spans: list[tuple[Gate, slice]] = []
    for found, settings in (
        (problems, [slot.recipe.gate.problem for slot in run.slots]),
        (spans, [slot.recipe.gate for slot in run.slots]),
    ):
        start = 0
        for gate, members in groupby(settings):
            end = start + len(list(members)) * run.batch
            found.append((gate, slice(start, end)))
            start = end
    own = {gate: chunk_mask(block, gate.chunk, gate.near).to(device) for gate, _ in spans}
    even = {gate: even_coefficients(gate, block, device) for gate, _ in problems}
    caps = {gate: torch.tensor([gate.cap], device=device) for gate, _ in problems}
    widths = {gate: torch.tensor([gate.sigma], device=device) for gate, _ in problems}

    def weigh(alpha: torch.Tensor, learned: torch.Tensor | None, part: slice) -> torch.Tensor:
        """The factors of a part's rows, own chunk and near keys included."""
        pieces = []
        for gate, here in spans:
            if part.start <= here.start < part.stop:
                inside = slice(here.start - part.start, here.stop - part.start)
                given = None if learned is None or gate.weight != "learned" else learned[here]
                factors = gate_weights(alpha[inside], gate, given)
                pieces.append((factors * (1 - own[gate]) if gate.near else factors) + own[gate])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def attend(
        layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, learned: torch.Tensor | None = None
    ) -> torch.Tensor:
        heard, active, spreads = [], [], []
        if learned is not None:
            learned = learned.repeat_interleave(run.batch, 0)
        for gate, part in problems:
            keys = gate_keys(k[part], gate, None if learned is None else learned[part])
            boundaries = range(gate.chunk, block, gate.chunk)
            if gate.keys == "none":
                alpha = even[gate].expand(*keys.shape[:2], -1, -1)
            else:
                alpha, _ = prefix_coefficients(keys, boundaries, caps[gate], widths[gate])
            if observe is not None:
                active.append((alpha[:, :, -1] > ACTIVE).sum(-1).float())
                spreads.append(spread(keys[:, :, : boundaries[-1]]) / gate.sigma)
            gates = weigh(alpha, learned, part)
            scale = q.shape[-1] ** -0.5
            heard.append(gated_readout(q[part], k[part], v[part], gates, scale=scale, chunk=gate.chunk))
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
        layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, learned: torch.Tensor | None = None
    ) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=whole)

    return attend
