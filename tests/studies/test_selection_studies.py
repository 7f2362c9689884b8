"""The two studies that need torch, for a few steps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch comes with an extra")

from expunge.datasets import icu_stays
from studies import deterioration, negative_control


def test_labels_look_six_hours_ahead_and_no_further() -> None:
    stays = icu_stays()
    inputs, labels = deterioration.examples(stays)
    assert inputs.shape == (12, 50, 6)
    for place, stay in enumerate(stays):
        for hour in (0, 20, 49):
            assert bool(labels[place, hour]) == any(stay.events[later] for later in range(hour + 1, hour + 7))


def test_auroc_is_the_usual_one() -> None:
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    scores, labels = rng.integers(5, size=60).astype(float), rng.integers(2, size=60).astype(float)
    assert deterioration.auroc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@pytest.mark.parametrize("layer", deterioration.LAYERS)
def test_every_layer_trains_and_sees_no_future(layer: str) -> None:
    import torch

    found = deterioration.examples(icu_stays())
    once, again = (deterioration.run(layer, found, found, seed=1, steps=2) for _ in range(2))
    assert once == again
    assert 0.0 < once < 1.0
    torch.manual_seed(0)
    module = deterioration.LAYERS[layer]()
    x = torch.randn(1, 30, deterioration.WIDTH)
    changed = x.clone()
    changed[:, 20:] += 1.0
    with torch.no_grad():
        torch.testing.assert_close(module(x)[:, :20], module(changed)[:, :20], rtol=1e-4, atol=1e-5)


def test_the_stored_models_come_from_the_study() -> None:
    stored = json.loads(Path(negative_control.OUT).read_text(encoding="utf-8"))["models"]
    for gated in (False, True):
        once, loss = negative_control.train(0, gated=gated, steps=3)
        again, _ = negative_control.train(0, gated=gated, steps=3)
        assert once == again
        assert np.isfinite(loss)
        like = next(model for model in stored if model["seed"] == 0 and model["gated"] == gated)
        assert set(like) == set(once)
        assert np.shape(like["key"]) == np.shape(once["key"])
