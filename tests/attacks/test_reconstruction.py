"""What an attacker who saw more can do: the attacks succeed, so that the documents may say what is left."""

from __future__ import annotations

import numpy as np

from attackers.preprocessing import (
    candidates_by_numbers,
    chosen_numbers,
    deviations_on_grid,
    dose_rows,
    exact_numbers,
    exact_width,
    kept_by_a_memory,
    row_from_mean,
    ward_rows,
)
from attackers.reconstruction import from_coefficients, from_scores
from attackers.undeleted import reveal_by_own_deletions
from expunge import Memory
from expunge.preprocessing.width import choose_width


def drawn(seed: int) -> tuple[Memory, int]:
    rng = np.random.default_rng(seed)
    memory = Memory.fit(rng.standard_normal((41, 4)), rng.standard_normal((41, 2)), sigma=2.0, cap=1 / 16)
    return memory, int(memory.partition.margin[0])


def test_coefficients_from_before_give_the_erased_key_back() -> None:
    for seed in range(5):
        memory, row = drawn(seed)
        others, alpha = np.delete(memory.keys, row, axis=0), np.delete(memory.coefficients, row)
        found = from_coefficients(others, alpha, memory.offset, memory.cap, memory.sigma)
        assert found is not None
        np.testing.assert_allclose(found, memory.keys[row], atol=1e-10)


def test_coefficients_from_after_give_nothing() -> None:
    memory, row = drawn(0)
    memory.delete(memory.ids[row])
    assert from_coefficients(memory.keys, memory.coefficients, memory.offset, memory.cap, memory.sigma) is None


def test_scores_from_before_give_the_erased_key_back() -> None:
    memory, row = drawn(1)
    rng = np.random.default_rng(1)
    others, queries = np.delete(memory.keys, row, axis=0), rng.standard_normal((16, 4))
    scores = memory.score(queries)
    found = from_scores(others, queries, scores, cap=memory.cap, sigma=2.0, rng=rng)
    np.testing.assert_allclose(found, memory.keys[row], atol=1e-6)


def test_own_deletions_show_a_reserve_entry_of_someone_else() -> None:
    """Exact erasure protects the erased entry. It does not protect the others from whoever deletes."""
    rng = np.random.default_rng([21, 0])
    shown = 0
    for _ in range(6):
        memory = Memory.fit(rng.standard_normal((41, 4)), np.zeros((41, 1)), sigma=2.0, cap=1 / 16)
        victim = memory.ids[int(memory.partition.reserve[0])]
        own = [name for name in memory.ids if name != victim][:20]
        answer = reveal_by_own_deletions(memory, victim, own, rng.standard_normal((16, 4)), rng)
        assert answer.hidden_before
        shown += answer.key is not None
    assert shown > 0


def test_a_mean_gives_a_row_back_and_a_median_few_candidates() -> None:
    rng = np.random.default_rng(2)
    rows, candidates = rng.standard_normal((59, 6)), [*rng.standard_normal((50, 6))]
    mean = np.vstack([rows, candidates[3]]).mean(axis=0)
    np.testing.assert_allclose(row_from_mean(mean, rows), candidates[3], atol=1e-12)
    everyone = np.vstack([rows, candidates[3]])
    assert len(candidates_by_numbers(rows, candidates, exact_width(everyone), exact_width)) < 10
    assert len(candidates_by_numbers(rows, candidates, choose_width(everyone), choose_width)) > 30


def test_what_a_memory_keeps_of_its_columns_leaves_most_candidates() -> None:
    left = {exact_numbers: 0, chosen_numbers: 0}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, candidates = ward_rows(rng, 59), [*ward_rows(rng, 50)]
        everyone = np.vstack([rows, candidates[0]])
        assert kept_by_a_memory(everyone) == chosen_numbers(everyone)
        for numbers in left:
            left[numbers] += len(candidates_by_numbers(rows, candidates, numbers(everyone), numbers))
    assert left[exact_numbers] < 10
    assert left[chosen_numbers] > 100


def test_a_dose_that_one_row_had_is_in_no_scale() -> None:
    rng = np.random.default_rng(3)
    rows, candidates = dose_rows(rng, 59), [*dose_rows(rng, 50)]
    rows[:, -1] = 0.0
    everyone = np.vstack([rows, candidates[0]])
    assert len(candidates_by_numbers(rows, candidates, deviations_on_grid(everyone), deviations_on_grid)) < 10
    assert len(candidates_by_numbers(rows, candidates, kept_by_a_memory(everyone), chosen_numbers)) > 25
