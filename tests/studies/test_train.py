from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from stacks import corpus, run

from expunge.errors import InputError
from studies.arms import attention
from studies.config import Run
from studies.train import Trainer


def trainer(settings: Run) -> Trainer:
    return Trainer(settings, attention(settings), corpus())


@pytest.mark.parametrize("arm", ["softmax", "window"])
def test_a_resumed_run_is_the_run_that_never_stopped(arm: str, tmp_path: Path) -> None:
    settings = run(arm, window=8)
    whole = trainer(settings)
    expected = whole.train()
    first = trainer(settings)
    first.train(checkpoint=tmp_path / "kept.pt", until=8)
    second = trainer(settings)
    second.resume(tmp_path / "kept.pt")
    outcome = second.train()
    assert outcome.steps == expected.steps == 12
    assert torch.equal(second.stack.parameters, whole.stack.parameters)
    assert outcome.best_bits == expected.best_bits
    assert [point["valid_bits"] for point in outcome.curve] == [point["valid_bits"] for point in expected.curve]


def test_training_learns_and_writes_its_curve(tmp_path: Path) -> None:
    settings = run("softmax", steps=40)
    outcome = trainer(settings).train(curve=tmp_path / "curve.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(4, 41, 4))
    # It starts at 8 bits, uniform over 256 bytes; the generated text has some twenty letters.
    assert lines[0]["valid_bits"][0] > 6
    assert all(bits < 4.5 for bits in outcome.final_bits)
    assert all(best <= final for best, final in zip(outcome.best_bits, outcome.final_bits, strict=True))


def test_a_seed_learns_the_same_alone_and_in_company() -> None:
    alone, both = trainer(run("softmax", seeds=(1,))), trainer(run("softmax", seeds=(0, 1)))
    torch.testing.assert_close(
        torch.tensor(both.train().final_bits[1]), torch.tensor(alone.train().final_bits[0]), rtol=1e-5, atol=0
    )


def test_bits_are_the_mean_over_whole_blocks() -> None:
    settings = run("softmax")
    ours = trainer(settings)
    block = settings.shape.block
    for part, content in (("valid", corpus().valid), ("test", corpus().test)):
        count = (len(content) - 1) // block
        tokens = torch.stack([content[i * block : i * block + block + 1] for i in range(count)]).long()
        direct = ours.stack.losses(tokens.expand(2, -1, -1)).detach() / math.log(2)
        torch.testing.assert_close(torch.tensor(ours.bits(part)), direct, rtol=1e-5, atol=0)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    settings = run("window", window=4)
    trainer(settings).save(tmp_path / "kept.pt")
    for other, what in (
        (run("softmax"), "window-tiny"),
        (run("window", window=40), "in slots"),
        (run("window", window=4, seeds=(5, 6)), "in slots"),
        (replace(settings, steps=24), "in steps"),
    ):
        with pytest.raises(InputError, match=what):
            trainer(other).resume(tmp_path / "kept.pt")
    text = corpus()
    with pytest.raises(InputError, match="in corpus"):
        Trainer(settings, attention(settings), replace(text, valid=text.train)).resume(tmp_path / "kept.pt")
    with pytest.raises(InputError, match="in valid_blocks"):
        Trainer(settings, attention(settings), text, valid_limit=1).resume(tmp_path / "kept.pt")


def test_seconds_add_up_over_a_resumed_run(tmp_path: Path) -> None:
    settings = run("softmax")
    first = trainer(settings).train(checkpoint=tmp_path / "kept.pt", until=8)
    second = trainer(settings)
    second.resume(tmp_path / "kept.pt")
    outcome = second.train()
    assert outcome.seconds > first.seconds
    assert outcome.step_seconds > first.step_seconds
    seconds = [point["seconds"] for point in outcome.curve]
    assert seconds == sorted(seconds)


def test_a_deadline_stops_at_an_evaluation() -> None:
    outcome = trainer(run("softmax")).train(deadline=0.0)
    assert outcome.steps == 0
    assert outcome.curve == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("arm", ["softmax", "window", "hybrid"])
def test_the_captured_step_is_the_plain_step(arm: str) -> None:
    settings = replace(run(arm, window=8), batch=2)
    attend = attention(settings, device="cuda")
    captured = Trainer(settings, attend, corpus(), device="cuda")
    outcome = captured.train()
    plain = Trainer(settings, attend, corpus(), device="cuda")
    for _ in range(settings.steps):
        plain._step()
    torch.testing.assert_close(captured.stack.parameters, plain.stack.parameters, rtol=1e-4, atol=1e-5)
    assert all(math.isfinite(bits) for bits in outcome.final_bits)
