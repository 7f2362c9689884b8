"""Predicted margins against those of fits."""

from __future__ import annotations

import numpy as np
import pytest

from expunge import Memory
from expunge.preprocessing.width import median_width, predict_margins

KEYS = np.random.default_rng(12).standard_normal((8000, 5))


@pytest.mark.parametrize("factor", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_a_prediction_is_near_the_margin_of_the_fit(factor: float, nu: float) -> None:
    sigma = factor * median_width(KEYS)
    margin = Memory.fit(KEYS, KEYS[:, :1], sigma=sigma, nu=nu).partition.margin.size
    # Margins of a dozen keys are a matter of chance.
    assert margin / 2.0 - 10.0 < predict_margins(KEYS)(sigma, nu) < 2.0 * margin + 10.0


def test_few_keys_are_fitted_as_they_are() -> None:
    keys = KEYS[:900]
    margin = Memory.fit(keys, keys[:, :1], sigma=1.0, nu=0.1).partition.margin.size
    # The fit of a prediction stops at a loose tolerance.
    assert predict_margins(keys)(1.0, 0.1) == pytest.approx(margin, rel=0.05)


def test_a_prediction_does_not_depend_on_the_order() -> None:
    mixed = KEYS[np.random.default_rng(1).permutation(len(KEYS))]
    assert predict_margins(mixed)(1.3, 0.1) == predict_margins(KEYS)(1.3, 0.1)


def test_no_more_keys_than_there_are() -> None:
    assert predict_margins(KEYS)(1e-3, 0.1) <= len(KEYS)
