"""Game A: twins are equal in all bytes. Game B: receipts of two entries of one group differ in nothing but noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attackers.fixed_salts import fixed_salts
from attackers.forgotten_sets import pruned_sets
from attackers.receipts import deciding_fields, fields_of, group_of, noise_fields
from attackers.twin_worlds import (
    HISTORIES,
    Book,
    draw_world,
    go_on,
    hold_and_erase_x,
    memory_bytes,
    twin_memories,
    twin_stores,
)


@pytest.mark.parametrize("history", HISTORIES)
def test_a_memory_that_once_held_an_entry_equals_its_twin_in_all_bytes(history: str) -> None:
    for trial in range(12):
        rng = np.random.default_rng([len(history), trial])
        world = draw_world(rng)
        assert not twin_memories(world, history, int(rng.integers(len(world.first)))), trial


@pytest.mark.parametrize("history", HISTORIES)
def test_a_store_that_once_held_an_entry_equals_its_twin_in_all_cells(history: str) -> None:
    for trial in range(3):
        rng = np.random.default_rng([len(history), trial])
        world = draw_world(rng)
        assert not twin_stores(world, history, int(rng.integers(len(world.first)))), trial


def test_worlds_that_end_with_other_entries_are_told_apart_in_every_artifact() -> None:
    """The control: a comparison that can fail."""
    rng = np.random.default_rng(0)
    world = draw_world(rng)
    moved = replace(world, later={name: key + 1e-9 for name, key in world.later.items()})
    with fixed_salts() as salts:
        shown = []
        for one in (world, moved):
            book = Book(one, salts)
            hold_and_erase_x(book, "deleted", 0)
            go_on(book, prune=False)
            shown.append(memory_bytes(book.memory, world.queries))
    assert {name for name in shown[0] if shown[0][name] != shown[1][name]} >= {"save file", "digest", "evidence bundle"}


def test_receipts_do_not_tell_which_of_two_entries_of_one_group_was_erased() -> None:
    told, played = 0, 0
    options: dict[str, Any] = {"sigma": 2.0, "cap": 1 / 12}
    for trial in range(60):
        rng = np.random.default_rng([5, trial])
        keys, values = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
        x0, x1 = rng.standard_normal((2, 4))
        if group_of(keys, values, x0, **options) != group_of(keys, values, x1, **options):
            continue
        seen, again, other = (fields_of(keys, values, x, **options) for x in (x0, x0, x1))
        told += bool(deciding_fields(seen, other, noise_fields(seen, again)))
        played += 1
    assert played >= 15
    assert told == 0


def test_the_attacker_of_game_b_finds_a_field_that_depends_on_the_entry() -> None:
    seen = {"deletion.pivots": "3", "deletion.seconds": "0.1", "deletion.edit": "2"}
    again = {"deletion.pivots": "3", "deletion.seconds": "0.2", "deletion.edit": "2"}
    other = {"deletion.pivots": "5", "deletion.seconds": "0.3", "deletion.edit": "2"}
    assert deciding_fields(seen, other, noise_fields(seen, again)) == {"deletion.pivots"}


def test_a_second_pruning_makes_the_archive_a_function_of_the_entries() -> None:
    first = 0
    for trial in range(15):
        rng = np.random.default_rng([6, trial])
        keys, values, pair = rng.standard_normal((40, 4)), np.zeros((40, 1)), rng.standard_normal((2, 4))
        options: dict[str, Any] = {"sigma": 2.0, "cap": 1 / 16}
        found = pruned_sets(keys, values, (pair[0], pair[1]), mode="archive", again=True, **options)
        assert found.first == found.second == found.never
        first += pruned_sets(keys, values, (pair[0], pair[1]), mode="archive", **options).tells_whether
    # Game C is not promised; were it never won, the documents could promise more.
    assert first > 0
