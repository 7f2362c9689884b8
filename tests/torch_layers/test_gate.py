"""The gate as a layer: its values, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from expunge import Memory
from expunge.errors import InputError
from expunge.torch import SupportVectorAttention, SupportVectorGate
from expunge.torch.differentiable_ops import prefix_coefficients
from expunge.torch.frozen_layer import freeze
from torch_layers.sample_keys import keys_for


@pytest.mark.parametrize("seed", range(4))
def test_the_maintained_path_has_the_memorys_coefficients(seed: int) -> None:
    keys = keys_for(seed)
    alpha, offset = SupportVectorGate(cap=0.3, sigma=2.0, path="maintained")(keys, return_offset=True)
    memory = Memory.fit(keys.detach().numpy(), np.zeros(14), sigma=2.0, cap=0.3)
    np.testing.assert_array_equal(alpha.detach().numpy(), memory.coefficients)
    assert offset.item() == memory.offset


def test_scores_and_readout_are_the_memorys() -> None:
    gate = SupportVectorGate(cap=0.3, sigma=2.0, path="maintained")
    keys, points, values = keys_for(0), keys_for(1, count=5), keys_for(2, width=2)
    memory = Memory.fit(keys.detach().numpy(), values.detach().numpy(), sigma=2.0, cap=0.3)
    asked = points.detach().numpy()
    np.testing.assert_allclose(gate.score(points, keys).detach().numpy(), memory.score(asked), rtol=0, atol=1e-14)
    np.testing.assert_allclose(gate.read(points, keys, values).detach().numpy(), memory.read(asked), rtol=0, atol=1e-13)


def test_the_paths_agree_as_the_ridge_vanishes() -> None:
    keys = torch.stack([keys_for(seed).detach() for seed in range(3)]).requires_grad_()
    weights = torch.linspace(-1.0, 1.0, 14, dtype=torch.float64)
    exact = SupportVectorGate(cap=0.2, sigma=1.5, path="maintained")(keys)
    (wanted,) = torch.autograd.grad((exact * weights).sum(), keys)
    errors = []
    for ridge in (1e-3, 1e-5, 1e-7):
        alpha = SupportVectorGate(cap=0.2, sigma=1.5, ridge=ridge)(keys)
        (pulled,) = torch.autograd.grad((alpha * weights).sum(), keys)
        errors.append(((alpha - exact).abs().max().item(), (pulled - wanted).abs().max().item()))
    assert errors[0][0] < 5e-3
    assert errors[2][0] < 1e-6
    assert errors[2][1] < 1e-5
    assert errors[2] < errors[1] < errors[0]


@pytest.mark.parametrize(("settings", "most"), [({"path": "maintained"}, 1e-13), ({"closing": 0.5}, 2e-5)])
def test_the_residual_is_measured(settings: dict[str, object], most: float) -> None:
    keys = keys_for(4, 240, 5, scale=0.3).detach().reshape(2, 3, 40, 5)
    gate = SupportVectorGate(0.2, 2.0, heads=3, **settings)  # type: ignore[arg-type]
    whole, prefixes = gate.residual(keys.float()), gate.residual(keys.float(), [10, 40])
    assert whole.shape == (2, 3)
    torch.testing.assert_close(gate.residual(keys.float(), [40])[..., 0], whole)
    assert prefixes.shape == (2, 3, 2)
    assert float(prefixes.max()) < most
    with pytest.raises(InputError, match="at least 5 keys"):
        gate.residual(keys, [3])


def test_the_residual_shows_that_the_papers_steps_are_too_few_for_crowded_keys() -> None:
    keys = keys_for(4, 40, 5, scale=0.3).detach().float()
    assert float(SupportVectorGate(0.2, 2.0, solver="paper").residual(keys)) > 1e-4


def test_one_cap_with_widths_by_head() -> None:
    keys = keys_for(0, 84, 3).detach().reshape(2, 3, 14, 3)
    cap, widths = torch.tensor([0.3]).double().requires_grad_(), torch.tensor([1.0, 2.0, 3.0]).double()
    mixed, _ = prefix_coefficients(keys, [8, 14], cap, widths)
    equal, _ = prefix_coefficients(keys, [8, 14], cap.expand(3), widths)
    assert torch.equal(mixed, equal)
    assert torch.autograd.grad((mixed * mixed).sum(), cap)[0].shape == (1,)


def test_heads_have_their_own_cap_and_width() -> None:
    keys = torch.stack([keys_for(0).detach(), keys_for(1).detach()])[None]
    both = SupportVectorGate(cap=[0.1, 0.4], sigma=[1.0, 3.0], heads=2)(keys)
    for head, (cap, sigma) in enumerate([(0.1, 1.0), (0.4, 3.0)]):
        torch.testing.assert_close(both[0, head], SupportVectorGate(cap=cap, sigma=sigma)(keys[0, head]))


def test_normalized_keys_forget_their_length() -> None:
    keys = keys_for(0).detach()
    gate = SupportVectorGate(cap=0.2, sigma=0.7, normalize=True)
    torch.testing.assert_close(gate(keys), gate(keys * torch.linspace(0.5, 4.0, 14, dtype=torch.float64)[:, None]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cap": 1.5}, "cap must lie"),
        ({"cap": 0.0}, "cap must be positive"),
        ({"sigma": float("nan")}, "sigma must be positive"),
        ({"sigma": [1.0, 2.0]}, "sigma must be one number"),
        ({"sigma": torch.ones(2), "heads": 2}, "sigma must be a number"),
        ({"cap": "quarter"}, "cap must be a number"),
        ({"heads": 0}, "heads must be positive"),
        ({"path": "quick"}, "path must be"),
        ({"ridge": 0.0}, "ridge must be"),
        ({"closing": 1.0}, "closing must lie"),
        ({"solver": "paper", "path": "maintained"}, "solver must be"),
    ],
)
def test_unusable_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SupportVectorGate(**settings)  # type: ignore[arg-type]


def test_unusable_keys_are_refused() -> None:
    gate = SupportVectorGate(cap=0.25)
    with pytest.raises(InputError, match="at least 4 keys"):
        gate(torch.randn(3, 2))
    with pytest.raises(InputError, match="floating point"):
        gate(torch.ones(6, 2, dtype=torch.int64))
    with pytest.raises(InputError, match="for 3 heads"):
        SupportVectorGate(cap=0.25, heads=3)(torch.randn(2, 6, 2))
    with pytest.raises(InputError, match="op must be"):
        SupportVectorGate(cap=0.25, op="quick")(torch.randn(6, 2))
    with pytest.raises(InputError, match="finite"):
        SupportVectorGate(cap=0.25, path="maintained")(torch.full((6, 2), torch.nan))


def test_autocast_does_not_reach_the_solve() -> None:
    gate = SupportVectorGate(cap=0.25, sigma=2.0)
    keys = (0.1 * torch.randn(64, 16, generator=torch.Generator().manual_seed(0))).requires_grad_()
    usual = gate(keys)
    (pulled,) = torch.autograd.grad(usual[:9].sum(), keys, retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        cast = gate(keys)
        assert float(gate.residual(keys)) < 2e-5
        assert torch.equal(gate.read(keys[:4], keys, keys), SupportVectorGate(0.25, 2.0).read(keys[:4], keys, keys))
        (cast_pulled,) = torch.autograd.grad(cast[:9].sum(), keys)
    assert torch.equal(cast, usual)
    assert torch.equal(cast_pulled, pulled)
    paper = SupportVectorGate(cap=0.25, sigma=2.0, solver="paper")
    with torch.autocast("cpu", torch.bfloat16):
        cast = paper(keys)
    assert torch.equal(cast, paper(keys))


@pytest.mark.parametrize("path", ["maintained", "batched"])
def test_a_far_query_reads_its_nearest_active_keys(path: str) -> None:
    gate = SupportVectorGate(cap=0.3, sigma=2.0, path=path)  # type: ignore[arg-type]
    keys, values = keys_for(0), keys_for(2, width=2)
    asked = torch.tensor([[0.1, 0.0, 0.0], [80.0, 0.0, 0.0]], dtype=torch.float64)
    memory = Memory.fit(keys.detach().numpy(), values.detach().numpy(), sigma=2.0, cap=0.3)
    read = gate.read(asked, keys, values)
    # The batched path has a ridge; α enters a ratio.
    np.testing.assert_allclose(read.detach().numpy(), memory.read(asked.numpy()), rtol=0, atol=1e-2)
    (pulled,) = torch.autograd.grad(read.sum(), keys)
    assert torch.isfinite(pulled).all()
    near = gate.read(torch.tensor([[25.0, 0.0, 0.0]]), keys.float(), values.float())
    assert torch.isfinite(near).all()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_reads_what_its_numbers_say(kind: torch.dtype) -> None:
    gate = SupportVectorGate(cap=0.3, sigma=20.0)
    keys, values = (3.0 * keys_for(0).detach()).to(kind), keys_for(2, width=2).detach().to(kind)
    # The squared distance of the second is beyond half precision.
    asked = torch.tensor([[4.0, 1.0, -2.0], [1000.0, 0.0, 0.0]], dtype=kind)
    assert torch.equal(gate.read(asked, keys, values), gate.read(asked.float(), keys.float(), values.float()))
    assert torch.equal(gate.score(asked, keys), gate.score(asked.float(), keys.float()))


def test_the_papers_negative_coefficients_are_read_too() -> None:
    gate = SupportVectorGate(cap=0.25, sigma=2.0, solver="paper")
    keys = 3.0 + 0.025 * keys_for(1, count=64, width=16).detach()
    keys[32] += 4.0
    alpha, values = gate(keys), keys_for(2, count=64, width=2).detach()
    assert float(alpha.min()) < -0.01
    weights = torch.exp(-torch.cdist(keys[:5], keys).square() / 4.0) * alpha
    wanted = weights @ values / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(gate.read(keys[:5], keys, values), wanted, rtol=1e-8, atol=1e-8)


def test_points_and_values_of_another_shape_are_refused() -> None:
    gate, keys = SupportVectorGate(cap=0.3, sigma=2.0), keys_for(0)
    with pytest.raises(InputError, match="points must be"):
        gate.score(torch.zeros(2, 1), keys)
    with pytest.raises(InputError, match="points must be"):
        gate.read(torch.zeros(2, 1), keys, keys)
    with pytest.raises(InputError, match="values must be"):
        gate.read(torch.zeros(2, 3), keys, keys[:5])


def test_a_gate_used_in_inference_mode_can_be_trained() -> None:
    gate, keys = SupportVectorGate(cap=0.3, sigma=2.0), keys_for(0).detach().float()
    with torch.inference_mode():
        gate(keys)
    gate(keys.requires_grad_())[0].backward()
    assert keys.grad is not None


@pytest.mark.parametrize(("count", "cap"), [(4, 0.25), (1, 1.0), (3, 1 / 3), (10, 0.1)])
def test_a_cap_of_one_over_n_has_the_offset_of_the_memory(count: int, cap: float) -> None:
    keys = keys_for(6, count=count)
    exact, batched = (SupportVectorGate(cap, 2.0, path) for path in ("maintained", "batched"))
    (alpha, offset), (ours, our_offset) = exact(keys, return_offset=True), batched(keys, return_offset=True)
    torch.testing.assert_close(ours, alpha, rtol=0, atol=1e-12)
    # The ridge is part of the batched problem.
    torch.testing.assert_close(our_offset, offset - 1e-3 / count, rtol=0, atol=1e-12)
    assert float(batched.residual(keys)) < 1e-12
    if count > 1:
        (theirs,), (pulled,) = torch.autograd.grad(offset, keys), torch.autograd.grad(our_offset, keys)
        torch.testing.assert_close(pulled, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_a_learned_cap_of_one_over_n_has_the_offset_of_a_fixed_one(count: int) -> None:
    keys = keys_for(6, count=count)
    for path in ("maintained", "batched"):
        fixed, learned = (SupportVectorGate(1.0 / count, 2.0, path, learn_cap=learn) for learn in (False, True))
        (alpha, offset), (ours, our_offset) = (gate(keys, return_offset=True) for gate in (fixed, learned))
        torch.testing.assert_close(ours, alpha, rtol=0, atol=1e-6)
        torch.testing.assert_close(our_offset, offset, rtol=0, atol=1e-6)
        assert float(learned.residual(keys)) < 1e-6
        # The coefficients sum to one whatever the cap.
        assert learned.log_cap is not None
        for whole in (ours.sum(), our_offset):
            (pulled,) = torch.autograd.grad(whole, learned.log_cap, retain_graph=True, allow_unused=True)
            assert pulled is None or float(pulled) == 0.0


@pytest.mark.parametrize("path", ["maintained", "batched"])
def test_prefixes_that_no_cap_allows(path: str) -> None:
    gate = SupportVectorGate(0.25, 2.0, path)  # type: ignore[arg-type]
    keys = keys_for(7)
    with pytest.raises(InputError, match="at least 4 keys, not 2"):
        gate.prefixes(keys, [2, 8])
    assert gate.prefixes(keys, [2, 8], even=True)[0].tolist() == [0.5, 0.5] + [0.0] * 12
    for counts in ([-2], [99], [], [8.5], ["8"]):
        with pytest.raises(InputError, match="prefix lengths"):
            gate.prefixes(keys, counts, even=True)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="prefix lengths"):
            gate.residual(keys, counts)  # type: ignore[arg-type]
    # A learned cap that is too small: 1/n, which does not move with it.
    learned = SupportVectorGate(0.1, 2.0, path, learn_cap=True)  # type: ignore[arg-type]
    alpha = learned(keys[:5])
    assert alpha.tolist() == [0.2] * 5
    assert learned.log_cap is not None
    (pulled,) = torch.autograd.grad(alpha @ torch.arange(5.0, dtype=torch.float64), learned.log_cap, allow_unused=True)
    assert pulled is None or float(pulled) == 0.0


@pytest.mark.parametrize("count", range(2, 40))
def test_a_learned_cap_of_one_over_n_is_feasible(count: int) -> None:
    gate = SupportVectorGate(1.0 / count, 2.0, "maintained", learn_cap=True)
    torch.testing.assert_close(gate(keys_for(8, count=count)), torch.full((count,), 1.0 / count, dtype=torch.float64))


@pytest.mark.parametrize(("place", "counts"), [(50, [32, 64]), (20, [16, 64]), (6, [5, 16, 64])])
@pytest.mark.parametrize("far", [1e3, 1e5, 1e30])
def test_a_later_key_takes_no_digits_from_an_earlier_prefix(far: float, place: int, counts: list[int]) -> None:
    gate = SupportVectorGate(cap=0.25, sigma=2.0)
    keys = torch.randn(64, 8, generator=torch.Generator().manual_seed(9))
    moved = keys.clone()
    moved[place] = far
    before, after = (gate.prefixes(each.requires_grad_(), counts)[0] for each in (keys, moved))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    weights = torch.linspace(-1.0, 1.0, 64)
    slopes = [torch.autograd.grad(alpha @ weights, each)[0] for alpha, each in ((before, keys), (after, moved))]
    torch.testing.assert_close(slopes[1], slopes[0], rtol=0, atol=1e-5)


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


def test_the_maintained_path_stands_beside_compiled_code() -> None:
    gate = SupportVectorGate(0.3, 2.0, "maintained")
    keys = torch.randn(14, 3)
    compiled = torch.compile(gate, backend="eager")
    torch.testing.assert_close(compiled(keys), gate(keys))


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
