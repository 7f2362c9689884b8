"""Reported numbers: statistics of rows, against NumPy and SciPy."""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest
import scipy.stats

from expunge.audit.numbers import Number, evaluate, spread_of
from expunge.errors import InputError


def test_statistics_are_scipys() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, 50).astype(float), rng.standard_normal(50)
    frame = polars.DataFrame({"g": ["a", "b"] * 25, "x": x, "y": y, "z": [None, 1.0] * 25})
    here = (("g", "==", "a"),)
    numbers = [
        *spread_of("x", "t", here, "x"),
        Number("r", "t", (), "x", "spearman:y"),
        Number("at", "t", (), "x", "at-max:y"),
        Number("n", "t", (), "z", "count"),
        Number("some", "t", (("x", "in", [1.0, 2.0]), ("z", "notnull", None)), "x", "count"),
        Number("none", "t", (("x", ">", 100.0),), "x", "max"),
        Number("mean", "t", (("z", "null", None),), "y", "mean"),
    ]
    found = {row["number"]: row for row in evaluate(numbers, {"t": frame})}
    assert found["x/median"]["value"] == np.median(x[::2])
    assert found["x/p95"]["value"] == np.percentile(x[::2], 95)
    assert found["r"]["value"] == pytest.approx(scipy.stats.spearmanr(x, y).statistic, rel=1e-12)
    assert found["at"]["value"] == x[np.argmax(y)]
    assert (found["n"]["count"], found["n"]["of"]) == (25, 50)
    assert found["some"]["value"] == np.count_nonzero(np.isin(x[1::2], [1.0, 2.0]))
    assert found["none"]["value"] is None
    assert found["mean"]["value"] == pytest.approx(y[::2].mean())
    assert json.loads(found["x/median"]["where"]) == [["g", "==", "a"]]
    with pytest.raises(InputError, match="no table 'other'"):
        evaluate([Number("n", "other", (), "x", "count")], {"t": frame})
