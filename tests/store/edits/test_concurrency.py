"""Several at once: no update is lost, nothing is applied twice, nobody reads half an edit."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from expunge import InputError, StoreError
from expunge.store import Busy, Store
from expunge.store.edits import crash_points

from ..conftest import Place
from ..sample_memory import arrival, entries, fill
from .fork_server import ForkServer


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as process:
        yield process


def assert_nothing_lost(store: Store, names: list[str], results: list[dict[str, Any]]) -> Counter[str]:
    """What the workers say they did is what is there: each entry of theirs, and each receipt once."""
    tally: Counter[str] = Counter()
    for result in results:
        assert "result" in result, result
        tally.update(result["result"]["tally"])
    originals = set(entries()["ids"])
    for name in names:
        mine = [entry for result in results for entry in result["result"]["mine"][name]]
        assert sorted(set(store[name].ids) - originals) == sorted(mine)
        assert store[name].check().worst < 1e-11
    kinds = Counter(leaf.kind for leaf in store.receipts())
    assert kinds["admitted"] == tally["admitted"]
    assert kinds["certified_zero"] + kinds["decrement"] == tally["deleted"]
    store.verify()
    return tally


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["one memory", "three memories"])
def test_processes_edit_side_by_side(place: Place, fork_server: ForkServer, shared: bool) -> None:
    store = place.open()
    names = ["icu"] if shared else ["icu", "cardiology", "neurology"]
    for name in names:
        fill(store, name)
    jobs = [
        {
            "work": "edit_until",
            "with": {
                "url": place.url,
                "key": str(place.key),
                "names": names,
                "worker": worker,
                "seconds": 1.0,
                "timeout": 30.0,
            },
        }
        for worker in range(1, 5)
    ]
    results = fork_server.run(*jobs)
    tally = assert_nothing_lost(store, names, results)
    assert tally["admitted"] > 4
    assert tally["busy"] == 0


def test_one_request_by_many_is_applied_once(place: Place, fork_server: ForkServer) -> None:
    store = place.open()
    fill(store)
    given = {"url": place.url, "key": str(place.key), "name": "icu"}
    for number in range(3):
        answers = fork_server.run(*({"work": "shared_request", "with": {**given, "number": number}} for _ in range(5)))
        assert all("result" in answer for answer in answers), answers
        assert len({answer["result"]["index"] for answer in answers}) == 1
    assert store["icu"].edit == 3
    assert Counter(leaf.kind for leaf in store.receipts())["admitted"] == 3
    store.verify()


def test_stores_that_open_a_new_place_at_once_agree_on_it(place: Place) -> None:
    opened: list[Store] = []
    problems: list[BaseException] = []

    def attempt() -> None:
        try:
            opened.append(place.open())
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len({store.uuid for store in opened}) == 1
    assert len({store.public_key for store in opened}) == 1


def test_a_name_is_given_once(place: Place) -> None:
    store = place.open()
    outcomes: list[str] = []

    def attempt(seed: int) -> None:
        try:
            fill(place.open(), seed=seed)
            outcomes.append("made")
        except InputError as problem:
            outcomes.append("taken" if "already" in str(problem) else str(problem))

    threads = [threading.Thread(target=attempt, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(outcomes) == {"made": 1, "taken": 3}
    assert store.verify().memories == 1


def test_threads_share_one_handle(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    problems: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                answer = memory.read(np.zeros((3, 4)))
                assert np.isfinite(answer).all()
                assert memory.digest
        except BaseException as problem:
            problems.append(problem)

    def write(worker: int) -> None:
        try:
            for number in range(6):
                entry = {**arrival(100 * worker + number, far=2.0), "id": f"{worker}-{number}"}
                memory.admit(**entry)
                if number % 2:
                    memory.delete(entry["id"])
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(3)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert problems == []
    assert memory.edit == 27
    assert set(memory.ids) - set(entries()["ids"]) == {f"{w}-{n}" for w in range(3) for n in (0, 2, 4)}
    store.verify()


@pytest.fixture
def pause() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Whoever reaches "solved" says so, and waits to go on."""
    reached, go_on = threading.Event(), threading.Event()

    def listener(point: str) -> None:
        if point == "solved" and not reached.is_set():
            reached.set()
            assert go_on.wait(30)

    crash_points.set_hook(listener)
    yield reached, go_on
    go_on.set()
    crash_points.set_hook(None)


def test_a_writer_waits_its_turn_and_then_gives_up(
    place: Place, pause: tuple[threading.Event, threading.Event]
) -> None:
    """While one edit is under way: the others are told that the memory is busy, readers read, and all goes on."""
    reached, go_on = pause
    slow, hasty = place.open(), place.open(timeout=0.3)
    memory = fill(slow)
    before = memory.digest
    hand = hasty["icu"]
    assert hand.digest == before
    thread = threading.Thread(target=memory.delete, args=("e5",))
    thread.start()
    assert reached.wait(10)
    # Another process, so to speak.
    started = time.monotonic()
    with pytest.raises(Busy, match="try again"):
        hand.delete("e6")
    assert 0.2 < time.monotonic() - started < 5
    # Another thread of the same.
    slow._database.timeout = 0.2
    with pytest.raises(Busy, match="another thread"):
        memory.delete("e6")
    # Nobody waits to read, and nobody sees what is not committed.
    for reader in (memory, hand, place.open()["icu"]):
        started = time.monotonic()
        assert reader.digest == before
        assert reader.read(np.zeros(4)).shape == (1, 2)
        assert time.monotonic() - started < 5
    assert hasty.size == 1
    hasty.receipts()
    go_on.set()
    thread.join()
    assert "e5" not in hand
    hand.delete("e6")
    assert memory.digest == hand.digest
    assert isinstance(Busy("x"), StoreError)
    slow.verify()


def test_memories_do_not_wait_for_each_other_on_postgresql(
    postgres_place: Place, pause: tuple[threading.Event, threading.Event]
) -> None:
    reached, go_on = pause
    store = postgres_place.open()
    one, two = fill(store, "one"), fill(store, "two", seed=1)
    thread = threading.Thread(target=one.delete, args=("e5",))
    thread.start()
    assert reached.wait(10)
    two.delete("e6")
    assert "e5" in one
    go_on.set()
    thread.join()
    assert "e5" not in one
    store.verify()
