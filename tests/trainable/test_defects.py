"""What the layers once got wrong: estimated steps that were too long, empty margins, half precision, other contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from expunge.errors import InputError
from expunge.torch import SupportVectorAttention, SupportVectorGate
from expunge.torch.baselines import DeltaNetAttention, LinearAttention, SoftmaxAttention
from expunge.torch.bridge import freeze

# Five power steps see little of the largest curvature on the simplex here.
MISLEADING = [
    [0.49, -0.47],
    [1.55, -0.4],
    [0.3, 1.75],
    [-0.76, -0.55],
    [-1.01, -0.76],
    [-0.86, 0.08],
    [-1.29, -1.68],
    [1.46, -0.45],
]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_steps_that_turn_out_too_long_get_shorter(kind: torch.dtype) -> None:
    keys = torch.tensor(MISLEADING, dtype=kind)
    gate, exact = SupportVectorGate(0.5, 1.0), SupportVectorGate(0.5, 1.0, "maintained")
    assert float(gate.residual(keys)) < 1e-5
    assert float((gate(keys) - exact(keys)).abs().max()) < 2e-3


def without_a_margin() -> torch.Tensor:
    return torch.randn(8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


def test_an_empty_margin_has_the_maintained_offset_and_a_reserve_key_does_not_matter() -> None:
    keys, point = without_a_margin(), torch.zeros(1, 2, dtype=torch.float64)
    exact = SupportVectorGate(0.5, 4.0, "maintained")
    batched = SupportVectorGate(0.5, 4.0, ridge=1e-9)
    (alpha, offset), (wanted, level) = (gate(keys, return_offset=True) for gate in (batched, exact))
    assert sorted(alpha.tolist())[-2:] == [0.5, 0.5]
    torch.testing.assert_close(alpha, wanted)
    torch.testing.assert_close(offset, level, rtol=0, atol=1e-8)
    reserve = int((wanted == 0).nonzero()[0])
    fewer = keys[[row for row in range(8) if row != reserve]]
    torch.testing.assert_close(batched.score(point, fewer), batched.score(point, keys), rtol=0, atol=1e-8)
    # Its gradient is that of the bound key's t.
    pulled: list[torch.Tensor] = []
    for gate in (batched, exact):
        leaf = keys.clone().requires_grad_()
        pulled += torch.autograd.grad(gate(leaf, return_offset=True)[1], leaf)
    torch.testing.assert_close(pulled[0], pulled[1], rtol=0, atol=1e-7)


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


def test_unit_keys_are_made_in_the_precision_of_the_solve() -> None:
    torch.manual_seed(0)
    layer = SupportVectorAttention(16, 2, chunk=8, normalize=True).half()
    x = torch.randn(1, 24, 16).half()
    x[0, 12] = 0
    assert layer(x).isfinite().all()
    keys = (1.2e4 * torch.randn(12, 64)).half()
    gate = SupportVectorGate(0.3, 1.0, normalize=True)
    torch.testing.assert_close(gate(keys), gate(keys.float()), rtol=0, atol=0)
    assert DeltaNetAttention(16, 2, chunk=8).half()(x).isfinite().all()


def test_linear_attention_in_half_precision_goes_on_in_a_long_context() -> None:
    torch.manual_seed(0)
    layer, x = LinearAttention(64, 2), torch.randn(1, 4096, 64)
    with torch.no_grad():
        wanted, found = layer(x), layer.half()(x.half()).float()
    assert float((found - wanted).norm() / wanted.norm()) < 0.01


def test_delta_net_keeps_double_precision() -> None:
    torch.manual_seed(0)
    layer = DeltaNetAttention(6, 2, chunk=4).double()
    x = torch.randn(1, 6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))


@pytest.mark.parametrize("move", [0.0, 300.0])
def test_the_rbf_readout_sees_differences_alone(move: float) -> None:
    torch.manual_seed(0)
    layer = SupportVectorAttention(32, 1, chunk=16, readout="rbf", sigma=1.5, bias=True)
    with torch.no_grad():
        layer.qkv.bias[:64] += move
    x = torch.randn(1, 40, 32)
    with torch.no_grad():
        wanted = layer.double()(x.double()).float()
        assert float((layer.float()(x) - wanted).norm() / wanted.norm()) < 1e-3


def test_the_rbf_readout_of_halves_is_weighed_in_single_precision() -> None:
    torch.manual_seed(0)
    layer = SupportVectorAttention(64, 1, chunk=64, readout="rbf", sigma=3.0).bfloat16()
    with torch.no_grad():
        layer.out.weight.copy_(torch.eye(64))
    x = (3 * torch.randn(1, 64, 64)).bfloat16()
    with torch.no_grad():
        q, k, v = (part[0, 0].double() for part in layer.project(x))
        kernel = torch.tril(torch.exp(-(q[:, None] - k[None]).square().sum(-1) / 9.0))
        wanted = (kernel / kernel.sum(-1, keepdim=True)) @ v
        # What is left is the rounding of the result.
        assert float((layer(x)[0].double() - wanted).norm() / wanted.norm()) < 5e-3


def test_the_maintained_path_stands_beside_compiled_code() -> None:
    gate = SupportVectorGate(0.3, 2.0, "maintained")
    keys = torch.randn(14, 3)
    compiled = torch.compile(gate, backend="eager")
    torch.testing.assert_close(compiled(keys), gate(keys))


@pytest.mark.parametrize("normalize", [False, True])
def test_frozen_coefficients_are_those_of_their_own_context(normalize: bool) -> None:
    torch.manual_seed(0)
    layer = SupportVectorAttention(16, 2, cap=0.2, sigma=1.0, chunk=16, normalize=normalize)
    x, other = torch.randn(2, 1, 40, 16)
    gates = freeze(layer, x)
    gates.delete([3])
    with torch.no_grad(), gates.applied():
        layer(x)
        layer(x.expand(3, -1, -1))
        # What is deleted, and what comes after the prefix, may be anything.
        changed = x.clone()
        changed[0, 3], changed[0, gates.count :] = other[0, 3], other[0, gates.count :]
        layer(changed)
        for wrong in (other, torch.cat([x, other])):
            with pytest.raises(InputError, match="not the keys that were frozen"):
                layer(wrong)


def test_a_window_and_a_gain_can_be_changed_on_a_layer() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 40, 16)
    changed = SupportVectorAttention(16, 2, chunk=8, gain="count")
    changed(x)
    changed.window, changed.gain = 8, "cap"
    fresh = SupportVectorAttention(16, 2, chunk=8, gain="cap", window=8)
    fresh.load_state_dict(changed.state_dict())
    torch.testing.assert_close(changed(x), fresh(x), rtol=0, atol=0)


def test_keys_whose_squares_overflow_are_far_from_all_others() -> None:
    torch.manual_seed(0)
    layer, x = SupportVectorAttention(16, 2, chunk=8), torch.randn(1, 40, 16)
    early = layer(x)[:, :20]
    x[0, 20:22] = 1e22 * torch.randn(2, 16)
    torch.testing.assert_close(layer(x)[:, :20], early, rtol=0, atol=0)
    alpha = SupportVectorGate(0.3, 2.0)(torch.randn(14, 3) * 1e25)
    torch.testing.assert_close(alpha, torch.full((14,), 1 / 14))
    assert SupportVectorGate(0.3, 2.0)(torch.full((14, 3), torch.nan)).isnan().all()


# For calls that no type checker would let pass.
GATE: Any = SupportVectorGate
LAYER: Any = SupportVectorAttention
FREEZE: Any = freeze


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: GATE()(np.zeros((8, 2))), "must be a tensor"),
        (lambda: GATE(ridge="a"), "ridge must be a number"),
        (lambda: GATE(closing=None), "closing must be a number"),
        (lambda: GATE(op="foo"), "op must be one of"),
        (lambda: GATE(heads=2.0), "heads must be a whole number"),
        (lambda: LAYER(16, "2"), "heads must be a whole number"),
        (lambda: LAYER(16, 2, chunk=16.0), "chunk must be a whole number"),
        (lambda: LAYER(16, 2, window=1.5), "window must be a whole number"),
        (lambda: LAYER(16, 2, floor="a"), "floor must be a number"),
        (
            lambda: GATE().score(torch.randn(5, 2, 3), torch.randn(3, 14, 3)),
            "leading dimensions of points",
        ),
        (lambda: GATE().read(*torch.randn(2, 5, 14, 3), torch.randn(3, 14, 3)), "dimensions of values"),
        (lambda: FREEZE(LAYER(16, 2, chunk=16), torch.randn(1, 40, 16), count=16.0), "whole number"),
    ],
)
def test_bad_input_is_named(act: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        act()


def test_softmax_is_not_moved_by_far_tokens_either() -> None:
    torch.manual_seed(0)
    layer, x = SoftmaxAttention(16, 2), torch.randn(1, 40, 16)
    early = layer(x)[:, :20]
    x[0, 20:22] = 1e22 * torch.randn(2, 16)
    torch.testing.assert_close(layer(x)[:, :20], early)
