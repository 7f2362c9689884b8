from __future__ import annotations

import math

import torch

from studies.config import Recipe
from studies.optimizer import learning_rates, step


def test_a_stack_steps_like_one_adamw_a_slot() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 40, generator=generator, dtype=torch.float64)
    rates = torch.tensor([1e-2, 3e-3, 1e-3], dtype=torch.float64)
    ours, first, second = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    theirs = [torch.nn.Parameter(row.clone()) for row in start]
    optimizers = [
        torch.optim.AdamW([p], lr=float(rate), betas=(0.9, 0.95), weight_decay=decay)
        for p, rate, decay in zip(theirs, rates, (0.1, 0.5, 0.0), strict=True)
    ]
    decay = torch.tensor([[0.1], [0.5], [0.0]], dtype=torch.float64).expand_as(start)
    for count in range(7):
        # The first slot's gradients are above the clip, the last one's below.
        gradient = torch.randn(3, 40, generator=generator, dtype=torch.float64) * torch.tensor([[9.0], [0.3], [0.01]])
        done = torch.tensor(count)
        norms = step(ours, gradient, first, second, rate=rates, count=done, betas=(0.9, 0.95), decay=decay, clip=1.0)
        for row, (parameter, optimizer) in enumerate(zip(theirs, optimizers, strict=True)):
            parameter.grad = gradient[row].clone()
            total = torch.nn.utils.clip_grad_norm_([parameter], 1.0)
            assert math.isclose(float(total), float(norms[row]), rel_tol=1e-12)
            optimizer.step()
            torch.testing.assert_close(ours[row], parameter.detach(), rtol=1e-12, atol=1e-14)


def test_rates_follow_the_cosine_after_the_warm_up() -> None:
    table = learning_rates([Recipe(rate=3e-3), Recipe(rate=1e-3, warmup=9)], 100)
    assert table.shape == (100, 2)
    assert math.isclose(float(table[0, 0]), 3e-3, rel_tol=1e-6)
    assert math.isclose(float(table[50, 0]), 1.5e-3, rel_tol=1e-6)
    assert float(table[99, 0]) < 3e-3 * 3e-4
    assert math.isclose(float(table[0, 1]), 1e-4, rel_tol=1e-6)
    assert int(table[:, 1].argmax()) == 9
