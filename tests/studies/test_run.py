from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from stacks import text

from expunge.errors import InputError
from studies.config import SHAPES, Gate, Recipe, Run, Slot
from studies.recipes import ROUNDS, named
from studies.record import write
from studies.run import TUNING_SEED, chosen, main, matched, on_test


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_bytes(bytes(text(4000).tolist()))
    return path


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def test_compare_matches_each_seeds_window_to_its_hybrid(words: Path, tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    short = tmp_path / "short.txt"
    short.write_bytes(bytes(text(400, 1).tolist()))
    command = ["compare", "--shape", "tiny", "--data", str(words), "--test", str(short), "--seeds", "0:2"]
    command += ["--steps", "4", "--batch", "2", "--evaluate-every", "2", "--out", str(out), "--checkpoints", str(kept)]
    command += ["--keep", str(tmp_path / "trained")]
    main(command)
    hybrid, window = read(out, "tiny-hybrid"), read(out, "tiny-window")
    for counts, slot in zip(hybrid["active_keys"], window["run"]["slots"], strict=True):
        assert slot["window"] == min(80, round(sum(counts) / len(counts)) + 64)
    assert [slot["seed"] for slot in window["run"]["slots"]] == [0, 1]
    assert hybrid["complete"]
    assert len(hybrid["test_bits"]) == len(hybrid["best_bits"]) == 2
    assert hybrid["corpus"]["train_bytes"] == 3600
    lines = (out / "curves.jsonl").read_text().splitlines()
    assert len(lines) == 4
    trained = torch.load(tmp_path / "trained" / "tiny-hybrid.pt", weights_only=True)
    assert trained["weights"]["0.attention.qkv"].shape == (32, 96)
    assert trained["run"]["arm"] == "hybrid"
    # A finished run resumes at its end: the same result, no further step.
    main(command)
    assert read(out, "tiny-window")["best_bits"] == window["best_bits"]
    with pytest.raises(InputError, match=r"has the seeds \[0, 1\]"):
        main([*command, "--arms", "window", "--seeds", "2:4"])
    assert (out / "curves.jsonl").read_text().splitlines() == lines


def test_what_stopping_at_the_lowest_validation_would_have_given() -> None:
    curve = [
        {"valid_bits": [2.0, 3.0], "test_bits": [2.1, 3.1]},
        {"valid_bits": [1.0, math.nan], "test_bits": [1.2, math.nan]},
        {"valid_bits": [1.5, math.nan], "test_bits": [1.1, math.nan]},
    ]
    assert on_test(curve)["stopped_test_bits"] == [1.2, 3.1]
    assert on_test(curve)["test_bits"] is curve[-1]["test_bits"]
    assert on_test([{"valid_bits": [1.0]}]) == on_test([]) == {}


@pytest.mark.parametrize("which", ROUNDS)
def test_tune_gives_both_arms_the_same_budget(words: Path, tmp_path: Path, which: str) -> None:
    arms = ROUNDS[which]
    assert len(arms["hybrid"]) == len(arms["window"])
    out = tmp_path / "out"
    settings = ["--steps", "2", "--batch", "1", "--evaluate-every", "2", "--round", which]
    shared = ["--shape", "tiny", "--data", str(words), "--out", str(out), *settings]
    main(["tune", "--name", "t", *shared])
    hybrid, window = read(out, "t-hybrid"), read(out, "t-window")
    assert {slot["label"] for slot in hybrid["run"]["slots"]} == set(arms["hybrid"])
    assert {slot["label"] for slot in window["run"]["slots"]} == set(arms["window"])
    assert {slot["seed"] for slot in hybrid["run"]["slots"] + window["run"]["slots"]} == {TUNING_SEED}
    label = chosen("t", out, "hybrid")
    place = [slot["label"] for slot in hybrid["run"]["slots"]].index(label)
    assert hybrid["final_bits"][place] == min(hybrid["final_bits"])
    theirs = matched(hybrid)
    assert {slot["label"]: slot["window"] for slot in window["run"]["slots"]} == {
        each: theirs.get(each, theirs[label]) for each in arms["window"]
    }
    # The winners go into a comparison.
    main(["compare", "--name", "c", "--tuned", "t", "--seeds", "0:1", *shared])
    assert read(out, "c-hybrid")["run"]["slots"][0]["recipe"]["rate"] == named("hybrid", label).rate


def test_a_window_is_matched_to_the_hybrid_of_its_label() -> None:
    gates = {"a": Gate(chunk=16), "b": Gate(chunk=16, near=8), "c": Gate(chunk=16, weight="learned", floor=0.5)}
    run = Run("t", "hybrid", SHAPES["tiny"], tuple(Slot(0, Recipe(gate=gate), label=at) for at, gate in gates.items()))
    content = {"run": run.describe(), "active_keys": [[10.0, 21.0], [30.0, 10.0], [1.0, 1.0]]}
    assert matched(content) == {"a": 16 + 16, "b": 20 + 16 + 8, "c": 80}


def test_a_comparison_of_one_candidate(words: Path, tmp_path: Path) -> None:
    settings = ["--shape", "tiny", "--steps", "2", "--batch", "1", "--evaluate-every", "2", "--seeds", "0:1"]
    main(["compare", "--name", "c", "--recipe", "spread 1", "--data", str(words), "--out", str(tmp_path), *settings])
    hybrid, window = (read(tmp_path, f"c-{arm}")["run"]["slots"][0]["recipe"] for arm in ("hybrid", "window"))
    assert (hybrid["gate"]["keys"], hybrid["gate"]["radius"]) == ("scaled", 2)
    assert {**hybrid, "gate": None} == {**window, "gate": None}
    with pytest.raises(InputError, match="no candidate of the hybrid arm is called 'spread 9'"):
        main(["compare", "--recipe", "spread 9", "--data", str(words), "--out", str(tmp_path), *settings])


def test_a_control_is_compared_alone_and_softmax_has_the_windows_recipe(words: Path, tmp_path: Path) -> None:
    settings = ["--shape", "tiny", "--steps", "2", "--batch", "1", "--evaluate-every", "2", "--seeds", "0:1"]
    shared = ["compare", "--data", str(words), "--out", str(tmp_path), *settings]
    main([*shared, "--name", "e", "--recipe", "even, long text, full rate", "--arms", "hybrid"])
    main([*shared, "--name", "r", "--recipe", "long text, decay 0.3", "--arms", "softmax"])
    even, plain = (read(tmp_path, name)["run"]["slots"][0]["recipe"] for name in ("e-hybrid", "r-softmax"))
    assert (even["gate"]["keys"], even["gate"]["weight"], even["rate"]) == ("none", "learned", 3e-3)
    assert plain["decay"] == 0.3
    with pytest.raises(InputError, match="no candidate of the window arm is called 'even, long text'"):
        main([*shared, "--name", "w", "--recipe", "even, long text", "--arms", "hybrid,window"])


def test_validation_on_the_first_blocks_alone(words: Path, tmp_path: Path) -> None:
    settings = ["--shape", "tiny", "--steps", "1", "--batch", "2", "--evaluate-every", "1", "--seeds", "0:1"]
    shared = ["compare", "--data", str(words), "--arms", "softmax", *settings]
    # 4,000 bytes validate on their last 400, which are four whole blocks of 80.
    for name, more in (("all", []), ("four", ["--valid-blocks", "4"]), ("one", ["--valid-blocks", "1"])):
        main([*shared, *more, "--out", str(tmp_path / name)])
    whole, four, one = (read(tmp_path / name, "tiny-softmax") for name in ("all", "four", "one"))
    assert whole["best_bits"] == four["best_bits"]
    assert one["best_bits"] != four["best_bits"]
    assert one["corpus"] == whole["corpus"] | {"valid_blocks": 1}
    with pytest.raises(InputError, match="--valid-blocks is at least 1, not 0"):
        main([*shared, "--valid-blocks", "0", "--out", str(tmp_path / "none")])


def test_the_winner_of_several_tunings_is_the_lowest_of_all(tmp_path: Path) -> None:
    slots = [{"label": label} for label in "abc"]
    for name, bits in (("t-window", [1.9, 1.7, 1.8]), ("u-window", [1.6, 2.0, None]), ("v-window", [None] * 3)):
        write(tmp_path, name, {"run": {"slots": slots}, "final_bits": bits, "complete": True})
    assert chosen("t", tmp_path, "window") == "b"
    assert chosen("t,u", tmp_path, "window") == chosen("u,t", tmp_path, "window") == "a"
    with pytest.raises(InputError, match="diverged"):
        chosen("v", tmp_path, "window")


@pytest.mark.parametrize("act", ["compare", "tune"])
def test_nothing_is_matched_to_a_run_that_stopped(words: Path, tmp_path: Path, act: str) -> None:
    out = tmp_path / "out"
    command = [act, "--shape", "tiny", "--data", str(words), "--steps", "2", "--batch", "1", "--evaluate-every", "1"]
    command += ["--seeds", "0:1", "--out", str(out)]
    with pytest.raises(InputError, match=r"no tiny-hybrid\.json"):
        main([*command, "--arms", "window"])
    main(command)
    whole = [read(out, f"tiny-{arm}") for arm in ("hybrid", "window")]
    # No time for a step: what was there before stays.
    main([*command, "--seconds", "0"])
    assert [read(out, f"tiny-{arm}") for arm in ("hybrid", "window")] == whole
    write(out, "tiny-hybrid", whole[0] | {"complete": False, "steps": 1})
    with pytest.raises(InputError, match="stopped at step 1 of 2"):
        main([*command, "--arms", "window"])


def test_an_unusable_command_says_what_is_wrong(words: Path, tmp_path: Path) -> None:
    command = ["compare", "--shape", "tiny", "--out", str(tmp_path / "out")]
    for given, message in (
        (["--data", str(tmp_path / "none")], "cannot read"),
        (["--data", str(words), "--test", str(words)], "is a part of the bytes to train on"),
        (["--data", str(words), "--seeds", "x"], "--seeds is"),
        (["--data", str(words), "--tuned", "t"], "no t-hybrid"),
    ):
        with pytest.raises(InputError, match=message):
            main([*command, *given])


def test_a_label_means_one_recipe() -> None:
    for arm in ("hybrid", "window"):
        for arms in ROUNDS.values():
            assert all(named(arm, label) == recipe for label, recipe in arms[arm].items())


def test_a_run_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="no arm"):
        Run("x", "mixture", SHAPES["tiny"], (Slot(0),))
    with pytest.raises(InputError, match="visible tokens"):
        Run("x", "window", SHAPES["tiny"], (Slot(0),))
    with pytest.raises(InputError, match="at least one slot"):
        Run("x", "softmax", SHAPES["tiny"], ())
