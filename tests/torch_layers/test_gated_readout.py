"""The gated readout against its formula, written as a loop."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from expunge.torch.differentiable_ops import gated_readout


def inputs(chunk: int = 4, length: int = 11, gated: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, length, 5, generator=generator, dtype=torch.float64) for _ in range(3))
    gates = torch.rand(2, 3, gated, length, generator=generator, dtype=torch.float64)
    gates = torch.where(gates < 0.3, 0.0, gates)
    first = -(-length // chunk) - gated
    for c in range(gated):
        gates[:, :, c, (first + c) * chunk :] = 1.0
    return [q, k, v, gates, torch.randn(2, 3, length, generator=generator, dtype=torch.float64)]


def test_it_is_the_formula() -> None:
    q, k, v, gates, bias = inputs()
    out = gated_readout(q, k, v, gates, bias, scale=0.7, chunk=4)
    for b in range(2):
        for h in range(3):
            for i in range(11):
                weights = []
                for j in range(i + 1):
                    c = i // 4 - 1
                    gate = 1.0 if c < 0 else gates[b, h, c, j].item()
                    weights.append(gate * math.exp(0.7 * (q[b, h, i] @ k[b, h, j]).item() + bias[b, h, j].item()))
                wanted = torch.tensor(weights, dtype=torch.float64) @ v[b, h, : i + 1] / sum(weights)
                torch.testing.assert_close(out[b, h, i], wanted, rtol=1e-12, atol=1e-12)


def test_gradients() -> None:
    q, k, v, gates, bias = (part[:1, :1] for part in inputs())
    # At a gate of exactly zero the derivative is one-sided and dropped; the check needs positive gates.
    leaves = [part.clone().requires_grad_() for part in (q, k, v, gates.clamp(min=0.1), bias)]
    assert torch.autograd.gradcheck(
        lambda q, k, v, g, b: gated_readout(q, k, v, g, b, scale=0.7, chunk=4), leaves, atol=1e-6
    )


def test_a_closed_key_is_not_seen_however_large_its_logit() -> None:
    q, k, v, gates, bias = inputs()
    gates[:, :, -1, 2] = 0.0
    before = gated_readout(q, k, v, gates, bias, scale=0.7, chunk=4)
    k[:, :, 2], v[:, :, 2] = 1e3, 1e6
    after = gated_readout(q, k, v, gates, bias, scale=0.7, chunk=4)
    assert torch.equal(before[:, :, 8:], after[:, :, 8:])


@pytest.mark.parametrize("length", [1, 4, 9])
def test_without_gates_it_is_causal_attention(length: int) -> None:
    q, k, v = (torch.randn(1, 2, length, 8, dtype=torch.float64) for _ in range(3))
    out = gated_readout(q, k, v, torch.ones(1, 2, 0, length), scale=8**-0.5, chunk=4)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(out, wanted)
