"""Published bits do not single out an erased key: every candidate's replay gives the same bytes as the true one's.

A control takes the exact rounding away and sees the attack succeed, so the attacker is able to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from attackers.last_bits import ARTIFACTS, Ward, draw_ward, single_out
from expunge import Memory
from expunge.solver import attempts

from .unrounded import published_as_solved

FAMILIES = ("gaussian", "near-duplicate", "lattice")
Artifact = Callable[[Memory, Ward], bytes]


def left_of(artifact: Artifact, family: str, seed: int, candidates: int = 50) -> list[int]:
    rng = np.random.default_rng(seed)
    ward, draw = draw_ward(rng, family)
    keys = [draw() for _ in range(candidates)]
    true = int(rng.integers(candidates))
    left = single_out(ward, artifact(ward.after(keys[true]), ward), keys, artifact)
    assert true in left
    return left


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ARTIFACTS)
def test_no_artifact_singles_out_the_erased_key_among_fifty(name: str, family: str) -> None:
    for seed in range(3):
        assert len(left_of(ARTIFACTS[name], family, seed)) == 50


def test_an_evidence_bundle_does_not_single_out_one_of_three_hundred() -> None:
    assert len(left_of(ARTIFACTS["evidence bundle"], "gaussian", 7, candidates=301)) == 301


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


def test_without_the_exact_rounding_the_attack_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "canonical", published_as_solved)
    assert any(len(left_of(ARTIFACTS["coefficients and offset"], "gaussian", seed)) == 1 for seed in range(5))
