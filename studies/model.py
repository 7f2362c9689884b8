"""A stack of byte-level transformers that train side by side (docs/results/protocols.md, Training).

Every parameter has a leading slot dimension and every product is batched over it, so seven small models cost one launch
where they would cost seven; a slot's numbers never meet another slot's. Pre-norm blocks, no biases in the products,
learned positions, tied head, all matrices drawn from N(0, 0.02²). Arms differ in their attention alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.nn import functional

from studies.config import VOCABULARY, Run
from studies.dropout import Dropout, Noise, drop

__all__ = ["Attend", "Stack", "decays", "head_powers", "shapes"]

INITIAL_SPREAD = 0.02


class Attend(Protocol):
    """What is heard, from a layer's queries, keys and values and from the parameters of a learned gate."""

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, learned: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``(slots·batch, heads, block, head width)`` from tensors of that shape, and ``learned`` (slots, 4, heads)."""


def shapes(run: Run) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter of one model of a run, in the order of the buffer."""
    shape = run.shape
    width = shape.width
    table: dict[str, tuple[int, ...]] = {"token": (VOCABULARY, width), "position": (shape.block, width)}
    for layer in range(shape.layers):
        table |= {
            f"{layer}.attention.gain": (width,),
            f"{layer}.attention.shift": (width,),
            f"{layer}.attention.qkv": (width, 3 * width),
            f"{layer}.attention.out": (width, width),
            f"{layer}.mlp.gain": (width,),
            f"{layer}.mlp.shift": (width,),
            f"{layer}.mlp.up": (width, 4 * width),
            f"{layer}.mlp.down": (4 * width, width),
        }
    table |= {"final.gain": (width,), "final.shift": (width,)}
    if run.learns_weights:
        table |= {f"{layer}.attention.weight": (4, shape.heads) for layer in range(shape.layers)}
    return table


def decays(run: Run) -> torch.Tensor:
    """The weight decay of every parameter, ``(slots, count)``: the recipe's for matrices and gates, the run's for the
    rest.
    """
    rows = []
    for slot in run.slots:
        recipe, pieces = slot.recipe, []
        gate_decay = recipe.decay if recipe.gate_decay is None else recipe.gate_decay
        for name, size in shapes(run).items():
            decay = gate_decay if name.endswith("weight") else recipe.decay if len(size) > 1 else run.decay
            pieces.append(torch.full((math.prod(size),), decay))
        rows.append(torch.cat(pieces))
    return torch.stack(rows)


def head_powers(heads: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """From 0 in the first head to 1 in the last."""
    return torch.arange(heads, device=device) / max(1, heads - 1)


def _draw(run: Run, seed: int) -> torch.Tensor:
    """One model's initial parameters, flat float32; those that arms share are a function of the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    pieces = []
    for name, size in shapes(run).items():
        if name.endswith("gain"):
            pieces.append(torch.ones(size))
        elif name.endswith("shift"):
            pieces.append(torch.zeros(size))
        elif name.endswith("weight"):
            # Powers less 1, the logits of the floor's share beside those that the gate begins with, the logarithms of
            # the factors on the keys, and the tempers: all decay to what is left when the gate has nothing to say.
            none = torch.zeros(size[1])
            pieces.append(torch.stack([head_powers(size[1]) - 1, none, none, none + 1]))
        else:
            pieces.append(torch.randn(size, generator=generator) * INITIAL_SPREAD)
    return torch.cat([piece.flatten() for piece in pieces])


def _normalise(x: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Layer norm with one gain and shift a slot. ``x``: (slots, rows, width)."""
    return functional.layer_norm(x, x.shape[-1:]) * gain[:, None] + shift[:, None]


def _project(
    x: torch.Tensor,
    gain: torch.Tensor,
    shift: torch.Tensor,
    qkv: torch.Tensor,
    heads: int,
    block: int,
    kind: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values, each ``(slots·batch, heads, block, width/heads)`` of the dtype ``kind``."""
    slots, rows, width = x.shape
    joint = torch.bmm(_normalise(x, gain, shift).to(kind), qkv.to(kind))
    joint = joint.view(slots * rows // block, block, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    return joint[0].contiguous(), joint[1].contiguous(), joint[2].contiguous()


def _continue(
    x: torch.Tensor,
    heard: torch.Tensor,
    out: torch.Tensor,
    gain: torch.Tensor,
    shift: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
    kind: torch.dtype,
    noise: tuple[Noise | None, Noise | None],
) -> torch.Tensor:
    """The rest of a block: project what attention heard, add it, then the MLP."""
    heard = heard.transpose(1, 2).reshape(x.shape).to(kind)
    x = x + drop(torch.bmm(heard, out.to(kind)).to(x.dtype), noise[0])
    hidden = functional.gelu(torch.bmm(_normalise(x, gain, shift).to(kind), up.to(kind)))
    return x + drop(torch.bmm(hidden, down.to(kind)).to(x.dtype), noise[1])


def _losses(
    x: torch.Tensor,
    gain: torch.Tensor,
    shift: torch.Tensor,
    token: torch.Tensor,
    targets: torch.Tensor,
    kind: torch.dtype,
) -> torch.Tensor:
    """Negative log-likelihood of every target, in nats, shaped like ``targets``: (slots, rows)."""
    logits = torch.bmm(_normalise(x, gain, shift).to(kind), token.to(kind).transpose(1, 2)).to(x.dtype)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


class Stack:
    """The parameters of all slots and the forward pass over them.

    ``parameters`` is a ``(slots, count)`` buffer and ``weights`` are leaves that view it, by name. Products run in
    ``kind``; parameters and the residual stream have ``dtype``.
    """

    def __init__(
        self,
        run: Run,
        attend: Attend,
        *,
        device: str = "cpu",
        kind: torch.dtype = torch.float32,
        dtype: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        self.run, self.attend, self.kind = run, attend, kind
        self._dropout = Dropout(run, device)
        self.parameters = torch.stack([_draw(run, slot.seed) for slot in run.slots]).to(device, dtype)
        self.weights: dict[str, torch.Tensor] = {}
        start = 0
        for name, size in shapes(run).items():
            end = start + int(torch.Size(size).numel())
            leaf = self.parameters[:, start:end].view(len(run.slots), *size).detach().requires_grad_()
            self.weights[name] = leaf
            start = end
        wrap: Callable[[Any], Any] = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        self._project, self._continue, self._losses = wrap(_project), wrap(_continue), wrap(_losses)

    def gradient(self, losses: torch.Tensor) -> torch.Tensor:
        """The gradient of ``losses`` (slots,) in the layout of ``parameters``: each slot has its own loss only."""
        pieces = torch.autograd.grad(losses.sum(), list(self.weights.values()))
        return torch.cat([piece.flatten(1) for piece in pieces], 1)

    def losses(self, tokens: torch.Tensor, step: torch.Tensor | None = None) -> torch.Tensor:
        """Mean nats a byte, one a slot. ``tokens``: (slots, batch, block + 1) int64; ``step``, 0-dimensional, is the
        step of training, which drops what the recipes say; None drops nothing.
        """
        return self.losses_each(tokens, step).mean(1)

    def losses_each(self, tokens: torch.Tensor, step: torch.Tensor | None = None) -> torch.Tensor:
        """Mean nats a byte of every sequence, ``(slots, batch)``."""
        w, shape, kind = self.weights, self.run.shape, self.kind
        first, every = self.run.scored
        x = self._hidden(tokens[..., :-1], step).view(*tokens.shape[:2], shape.block, shape.width)
        x, targets = x[:, :, first::every].flatten(1, 2), tokens[:, :, first + 1 :: every].flatten(1)
        nats: torch.Tensor = self._losses(x, w["final.gain"], w["final.shift"], w["token"], targets, kind)
        return nats.view(*tokens.shape[:2], -1).mean(-1)

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The likeliest next byte at every place, ``(slots, batch, block)``."""
        w = self.weights
        x = _normalise(self._hidden(inputs), w["final.gain"], w["final.shift"]).to(self.kind)
        return torch.bmm(x, w["token"].to(self.kind).transpose(1, 2)).argmax(-1).view(inputs.shape)

    def _hidden(self, tokens: torch.Tensor, step: torch.Tensor | None = None) -> torch.Tensor:
        """The residual stream after the last block, ``(slots, batch·block, width)``."""
        w, shape, kind = self.weights, self.run.shape, self.kind
        inputs = tokens.flatten(1)
        # A one-hot product: its gradient is a product too, which is quicker than a scatter and sums in a fixed order.
        hot = (inputs[..., None] == torch.arange(VOCABULARY, device=inputs.device)).to(kind)
        x = torch.bmm(hot, w["token"].to(kind)).to(self.parameters.dtype)
        x = x + w["position"].repeat(1, tokens.shape[1], 1)
        noises = self._dropout.sites(step)
        for layer in range(shape.layers):
            a, m = f"{layer}.attention", f"{layer}.mlp"
            q, k, v = self._project(x, w[f"{a}.gain"], w[f"{a}.shift"], w[f"{a}.qkv"], shape.heads, shape.block, kind)
            heard = self.attend(layer, q, k, v, w.get(f"{a}.weight"))
            noise = noises[2 * layer], noises[2 * layer + 1]
            x = self._continue(
                x, heard, w[f"{a}.out"], w[f"{m}.gain"], w[f"{m}.shift"], w[f"{m}.up"], w[f"{m}.down"], kind, noise
            )
        return x
