"""Gradients of the gate, and where they stop being gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from expunge.errors import InputError
from expunge.torch import SupportVectorGate
from torch_layers.sample_keys import keys_for


def difference_quotient(what: Callable[[Tensor], Tensor], at: Tensor, along: Tensor, step: float = 1e-6) -> float:
    return float((what(at + step * along) - what(at - step * along)) / (2.0 * step))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cap", [0.1, 0.3])
def test_gradients_of_coefficients_and_offset(seed: int, cap: float) -> None:
    gate = SupportVectorGate(cap=cap, sigma=2.0, path="maintained")
    assert torch.autograd.gradcheck(lambda keys: gate(keys, return_offset=True), (keys_for(seed),), fast_mode=False)


@pytest.mark.parametrize("seed", range(2))
def test_gradients_of_scores_and_readout(seed: int) -> None:
    gate = SupportVectorGate(cap=0.3, sigma=2.0, path="maintained")
    keys, points, values = keys_for(seed), keys_for(seed + 10, count=5), keys_for(seed + 20, width=2)
    assert torch.autograd.gradcheck(gate.score, (points, keys))
    assert torch.autograd.gradcheck(gate.read, (points, keys, values))


@pytest.mark.parametrize("path", ["maintained", "batched"])
def test_gradients_of_learned_width_and_cap(path: str) -> None:
    """Central differences of a weighted sum in log σ and log C, with keys at the cap among the active ones."""
    gate = SupportVectorGate(cap=0.12, sigma=1.5, path=path, learn_sigma=True, learn_cap=True).double()  # type: ignore[arg-type]
    keys = keys_for(5).detach()
    weights = torch.linspace(-1.0, 1.0, 14, dtype=torch.float64)

    def value() -> Tensor:
        alpha, offset = gate(keys, return_offset=True)
        return torch.as_tensor((alpha * weights).sum() + 0.7 * offset)

    assert (gate(keys) >= gate.cap(keys)).any()
    assert (gate(keys) == 0.0).any()
    parameters = list(gate.parameters())
    assert len(parameters) == 2
    for parameter, slope in zip(parameters, torch.autograd.grad(value(), parameters), strict=True):
        values = []
        for change in (1e-6, -2e-6):
            parameter.data.add_(change)
            values.append(value().item())
        parameter.data.add_(1e-6)
        assert slope.item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_the_gradient_belongs_to_one_side_of_a_partition_change() -> None:
    """A key crosses from reserve to margin: coefficients are continuous, and each side has its own derivative."""
    gate = SupportVectorGate(cap=0.6, sigma=5.0, path="maintained")

    def keys_at(height: float) -> Tensor:
        # The third key of the paper's example leaves the reserve as it rises.
        return torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, height]], dtype=torch.float64, requires_grad=True)

    low, high = 0.5, 3.0
    assert gate(keys_at(low))[2] == 0.0
    assert gate(keys_at(high))[2] > 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gate(keys_at(middle))[2] == 0.0 else (low, middle)
    edge, step = 0.5 * (low + high), 1e-4
    slopes = []
    for height, side in ((edge - step, -1.0), (edge + step, 1.0)):
        keys = keys_at(height)
        (slope,) = torch.autograd.grad(gate(keys)[2], keys)
        one_sided = (gate(keys_at(height + side * 1e-6))[2] - gate(keys)[2]).item() / (side * 1e-6)
        assert slope[2, 1].item() == pytest.approx(one_sided, rel=1e-4, abs=1e-9)
        slopes.append(slope[2, 1].item())
    assert slopes[0] == 0.0
    assert slopes[1] > 0.01
    assert gate(keys_at(edge + 1e-9))[2].item() == pytest.approx(0.0, abs=1e-8)


def test_identical_keys_move_together() -> None:
    """The gradient at identical keys is that of the group: a direction that moves both alike is differentiable."""
    gate = SupportVectorGate(cap=0.5, sigma=2.0, path="maintained")
    base = keys_for(3, count=6).detach()
    weights = torch.tensor([0.3, 0.3, -1.0, 0.2, 0.9, -0.4, 0.1], dtype=torch.float64)

    def value(moved: Tensor) -> Tensor:
        return torch.as_tensor((gate(torch.cat([moved[:1], moved])) * weights).sum())

    assert gate(torch.cat([base[:1], base]))[0] > 0.0
    assert torch.autograd.gradcheck(value, (base.requires_grad_(),))


def test_an_empty_margin_moves_only_the_offset() -> None:
    keys = keys_for(7, count=4)
    alpha = SupportVectorGate(cap=0.25, sigma=2.0, path="maintained")(keys)
    assert (alpha == 0.25).all()
    (pulled,) = torch.autograd.grad(alpha.sum(), keys, retain_graph=True, allow_unused=True)
    assert pulled is None or (pulled == 0.0).all()
    gate = SupportVectorGate(cap=0.25, sigma=2.0, path="maintained")
    assert torch.autograd.gradcheck(lambda moved: gate(moved, return_offset=True)[1], (keys,))


@pytest.mark.parametrize("path", ["maintained", "batched"])
def test_a_second_derivative_is_refused(path: str) -> None:
    gate = SupportVectorGate(cap=0.3, sigma=2.0, path=path)  # type: ignore[arg-type]
    keys = keys_for(0)
    (slope,) = torch.autograd.grad(gate(keys).square().sum(), keys, create_graph=True)
    with pytest.raises(InputError, match="no second derivative"):
        torch.autograd.grad(slope.sum(), keys)


@pytest.mark.parametrize("closing", [0.1, 0.3, 0.5])
def test_closing_a_key_leaves_the_gradient_of_the_others_right(closing: float) -> None:
    gate = SupportVectorGate(cap=0.25, sigma=2.0, closing=closing)
    keys = keys_for(3, count=48, width=6)
    weights, along = keys_for(4, count=48, width=1).detach()[:, 0], keys_for(5, count=48, width=6).detach()
    whole, found = SupportVectorGate(cap=0.25, sigma=2.0)(keys), gate(keys)
    assert int(((whole > 0.0) & (found == 0.0)).sum()) > 0
    (pulled,) = torch.autograd.grad((found * weights).sum(), keys)
    expected = difference_quotient(lambda x: (gate(x) * weights).sum(), keys.detach(), along)
    assert float((pulled * along).sum()) == pytest.approx(expected, rel=1e-6)


def test_the_cap_of_an_empty_margin_has_a_one_sided_derivative() -> None:
    generator = torch.Generator().manual_seed(12)
    keys = torch.randn(9, 3, dtype=torch.float64, generator=generator)
    weights = torch.randn(9, dtype=torch.float64, generator=generator)
    found: list[float] = []
    for path in ("maintained", "batched"):
        gate = SupportVectorGate(0.25, 5.0, path, learn_cap=True, ridge=1e-9)
        assert gate.log_cap is not None
        value = (gate(keys) * weights).sum()
        found += [float(one) for one in torch.autograd.grad(value, gate.log_cap)]
        with torch.no_grad():
            gate.log_cap.sub_(1e-3)
            below = (gate(keys) * weights).sum()
        assert found[-1] == pytest.approx(float(value.detach() - below) / 1e-3, rel=5e-3)
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    # With n·C = 1 nothing can move.
    full = SupportVectorGate(0.25, 5.0, "maintained", learn_cap=True)
    assert full.log_cap is not None
    assert float(torch.autograd.grad((full(keys[:4]) * weights[:4]).sum(), full.log_cap)[0]) == 0.0
