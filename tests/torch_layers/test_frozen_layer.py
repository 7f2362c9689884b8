"""From a trained layer to certified memories, a deletion, and what the layer says afterwards."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from expunge.errors import InputError
from expunge.torch import SupportVectorAttention
from expunge.torch.frozen_layer import FrozenLayer, freeze

SUBJECTS = [f"record-{place // 4}" for place in range(32)]


def frozen(**options: object) -> tuple[SupportVectorAttention, Tensor, FrozenLayer]:
    torch.manual_seed(0)
    settings: dict[str, object] = {"chunk": 16, "cap": 0.2, "sigma": 1.0, **options}
    layer = SupportVectorAttention(16, 2, **settings)  # type: ignore[arg-type]
    x = 0.8 * torch.randn(1, 40, 16)
    return layer, x, freeze(layer, x, subjects=SUBJECTS)


def test_the_frozen_layer_is_certified_and_close_to_training() -> None:
    layer, x, gates = frozen()
    assert gates.count == 32
    assert gates.check().passed
    assert gates.check().worst < 1e-12
    assert [proof.outcome for proof in gates.prove()] == ["proved", "proved"]
    assert 0.0 < gates.drift < 1e-2
    assert gates.coefficients.shape == (2, 32)
    with torch.no_grad(), gates.applied():
        edited = layer(x)
    assert torch.equal(edited[:, :32], layer(x)[:, :32])
    torch.testing.assert_close(edited[:, 32:], layer(x)[:, 32:], rtol=0, atol=1e-2)


@pytest.mark.parametrize(
    "options", [{}, {"floor": 0.3}, {"window": 32}, {"gain": "cap", "readout": "rbf"}, {"gain": "learned"}]
)
def test_a_deleted_record_has_no_say(options: dict[str, object]) -> None:
    layer, x, gates = frozen(**options)
    with torch.no_grad():
        with gates.applied():
            before = layer(x)
        receipts = gates.delete(subject="record-2")
        with gates.applied():
            after = layer(x)
            # Its tokens may now say anything: queries after the prefix do not change.
            changed = layer(torch.cat([x[:, :8], 5.0 * torch.randn(1, 4, 16), x[:, 12:]], dim=1))
    assert [len(receipt.applied) for receipt in receipts] == [4, 4]
    assert all(receipt.check.passed for receipt in receipts)
    assert {receipt.outcome for receipt in receipts} <= {"decrement", "certified_zero"}
    assert (before - after)[:, 32:].abs().max() > 1e-6
    torch.testing.assert_close(changed[:, 32:], after[:, 32:], rtol=0, atol=1e-6)
    assert (gates.coefficients[:, 8:12] == 0.0).all()
    for memory in gates.memories:
        assert abs(memory.coefficients.sum() - 1.0) < 1e-12
        assert abs(memory.coefficients - memory.refit().coefficients).max() < 1e-12


@pytest.mark.parametrize("gain", ["unit", "cap", "count", "learned"])
@pytest.mark.parametrize("options", [{}, {"floor": 0.3}, {"window": 5}, {"readout": "rbf", "normalize": True}])
def test_the_layer_says_what_it_would_had_it_never_held_the_record(gain: str, options: dict[str, object]) -> None:
    layer, x, gates = frozen(gain=gain, chunk=32, **options)
    gates.delete(subject="record-2")
    # The same weights, and a chunk that ends with the shorter prefix.
    settings: dict[str, object] = {"chunk": 28, "cap": 0.2, "sigma": 1.0, "gain": gain, "path": "maintained", **options}
    never = SupportVectorAttention(16, 2, **settings)  # type: ignore[arg-type]
    never.load_state_dict(layer.state_dict())
    with torch.no_grad():
        with gates.applied():
            said = layer(x)[:, 32:]
        torch.testing.assert_close(said, never(torch.cat([x[:, :8], x[:, 12:]], dim=1))[:, 28:], rtol=0, atol=1e-6)


def test_a_refusal_changes_no_head() -> None:
    _, _, gates = frozen(cap=0.05)
    digests = [memory.digest for memory in gates.memories]
    with pytest.raises(InputError, match="no entry"):
        gates.delete([99])
    assert [memory.digest for memory in gates.memories] == digests


def test_every_token_can_go() -> None:
    layer, x, gates = frozen(cap=0.05)
    assert {receipt.outcome for receipt in gates.delete(list(range(20)))} == {"refitted"}
    for left in (gates.count - 20, 0):
        if not left:
            assert {receipt.outcome for receipt in gates.delete(list(range(20, gates.count)))} == {"emptied"}
        assert {len(memory) for memory in gates.memories} == {left}
        with torch.no_grad(), gates.applied():
            assert torch.isfinite(layer(x)).all()
    assert not gates.coefficients.any()


def test_the_receipts_of_a_head_follow_one_another() -> None:
    _, _, gates = frozen()
    states = [[memory.digest] for memory in gates.memories]
    for subject in ("record-2", "record-3", "record-5"):
        for known, receipt in zip(states, gates.delete(subject=subject), strict=True):
            assert receipt.state_before == known[-1]
            known.append(receipt.state_after)
    assert [known[-1] for known in states] == [memory.digest for memory in gates.memories]


def test_unusable_contexts_are_refused() -> None:
    layer, x, gates = frozen()
    with pytest.raises(InputError, match="one context"):
        freeze(layer, x.expand(2, -1, -1))
    with pytest.raises(InputError, match="gated boundary"):
        freeze(layer, x, count=20)
    with pytest.raises(InputError, match="each of the 32 tokens"):
        freeze(layer, x, subjects=["a"])
    with pytest.raises(InputError, match="at least 33 tokens"), gates.applied():
        layer(x[:, :20])
    assert layer.replaced_gates is None


@pytest.mark.parametrize("tokens", ["12", ["1", "2"], 5.0, [1.5]])
def test_tokens_are_named_by_their_places(tokens: object) -> None:
    _, _, gates = frozen()
    with pytest.raises(InputError, match="whole numbers"):
        gates.delete(tokens)  # type: ignore[arg-type]
    assert [len(receipt.applied) for receipt in gates.delete(5)] == [1, 1]
    assert [len(receipt.applied) for receipt in gates.delete(torch.tensor([6, 7]))] == [2, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize(("gain", "mean"), [("count", 1.0), ("unit", 1 / 16), ("cap", 5 / 16)])
def test_a_frozen_prefix_grows_no_louder_as_the_context_goes_on(gain: str, mean: float) -> None:
    torch.manual_seed(0)
    layer = SupportVectorAttention(16, 2, chunk=16, cap=0.2, sigma=1.0, gain=gain)  # type: ignore[arg-type]
    x = torch.randn(1, 64, 16)
    gates = freeze(layer, x, count=16)
    with torch.no_grad(), gates.applied():
        assert layer.replaced_gates is not None
        found = layer.replaced_gates(layer.project(x)[1])
    # Boundaries at 16, 32 and 48.
    torch.testing.assert_close(found[0, :, :, :16].mean(-1), torch.full((2, 3), mean), rtol=1e-5, atol=0)


def test_a_copy_keeps_what_is_deleted_from_the_other() -> None:
    _, _, gates = frozen()
    before = gates.coefficients
    shallow, deep = copy.copy(gates), copy.deepcopy(gates)
    gates.delete(subject="record-2")
    assert torch.equal(shallow.coefficients, before)
    assert torch.equal(deep.coefficients, before)
    deep.delete(subject="record-2")
    torch.testing.assert_close(deep.coefficients, gates.coefficients, rtol=0, atol=1e-12)


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
