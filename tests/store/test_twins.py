"""Two stores that hold the same entries have the same rows, whatever either held before.

Salts are the same by id, and everything else that is drawn at random is a constant. Compared is every cell but those of
the ledger, of cases and answers to requests, of the service, and of the store's own row.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from mcp import Client
from sqlalchemy import select

from expunge.integrations.embedding import words
from expunge.integrations.langgraph import ExpungeStore
from expunge.integrations.mcp import make_server
from expunge.store import Store
from expunge.store.backends import tables

from .conftest import Place
from .plain_families import START, Clock
from .twin_wards import WARDS, SaltsById, Ward

# What tells of the past on purpose, and what is drawn for a store as a whole.
APART = {"ledger", "leaves", "nodes", "checkpoints", "requests", "cases", "jobs", "tokens", "store", "waiting"}


@pytest.fixture
def salts(monkeypatch: pytest.MonkeyPatch) -> SaltsById:
    drawn = SaltsById()
    monkeypatch.setattr(secrets, "token_bytes", drawn)
    # These are not of entries.
    monkeypatch.setattr("expunge.store.cases.new_salts", lambda count: b"\x09" * 32 * count)
    return drawn


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request: pytest.FixtureRequest, folder: Path) -> Iterator[list[Place]]:
    """Two places for two stores."""
    if request.param == "sqlite":
        urls = [f"sqlite:///{folder / name}" for name in ("one.db", "two.db")]
    else:
        server = request.getfixturevalue("server")
        urls = [server.new_schema(), server.new_schema()]
    made = [Place(request.param, url, folder / "ward.pem") for url in urls]
    yield made
    for place in made:
        place.close()


def cells(store: Store) -> dict[str, list[Any]]:
    """Every cell by column, in order of the primary key."""
    found: dict[str, list[Any]] = {}
    with store._database.reading() as connection:
        of_cases = set(connection.values(select(tables.cases.c.number)))
        for table in tables.metadata.sorted_tables:
            if table.name.removeprefix("expunge_") in APART:
                continue
            for row in connection.execute(select(table).order_by(*table.primary_key.columns)).mappings():
                if table is tables.secrets and row["number"] in of_cases:
                    continue
                for column in table.columns:
                    if column is tables.memories.c.uuid:
                        # Random: it names the memory in the ledger.
                        continue
                    found.setdefault(f"{table.name}.{column.name}", []).append(row[column.name])
    return found


def assert_same_cells(one: Store, other: Store) -> None:
    mine, theirs = cells(one), cells(other)
    assert "expunge_states.state" in mine
    for column in mine.keys() | theirs.keys():
        assert mine.get(column) == theirs.get(column), column


KEYS = {"a": [-1.0, 0.1], "b": [1.0, 0.0], "c": [0.3, 0.9], "x": [0.2, -0.5], "d": [0.0, 0.1], "y": [0.5, 0.5]}

# Each step is a method of a ward with its arguments. The first history once held x, the second never did.
Steps = list[tuple[Any, ...]]
WITHOUT_X: Steps = [("create", ["a", "b", "c"])]
WITHOUT_X_WITH_D: Steps = [*WITHOUT_X, ("admit", "d")]
HISTORIES: dict[str, tuple[Steps, Steps]] = {
    "created with x": ([("create", ["a", "x", "b", "c"]), ("delete", "x")], WITHOUT_X),
    "x came and went before another": ([*WITHOUT_X, ("admit", "x"), ("admit", "d"), ("delete", "x")], WITHOUT_X_WITH_D),
    "x was archived": (
        [("create", ["a", "x", "b", "c"]), ("prune",), ("delete", "x"), ("admit", "d"), ("prune",)],
        [*WITHOUT_X_WITH_D, ("prune",)],
    ),
    "archived entries came back": (
        [("create", ["a", "b", "c", "x"]), ("prune",), ("admit", "d"), ("rebuild",), ("delete", "x")],
        WITHOUT_X_WITH_D,
    ),
    "x by its subject, and by a process of its own": (
        [("create", ["a", "x", "b", "c"]), ("checkpoint",), ("erase_subject", "subject of x"), ("vacuum",)],
        WITHOUT_X,
    ),
    "a memory of another name was there": (
        [("create", ["x", "y"], "other"), ("drop", "other"), *WITHOUT_X],
        WITHOUT_X,
    ),
    "x was the last one": ([("create", ["x"], "icu", 1.0), ("delete", "x")], [("create", [])]),
    "a memory that was emptied began again": (
        [("create", ["a", "x"]), ("delete", "a"), ("delete", "x"), ("admit", "b"), ("admit", "d")],
        [("create", []), ("admit", "b"), ("admit", "d")],
    ),
    "emptied of archived entries": (
        [("create", ["a", "x", "d"]), ("prune",), ("delete", "d"), ("erase_subject", "subject of x"), ("delete", "a")],
        [("create", [])],
    ),
    "too few were left for the cap": (
        [("create", ["a", "x", "b", "c", "d"], "icu", 1 / 5), ("delete", "x"), ("delete", "d"), ("delete", "c")],
        [("create", ["a", "b"], "icu", 4 / 5)],
    ),
    "archived entries came back when too few were left": (
        [
            ("create", ["a", "b", "c", "x", "d"], "icu", 2 / 5),
            ("prune",),
            ("delete", "x"),
            ("delete", "c"),
            ("delete", "b"),
        ],
        [("create", ["a", "d"], "icu", 4 / 5)],
    ),
    "a hold was there": (
        [("create", ["a", "b", "x", "c"]), ("hold_and_release", "x"), ("delete", "x")],
        WITHOUT_X,
    ),
}


@pytest.mark.parametrize("by", list(WARDS))
@pytest.mark.parametrize("history", list(HISTORIES))
def test_stores_with_the_same_entries_have_the_same_cells(
    places: list[Place], salts: SaltsById, history: str, by: str
) -> None:
    """One store once held x, and was edited by commands or over HTTP; the other never did, and is the library's."""
    for place, steps, ward_class in zip(places, HISTORIES[history], (WARDS[by], Ward), strict=True):
        ward = ward_class(place, salts, KEYS, sigma=1.3, cap=1.0 / 1.7)
        with ward.working():
            for verb, *arguments in steps:
                getattr(ward, verb)(*arguments)
        ward.store.verify()
        ward.store.close()
    assert_same_cells(*(place.open() for place in places))


def put_all(store: ExpungeStore, salts: SaltsById, names: Iterable[str]) -> None:
    for name in names:
        salts.names = [name]
        store.put(("memories", f"user of {name}"), name, {"text": f"the text of {name}"})


def by_langgraph(ledger: Store, salts: SaltsById, *steps: str) -> None:
    """Steps are items to put; with a minus, to delete; with a slash, to erase with their user."""
    store = ExpungeStore(ledger)
    for step in steps:
        name = step.lstrip("-/")
        if step.startswith("-"):
            store.delete(("memories", f"user of {name}"), name)
        elif step.startswith("/"):
            store.erase_subject(f"user of {name}")
        else:
            put_all(store, salts, [name])


def by_mcp(ledger: Store, salts: SaltsById, *steps: str) -> None:
    """The same through the tools of an MCP server, asked by a client."""

    async def work() -> None:
        async with Client(make_server(ledger, embed=words)) as client:
            for step in steps:
                name = step.lstrip("-/")
                about: dict[str, Any] = {"subject": f"user of {name}"}
                tool, arguments = "remember", {"text": f"the text of {name}", "id": name, **about}
                if step.startswith("-"):
                    tool, arguments = "forget", {"ids": [name]}
                elif step.startswith("/"):
                    tool, arguments = "forget_subject", about
                else:
                    salts.names = [name]
                told = await client.call_tool(tool, arguments)
                assert not told.is_error, told.content

    asyncio.run(work())


@pytest.mark.parametrize("drive", [by_langgraph, by_mcp], ids=["langgraph", "mcp"])
@pytest.mark.parametrize(
    ("steps", "twin"),
    [
        (("a", "b", "x", "c", "-x", "d"), ("a", "b", "c", "d")),
        (("a", "b", "c", "d", "x", "/x", "e"), ("a", "b", "c", "d", "e")),
        (("x", "-x", "a", "b"), ("a", "b")),
        # With x there are four and eight notes, where the cap is another.
        (("a", "b", "c", "x", "-x"), ("a", "b", "c")),
        ((*"abcdefg", "x", "-x"), tuple("abcdefg")),
        ((*"abcdefg", "x", "/x"), tuple("abcdefg")),
        (("x", *"abcdefg", "-x", "h"), tuple("abcdefgh")),
        ((*"abcd", "x", "y", "z", "w", "-x", "-w", "/z", "-y", "-d"), tuple("abc")),
    ],
    ids=[
        "deleted",
        "erased with the user",
        "the first",
        "fourth",
        "eighth",
        "eighth erased with the user",
        "first of eight",
        "down again",
    ],
)
def test_agents_leave_the_rows_of_their_notes(
    places: list[Place],
    salts: SaltsById,
    monkeypatch: pytest.MonkeyPatch,
    drive: Callable[..., None],
    steps: tuple[str, ...],
    twin: tuple[str, ...],
) -> None:
    """An item's id has the time at which it was put: here all are put at the same time."""
    monkeypatch.setattr("time.time_ns", lambda: 10**18)
    for place, history in zip(places, (steps, twin), strict=True):
        store = place.open()
        drive(store, salts, *history)
        store.verify()
    assert_same_cells(*(place.open() for place in places))


@pytest.mark.parametrize("prune", [False, True], ids=["live", "archive"])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_history_leaves_the_rows_of_its_entries(
    places: list[Place], salts: SaltsById, seed: int, prune: bool
) -> None:
    """To the last bit of the weights: which rows there are, their numbers, their order, what is archived."""
    rng = np.random.default_rng(seed)
    keys = {f"e{number}": rng.standard_normal(3).tolist() for number in range(60)}
    ward, twin = (Ward(place, salts, keys, sigma=2.0, cap=1 / 9) for place in places)
    members = [f"e{number}" for number in range(30)]
    ward.create(members)
    for step in range(30, 60):
        if prune and step % 7 == 0:
            ward.prune()
        ward.admit(f"e{step}")
        gone = members.pop(int(rng.integers(len(members))))
        members.append(f"e{step}")
        ward.delete(gone)
    if prune:
        ward.prune()
    twin.create(members)
    if prune:
        twin.prune()
        assert len(twin.store["icu"]) < len(members)
    assert_same_cells(ward.store, twin.store)


def sweep_later(store: Store, clock: Clock) -> None:
    clock.turn(hours=2)
    assert store.retain().complete


def delete_held(store: Store, clock: Clock) -> None:
    """What a hold keeps has lost its source when the hold ends."""
    hold = store.hold("facts", "from x", reason="court")
    store["talks"].delete("x")
    store.release(hold)
    assert store.retain().complete


@pytest.mark.parametrize(
    "erase",
    [
        lambda store, clock: store["talks"].delete("x"),
        lambda store, clock: store.erase_subject("subject of x"),
        delete_held,
        sweep_later,
    ],
    ids=["deleted", "by subject", "held", "swept"],
)
def test_nothing_tells_of_an_entry_that_others_were_made_from(
    places: list[Place], salts: SaltsById, monkeypatch: pytest.MonkeyPatch, erase: Callable[[Store, Clock], object]
) -> None:
    """Of two stores one had x, and entries made from it in three memories. The others are made from what stays."""
    for place, had_x in zip(places, (True, False), strict=True):
        # A source in another memory has that memory's UUID.
        numbers = iter(range(10))
        uuid = SimpleNamespace(uuid4=lambda numbers=numbers: UUID(int=next(numbers), version=4))
        monkeypatch.setattr("expunge.store.memory_lifecycle.uuids", uuid)
        clock = Clock()
        store = place.open(clock=clock)

        def admit(memory: str, name: str, *sources: tuple[str, str], store: Store = store, **about: Any) -> None:
            salts.names = [name]
            key = np.random.default_rng(list(name.encode())).standard_normal(2)
            given = [one if other == memory else (other, one) for other, one in sources]
            about = {"id": name, "subject": f"subject of {name}", "derived_from": given, **about}
            store[memory].admit(key, [1.0, 2.0], **about)

        for memory in ("talks", "facts", "more"):
            salts.names = []
            store.create(memory, np.empty((0, 2)), np.empty((0, 2)), sigma=1.3, cap=0.5)
            admit(memory, f"{memory} a")
            admit(memory, f"{memory} b", (memory, f"{memory} a"))
        if had_x:
            admit("talks", "x", expires=START + timedelta(hours=1))
            admit("facts", "from x", ("talks", "x"), ("facts", "facts a"))
            admit("more", "again", ("facts", "from x"))
            admit("talks", "here", ("more", "again"), ("talks", "x"))
        admit("facts", "stays", ("talks", "talks a"), expires=START + timedelta(days=9))
        if had_x:
            erase(store, clock)
        store.verify()
    assert_same_cells(*(place.open() for place in places))
