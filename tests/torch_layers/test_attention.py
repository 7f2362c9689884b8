"""The attention layer: what a query sees, what it cannot see, and every option against its meaning."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from expunge.errors import InputError
from expunge.torch import SupportVectorAttention, SupportVectorGate
from expunge.torch.differentiable_ops import _lengths_on, gated_readout


def layer(**options: object) -> SupportVectorAttention:
    torch.manual_seed(0)
    settings: dict[str, object] = {"chunk": 16, "cap": 0.25, "sigma": 1.5, "closing": 0.0, **options}
    return SupportVectorAttention(16, 2, **settings).double()  # type: ignore[arg-type]


def context(length: int = 50) -> Tensor:
    return torch.randn(2, length, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def by_hand(one: SupportVectorAttention, x: Tensor, gate_of: object = None) -> Tensor:
    """Chunk by chunk from the definition: solve the prefix alone, multiply, renormalize."""
    q, k, v = one.project(x)
    out = torch.zeros_like(q)
    for i in range(x.shape[1]):
        start = i // one.chunk * one.chunk
        weights = torch.exp((q[:, :, i : i + 1] * k[:, :, : i + 1]).sum(-1) / math.sqrt(8))
        if start >= 6:
            alpha = SupportVectorGate(cap=0.25, sigma=1.5)(k[:, :, :start])
            if callable(gate_of):
                alpha = gate_of(alpha, start)
            weights = torch.cat([weights[..., :start] * alpha, weights[..., start:]], dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out[:, :, i] = (weights[..., None] * v[:, :, : i + 1]).sum(2)
    return torch.as_tensor(one.out(out.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, None),
        ({"gain": "cap"}, lambda alpha, start: alpha / 0.25),
        ({"gain": "count"}, lambda alpha, start: alpha * start),
        ({"gain": "learned"}, lambda alpha, start: alpha * torch.tensor([[1.0], [start]])),
        ({"floor": 0.2}, lambda alpha, start: 0.2 + 0.8 * alpha),
        ({"closing": 0.9}, lambda alpha, start: torch.where(alpha < 0.9 / start, 0.0, alpha)),
        (
            {"window": 5},
            lambda alpha, start: torch.cat([alpha[..., : start - 5], torch.ones_like(alpha[..., :5])], dim=-1),
        ),
    ],
)
def test_it_is_the_definition(options: dict[str, object], rule: object) -> None:
    one, x = layer(**options), context()
    torch.testing.assert_close(one(x), by_hand(one, x, rule), rtol=1e-8, atol=1e-9)


def test_the_rbf_readout_weighs_by_the_kernel() -> None:
    one, x = layer(readout="rbf"), context(20)
    q, k, v = one.project(x)
    kernel = torch.exp(-(q[:, :, 18, None] - k[:, :, :19]).square().sum(-1) / 1.5**2)
    alpha = torch.cat([SupportVectorGate(cap=0.25, sigma=1.5)(k[:, :, :16]), torch.ones_like(kernel[..., 16:])], -1)
    weights = kernel * alpha / (kernel * alpha).sum(-1, keepdim=True)
    wanted = one.out((weights[..., None] * v[:, :, :19]).sum(2).flatten(1))
    torch.testing.assert_close(one(x)[:, 18], wanted, rtol=1e-8, atol=1e-9)


def test_the_future_is_not_seen() -> None:
    one, x = layer(), context()
    changed = x.clone()
    changed[:, 37:] += 1.0
    torch.testing.assert_close(one(x)[:, :37], one(changed)[:, :37], rtol=0, atol=1e-10)
    assert (one(x)[:, 37:] - one(changed)[:, 37:]).abs().max() > 1e-3


def test_short_prefixes_are_not_gated() -> None:
    """⌈1/C⌉ + 2 = 12 keys at C = 0.1: the first boundary at 8 is open, the next at 16 is gated."""
    one = layer(cap=0.1, chunk=8)
    assert one.boundaries(32) == [16, 24]
    plain = layer(cap=0.1, chunk=64)
    torch.testing.assert_close(one(context(32))[:, :16], plain(context(32))[:, :16])
    by_head = layer(cap=[0.1, 0.5], chunk=8)
    gates = by_head.gates(by_head.project(context(32))[1])
    assert (gates[:, 0, 0] == 1.0).all()
    assert (gates[:, 1, 0, :8] < 1.0).all()


def test_learned_caps_warm_up_by_their_value() -> None:
    one = layer(cap=0.1, chunk=8, learn_cap=True)
    gates = one.gates(one.project(context(32))[1])
    assert (gates[:, :, 0] == 1.0).all()
    assert (gates[:, :, 1, :16] < 1.0).all()


def test_both_paths_and_the_papers_solver_agree_on_fresh_keys() -> None:
    x = context()
    batched, exact, paper = layer(ridge=1e-6)(x), layer(path="maintained")(x), layer(solver="paper")(x)
    torch.testing.assert_close(batched, exact, rtol=0, atol=1e-5)
    torch.testing.assert_close(paper, exact, rtol=0, atol=2e-2)


def test_a_learned_gain_is_a_power_of_the_prefix() -> None:
    one, x = layer(gain="learned"), context()
    assert isinstance(one.power, torch.nn.Parameter)
    assert one.power.tolist() == [-1.0, 0.0]
    with torch.no_grad():
        one.power.copy_(torch.tensor([-0.6, -0.1], dtype=torch.float64))
    powers = torch.tensor([[0.4], [0.9]], dtype=torch.float64)
    torch.testing.assert_close(
        one(x), by_hand(one, x, lambda alpha, start: alpha * start**powers), rtol=1e-8, atol=1e-9
    )
    # At a power of one a head is what "count" makes it.
    torch.nn.init.zeros_(one.power)
    torch.testing.assert_close(one(x), layer(gain="count")(x), rtol=1e-8, atol=1e-9)
    assert "power" in dict(one.named_parameters())
    assert layer().power is None


@pytest.mark.parametrize("gain", ["cap", "learned"])
def test_every_parameter_learns(gain: str) -> None:
    one = layer(learn_sigma=True, learn_cap=True, readout="rbf", gain=gain, cap=0.1)
    one(context()).square().sum().backward()
    for name, parameter in one.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0.0, name


def test_without_the_gates_gradient_keys_still_learn_from_the_readout() -> None:
    x = context().requires_grad_()
    with_gate, without = layer(), layer(gate_gradient=False)
    torch.testing.assert_close(with_gate(x), without(x))
    (full,) = torch.autograd.grad(with_gate(x).square().sum(), x)
    (part,) = torch.autograd.grad(without(x).square().sum(), x)
    assert (full - part).abs().max() > 1e-4


def test_active_keys_are_counted() -> None:
    one, x = layer(), context()
    alpha = one.coefficients(x)
    assert alpha.shape == (2, 2, 3, 50)
    assert torch.equal(one.active(x), (alpha > 1e-3).sum(-1))
    assert (one.active(x) <= torch.tensor([16, 32, 48])).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_precisions_stay_close(dtype: torch.dtype) -> None:
    x = context()
    low = layer().to(dtype)(x.to(dtype))
    assert low.dtype == dtype
    torch.testing.assert_close(low.double(), layer()(x), rtol=0, atol=1e-4 if dtype == torch.float32 else 5e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk": 0}, "chunk must be positive"),
        ({"window": -1}, "window not negative"),
        ({"readout": "linear"}, "readout must be"),
        ({"gain": "double"}, "gain must be"),
        ({"floor": 1.5}, "floor must lie"),
    ],
)
def test_unusable_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        layer(**options)
    with pytest.raises(InputError, match="multiple of heads"):
        SupportVectorAttention(15, 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_default_layer_has_the_gradient_of_what_it_computes(seed: int) -> None:
    torch.manual_seed(seed)
    one = SupportVectorAttention(16, 2, chunk=16).double()
    x, along = context().requires_grad_(), torch.randn(2, 50, 16, dtype=torch.float64)
    weights = torch.randn(2, 50, 16, dtype=torch.float64)
    keys = one.project(x)[1]
    kept = SupportVectorGate(heads=2).prefixes(keys, one.boundaries(50))
    assert int(((kept > 0.0) & (one.coefficients(x) == 0.0)).sum()) > 0
    (pulled,) = torch.autograd.grad((one(x) * weights).sum(), x)
    with torch.no_grad():
        ends = [float((one(x + step * along) * weights).sum()) for step in (1e-6, -1e-6)]
    assert float((pulled * along).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_a_layer_used_in_inference_mode_can_be_trained() -> None:
    one, x = SupportVectorAttention(16, 2, chunk=16), context().float()
    with torch.inference_mode():
        one(x)
    one(x).sum().backward()
    assert one.qkv.weight.grad is not None


def test_a_layer_can_be_made_without_memory() -> None:
    with torch.device("meta"):
        assert SupportVectorAttention(16, 2, cap=[0.25, 0.5]).qkv.weight.is_meta
        assert "cap=[0.2, 0.4], sigma=[2.0, 2.0]" in repr(SupportVectorAttention(16, 2, cap=[0.2, 0.4]))
        learned = SupportVectorAttention(16, 2, learn_cap=True, learn_sigma=True)
    assert "cap=[0.25, 0.25]" in repr(learned)
    assert "cap=[0.25, 0.25]" in repr(SupportVectorAttention(16, 2, learn_cap=True))


@pytest.mark.parametrize("options", [{"cap": [0.1, 0.5]}, {"cap": 0.1, "learn_cap": True}])
def test_a_head_whose_cap_a_prefix_is_too_short_for_is_not_gated(options: dict[str, object]) -> None:
    exact, batched = (layer(chunk=8, ridge=1e-9, path=path, **options) for path in ("maintained", "batched"))
    torch.testing.assert_close(exact(context()), batched(context()), rtol=0, atol=1e-6)


@pytest.mark.parametrize("path", ["maintained", "batched"])
def test_a_context_without_a_gated_boundary_has_no_coefficients(path: str) -> None:
    assert layer(path=path).coefficients(context(10)).shape == (2, 2, 0, 10)
    assert layer(path=path).active(context(10)).shape == (2, 2, 0)


def test_autocast_does_not_reach_the_readout() -> None:
    one = SupportVectorAttention(16, 2, chunk=16).float()
    q, k, v = (part.detach() for part in one.project(context().float()))
    gates = one.gates(k)
    usual = gated_readout(q, k, v, gates, scale=0.3, chunk=16)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(gated_readout(q, k, v, gates, scale=0.3, chunk=16), usual)


def test_a_context_that_grows_token_by_token_leaves_little_behind() -> None:
    one, x = layer(), context()
    whole = one(x)
    for length in range(1, 51):
        torch.testing.assert_close(one(x[:, :length]), whole[:, :length], rtol=0, atol=1e-10)
    # One for each number of chunks that has a gated boundary: 2, 3 and 4.
    assert len(one._masks) == 3


def test_prefix_lengths_that_a_captured_step_reads_are_kept() -> None:
    gate, keys = SupportVectorGate(cap=0.25, sigma=1.5, closing=0.1), torch.randn(120, 4)
    gate.prefixes(keys, [20])
    kept = _lengths_on((20,), keys.device)
    for count in range(21, 120):
        gate.prefixes(keys, [count])
    assert _lengths_on((20,), keys.device) is kept


def test_unit_keys_are_made_in_the_precision_of_the_solve() -> None:
    torch.manual_seed(0)
    layer = SupportVectorAttention(16, 2, chunk=8, normalize=True).half()
    x = torch.randn(1, 24, 16).half()
    x[0, 12] = 0
    assert layer(x).isfinite().all()
    keys = (1.2e4 * torch.randn(12, 64)).half()
    gate = SupportVectorGate(0.3, 1.0, normalize=True)
    torch.testing.assert_close(gate(keys), gate(keys.float()), rtol=0, atol=0)


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
