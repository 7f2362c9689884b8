"""Edits that wait for the same memory are committed together, and each is as if it had been committed by itself."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from expunge import DeletionRefused, InputError, StoreError, VerificationError
from expunge.errors import Busy, Stale
from expunge.store import SignedReceipt, Store, StoredMemory
from expunge.store.backends.tables import states
from expunge.store.edits import crash_points
from expunge.store.edits.edit_queue import EditQueue, QueuedEdit

from ..conftest import Place
from ..sample_memory import arrival, entries, fill, reloaded

Outcome = SignedReceipt | BaseException


@pytest.fixture
def passed() -> Iterator[Counter[str]]:
    """How often each crash point was passed."""
    counts: Counter[str] = Counter()
    crash_points.set_hook(lambda point: counts.update([point]))
    yield counts
    crash_points.set_hook(None)


def together(memory: StoredMemory, *edits: Callable[[], Any]) -> list[Outcome]:
    """What edits return or raise that have all come before the first of them is carried out, in this order."""
    outcomes: list[Any] = [None] * len(edits)

    def run(place: int) -> None:
        try:
            outcomes[place] = edits[place]()
        except BaseException as problem:
            outcomes[place] = problem

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(edits))]
    with memory.versions.only_editor():
        for place, thread in enumerate(threads):
            thread.start()
            # The first one leads, and waits for this thread; the others join its queue, and it takes them along.
            while len(memory.queue) < place + 1:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    return outcomes


def admit(memory: StoredMemory, number: int, **options: Any) -> Callable[[], SignedReceipt]:
    return lambda: memory.admit(**arrival(number), **options)


def delete(memory: StoredMemory, name: str, **options: Any) -> Callable[[], SignedReceipt]:
    return lambda: memory.delete(name, **options)


def receipts(outcomes: list[Outcome]) -> list[SignedReceipt]:
    found = [outcome for outcome in outcomes if isinstance(outcome, SignedReceipt)]
    assert len(found) == len(outcomes), outcomes
    return found


def test_each_edit_has_its_own_receipt_and_state(place: Place, passed: Counter[str]) -> None:
    store = place.open()
    memory = fill(store)
    passed.clear()
    edits = [admit(memory, number) for number in range(6)]
    # An entry that comes and goes in between, and an id that is given anew.
    edits += [delete(memory, "new-2"), delete(memory, "e3"), lambda: memory.admit(np.ones(4), [0.0, 0.0], id="e3")]
    done = receipts(together(memory, *edits))
    assert passed["committed"] == 1
    assert [receipt.edit for receipt in done] == list(range(1, 10))
    assert [receipt.index for receipt in done] == list(range(done[0].index, done[0].index + 9))
    assert all(one.state_after == two.state_before for one, two in pairwise(done))
    assert len({receipt.state_after for receipt in done}) == 9
    assert set(memory.ids) == {*entries()["ids"], *(f"new-{number}" for number in (0, 1, 3, 4, 5))}
    assert memory.digest == done[-1].state_after == reloaded(place).digest
    assert store.verify().memories == 1


def test_what_is_written_is_what_edits_one_by_one_write(place: Place) -> None:
    store = place.open()
    one, many = fill(store, "one"), fill(store, "many")
    for number in range(4):
        one.admit(**arrival(number))
    one.delete("e7")
    one.delete("new-1")
    edits = [admit(many, number) for number in range(4)]
    receipts(together(many, *edits, delete(many, "e7"), delete(many, "new-1")))
    assert many.ids == one.ids
    assert many.coefficients.tobytes() == one.coefficients.tobytes()
    assert many.offset == one.offset
    assert many.read(many.keys).tobytes() == one.read(one.keys).tobytes()


def test_one_that_fails_does_not_touch_the_others(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    store.hold("icu", "e9", reason="a court asked for it")
    seen = memory.digest
    first, taken, stale, held, unknown, last = together(
        memory,
        admit(memory, 0),
        lambda: memory.admit(np.zeros(4), [0.0, 0.0], id="e1"),
        delete(memory, "e2", expected=seen),
        delete(memory, "e9"),
        delete(memory, "nobody"),
        delete(memory, "e5"),
    )
    assert isinstance(taken, InputError)
    assert isinstance(stale, Stale)
    assert isinstance(unknown, InputError)
    assert isinstance(held, DeletionRefused)
    assert isinstance(held.receipt, SignedReceipt)
    done = receipts([first, last])
    assert held.receipt.state_before == held.receipt.state_after == done[0].state_after == done[1].state_before
    assert held.receipt.index == done[1].index - 1
    assert {"e1", "e2", "e9", "new-0"} < set(memory.ids)
    assert "e5" not in memory
    store.verify()


def test_one_request_twice_is_applied_once(place: Place) -> None:
    memory = fill(place.open())
    again = admit(memory, 1, idempotency_key="k")
    first, *same = receipts(together(memory, admit(memory, 0), again, again, again))
    assert {receipt.index for receipt in same} == {first.index + 1}
    assert len(memory) == 42


def test_a_digest_that_an_edit_before_leads_to_is_the_one_to_expect(place: Place) -> None:
    """If-Match is judged by the state that the edit meets, and not by the one that the group began with."""
    store = place.open()
    memory = fill(store)
    seen = memory.digest
    done, stale, other = together(
        memory, delete(memory, "e1", expected=seen), delete(memory, "e2", expected=seen), delete(memory, "e4")
    )
    assert isinstance(done, SignedReceipt)
    assert isinstance(stale, Stale)
    assert isinstance(other, SignedReceipt)


@pytest.mark.parametrize("point", ["state_written", "answer_saved"])
@pytest.mark.parametrize("failures", [1, 4], ids=["together", "together and alone"])
def test_where_the_writing_fails_each_is_tried_by_itself(place: Place, point: str, failures: int) -> None:
    store = place.open()
    memory = fill(store)
    before, leaves, left = memory.digest, store.size, failures

    def fail(reached: str) -> None:
        nonlocal left
        if reached == point and leaves == store.size and left:
            left -= 1
            raise StoreError("the disk is full")

    crash_points.set_hook(fail)
    try:
        done = together(memory, admit(memory, 0), admit(memory, 1), delete(memory, "e1"))
    finally:
        crash_points.set_hook(None)
    if failures == 1:
        assert [receipt.edit for receipt in receipts(done)] == [1, 2, 3]
    else:
        assert all(isinstance(one, StoreError) for one in done)
        assert store.size == leaves
        assert memory.digest == before
        assert "e1" in memory
        memory.delete("e1")
    store.verify()


def test_after_an_interrupt_nothing_was_done(place: Place) -> None:
    """The thread that leads is interrupted: the edits of the others are not done either, and they are told so."""
    store = place.open()
    memory = fill(store)
    size = store.size

    def interrupt(reached: str) -> None:
        if reached == "answer_saved":
            raise KeyboardInterrupt

    crash_points.set_hook(interrupt)
    try:
        leader, *others = together(memory, admit(memory, 0), admit(memory, 1), delete(memory, "e1"))
    finally:
        crash_points.set_hook(None)
    assert isinstance(leader, KeyboardInterrupt)
    assert all(isinstance(other, StoreError) for other in others)
    assert store.size == size
    assert "e1" in memory
    memory.delete("e1")
    store.verify()


def test_readers_see_the_state_before_until_all_is_durable(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    seen: list[tuple[Any, ...]] = []

    def look(reached: str) -> None:
        if reached in ("solved", "answer_saved"):
            seen.append((memory.digest, memory.read(np.zeros(4)).tobytes(), memory.values.tobytes(), memory.ids))

    crash_points.set_hook(look)
    try:
        done = receipts(
            together(memory, admit(memory, 0), delete(memory, "e1"), delete(memory, "e2"), admit(memory, 1))
        )
    finally:
        crash_points.set_hook(None)
    assert [digest for digest, *_ in seen] == [done[0].state_before] * 5
    assert len(set(seen)) == 1
    assert {"e1", "e2"} < set(seen[-1][3])
    assert memory.digest == done[-1].state_after


def test_erased_entries_are_overwritten_in_memory_once_the_group_is_committed(place: Place) -> None:
    memory = fill(place.open())
    marked = np.array([0.123456789, 0.987654321, 0.5, 0.25])
    receipts(together(memory, admit(memory, 0), lambda: memory.admit(marked, [7.0, 7.0], id="m"), delete(memory, "m")))
    version = memory.version
    state, values = version.state, version.entries.values
    assert not (state.gram.keys == marked).all(axis=1).any()
    assert not (values == 7.0).any()


def test_what_comes_while_another_process_has_the_lock_goes_together(place: Place, passed: Counter[str]) -> None:
    """A group is taken once its memory is locked, and not while the lock is waited for."""
    memory, other = fill(place.open()), place.open()
    outcomes: list[SignedReceipt] = []
    threads = [threading.Thread(target=lambda n=n: outcomes.append(memory.admit(**arrival(n)))) for n in range(5)]
    passed.clear()
    with other["icu"].locked():
        passed.clear()
        for place_in_queue, thread in enumerate(threads):
            thread.start()
            while len(memory.queue) < place_in_queue + 1:
                time.sleep(0.001)
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert passed["committed"] == 1
    assert len(outcomes) == 5


def test_who_gets_no_lock_fails_with_all_who_wait(place: Place) -> None:
    memory, other = fill(place.open(timeout=0.2)), place.open()
    with other["icu"].locked():
        done = together(memory, admit(memory, 0), admit(memory, 1))
        assert all(isinstance(one, Busy) for one in done)
    assert len(memory) == 40


def test_edits_of_several_memories_are_committed_once(sqlite_place: Place, passed: Counter[str]) -> None:
    store = sqlite_place.open()
    one, two, three = (fill(store, name) for name in ("one", "two", "three"))
    alike = [fill(store, f"like {name}") for name in ("one", "two")]
    passed.clear()
    edits = [admit(one, 0), admit(two, 0), delete(one, "e1"), admit(three, 0), delete(two, "e2"), admit(one, 1)]
    done = receipts(together(one, *edits))
    assert passed["committed"] == 1
    assert [receipt.memory for receipt in done] == [one.uuid, two.uuid, one.uuid, three.uuid, two.uuid, one.uuid]
    assert [receipt.edit for receipt in done] == [1, 1, 2, 1, 2, 3]
    assert len({receipt.index for receipt in done}) == 6
    alike[0].admit(**arrival(0))
    alike[0].delete("e1")
    alike[0].admit(**arrival(1))
    alike[1].admit(**arrival(0))
    alike[1].delete("e2")
    for memory, same in zip((one, two), alike, strict=True):
        assert memory.ids == same.ids
        assert memory.coefficients.tobytes() == same.coefficients.tobytes()
    again = sqlite_place.open()
    assert all(again[memory.name].digest == memory.digest for memory in (one, two, three))
    store.verify()


def test_a_memory_that_cannot_be_loaded_keeps_no_other_waiting(sqlite_place: Place) -> None:
    fill(sqlite_place.open(), "good"), fill(sqlite_place.open(), "bad")
    store = sqlite_place.open()
    good, bad = store["good"], store["bad"]
    with store.writing("damage") as connection:
        connection.execute(update(states).where(states.c.memory == bad.number).values(state=b"nothing"))
        connection.commit()
    first, damaged, last = together(good, admit(good, 0), admit(bad, 0), delete(good, "e1"))
    assert isinstance(damaged, VerificationError)
    assert [receipt.edit for receipt in receipts([first, last])] == [1, 2]


def test_a_memory_that_is_busy_keeps_no_other_waiting(sqlite_place: Place, passed: Counter[str]) -> None:
    """Edits of a memory that another thread has are left to the next group, in their order."""
    store = sqlite_place.open()
    one, two = fill(store, "one"), fill(store, "two")
    outcomes: list[Outcome] = []
    passed.clear()
    busy = two.versions.only_editor()
    busy.__enter__()
    try:
        waiting = threading.Thread(
            target=lambda: outcomes.extend(together(one, admit(one, 0), admit(two, 0), delete(two, "new-0")))
        )
        waiting.start()
        while not passed["committed"]:
            time.sleep(0.001)
        assert len(one) == 41
        assert len(two) == 40
    finally:
        busy.__exit__(None, None, None)
    waiting.join()
    assert [receipt.edit for receipt in receipts(outcomes)] == [1, 1, 2]
    store.verify()


def test_where_a_write_fails_for_one_memory_the_others_are_committed(sqlite_place: Place) -> None:
    store = sqlite_place.open()
    one, two = fill(store, "one"), fill(store, "two")
    before, writes = two.digest, 0

    def fail(reached: str) -> None:
        """The rows of the second memory cannot be written: neither after those of the first, nor by themselves."""
        nonlocal writes
        writes += reached == "erased"
        if reached == "erased" and writes in (2, 4):
            raise StoreError("the disk is full")

    crash_points.set_hook(fail)
    try:
        first, failed, last = together(one, admit(one, 0), delete(two, "e1"), admit(one, 1))
    finally:
        crash_points.set_hook(None)
    assert isinstance(failed, StoreError)
    assert [receipt.edit for receipt in receipts([first, last])] == [1, 2]
    assert two.digest == before
    store.verify()


def test_many_threads_on_several_memories(place: Place) -> None:
    store = place.open()
    memories = [fill(store, f"m{number}") for number in range(3)]
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            memory = memories[number % 3]
            for step in range(6):
                memory.admit(**(arrival(100 * number + step) | {"id": f"w{number}-{step}"}))
                if step % 2:
                    memory.delete(f"w{number}-{step - 1}")
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert_verified(store, memories)


def assert_verified(store: Store, memories: list[StoredMemory]) -> None:
    store.verify()
    for number, memory in enumerate(memories):
        mine = {f"w{worker}-{step}" for worker in range(number, 12, 3) for step in (1, 3, 5)}
        assert {name for name in memory.ids if name.startswith("w")} == mine


@pytest.mark.parametrize(
    ("coming", "idle", "sleeps", "waits"), [(9, 0.0, 4, 5), (2, 0.0, 3, 3), (0, 0.0, 1, 1), (9, 60.0, 0, 1)]
)
def test_a_leader_waits_for_those_who_come_back_and_for_nobody_else(
    monkeypatch: pytest.MonkeyPatch, coming: int, idle: float, sleeps: int, waits: int
) -> None:
    """Whoever had an answer asks again: the first is not committed alone, nor kept waiting by who stays away."""
    queue: EditQueue[QueuedEdit] = EditQueue()
    queue._waiting.append(QueuedEdit())
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) <= coming:
            queue._waiting.append(QueuedEdit())

    monkeypatch.setattr(time, "sleep", sleep)
    # The last group had five edits, and took half a minute.
    queue._last = 5, 30.0, time.monotonic() - idle
    queue._gather()
    assert (len(slept), len(queue._waiting)) == (sleeps, waits)
