from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from stacks import corpus, run

from expunge import Memory
from expunge.errors import InputError
from studies.arms import ACTIVE, attention, gate_keys, gate_weights
from studies.config import SHAPES, Gate, Recipe, Run, Slot
from studies.data import Corpus
from studies.run import Runner, learned_weights, observe, visible
from studies.train import Trainer

CHUNK = 16


def hybrid(*gates: Gate, steps: int = 4) -> Run:
    slots = tuple(Slot(seed, Recipe(gate=gate)) for seed, gate in enumerate(gates))
    return Run("hybrid-tiny", "hybrid", SHAPES["tiny"], slots, steps=steps, batch=2, evaluate_every=2)


def draw(settings: Run, seed: int = 0) -> list[torch.Tensor]:
    shape = settings.shape
    size = (len(settings.slots) * settings.batch, shape.heads, shape.block, shape.width // shape.heads)
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator) for _ in range(3)]


def parameters(
    powers: list[float], factors: tuple[float, float] = (1.0, 1.0), tempers: tuple[float, float] = (1.0, 1.0)
) -> torch.Tensor:
    """What two heads have learned: powers, no floor, what their widths are divided by, and tempers."""
    rows = [torch.tensor(powers) - 1, torch.zeros(2), torch.tensor(factors).log(), torch.tensor(tempers)]
    return torch.stack(rows)[None]


def by_hand(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: Gate, power: float = 1.0, share: float = 0.0
) -> torch.Tensor:
    """One head, query by query, from the audited solver: softmax weights times the prefix's coefficients."""
    out = torch.zeros_like(v)
    frozen, alpha = 0, torch.zeros(0)
    for i in range(len(q)):
        weights = (k[: i + 1] @ q[i] / q.shape[1] ** 0.5).exp()
        if i // gate.chunk * gate.chunk != frozen:
            frozen = i
            memory = Memory.fit(k[:frozen].double().numpy(), np.zeros(frozen), sigma=gate.sigma, cap=gate.cap)
            alpha = torch.from_numpy(np.array(memory.coefficients)).float()
        factors = alpha if gate.weight == "raw" else alpha * (alpha > ACTIVE).sum() ** power
        if gate.floor:
            factors = ((1 - share) * alpha + share / max(1, frozen)) * frozen**power
        far = max(0, frozen - gate.near)
        weights[:far] *= factors[:far]
        out[i] = weights @ v[: i + 1] / weights.sum()
    return out


@pytest.mark.parametrize("near", [0, 5])
@pytest.mark.parametrize("weight", ["raw", "relative", "graded", "learned"])
def test_the_hybrid_is_softmax_times_the_audited_coefficients(weight: str, near: int) -> None:
    gate = Gate(weight=weight, chunk=CHUNK, near=near)  # type: ignore[arg-type]
    settings = hybrid(gate)
    q, k, v = draw(settings)
    powers = {"graded": [0.0, 1.0], "learned": [0.3, 0.8]}.get(weight, [1.0, 1.0])
    learned = parameters(powers) if weight == "learned" else None
    ours = attention(settings)(0, q, k, v, learned)
    for row, head in itertools.product(range(2), range(2)):
        expected = by_hand(q[row, head], k[row, head], v[row, head], gate, powers[head])
        # The training problem has a ridge of 1e-3, which the audited one has not.
        torch.testing.assert_close(ours[row, head], expected, rtol=0, atol=3e-3)


def test_a_floor_mixes_every_key_in() -> None:
    gate = Gate(weight="learned", floor=0.25, chunk=CHUNK, near=5)
    settings = hybrid(gate)
    q, k, v = draw(settings)
    powers, logits = torch.tensor([0.3, 0.8]), torch.tensor([0.0, 1.5])
    ours = attention(settings)(0, q, k, v, torch.stack([powers - 1, logits, torch.zeros(2)])[None])
    # At a logit of 0 a head has the share that the gate begins with.
    shares = [0.25, float(torch.sigmoid(torch.tensor(0.25 / 0.75).log() + 1.5))]
    for row, head in itertools.product(range(2), range(2)):
        expected = by_hand(q[row, head], k[row, head], v[row, head], gate, float(powers[head]), shares[head])
        torch.testing.assert_close(ours[row, head], expected, rtol=0, atol=3e-3)
    # A share of 1 at a power of 1 is full softmax.
    whole = attention(replace(settings, arm="softmax"))(0, q, k, v)
    open_ = attention(settings)(0, q, k, v, torch.tensor([[[0.0, 0.0], [40.0, 40.0], [0.0, 0.0]]]))
    torch.testing.assert_close(open_, whole, rtol=0, atol=1e-5)


def test_a_temper_weighs_what_the_gate_leaves_open() -> None:
    gate = Gate(weight="learned", tempered=True, gradient=0.0, chunk=CHUNK, near=5)
    alpha = torch.tensor([[0.5, 0.0, 0.3, 0.2], [0.1, 0.9, 0.0, 0.0]])[None, :, None].requires_grad_()
    learned = parameters([0.6, 1.2], tempers=(0.5, -0.2)).requires_grad_()
    factors = gate_weights(alpha, gate, learned)
    expected = [[(3 * a) ** 0.5 * 3**-0.4 for a in (0.5, 0.0, 0.3, 0.2)], [0.1**-0.2, 0.9**-0.2, 0.0, 0.0]]
    torch.testing.assert_close(factors[0, :, 0], torch.tensor(expected))
    # A closed key gives no gradient, and no infinite one.
    by_alpha, by_learned = torch.autograd.grad(factors.square().sum(), (alpha, learned))
    assert torch.isfinite(by_alpha).all()
    assert torch.isfinite(by_learned).all()
    assert (by_alpha[alpha == 0] == 0).all()
    # At 0, with a power of 1, it is full softmax over the keys that are open.
    assert gate_weights(alpha, gate, parameters([1.0, 1.0], tempers=(0.0, 0.0)))[0, 0, 0].tolist() == [1, 0, 1, 1]
    # At 1 it is the learned weight.
    settings = hybrid(gate)
    q, k, v = draw(settings)
    plain = attention(hybrid(replace(gate, tempered=False)))(0, q, k, v, parameters([0.6, 1.2]))
    torch.testing.assert_close(attention(settings)(0, q, k, v, parameters([0.6, 1.2])), plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("wrong", [{"gradient": 1.0}, {"floor": 0.5}, {"weight": "relative"}])
def test_a_temper_belongs_to_a_learned_weight(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="tempered weights are learned ones"):
        Gate(**{"weight": "learned", "tempered": True, "gradient": 0.0} | wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"floor": 0.5}, {"floor": 1.0, "weight": "learned"}, {"floor": -0.1}])
def test_a_floor_belongs_to_a_learned_weight(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="a floor is a share"):
        Gate(**wrong)  # type: ignore[arg-type]


def test_a_learned_width_is_a_width_of_each_head() -> None:
    settings = hybrid(Gate(weight="learned", width="learned", chunk=CHUNK))
    q, k, v = draw(settings)
    ours = attention(settings)(0, q, k, v, parameters([0.3, 0.8], (2.0, 0.8)))
    for head, sigma in enumerate((1.0, 2.5)):
        fixed = hybrid(Gate(weight="learned", sigma=sigma, chunk=CHUNK))
        expected = attention(fixed)(0, q, k, v, parameters([0.3, 0.8]))
        torch.testing.assert_close(ours[:, head], expected[:, head], rtol=0, atol=1e-5)


def test_a_learned_width_needs_a_solve() -> None:
    with pytest.raises(InputError, match="a gate that is solved"):
        Gate(width="learned", keys="none")


def test_what_is_observed_begins_where_rows_begin(tmp_path: Path) -> None:
    settings = hybrid(Gate(chunk=CHUNK))
    width = settings.shape.block + 1
    # Every row begins with a byte that is nowhere else.
    rows = torch.randint(1, 256, (6, width), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    rows[:, 0] = 0
    quiz = Corpus("rows", rows.flatten(), rows.flatten(), rows[:0].flatten(), row=width)
    seen: list[torch.Tensor] = []
    trainer = Trainer(settings, attention(settings), quiz)
    usual = trainer.stack.losses

    def losses(tokens: torch.Tensor) -> torch.Tensor:
        seen.append(tokens)
        return usual(tokens)

    trainer.stack.losses = losses  # type: ignore[method-assign, assignment]
    observe(trainer, Runner(quiz, tmp_path))
    assert (seen[0][..., 0] == 0).all()


def test_gates_of_one_problem_are_weighed_apart() -> None:
    gates = (
        Gate(chunk=CHUNK),
        Gate(chunk=CHUNK, weight="learned", floor=0.5),
        Gate(chunk=CHUNK, weight="relative", near=5),
        Gate(chunk=CHUNK, weight="relative", near=5, sigma=1.0),
    )
    settings = hybrid(*gates)
    q, k, v = draw(settings)
    learned = 0.3 * torch.randn(len(gates), 4, settings.shape.heads, generator=torch.Generator().manual_seed(1))
    joint = attention(settings)(0, q, k, v, learned)
    for place, gate in enumerate(gates):
        rows = slice(2 * place, 2 * place + 2)
        alone = attention(hybrid(gate))(0, q[rows], k[rows], v[rows], learned[place : place + 1])
        torch.testing.assert_close(joint[rows], alone, rtol=0, atol=1e-6)


def test_even_coefficients_with_relative_weights_are_full_softmax() -> None:
    settings = hybrid(Gate(weight="relative", keys="none", chunk=CHUNK))
    q, k, v = draw(settings)
    whole = attention(replace(settings, arm="softmax"))(0, q, k, v)
    torch.testing.assert_close(attention(settings)(0, q, k, v), whole, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_learned_weights_are_parameters_and_learn() -> None:
    learned = Gate(weight="learned", chunk=CHUNK)
    # Without a gradient to the keys the widths still learn.
    last = replace(learned, width="learned", gradient=0.0, tempered=True)
    settings = replace(hybrid(replace(learned, floor=0.5), learned, Gate(), last), evaluate_every=4)
    trainer = Trainer(settings, attention(settings), replace(corpus(), test=torch.empty(0, dtype=torch.uint8)))
    names = [name for name in trainer.stack.weights if name.endswith("weight")]
    assert names == ["0.attention.weight", "1.attention.weight"]
    before = {name: trainer.stack.weights[name].detach().clone() for name in names}
    # Powers of 0 and 1, less 1, and the floor's share as it begins.
    assert before[names[0]].tolist() == [[[-1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]] * 4
    trainer.train()
    for name in names:
        moved = (trainer.stack.weights[name].detach() - before[name]).abs()
        assert float(moved[0, :2].min()) > 1e-4
        assert float(moved[1, 0].min()) > 1e-4
        # What a gate does not use does not move but for the decay, and zero does not decay.
        assert float(moved[1, 1].max()) == 0.0
        assert float(moved[2, 0, 1]) == 0.0
        assert float(moved[:3, 2].max()) == 0.0
        assert float(moved[3, 2:].min()) > 1e-4
    found = learned_weights(trainer)
    assert [len(each) for each in found["head_powers"]] == [2, 2, 0, 2]
    assert [len(each) for each in found["head_shares"]] == [2, 0, 0, 0]
    assert [len(each) for each in found["head_widths"]] == [0, 0, 0, 2]
    assert [len(each) for each in found["head_tempers"]] == [0, 0, 0, 2]
    assert all(abs(share - 0.5) < 0.1 for layer in found["head_shares"][0] for share in layer)
    assert all(0 < abs(width - 2.0) < 0.2 for layer in found["head_widths"][3] for width in layer)
    # Other parameters start as they do without these.
    plain = Trainer(hybrid(Gate(chunk=CHUNK)), attention(hybrid(Gate(chunk=CHUNK))), corpus()).stack.weights
    fresh = Trainer(settings, attention(settings), corpus()).stack.weights
    assert all(torch.equal(fresh[name][0], plain[name][0]) for name in plain)


def test_the_hybrid_is_causal() -> None:
    settings = hybrid(Gate(chunk=CHUNK))
    attend = attention(settings)
    q, k, v = draw(settings)
    before = attend(0, q, k, v)
    k2, v2 = k.clone(), v.clone()
    k2[:, :, 20:] += 1.0
    v2[:, :, 20:] -= 1.0
    after = attend(0, q, k2, v2)
    torch.testing.assert_close(before[:, :, :20], after[:, :, :20], rtol=0, atol=1e-6)
    assert not torch.allclose(before[:, :, 20:], after[:, :, 20:])


def test_slots_keep_their_own_gates() -> None:
    one, other = Gate(chunk=CHUNK), Gate(chunk=CHUNK, weight="relative", cap=0.3)
    both = hybrid(one, one, other)
    q, k, v = draw(both)
    joint = attention(both)(0, q, k, v)
    last = hybrid(other)
    torch.testing.assert_close(joint[4:], attention(last)(0, q[4:], k[4:], v[4:]), rtol=0, atol=1e-6)


def test_relative_weights_have_mean_one_over_the_active_keys() -> None:
    alpha = torch.tensor([[0.25, 0.0, 0.5, 0.25]])
    assert torch.equal(gate_weights(alpha, Gate()), alpha)
    relative = gate_weights(alpha, Gate(weight="relative"))
    assert float(relative[alpha > 0].mean()) == 1.0
    assert float(relative[0, 1]) == 0.0


def test_the_gradient_through_the_gate_is_scaled() -> None:
    keys = torch.randn(3, 5, requires_grad=True)
    whole, half, none = (gate_keys(keys, Gate(gradient=scale)) for scale in (1.0, 0.5, 0.0))
    assert torch.equal(half, keys)
    assert torch.equal(torch.autograd.grad(half.sum(), keys)[0], 0.5 * torch.ones_like(keys))
    assert torch.equal(torch.autograd.grad(whole.sum(), keys)[0], torch.ones_like(keys))
    assert not none.requires_grad
    unit = gate_keys(keys, Gate(keys="unit", radius=2.0))
    torch.testing.assert_close(unit.norm(dim=-1), torch.full((3,), 2.0))


def test_scaled_keys_have_one_spread_and_stay_causal() -> None:
    gate = Gate(keys="scaled", radius=2.0, chunk=CHUNK)
    keys = 0.01 * torch.randn(2, 3, 40, 8, generator=torch.Generator().manual_seed(0)) + 12.0
    scaled = gate_keys(keys, gate)
    first = scaled[:, :, :CHUNK]
    spread = (first - first.mean(2, keepdim=True)).square().sum(-1).mean(2).sqrt()
    torch.testing.assert_close(spread, torch.full((2, 3), 2.0), rtol=1e-4, atol=0)
    # What comes after the first chunk does not change what came before.
    later = keys.clone()
    later[:, :, 30:] += 5.0
    assert torch.equal(gate_keys(later, gate)[:, :, :30], scaled[:, :, :30])


def test_a_window_sees_that_many_tokens() -> None:
    settings = replace(run("window", window=3), batch=2)
    q, k, v = draw(settings)
    attend = attention(settings)
    before = attend(0, q, k, v)
    k2 = k.clone()
    k2[:, :, 10] += 1.0
    moved = (attend(0, q, k2, v) - before).abs().amax((0, 1, 3)) > 1e-7
    assert moved.nonzero().flatten().tolist() == [10, 11, 12]


def test_a_window_as_wide_as_the_block_is_softmax() -> None:
    settings = replace(run("window", window=80), batch=2)
    q, k, v = draw(settings)
    full = replace(settings, arm="softmax")
    torch.testing.assert_close(attention(settings)(0, q, k, v), attention(full)(0, q, k, v), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_hybrid_trains_and_its_window_is_matched(tmp_path: Path) -> None:
    settings = hybrid(Gate(chunk=CHUNK), Gate(chunk=CHUNK, gradient=0.0))
    trainer = Trainer(settings, attention(settings), corpus(), valid_limit=2)
    outcome = trainer.train()
    assert outcome.final_bits[0] < 8.0
    counts, spreads = observe(trainer, Runner(corpus(), tmp_path))
    assert all(0 < spread < 10 for each in spreads for spread in each)
    assert [len(each) for each in counts] == [settings.shape.layers] * 2
    # At least 1/C keys carry weight, at most the prefix of the last boundary.
    assert all(4 <= count <= 64 for each in counts for count in each)
    assert visible(counts[0], CHUNK, 80) == min(80, round(sum(counts[0]) / 2) + CHUNK)
