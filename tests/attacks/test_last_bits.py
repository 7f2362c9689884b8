"""Published bits do not single out an erased key: every candidate's replay gives the same bytes as the true one's.

A control plays the same attacker against an ordinary downdate in doubles, and sees it succeed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from attackers.last_bits import ARTIFACTS, Ward, draw_ward, single_out
from expunge import Memory

FAMILIES = ("gaussian", "near-duplicate", "lattice")
Vector = npt.NDArray[np.float64]
Artifact = Callable[[Memory, Ward], bytes]


def published(ward: Ward, artifact: Artifact, key: Vector) -> bytes:
    return artifact(ward.after(key), ward)


def downdated(ward: Ward, key: Vector) -> bytes:
    """Weights after an erasure as solvers often make them: the inverse, less a rank-one term, in doubles."""
    keys = np.vstack([ward.keys, key])
    gram = np.exp(-np.square(keys[:, None] - keys[None]).sum(axis=2) / ward.sigma**2) + np.eye(len(keys))
    inverse = np.linalg.inv(gram)
    rest = inverse[:-1, :-1] - np.outer(inverse[:-1, -1], inverse[-1, :-1]) / inverse[-1, -1]
    return np.asarray(rest @ np.ones(len(ward.keys))).tobytes()


def left_of(family: str, seed: int, replay: Callable[[Ward, Vector], bytes], candidates: int = 50) -> list[int]:
    rng = np.random.default_rng(seed)
    ward, draw = draw_ward(rng, family)
    keys = [draw() for _ in range(candidates)]
    true = int(rng.integers(candidates))
    left = single_out(replay(ward, keys[true]), keys, partial(replay, ward))
    assert true in left
    return left


def of(name: str) -> Callable[[Ward, Vector], bytes]:
    return lambda ward, key: published(ward, ARTIFACTS[name], key)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ARTIFACTS)
def test_no_artifact_singles_out_the_erased_key_among_fifty(name: str, family: str) -> None:
    for seed in range(3):
        assert len(left_of(family, seed, of(name))) == 50


def test_an_evidence_bundle_does_not_single_out_one_of_three_hundred() -> None:
    assert len(left_of("gaussian", 7, of("evidence bundle"), candidates=301)) == 301


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_memory_that_erased_a_key_publishes_what_one_that_never_had_it_does(name: str, family: str) -> None:
    for seed in range(10):
        ward, draw = draw_ward(np.random.default_rng(seed), family)
        assert ARTIFACTS[name](ward.after(draw()), ward) == ARTIFACTS[name](ward.never(), ward)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_entries_does_not_change_a_bit(family: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        ward, draw = draw_ward(rng, family)
        memory, order = ward.after(draw()), rng.permutation(len(ward.keys))
        permuted = Memory.fit(ward.keys[order], ward.values[order], sigma=ward.sigma, cap=ward.cap)
        assert permuted.coefficients.tobytes() == memory.coefficients[order].tobytes()
        assert permuted.offset.hex() == memory.offset.hex()
        assert permuted.read(ward.queries).tobytes() == memory.read(ward.queries).tobytes()
        assert permuted.score(ward.queries).tobytes() == memory.score(ward.queries).tobytes()


@pytest.mark.parametrize("family", ["gaussian", "near-duplicate"])
def test_weights_that_equal_a_refit_to_rounding_are_singled_out(family: str) -> None:
    """The control: the same attacker against a downdate whose result is right to 15 digits."""
    ward, draw = draw_ward(np.random.default_rng(0), family)
    fresh = np.exp(-np.square(ward.keys[:, None] - ward.keys[None]).sum(axis=2) / ward.sigma**2) + np.eye(
        len(ward.keys)
    )
    weights = np.frombuffer(downdated(ward, draw()))
    np.testing.assert_allclose(weights, np.linalg.solve(fresh, np.ones(len(weights))), rtol=1e-12, atol=1e-13)
    assert sum(len(left_of(family, seed, downdated)) == 1 for seed in range(10)) >= 8
