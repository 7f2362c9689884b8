"""Summaries and readouts of a stored memory without the rest of it: the memory's own bits, and what is checked."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select, update

from expunge import InputError, Memory, StoreError, VerificationError
from expunge.preprocessing import Column, Preprocessing
from expunge.store import Store, StoredMemory
from expunge.store.backends.tables import entries as entries_table
from expunge.store.backends.tables import secrets, states
from expunge.store.encryption import decrypt_entries
from expunge.store.rows import numbers_of, unpack_state

from .conftest import Place
from .sample_memory import SAMPLE_EDITS, entries, fill, reloaded


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories of any size are opened as large ones are."""
    monkeypatch.setattr("expunge.store.version_cache.LOADED_WHOLE", 0)


EDITS = [
    [],
    ["prune-archive", "admit-outlier", "delete-active"],
    ["prune-forget", "admit-outlier", "delete-subject"],
]


@pytest.mark.parametrize("edits", EDITS, ids=["fitted", "archive", "forget"])
def test_answers_and_sizes_are_those_of_the_whole_memory(place: Place, edits: list[str], large: None) -> None:
    stored = fill(place.open())
    for name in edits:
        SAMPLE_EDITS[name](stored)
    again = reloaded(place)
    queries = np.random.default_rng(3).standard_normal((30, 4))
    summary = again.summary()
    assert np.array_equal(again.read(queries), stored.read(queries))
    assert np.array_equal(again.score(queries), stored.score(queries))
    assert again.judge(queries) == stored.judge(queries)
    for query in queries:
        assert [str(vars(hit)) for hit in again.search(query)] == [str(vars(hit)) for hit in stored.search(query)]
    assert summary.digest == stored.digest
    groups = stored.partition
    assert (summary.margin, summary.bound, summary.reserve) == (
        groups.margin.size,
        groups.bound.size,
        groups.reserve.size,
    )
    pruned = stored.version.warranties
    assert (summary.archived, summary.forgotten) == (len(pruned.archive), len(pruned.forgotten))
    assert (summary.entries, summary.deletable, summary.dimension, summary.value_dimension) == (
        len(stored),
        stored.deletable,
        4,
        2,
    )
    assert (summary.cap, summary.sigma, summary.offset) == (stored.cap, stored.sigma, stored.offset)
    assert (again.ask(lambda active: active.checked), summary.checked) == ("active entries", "state")
    assert stored.ask(lambda active: active.checked) == "all entries"
    opened = again.summary(entries=True)
    assert (opened.subjects, opened.checked) == (len(set(stored.subjects) - {None}), "entries, digest")
    assert replace(opened, subjects=None, checked="state") == summary


def test_a_summary_of_opened_entries_recomputes_the_digest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a summary of the state alone does not see: an altered reserve entry, and weights that are of others."""
    store = place.open()
    stored = fill(store)
    assert reloaded(place).summary(entries=True).digest == stored.digest

    def weights_moved(plain: bytes) -> Any:
        header, arrays, numbers = unpack_state(plain)
        return header, arrays | {"alpha": np.roll(arrays["alpha"], 1)}, numbers

    with monkeypatch.context() as patched:
        patched.setattr("expunge.store.partial_reads.unpack_state", weights_moved)
        reloaded(place).summary()
        with pytest.raises(VerificationError, match="digest"):
            reloaded(place).summary(entries=True)
    with store.writing("test") as connection:
        changed = entries_table.c.number == _number(stored, active=False)
        connection.execute(update(entries_table).where(changed).values(content=b"altered"))
        connection.commit()
    reloaded(place).summary()
    with pytest.raises(VerificationError):
        reloaded(place).summary(entries=True)


def test_only_entries_with_a_weight_are_opened(
    sqlite_place: Place, monkeypatch: pytest.MonkeyPatch, large: None
) -> None:
    stored = fill(sqlite_place.open())
    weighing = int(np.count_nonzero(stored.coefficients))
    opened: list[int] = []

    def counted(rows: list[tuple[bytes, bytes]]) -> Any:
        opened.append(len(rows))
        return decrypt_entries(rows)

    def whole(*_: Any) -> Any:
        raise AssertionError("the whole memory was loaded")

    monkeypatch.setattr("expunge.store.partial_reads.decrypt_entries", counted)
    monkeypatch.setattr("expunge.store.rows.build_memory", whole)
    again = reloaded(sqlite_place)
    again.summary()
    again.read(np.zeros(4))
    again.search(np.ones(4))
    assert opened == [weighing]
    assert weighing < len(stored)


def test_an_edit_by_another_process_ends_what_was_opened(place: Place, large: None) -> None:
    """The memory is loaded then, and follows; what was opened is overwritten."""
    stored = fill(place.open())
    again = reloaded(place)
    kept = [weakref.ref(opened) for opened in [again.versions.opened()] if opened is not None]
    assert again.ask(lambda active: active.checked) == "active entries"
    held = again.ask(lambda active: active.keys)
    assert held.any()
    SAMPLE_EDITS["delete-active"](stored)
    queries = np.random.default_rng(3).standard_normal((30, 4))
    assert np.array_equal(again.read(queries), stored.read(queries))
    assert again.ask(lambda active: active.checked) == "all entries"
    gc.collect()
    assert [one() for one in kept] == [None]
    assert not held.any()


def test_what_needs_every_entry_loads_the_memory(sqlite_place: Place, large: None) -> None:
    stored = fill(sqlite_place.open())
    again = reloaded(sqlite_place)
    again.read(np.zeros(4))
    assert again.ids == stored.ids
    assert again.ask(lambda active: active.checked) == "all entries"
    again.delete(again.ids[0])
    assert stored.digest == again.digest


def test_measurements_by_name(sqlite_place: Place, large: None) -> None:
    columns = Preprocessing(
        tuple(Column(name, centre=80.0, scale=16.0, fill=80.0) for name in "abcd"), (Column("v"), Column("w"))
    )
    stored = sqlite_place.open().create("icu", **entries(), sigma=2.0, nu=0.3, preprocessing=columns)
    named = {"a": 96.0, "c": None, "b": 64, "d": 80.0}
    assert reloaded(sqlite_place).read(named).tolist() == stored.read(named).tolist()


def test_an_empty_memory(place: Place, large: None) -> None:
    stored = place.open().create("icu", np.empty((0, 4)), np.empty((0, 2)), sigma=2.0, nu=0.3)
    assert stored.summary().entries == stored.summary().deletable == 0
    assert stored.summary(entries=True).subjects == 0
    for one in (stored, reloaded(place)):
        with pytest.raises(InputError) as caught:
            one.read(np.zeros(4))
        assert caught.value.code == "memory-empty"
        assert one.search(np.zeros(4)) == []


def test_a_dropped_memory(place: Place, large: None) -> None:
    store = place.open()
    stored = fill(store)
    again = reloaded(place)
    again.read(np.zeros(4))
    store.drop("icu")
    for one in (stored, again):
        with pytest.raises(StoreError, match="dropped"):
            one.read(np.zeros(4))
    with pytest.raises(StoreError, match="dropped"):
        stored.summary()


def _number(stored: StoredMemory, *, active: bool) -> int:
    version = stored.version
    row = int(np.flatnonzero((version.coefficients != 0.0) == active)[0])
    return int(numbers_of(version, version.slots[row : row + 1])[0])


def _copy_content(store: Store, stored: StoredMemory) -> None:
    with store.writing("test") as connection:
        wanted = entries_table.c.number == _number(stored, active=False)
        content = connection.value(select(entries_table.c.content).where(wanted))
        changed = entries_table.c.number == _number(stored, active=True)
        connection.execute(update(entries_table).where(changed).values(content=content))
        connection.commit()


def _change_secret(store: Store, stored: StoredMemory) -> None:
    with store.writing("test") as connection:
        changed = secrets.c.number == _number(stored, active=False)
        connection.execute(update(secrets).where(changed).values(secret=bytes(32)))
        connection.commit()


def _change_size(store: Store, stored: StoredMemory) -> None:
    with store.writing("test") as connection:
        connection.execute(update(states).values(size=len(stored) - 1))
        connection.commit()


def _change_digest(store: Store, stored: StoredMemory) -> None:
    with store.writing("test") as connection:
        connection.execute(update(states).values(digest=bytes(34)))
        connection.commit()


@pytest.mark.parametrize("damage", [_copy_content, _change_secret, _change_size, _change_digest])
def test_damage_is_found(place: Place, damage: Callable[[Store, StoredMemory], None], large: None) -> None:
    store = place.open()
    stored = fill(store)
    damage(store, stored)
    with pytest.raises(VerificationError):
        reloaded(place).read(np.zeros(4))
    if damage is not _copy_content:
        with pytest.raises(VerificationError):
            reloaded(place).summary()


def test_a_reserve_entry_that_was_altered_is_found_where_the_memory_is_loaded(place: Place, large: None) -> None:
    """What `checked` means: no reserve entry is opened, so none of them is checked."""
    store = place.open()
    stored = fill(store)
    expected = stored.read(np.zeros(4)).tolist()
    with store.writing("test") as connection:
        changed = entries_table.c.number == _number(stored, active=False)
        connection.execute(update(entries_table).where(changed).values(content=b"altered"))
        connection.commit()
    again = reloaded(place)
    assert again.read(np.zeros(4)).tolist() == expected
    with pytest.raises(VerificationError):
        again.nearest(np.zeros(4))
    with pytest.raises(VerificationError):
        store.verify()


def test_ties_are_summed_in_the_same_order(sqlite_place: Place, large: None) -> None:
    """Equal keys with different values: the canonical order looks at the values, too."""
    keys = np.repeat(np.random.default_rng(1).standard_normal((6, 2)), 3, axis=0)
    values = np.random.default_rng(2).standard_normal((18, 1))
    sqlite_place.open().create("icu", keys, values, sigma=1.0, nu=0.4)
    plain = Memory.fit(keys, values, sigma=1.0, nu=0.4)
    queries = np.random.default_rng(3).standard_normal((20, 2))
    assert np.array_equal(reloaded(sqlite_place).read(queries), plain.read(queries))
