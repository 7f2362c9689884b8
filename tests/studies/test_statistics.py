from __future__ import annotations

import math

import pytest

from expunge.errors import InputError
from studies.statistics import paired


def test_paired_against_the_textbook_formula() -> None:
    first, second = [2.1, 2.2, 2.0, 2.3], [2.4, 2.3, 2.2, 2.6]
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean = sum(differences) / 4
    error = math.sqrt(sum((d - mean) ** 2 for d in differences) / 3 / 4)
    found = paired(first, second)
    assert math.isclose(found.difference, mean, rel_tol=1e-12)
    # Student's t at 97.5% with three degrees of freedom, from the table.
    assert math.isclose(found.interval[0], mean - 3.182446 * error, rel_tol=1e-5)
    assert math.isclose(found.interval[1], mean + 3.182446 * error, rel_tol=1e-5)
    assert found.wins == 4
    assert math.isclose(found.relative, sum((b - a) / b for a, b in zip(first, second, strict=True)) / 4, rel_tol=1e-12)
    # The interval leaves zero out exactly when p is below 0.05.
    assert (found.interval[1] < 0) == (found.p < 0.05)


def test_unpaired_lists_are_refused() -> None:
    with pytest.raises(InputError, match="not 1 and 1"):
        paired([1.0], [2.0])
    with pytest.raises(InputError, match="not 2 and 3"):
        paired([1.0, 2.0], [2.0, 1.0, 3.0])
