"""`nearest` lists every entry by distance; `search` lists those that carry the readout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import expunge
from expunge import InputError, Memory
from expunge.memory.reader import MemoryReader


def memory(size: int = 60, nu: float = 0.3) -> Memory:
    rng = np.random.default_rng(4)
    keys = rng.standard_normal((size, 2))
    return Memory.fit(
        keys,
        rng.standard_normal((size, 1)),
        sigma=2.0,
        nu=nu,
        ids=[f"e{row:02d}" for row in range(size)],
        subjects=[f"p{row % 5}" for row in range(size)],
        payloads=[{"row": row} for row in range(size)],
    )


def names(found: MemoryReader, query: npt.ArrayLike, k: int, **options: bool) -> list[str]:
    return [one.id for one in found.nearest(np.asarray(query), k, **options)]


def test_nearest_finds_what_search_leaves_out() -> None:
    whole = memory()
    reserve = int(whole.partition.reserve[0])
    key, name = whole.keys[reserve], whole.ids[reserve]
    first = whole.nearest(key, 1)[0]
    assert (first.id, first.distance, first.similarity, first.weight, first.archived) == (name, 0.0, 1.0, 0.0, False)
    assert (first.subject, first.payload, first.value.tolist()) == (
        whole.subjects[reserve],
        {"row": reserve},
        whole.values[reserve].tolist(),
    )
    assert name not in [hit.id for hit in whole.search(key, 1000)]


def test_archived_entries_are_found_unless_they_are_left_out() -> None:
    whole = memory()
    query = np.array([0.3, -0.2])
    before = whole.nearest(query, 60)
    pruned = set(whole.prune("archive").applied)
    assert pruned
    after = whole.nearest(query, 60)
    assert [(one.id, one.distance, one.weight, one.payload) for one in after] == [
        (one.id, one.distance, one.weight, one.payload) for one in before
    ]
    assert {one.id for one in after if one.archived} == pruned
    assert names(whole, query, 60, archived=False) == [one.id for one in before if one.id not in pruned]


def test_forgotten_and_deleted_entries_are_not_found() -> None:
    whole = memory()
    gone = set(whole.prune("forget").applied)
    whole.delete(whole.ids[0])
    assert gone.isdisjoint(names(whole, [0.0, 0.0], 60))
    assert set(names(whole, [0.0, 0.0], 60)) == set(whole.ids)


def test_the_same_after_an_edit_that_was_undone() -> None:
    whole, twin = memory(), memory()
    whole.admit([0.1, 0.1], [1.0], id="visitor")
    whole.delete("visitor")
    for one, other in zip(whole.nearest([0.1, 0.1], 20), twin.nearest([0.1, 0.1], 20), strict=True):
        assert (one.id, one.distance, one.similarity, one.weight) == (
            other.id,
            other.distance,
            other.similarity,
            other.weight,
        )


def test_an_empty_memory_has_no_neighbours(tmp_path: Path) -> None:
    empty = Memory.fit(np.zeros((0, 2)), np.zeros((0, 1)), sigma=1.0, nu=0.5)
    assert empty.nearest([0.0, 0.0]) == []
    assert empty.boundary == 1.0
    with pytest.raises(InputError) as caught:
        empty.judge([0.0, 0.0])
    assert caught.value.code == "memory-empty"
    with expunge.open(f"sqlite:///{tmp_path / 'm.db'}") as store:
        made = store.create("m", [[0.0], [1.0], [5.0]], [1.0, 2.0, 3.0], sigma=1.0, nu=0.5, ids=["a", "b", "c"])
        assert names(made, [4.0], 2) == ["c", "b"]
        assert made.judge([[4.0]])[0].score == made.score([[4.0]])[0]
        made.delete(["a", "b", "c"])
        assert made.nearest([4.0]) == []


@pytest.mark.parametrize(("query", "k"), [([[0.0, 0.0], [1.0, 1.0]], 5), ([0.0], 5), ([0.0, 0.0], 0)])
def test_bad_questions(query: list[float], k: int) -> None:
    with pytest.raises(InputError):
        memory().nearest(query, k)
