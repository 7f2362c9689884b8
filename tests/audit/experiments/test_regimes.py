"""The trials of the deletion audit: their streams, their sources, and the learned keys without torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from expunge.audit.experiments.regimes import (
    FACTS_CAP,
    FACTS_SIGMA,
    REGIMES,
    clinical_stays,
    draw_facts,
    draw_own,
    draw_trials,
)
from expunge.datasets import icu_first_hours, icu_hours, recall_model
from expunge.errors import InputError
from expunge.memory.memory import Memory
from expunge.problem.kernel import kernel_block, squared_distances
from expunge.types import Matrix

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("regime", REGIMES)
def test_fewer_trials_are_a_prefix_of_more(regime: str) -> None:
    for one, other in zip(draw_trials(regime, 3), draw_trials(regime, 5), strict=False):
        for name in ("keys", "removed", "jittered", "values", "scalars"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("regime", REGIMES)
def test_a_trial_is_whole(regime: str) -> None:
    for trial in draw_trials(regime, 20):
        size, dimension = trial.keys.shape
        assert trial.cap == 1.0 / (0.4 * size)
        assert trial.removed[0] > trial.removed[1]
        assert trial.retained.shape == trial.jittered.shape == (size - 2, dimension)
        assert trial.values.shape == (size - 2, 4)
        assert trial.scalars.shape == (size - 2,)
        assert len(trial.probes) == 2 * size - 2
        assert np.all(np.isfinite(trial.keys))
        jitter = trial.jittered - trial.retained
        assert 0.03 < float(np.std(jitter)) < 0.3


def test_the_streams_are_those_of_the_protocol() -> None:
    """One generator a regime, in the stated order, restated here; values from their own."""
    rng, contents = np.random.default_rng(0), np.random.default_rng(12345)
    for trial in draw_trials("redundant", 4):
        centres = rng.standard_normal((4, 6)) * 2.0
        keys = np.vstack([np.tile(centre, (6, 1)) for centre in centres]) + 0.02 * rng.standard_normal((24, 6))
        removed = sorted(rng.choice(24, 2, replace=False).tolist(), reverse=True)
        retained = np.array([key for row, key in enumerate(keys) if row not in removed])
        jittered = retained + 0.1 * rng.standard_normal((22, 6))
        assert np.array_equal(trial.keys, keys)
        assert trial.removed.tolist() == removed
        assert np.array_equal(trial.probes, np.vstack([retained, keys[removed], jittered]))
        assert np.array_equal(trial.values, contents.standard_normal((22, 4)))


def test_clinical_hours_are_apart_and_real() -> None:
    stays = clinical_stays()
    assert len(stays) == 74
    for hours in stays:
        assert 6 <= len(hours) <= 40
        apart = squared_distances(hours, hours)[np.triu_indices(len(hours), 1)]
        assert float(apart.min()) > 0.1**2
    # The same hours, read from the other sample that ships: rows agree to the rounding of vital signs.
    sample, first = icu_hours(), icu_first_hours()
    for entry, key in zip(sample.ids, sample.keys, strict=True):
        stay, hour = entry.split("/h")
        if int(hour) < 40:
            assert np.max(np.abs(first[stay][int(hour)] - key)) < 1e-12


def challenge(path: Path, patients: int) -> Path:
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(3)
    hours = 50
    rows: dict[str, Any] = {
        "patient": np.repeat(np.arange(patients), hours),
        "hour": np.tile(np.arange(1, hours + 1), patients),
    }
    for name, middle, spread in (
        ("HR", 80, 10), ("SBP", 120, 9), ("DBP", 70, 8), ("Resp", 18, 3), ("O2Sat", 96, 1), ("Temp", 37, 0.4),
    ):  # fmt: skip
        rows[name] = middle + spread * rng.standard_normal(patients * hours).clip(-3, 3)
    polars.DataFrame(rows).write_parquet(path)
    return path


def test_clinical_trials_come_from_one_s_own_data_set_too(tmp_path: Path) -> None:
    source = challenge(tmp_path / "stays.parquet", 5)
    stays = clinical_stays(source)
    assert len(stays) == 5
    for trial in draw_trials("clinical", 4, source=source):
        assert any(np.array_equal(trial.keys, hours) for hours in stays)
    with pytest.raises(InputError):
        draw_trials("clinical", 1, source=tmp_path / "missing")
    with pytest.raises(InputError, match="takes no source"):
        draw_trials("gaussian", 1, source=source)


def test_own_keys_are_drawn_without_repetition() -> None:
    keys = np.random.default_rng(5).standard_normal((60, 3))
    trials = list(draw_own(keys, 6, size=20))
    for trial in trials:
        rows = {tuple(key) for key in trial.keys.tolist()}
        assert len(rows) == 20
        assert rows <= {tuple(key) for key in keys.tolist()}
    assert all(not np.array_equal(one.keys, other.keys) for one, other in pairwise(trials))


@pytest.mark.parametrize("size", [5, 61])
def test_contexts_that_cannot_be_drawn_are_refused(size: int) -> None:
    with pytest.raises(InputError, match="cannot be drawn"):
        draw_own(np.zeros((60, 3)), 1, size=size)


def test_an_unknown_regime_is_named() -> None:
    with pytest.raises(InputError, match="gaussian, redundant, clinical, learned"):
        draw_trials("gauss")


def test_the_recall_model_answers_every_fact() -> None:
    asked = right = 0
    for facts in draw_facts(25):
        memory = Memory.fit(facts.keys, facts.values, sigma=FACTS_SIGMA, cap=FACTS_CAP)
        nearest = np.argmin(squared_distances(memory.read(facts.queries), facts.targets), axis=1)
        asked += len(nearest)
        right += int(np.sum(nearest == np.arange(len(nearest))))
        assert 0 <= facts.secret < len(nearest)
    assert right == asked == 200


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("learned_keys", ROOT / "studies" / "learned_keys.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    yield module
    torch.use_deterministic_algorithms(before)


def test_the_arrays_are_the_trained_model(study: ModuleType) -> None:
    """Reading decoded values gives what the torch model decodes from what it reads."""
    import torch

    data = ROOT / "src" / "expunge" / "datasets" / "data" / "learned_keys" / "weights.npz"
    weights = np.load(data)
    model = study.Recall()
    model.load_state_dict({name: torch.tensor(weights[name.replace(".", "_")]) for name in model.state_dict()})
    facts, asked, _, _ = study.draw(np.random.default_rng(1), 5, 3)
    with torch.no_grad():
        expected = model(facts, asked).double().numpy()
        coefficients = study.coefficients(model.key(model.embed(facts))).double().numpy()
    ours = recall_model()
    for row in range(5):
        tokens, names = facts[row].double().numpy(), asked[row, :, :8].double().numpy()
        weight = kernel_block(ours.queries(names), ours.keys(tokens), ours.sigma) * coefficients[row]
        read: Matrix = weight @ ours.values(tokens) / weight.sum(axis=1, keepdims=True)
        assert np.max(np.abs(read - expected[row])) < 1e-4
    assert ours.provenance["recall_at_one"] > 0.95


def test_training_is_deterministic_and_learns(study: ModuleType) -> None:
    first, losses = study.train(3)
    second, again = study.train(3)
    assert losses == again
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert bool((one == other).all())
    assert losses[-1] < losses[0]


def test_the_gate_of_the_study_is_the_gate_of_the_package(study: ModuleType) -> None:
    """Its coefficients, ridge and threshold apart, are those of a fit."""
    import torch

    for trial in range(5):
        facts, _, _, _ = study.draw(np.random.default_rng(trial), 1, 1)
        keys = recall_model().keys(facts[0].double().numpy())
        theirs = study.coefficients(torch.tensor(keys[None], dtype=torch.float32))[0].double().numpy()
        ours = Memory.fit(keys, np.zeros(8), sigma=FACTS_SIGMA, cap=FACTS_CAP).coefficients
        assert np.max(np.abs(theirs - ours)) < 1e-3


def test_trials_need_no_torch() -> None:
    script = """
import sys
for name in ("torch", "polars", "matplotlib", "clarabel"):
    sys.modules[name] = None
from expunge.audit.experiments.regimes import REGIMES, draw_trials
assert [len(list(draw_trials(regime, 2))) for regime in REGIMES] == [2, 2, 2, 2]
"""
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603
