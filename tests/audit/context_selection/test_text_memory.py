from __future__ import annotations

import numpy as np

from expunge.audit.context_selection.text_memory import (
    BUDGETS,
    LONGEST,
    TextMemory,
    delete_person,
    load_memories,
    measure_memory,
    persons,
)
from expunge.datasets import conversations


def test_evidence_is_of_the_right_user_and_in_the_sample() -> None:
    sample = conversations()
    owner = dict(zip(sample.ids, sample.subjects, strict=True))
    assert len(sample.evidence) == len(sample.query_texts) == 100
    for user, marked in zip(sample.query_subjects, sample.evidence, strict=True):
        assert {owner[one] for one in marked} <= {user}
    assert sum(not marked for marked in sample.evidence) == 1
    place = sample.query_texts.index("What painters did you recommend to me?")
    (answer,) = sample.evidence[place]
    assert "Raphael" in sample.payloads[sample.ids.index(answer)]["response"]


def test_ours_keeps_more_evidence_than_uniform_at_a_quarter() -> None:
    (memory,) = load_memories("memorybank", None)
    assert load_memories("locomo", None) == ()
    rows = measure_memory(memory, 0.25, "quarter")
    recall = {arm: [row.recall for row in rows if row.arm == arm] for arm in ("cover", "uniform", "full", LONGEST)}
    assert {len(found) for found in recall.values()} == {15}
    gains = np.subtract(recall["cover"], recall["uniform"])
    assert gains.mean() > 0.05
    assert recall["full"] == [1.0] * 15
    assert 0.22 < np.mean(recall["uniform"]) < 0.29
    assert {row.budget for row in rows if row.arm != "full"} == {142}
    assert BUDGETS == (0.1, 0.25, 0.5)


def small() -> TextMemory:
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((24, 8))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    return TextMemory(
        "small",
        keys,
        tuple("ab"[row % 2] for row in range(24)),
        np.arange(24),
        keys[[3, 4, 5]],
        (np.array([3]), np.array([4, 6]), np.array([5, 8])),
        np.array([0, 0, 1]),
    )


def test_recall_and_found_by_hand() -> None:
    memory = small()
    rows = {(row.arm, row.trial): row for row in measure_memory(memory, 0.5, "half")}
    # Recency keeps 12 to 23; the longest are the same.
    assert rows["recency", 0].recall == rows["recency", 1].found == 0.0
    assert rows[LONGEST, 0].recall == 0.0
    similarity = memory.queries @ memory.keys.T
    nearest = [set(np.argsort(-similarity[place])[:5].tolist()) for place in range(3)]
    expected = np.mean([3 in nearest[0], np.mean([4 in nearest[1], 6 in nearest[1]])])
    assert rows["full", 0].found == expected
    assert rows["full", 1].recall == 1.0


def test_deleting_a_person_leaves_the_others_as_a_fresh_solve_would() -> None:
    memory = small()
    assert persons(memory) == ("a", "b")
    done = delete_person(memory, "a")
    assert done.outcome == "decrement"
    assert done.entries == 12
    assert done.own_left == 0.0
    assert done.others == 1  # of three questions one rests on b's turns alone
    assert done.difference < 1e-12
    # Plain similarity search cannot lose from having fewer candidates.
    assert done.similar_after >= done.similar_before


def test_deleting_too_many_is_refused() -> None:
    memory = small()
    crowd = TextMemory(**{**memory.__dict__, "persons": ("a",) * 20 + ("b",) * 4})
    done = delete_person(crowd, "a")
    assert done.outcome == "refused"
    assert done.after == done.before
