from __future__ import annotations

from dataclasses import replace

import torch
from stacks import run, text
from torch import nn
from torch.nn import functional

from studies.arms import attention
from studies.config import SHAPES, VOCABULARY, Gate, Recipe, Shape
from studies.model import Stack, decays, shapes


class Plain(nn.Module):
    """The same transformer written with PyTorch's own layers, one model at a time."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.shape = shape
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(shape.block, width)
        self.norms = [nn.LayerNorm(width) for _ in range(2 * shape.layers + 1)]
        self.mixers = [nn.Linear(width, 3 * width, bias=False) for _ in range(shape.layers)]
        self.outs = [nn.Linear(width, width, bias=False) for _ in range(shape.layers)]
        self.ups = [nn.Linear(width, 4 * width, bias=False) for _ in range(shape.layers)]
        self.downs = [nn.Linear(4 * width, width, bias=False) for _ in range(shape.layers)]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        shape, (batch, length) = self.shape, (tokens.shape[0], tokens.shape[1] - 1)
        x = self.token(tokens[:, :-1]) + self.position(torch.arange(length))
        for i in range(shape.layers):
            q, k, v = self.mixers[i](self.norms[2 * i](x)).split(shape.width, -1)
            q, k, v = (t.view(batch, length, shape.heads, -1).transpose(1, 2) for t in (q, k, v))
            scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(
                torch.ones(length, length).triu(1).bool(), float("-inf")
            )
            x = x + self.outs[i]((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1))
            x = x + self.downs[i](functional.gelu(self.ups[i](self.norms[2 * i + 1](x))))
        logits = self.norms[-1](x) @ self.token.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def plain_twin(stack: Stack, slot: int) -> Plain:
    model = Plain(stack.run.shape)
    for layer in (model, *model.norms, *model.mixers, *model.outs, *model.ups, *model.downs):
        layer.double()
    w = {name: value[slot].detach() for name, value in stack.weights.items()}
    with torch.no_grad():
        model.token.weight.copy_(w["token"])
        model.position.weight.copy_(w["position"])
        for i in range(stack.run.shape.layers):
            for part, norm in (("attention", model.norms[2 * i]), ("mlp", model.norms[2 * i + 1])):
                norm.weight.copy_(w[f"{i}.{part}.gain"])
                norm.bias.copy_(w[f"{i}.{part}.shift"])
            for name, layer in (
                ("attention.qkv", model.mixers[i]),
                ("attention.out", model.outs[i]),
                ("mlp.up", model.ups[i]),
                ("mlp.down", model.downs[i]),
            ):
                layer.weight.copy_(w[f"{i}.{name}"].T)
        model.norms[-1].weight.copy_(w["final.gain"])
        model.norms[-1].bias.copy_(w["final.shift"])
    return model


def test_each_slot_is_the_plain_transformer() -> None:
    settings = run("softmax", seeds=(0, 5))
    stack = Stack(settings, attention(settings), kind=torch.float64, dtype=torch.float64)
    # Away from the initial point, so that gains and shifts matter.
    with torch.no_grad():
        stack.parameters.add_(0.05 * torch.randn(stack.parameters.shape, generator=torch.Generator().manual_seed(1)))
    tokens = text(2 * 4 * 81).long().view(2, 4, 81)
    losses = stack.losses(tokens)
    gradient = stack.gradient(losses)
    for slot in range(2):
        model = plain_twin(stack, slot)
        loss = model(tokens[slot])
        torch.testing.assert_close(losses[slot], loss, rtol=1e-12, atol=0)
        twins = {
            "token": model.token.weight,
            "0.attention.qkv": model.mixers[0].weight,
            "1.mlp.gain": model.norms[3].weight,
        }
        theirs = dict(zip(twins, torch.autograd.grad(loss, list(twins.values())), strict=True))
        offset = 0
        for name, size in shapes(settings).items():
            count = int(torch.Size(size).numel())
            if name in theirs:
                expected = theirs[name].T if name.endswith("qkv") else theirs[name]
                ours = gradient[slot, offset : offset + count].view(size)
                torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-13)
            offset += count


def test_the_small_model_has_the_papers_size() -> None:
    assert round(SHAPES["3m"].parameters / 1e6, 2) == 3.22
    settings = run("softmax")
    stack = Stack(settings, attention(settings))
    positions = settings.shape.block * settings.shape.width
    assert stack.parameters.shape[1] - positions == settings.shape.parameters


def test_a_slot_starts_the_same_in_any_stack() -> None:
    alone, both = run("softmax", seeds=(5,)), run("window", seeds=(0, 5), window=8)
    assert torch.equal(Stack(alone, attention(alone)).parameters[0], Stack(both, attention(both)).parameters[1])


def test_what_a_gate_learns_may_have_its_own_decay() -> None:
    settings = run("hybrid")
    recipes = [Recipe(gate=Gate(weight="learned"), decay=0.2, gate_decay=other) for other in (1.0, None)]
    settings = replace(settings, slots=tuple(replace(settings.slots[0], recipe=recipe) for recipe in recipes))
    stack = Stack(settings, attention(settings))
    stack.parameters.data.copy_(decays(settings))
    assert (stack.weights["0.attention.weight"][0] == 1).all()
    assert (stack.weights["0.attention.weight"][1] == 0.2).all()
    assert (stack.weights["0.attention.qkv"] == 0.2).all()
    assert (stack.weights["0.attention.gain"] == 0.1).all()


def test_the_recipe_decays_matrices_alone() -> None:
    settings = run("softmax")
    settings = replace(settings, slots=(replace(settings.slots[0], recipe=Recipe(decay=0.7)), settings.slots[0]))
    table, start = decays(settings), 0
    for name, size in shapes(settings).items():
        count = torch.Size(size).numel()
        here = table[:, start : start + count]
        expected = torch.tensor([[0.7], [0.1]] if len(size) > 1 else [[0.1], [0.1]])
        assert torch.equal(here, expected.expand(2, count)), name
        start += count
    assert table.shape == (2, start)
