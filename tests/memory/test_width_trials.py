"""Trials of widths: what they say is what a fit says, and the default and present ones are marked."""

from __future__ import annotations

import json

import numpy as np
import pytest

from expunge import InputError, Memory
from expunge.memory.width_trials import SPARSITIES, try_widths
from expunge.preprocessing.grid import quarter_power
from expunge.preprocessing.width import DEFAULT_NU, choose_width

KEYS = np.random.default_rng(8).standard_normal((120, 3))


def test_the_default_is_tried_and_marked_and_widths_lie_on_the_grid() -> None:
    told: list[tuple[int, int]] = []
    trials = try_widths(KEYS, progress=lambda _, done, of: told.append((done, of)))
    assert [(each.sigma, each.nu) for each in trials if each.default] == [(choose_width(KEYS), DEFAULT_NU)]
    assert not any(each.present for each in trials)
    assert all(quarter_power(each.sigma) == each.sigma for each in trials)
    assert {each.nu for each in trials} == set(SPARSITIES)
    assert [done for done, _ in told] == [*range(1, len(trials) + 1)]
    assert {of for _, of in told} == {len(trials)}
    json.dumps([each.to_json() for each in trials], allow_nan=False)


def test_the_present_width_is_tried_whatever_it_is() -> None:
    trials = try_widths(KEYS, sparsities=(0.3,), present=(1.234, 0.17))
    (now,) = [each for each in trials if each.present]
    assert (now.sigma, now.nu) == (1.234, 0.17)


def test_a_trial_says_what_a_fit_of_all_says() -> None:
    for each in try_widths(KEYS, sparsities=(0.2,)):
        report = Memory.fit(KEYS, KEYS, sigma=each.sigma, nu=0.2).report()
        assert each.deletable == report.deletable
        assert each.predicted_margin == pytest.approx(report.margin_entries, abs=6)
        assert each.margin == pytest.approx(report.margin, abs=0.12)
        assert each.margin + each.bound + each.reserve == pytest.approx(1.0)
    assert each.inside > 0.6


def test_a_narrow_width_leaves_held_out_keys_outside() -> None:
    narrow, *_, wide = try_widths(KEYS, sparsities=(0.1,))
    assert narrow.inside < 0.4 < 0.7 < wide.inside
    assert (narrow.healthy, wide.healthy) == (False, True)


def test_order_and_copies_do_not_matter() -> None:
    again = try_widths(np.vstack([KEYS[::-1], KEYS[:7]]), sparsities=(0.2,))
    for one, other in zip(try_widths(KEYS, sparsities=(0.2,)), again, strict=True):
        assert (one.sigma, one.margin, one.inside) == (other.sigma, other.margin, other.inside)


@pytest.mark.parametrize(("keys", "words"), [(np.ones((50, 2)), "distinct keys"), (KEYS[:9], "there are 9")])
def test_too_few_keys_are_refused(keys: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        try_widths(keys)
    with pytest.raises(InputError, match="nu must lie"):
        try_widths(KEYS, sparsities=(1.5,))
