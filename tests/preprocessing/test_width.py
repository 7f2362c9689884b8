"""The width that is chosen from keys: which one it is, and what it does not depend on."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from expunge.errors import InputError
from expunge.preprocessing.grid import quarter_power
from expunge.preprocessing.width import LARGEST_MARGIN, SAMPLED, choose_width, median_width, predict_margins


def test_the_width_is_the_median_distance_on_the_grid() -> None:
    keys = np.random.default_rng(7).standard_normal((30, 3))
    apart = [math.dist(a, b) for i, a in enumerate(keys) for b in keys[:i]]
    assert choose_width(keys) == quarter_power(float(np.median(apart)))


@pytest.mark.parametrize("size", [40, 3 * SAMPLED])
def test_order_copies_and_the_sign_of_zero_do_not_matter(size: int) -> None:
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((size, 4)).round(1)
    other = np.where(keys == 0.0, -0.0, keys)[rng.permutation(np.r_[np.arange(size), rng.integers(size, size=size)])]
    assert choose_width(other, nu=0.3) == choose_width(keys, nu=0.3)


def test_a_sample_of_many_keys_has_their_width() -> None:
    keys = np.random.default_rng(5).standard_normal((4 * SAMPLED, 6))
    gone = np.random.default_rng(6).permutation(len(keys))
    found = {choose_width(keys), *(choose_width(np.delete(keys, gone[i::7], axis=0)) for i in range(7))}
    assert max(found) / min(found) < 1.2


@pytest.mark.parametrize("keys", [np.zeros((0, 2)), np.zeros((1, 2)), np.full((5, 3), 7.0)])
def test_keys_that_do_not_differ_have_the_width_one(keys: np.ndarray) -> None:
    assert choose_width(keys) == 1.0


def test_as_many_keys_as_may_be_on_a_margin_have_the_median() -> None:
    keys = np.random.default_rng(4).standard_normal((LARGEST_MARGIN, 3))
    assert choose_width(keys) == choose_width(np.vstack([keys, keys])) == median_width(keys)


def test_a_margin_that_is_too_large_at_the_median_takes_the_first_wider_width() -> None:
    rng = np.random.default_rng(4)
    # A cloud that makes the median, and keys that have no other within that distance.
    keys = np.vstack([rng.standard_normal((18_000, 40)), 5.0 * rng.standard_normal((6_000, 40))])
    chosen, predicted = choose_width(keys, nu=0.01), predict_margins(keys)
    narrower = quarter_power(chosen * 2.0**-0.25)
    assert median_width(keys) < chosen
    assert predicted(chosen, 0.01) <= LARGEST_MARGIN < predicted(narrower, 0.01)
    assert choose_width(np.vstack([keys[::-1], keys[:50]]), nu=0.01) == chosen
    # The fewer may be outside, the larger the margin.
    assert choose_width(keys, nu=0.5) == median_width(keys)


def test_keys_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="keys must be finite"):
        choose_width(np.array([[math.nan], [1.0]]))


def test_the_same_keys_scaled_by_a_power_of_two_have_the_scaled_width() -> None:
    keys = np.random.default_rng(9).standard_normal((50, 2))
    assert choose_width(1024.0 * keys) == 1024.0 * choose_width(keys)


def test_a_hundred_thousand_keys_are_quick() -> None:
    keys = np.random.default_rng(1).standard_normal((100_000, 6))
    choose_width(keys[:50])
    started = time.process_time()
    choose_width(keys)
    assert time.process_time() - started < 2.0
