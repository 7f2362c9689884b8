"""What the page on growth rests on: lines and their intervals, the bytes of a memory, and the fleet on paper."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fleet
import growth
from expunge import Memory
from expunge.memory.snapshot import pack
from growth_tables import amount


def test_an_exponent_is_the_slope_and_its_interval_holds_it() -> None:
    sizes = [100.0, 200.0, 400.0, 800.0, 1600.0]
    exact = growth.exponent(sizes, [3.0 * n**1.5 for n in sizes])
    assert exact["exponent"] == pytest.approx(1.5)
    assert exact["at_one"] == pytest.approx(3.0)
    assert exact["high"] - exact["low"] < 1e-6
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        found = growth.exponent(sizes, [n * math.exp(rng.normal(0.0, 0.1)) for n in sizes])
        held += found["low"] <= 1.0 <= found["high"]
    # 95 % of 400, give or take four standard deviations.
    assert 362 <= held <= 397
    assert growth.exponent(sizes, [7.0] * 5) == {"exponent": 0.0, "low": 0.0, "high": 0.0, "at_one": 7.0}


@pytest.mark.parametrize(("entries", "dimension", "nu"), [(1500, 128, 0.1), (1200, 16, 0.1)])
def test_a_memory_takes_the_bytes_of_the_formula(entries: int, dimension: int, nu: float) -> None:
    keys = growth.draw(entries, dimension)
    data = pack(Memory.fit(keys, keys[:, : growth.WIDTH], sigma=growth.SIGMA, nu=nu))
    # What a first use loads is nobody's memory.
    growth.resident(data)
    held, margin = growth.resident(data)
    predicted = sum(growth.predicted_bytes(entries, dimension, growth.WIDTH, margin).values())
    assert margin > 100
    assert 0.8 * predicted < held < 1.25 * predicted


def test_the_fleet_adds_up() -> None:
    exponents = {
        name: {"exponent": 1.0, "at_one": number}
        for name, number in (("store", 600.0), ("memory", 2e4), ("durable edit", 1e-6), ("search", 1e-7))
    } | {"reopen and search": {"exponent": 0.0, "at_one": 0.5}}
    rows = [{"ledger per edit": 3000.0}, {"ledger per edit": 4096.0}]
    assumed = fleet.Assumptions(
        memories=1e6, entries=1e4, edits=2.0, searches=10.0, awake=0.1, worker_gib=1024.0, used=0.5, overhead=1.0
    )
    found = fleet.simulate(rows, exponents, 64, assumed)
    assert found["entries"] == 1e10
    assert found["key bytes"] == 1e10 * 64 * 8
    assert found["database bytes"] == pytest.approx(6e12)
    assert found["ledger bytes per year"] == pytest.approx(2e6 * 365 * 4096)
    assert found["proof hashes"] == 30
    assert found["processor seconds per day"] == pytest.approx(2e6 * 1e-2 + 1e7 * 1e-3 + 0.9e6 * 0.5)
    assert found["resident bytes"] == pytest.approx(1e5 * 2e8)
    assert found["workers by memory"] == pytest.approx(2e13 / (512 * 2**30))
    assert found["workers"] == math.ceil(max(found["workers by memory"], found["workers by processor"]))
    twice = fleet.simulate(rows, exponents, 64, fleet.Assumptions(**{**found["assumed"], "worker_price": 600.0}))
    assert twice["cost of workers per month"] == 2.0 * found["cost of workers per month"]


def test_amounts_have_units() -> None:
    assert [amount(number, "bytes") for number in (12.0, 4096.0, 2.5e6, 6e12)] == ["12 B", "4.1 kB", "2.5 MB", "6 TB"]
    assert [amount(number, "s") for number in (2.0, 0.0125)] == ["2 s", "12.5 ms"]
