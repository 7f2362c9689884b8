"""Presses on a tiny transformer with random weights: what is dropped, and that the rest is what is left."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from expunge import InputError, Memory
from expunge.integrations.press import RatioPress, ZeroWeightPress, fit_head

TOKENS = 40


def model(layers: int = 2) -> Any:
    torch.manual_seed(0)
    kind: Any = LlamaForCausalLM
    shape: dict[str, Any] = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "attn_implementation": "eager"}
    return kind(LlamaConfig(**shape, **heads, num_hidden_layers=layers)).double().eval()


def prompt(batch: int = 1) -> torch.Tensor:
    return torch.randint(0, 64, (batch, TOKENS), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def prefill(made: Any, press: Any = None, batch: int = 1) -> Any:
    if press is None:
        return made(prompt(batch), use_cache=True).past_key_values
    with press(made):
        return made(prompt(batch), use_cache=True).past_key_values


@torch.no_grad()
def next_logits(made: Any, cache: Any, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Logits of one more token, at the place in the text where it stands."""
    place = torch.tensor([[TOKENS]])
    step = torch.tensor([[7]])
    answer = made(step, past_key_values=cache, attention_mask=mask, position_ids=place, use_cache=True)
    return cast(torch.Tensor, answer.logits)


def places_of(short: torch.Tensor, full: torch.Tensor) -> list[int]:
    """Where the rows of a shortened head were before."""
    return [int(torch.nonzero((full == row).all(dim=-1))[0, 0]) for row in short]


@pytest.mark.parametrize("press", [ZeroWeightPress(nu=0.4), RatioPress(0.25, nu=0.4), RatioPress(0.9, nu=0.2)])
def test_what_is_dropped_and_what_stays(press: Any) -> None:
    made = model()
    full, short = prefill(made), prefill(made, press, batch=1)
    done = press.report[-1]
    assert (done.tokens, done.heads) == (TOKENS, 4)
    if isinstance(press, RatioPress):
        assert done.dropped == int(TOKENS * press.ratio)
    else:
        assert done.dropped == done.proved > 0
    assert short.get_seq_length() == TOKENS - done.dropped
    for before, after in zip(full.layers, short.layers, strict=True):
        for head in range(2):
            kept = places_of(after.keys[0, head], before.keys[0, head])
            assert kept == sorted(set(kept))
            assert torch.equal(after.values[0, head], before.values[0, head, kept])
            dropped = sorted(set(range(TOKENS)) - set(kept))
            keys = before.keys[0, head].numpy()
            weighed = fit_head(keys, nu=press.nu)
            proved = weighed.proved[dropped]
            assert done.proved <= proved.sum()
            if isinstance(press, ZeroWeightPress):
                assert proved.all()
                assert not weighed.coefficients[dropped].any()
            else:
                # Nothing that stays weighs less than what goes.
                assert weighed.coefficients[dropped].max() <= weighed.coefficients[kept].min() + 1e-15


def test_the_readout_of_the_memory_does_not_change() -> None:
    made = model()
    press = ZeroWeightPress(nu=0.4, sigma=2.0)
    full, short = prefill(made), prefill(made, press)
    before, after = full.layers[0], short.layers[0]
    keys, values = before.keys[0, 1].numpy(), before.values[0, 1].numpy()
    memory = Memory.fit(keys, values, sigma=2.0, nu=0.4)
    rest = Memory.fit(after.keys[0, 1].numpy(), after.values[0, 1].numpy(), sigma=2.0, cap=memory.cap)
    queries = np.random.default_rng(0).standard_normal((50, keys.shape[1]))
    assert press.report[0].dropped > 0
    assert np.max(np.abs(memory.read(queries) - rest.read(queries))) < 1e-12


def test_decoding_goes_on_as_if_the_dropped_were_masked() -> None:
    """The reference keeps the whole cache and hides, in each head, what the press dropped."""
    made = model(layers=1)
    full, short = prefill(made), prefill(made, RatioPress(0.5, nu=0.3))
    mask = torch.full((1, 4, 1, TOKENS + 1), float("-inf"), dtype=torch.float64)
    for head in range(2):
        kept = places_of(short.layers[0].keys[0, head], full.layers[0].keys[0, head])
        # Two query heads share each head of keys.
        mask[0, 2 * head : 2 * head + 2, 0, [*kept, TOKENS]] = 0.0
    hidden, dropped = next_logits(made, full, mask), next_logits(made, short)
    assert torch.allclose(hidden, dropped, atol=1e-12)
    assert not torch.allclose(dropped, next_logits(made, prefill(made)), atol=1e-6)


def test_nothing_dropped_is_nothing_changed() -> None:
    made = model()
    press = RatioPress(0.0)
    assert torch.equal(next_logits(made, prefill(made, press)), next_logits(made, prefill(made)))
    # At ν = 1 every entry is at its cap: none weighs nothing, and none goes.
    tight = ZeroWeightPress(nu=1.0)
    assert torch.equal(next_logits(made, prefill(made, tight)), next_logits(made, prefill(made)))
    assert tight.report[-1].dropped == 0


def test_a_batch_and_the_steps_after_it() -> None:
    made = model()
    press = RatioPress(0.5)
    with torch.no_grad(), press(made):
        cache = made(prompt(2), use_cache=True).past_key_values
        step = torch.tensor([[1], [2]])
        made(step, past_key_values=cache, position_ids=torch.full((2, 1), TOKENS), use_cache=True)
    assert len(press.report) == 1
    assert cache.get_seq_length() == TOKENS // 2 + 1
    alone = prefill(made, RatioPress(0.5))
    assert torch.allclose(alone.layers[1].keys[0], cache.layers[1].keys[0, :, :-1], atol=1e-12)
    # Once closed, it lets the model be.
    assert prefill(made).get_seq_length() == TOKENS


def test_bad_input() -> None:
    made = model()
    for wrong in (lambda: RatioPress(1.0), lambda: RatioPress(-0.1), lambda: ZeroWeightPress(nu=0.0)):
        with pytest.raises(InputError):
            wrong()
    for sigma in (0.0, float("nan"), float("inf")):
        with pytest.raises(InputError):
            ZeroWeightPress(sigma=sigma)
    with torch.no_grad(), ZeroWeightPress()(made), pytest.raises(InputError, match="use_cache"):
        made(prompt(), use_cache=False)
    mask = torch.ones(1, TOKENS, dtype=torch.long)
    mask[0, 0] = 0
    with torch.no_grad(), ZeroWeightPress()(made), pytest.raises(InputError, match="padding"):
        made(prompt(), attention_mask=mask, use_cache=True)
    with pytest.raises(InputError, match="dynamic cache"):
        ZeroWeightPress().compress(object())
    with pytest.raises(InputError, match="dynamic cache"):
        ZeroWeightPress().compress(DynamicCache())
