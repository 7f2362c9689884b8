"""Puts of concurrent tasks are written together, and each fails by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, Op, PutOp

import expunge
from expunge import DeletionRefused, InputError
from expunge.integrations.langgraph import ExpungeStore
from expunge.store import Store


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        yield store


def test_two_hundred_puts_at_once_are_two_edits(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    store.put(("memories", "ann"), "first", {"n": -1})
    before = ledger.size

    async def work() -> None:
        puts = [store.aput(("memories", f"user {number % 7}"), f"{number}", {"n": number}) for number in range(200)]
        await asyncio.gather(*puts)
        found = await asyncio.gather(*(store.aget(("memories", f"user {n % 7}"), f"{n}") for n in range(200)))
        assert [item and item.value["n"] for item in found] == list(range(200))

    asyncio.run(work())
    # The admission, and the rebuild at the cap of as many.
    assert ledger.size - before == 2
    ledger.verify()


def test_the_last_of_several_puts_counts_and_reads_are_those_of_before(ledger: Store) -> None:
    store, here = ExpungeStore(ledger), ("memories", "ann")
    store.put(here, "tea", {"n": 0})

    async def work() -> list[Any]:
        batches: Iterator[list[Op]] = (
            [GetOp(here, "tea"), PutOp(here, "tea", {"n": number})] for number in range(1, 6)
        )
        told = await asyncio.gather(*(store.abatch(batch) for batch in batches))
        await store.aput(here, "tea", {"n": 9})
        found = await store.aget(here, "tea")
        assert found is not None
        assert found.value == {"n": 9}
        await asyncio.gather(store.aput(here, "tea", {"n": 10}), store.adelete(here, "tea"))
        assert await store.aget(here, "tea") is None
        return list(told)

    assert [batch[0].value["n"] for batch in asyncio.run(work())] == [0] * 5


def test_a_put_that_is_refused_fails_alone(ledger: Store) -> None:
    store, here = ExpungeStore(ledger), ("memories", "ann")
    store.put(here, "held", {"n": 0})
    ledger.hold("langgraph", reason="a lawsuit", id=store.notebook.notes()[0].id)

    async def work() -> list[Any]:
        puts = (
            store.aput(here, "a", {"n": 1}),
            store.aput(here, "held", {"n": 2}),
            store.aput(here, "b", {"n": 3}, ttl=-1.0),
            store.aput(here, "c", {"n": 4}),
        )
        return [*await asyncio.gather(*puts, return_exceptions=True)]

    told = asyncio.run(work())
    assert [type(one) for one in told] == [type(None), DeletionRefused, InputError, type(None)]
    assert {item.key: item.value["n"] for item in store.search(here)} == {"a": 1, "held": 0, "c": 4}


def test_who_is_cancelled_does_not_stop_the_others(ledger: Store) -> None:
    store, here = ExpungeStore(ledger), ("memories", "ann")

    async def work() -> None:
        tasks = [asyncio.create_task(store.aput(here, f"{number}", {"n": number})) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in told] == [type(None), asyncio.CancelledError, type(None)]

    # Each run has a loop of its own, and the store serves both.
    asyncio.run(work())
    asyncio.run(work())
    assert {item.key for item in store.search(here)} >= {"0", "2"}
