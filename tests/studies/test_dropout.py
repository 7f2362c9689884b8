from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from stacks import corpus, run

from expunge.errors import InputError
from studies.arms import attention
from studies.config import Recipe, Run
from studies.dropout import Dropout, drop
from studies.train import Trainer

SHAPE = (2, 300, 32)


def dropping(*shares: float, seeds: tuple[int, ...] = (0, 1)) -> Run:
    settings = run("softmax", seeds=seeds)
    slots = zip(settings.slots, shares, strict=True)
    return replace(settings, slots=tuple(replace(slot, recipe=Recipe(dropout=share)) for slot, share in slots))


def kept(settings: Run, site: int, step: int) -> torch.Tensor:
    return drop(torch.ones(SHAPE), Dropout(settings, "cpu").sites(torch.tensor(step))[site])


def test_the_share_is_dropped_and_the_mean_kept() -> None:
    masks = kept(dropping(0.1, 0.4), 3, 17)
    places = SHAPE[1] * SHAPE[2]
    for mask, share in zip(masks, (0.1, 0.4), strict=True):
        assert sorted(set(mask.flatten().tolist())) == pytest.approx([0.0, 1 / (1 - share)])
        # Five standard deviations of a fair draw.
        assert abs(float((mask == 0).float().mean()) - share) < 5 * (share * (1 - share) / places) ** 0.5


def test_masks_differ_by_seed_step_site_and_row_and_by_nothing_else() -> None:
    settings = dropping(0.5, 0.5)
    mask = kept(settings, 2, 17) > 0
    others = [kept(settings, 3, 17)[0], kept(settings, 2, 18)[0], kept(settings, 2, 17)[1]]
    lagged = [(mask[0, 1:], mask[0, :-1]), (mask[0, :, 1:], mask[0, :, :-1])]
    for one, other in [*((mask[0], other > 0) for other in others), *lagged]:
        # Independent halves agree in half of the places, within five standard deviations.
        assert abs(float((one == other).float().mean()) - 0.5) < 2.5 / one.numel() ** 0.5
    assert torch.equal(mask[1], kept(dropping(0.5, seeds=(1,)), 2, 17)[0] > 0)


def test_nothing_is_dropped_outside_training() -> None:
    assert Dropout(dropping(0.0, 0.0), "cpu").sites(torch.tensor(0)) == [None] * 4
    assert torch.equal(drop(torch.ones(SHAPE), Dropout(dropping(0.5, 0.5), "cpu").sites(None)[0]), torch.ones(SHAPE))
    settings, plain = dropping(0.5, 0.0), dropping(0.0, 0.0)
    ours, theirs = (Trainer(each, attention(each), corpus()) for each in (settings, plain))
    assert ours.bits() == theirs.bits()


def test_a_slot_without_dropout_learns_as_before_and_a_run_resumes_to_the_bit(tmp_path: Path) -> None:
    settings, plain = dropping(0.3, 0.0), dropping(0.0, 0.0)
    whole, without = (Trainer(each, attention(each), corpus()) for each in (settings, plain))
    ended = whole.train()
    without.train()
    assert torch.equal(whole.stack.parameters[1], without.stack.parameters[1])
    assert not torch.equal(whole.stack.parameters[0], without.stack.parameters[0])
    Trainer(settings, attention(settings), corpus()).train(checkpoint=tmp_path / "kept.pt", until=8)
    resumed = Trainer(settings, attention(settings), corpus())
    resumed.resume(tmp_path / "kept.pt")
    assert resumed.train().final_bits == ended.final_bits
    assert torch.equal(resumed.stack.parameters, whole.stack.parameters)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_that_makes_no_sense_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="dropout is a share"):
        Recipe(dropout=share)
