"""The same bytes on every processor, linear algebra library and thread count."""

from __future__ import annotations

import pytest

from attackers.state_hashes import ENVIRONMENTS, hashes_under, state_hashes


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    return state_hashes(11, 12)


@pytest.mark.parametrize(
    "name",
    [
        "native, 2 threads",
        pytest.param("generic processor", marks=pytest.mark.long),  # everything is compiled anew
        *("BLAS for Nehalem", "BLAS for Prescott", "BLAS for SkylakeX"),
    ],
)
def test_histories_have_the_same_hashes_elsewhere(here: dict[str, str], name: str) -> None:
    assert hashes_under(ENVIRONMENTS[name], 11, 12) == here


def test_hashes_are_of_the_histories(here: dict[str, str]) -> None:
    assert {"coefficients", "offset", "save file", "digest", "readouts", "scores", "search"} <= here.keys()
    other = state_hashes(12, 12)
    assert all(here[name] != other[name] for name in here if name != "warranties")
