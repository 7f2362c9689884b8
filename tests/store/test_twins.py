"""Two stores that hold the same entries have the same rows, whatever either held before.

Salts are the same by id, and everything else that is drawn at random is a constant. Compared is every cell but those of
the ledger, of answers to requests, of the service, and of the store's own row.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcp import Client
from sqlalchemy import select

from cli.command_runner import answer
from expunge.integrations.langgraph import ExpungeStore
from expunge.integrations.mcp import make_server
from expunge.service.settings import Settings
from expunge.store import Store
from expunge.store.backends import tables
from service.service_client import ServiceClient

from .conftest import Place

SALT_BYTES = 32
# What tells of the past on purpose, and what is drawn for a store as a whole.
APART = {"ledger", "leaves", "nodes", "checkpoints", "requests", "jobs", "tokens", "store"}


class SaltsById:
    """In place of `secrets.token_bytes`."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, count: int = SALT_BYTES) -> bytes:
        if self.names and count == SALT_BYTES * len(self.names):
            names, self.names = self.names, []
            return b"".join(hashlib.sha256(name.encode()).digest() for name in names)
        return b"\x07" * count


@pytest.fixture
def salts(monkeypatch: pytest.MonkeyPatch) -> SaltsById:
    drawn = SaltsById()
    monkeypatch.setattr(secrets, "token_bytes", drawn)
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


class Ward:
    """A store with entries by name, each with its key, value, subject, payload and salt, edited by the library."""

    def __init__(self, place: Place, salts: SaltsById, keys: dict[str, list[float]], sigma: float, cap: float) -> None:
        self.place, self.salts, self.keys, self.sigma, self.cap = place, salts, keys, sigma, cap
        self.store = place.open()

    def arguments(self, names: list[str]) -> dict[str, Any]:
        """What `create` takes of entries."""
        return {
            "keys": [self.keys[one] for one in names],
            "values": [[float(len(one)), 1.0] for one in names],
            "ids": list(names),
            "subjects": [f"subject of {one}" for one in names],
            "payloads": [f"payload of {one}" for one in names],
        }

    def create(self, names: list[str], name: str = "icu") -> None:
        self.salts.names = list(names)
        self.store.create(name, **self.arguments(names), sigma=self.sigma, cap=self.cap)

    def admit(self, name: str) -> None:
        self.salts.names = [name]
        entry = {field.removesuffix("s"): values[0] for field, values in self.arguments([name]).items()}
        self.store["icu"].admit(entry.pop("key"), entry.pop("value"), **entry)

    def delete(self, name: str) -> None:
        self.store["icu"].delete(name)

    def prune(self) -> None:
        self.store["icu"].prune("archive")

    def rebuild(self) -> None:
        self.store["icu"].rebuild(cap=self.cap)

    def erase_subject(self, subject: str) -> None:
        self.store.erase_subject(subject, idempotency_key="k")

    def drop(self, name: str) -> None:
        self.store.drop(name)

    def hold_and_release(self, name: str) -> None:
        self.store.release(self.store.hold("icu", name, reason="court"))

    def checkpoint(self) -> None:
        self.store.checkpoint()

    def vacuum(self) -> None:
        self.store.vacuum()


class CommandWard(Ward):
    """The same through commands, each of which opens the store anew."""

    def _call(self, *words: object) -> Any:
        return answer(*words, "--store", self.place.url, "--signing-key", self.place.key)

    def create(self, names: list[str], name: str = "icu") -> None:
        self.salts.names = list(names)
        rows = [
            dict(zip(("key", "value", "id", "subject", "payload"), row, strict=True))
            for row in zip(*self.arguments(names).values(), strict=True)
        ]
        table = self.place.key.with_name("table.jsonl")
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        columns = [f"--{one}-columns={one}" for one in ("key", "value")]
        columns += [f"--{one}-column={one}" for one in ("id", "subject", "payload")]
        self._call("create", name, table, "--sigma", self.sigma, "--cap", self.cap, *columns)

    def admit(self, name: str) -> None:
        self.salts.names = [name]
        vectors = {"at": self.keys[name], "value": [float(len(name)), 1.0]}
        texts = [f"--{word}={','.join(map(repr, vector))}" for word, vector in vectors.items()]
        about = (f"--id={name}", f"--subject=subject of {name}", f"--payload=payload of {name}")
        self._call("admit", "icu", *texts, *about)

    def delete(self, name: str) -> None:
        self._call("delete", "icu", name, "--yes")

    def prune(self) -> None:
        self._call("prune", "icu")

    def rebuild(self) -> None:
        self._call("rebuild", "icu", "--cap", self.cap)

    def erase_subject(self, subject: str) -> None:
        self._call("erase-subject", subject, "--yes", "--idempotency-key", "k")

    def drop(self, name: str) -> None:
        self._call("drop", name, "--yes")

    def hold_and_release(self, name: str) -> None:
        self._call("release", self._call("hold", "icu", name, "--reason", "court")["number"])

    def checkpoint(self) -> None:
        self._call("checkpoint", "export", "--out", self.place.key.with_name("head.txt"))

    def vacuum(self) -> None:
        self._call("vacuum")


class ServiceWard(Ward):
    """The same through HTTP."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.service = ServiceClient(Settings(url=self.place.url, signing_key=self.place.key))

    def _call(self, method: str, path: str, body: Any = None, **headers: Any) -> Any:
        response = self.service.request(method, f"/v1{path}", body, **headers)
        assert response.status_code in (200, 201), response.text
        return response.json() if response.content.startswith(b"{") else None

    def create(self, names: list[str], name: str = "icu") -> None:
        self.service.headers()
        self.salts.names = list(names)
        self._call("POST", "/memories", {"name": name, "sigma": self.sigma, "cap": self.cap, **self.arguments(names)})

    def admit(self, name: str) -> None:
        self.salts.names = [name]
        entry = {field.removesuffix("s"): values[0] for field, values in self.arguments([name]).items()}
        self._call("POST", "/memories/icu/admit", entry)

    def delete(self, name: str) -> None:
        self._call("POST", "/memories/icu/delete", {"id": name})

    def prune(self) -> None:
        self._call("POST", "/memories/icu/prune", {"mode": "archive"})

    def rebuild(self) -> None:
        self._call("POST", "/memories/icu/rebuild", {"cap": self.cap})

    def erase_subject(self, subject: str) -> None:
        told = self._call("POST", "/erasures", {"subject": subject}, Idempotency_Key="k", Prefer="wait=30")
        assert told["result"]["complete"]

    def drop(self, name: str) -> None:
        self._call("DELETE", f"/memories/{name}")

    def hold_and_release(self, name: str) -> None:
        number = self._call("POST", "/memories/icu/holds", {"id": name, "reason": "court"})["number"]
        self._call("DELETE", f"/holds/{number}")

    def checkpoint(self) -> None:
        self._call("GET", "/log/checkpoint")

    def vacuum(self) -> None:
        assert self._call("POST", "/vacuum", Prefer="wait=30")["state"] == "done"


WARDS = {"library": Ward, "commands": CommandWard, "service": ServiceWard}


def cells(store: Store) -> dict[str, list[Any]]:
    """Every cell by column, in order of the primary key."""
    found: dict[str, list[Any]] = {}
    with store._database.reading() as connection:
        for table in tables.metadata.sorted_tables:
            if table.name.removeprefix("expunge_") in APART:
                continue
            for row in connection.execute(select(table).order_by(*table.primary_key.columns)).mappings():
                for column in table.columns:
                    if column is tables.memories.c.uuid:
                        # Random: it names the memory in the ledger.
                        continue
                    found.setdefault(f"{table.name}.{column.name}", []).append(row[column.name])
    return found


def assert_same_cells(one: Store, other: Store) -> None:
    mine, theirs = cells(one), cells(other)
    assert "expunge_secrets.secret" in mine
    for column in mine.keys() | theirs.keys():
        assert mine.get(column) == theirs.get(column), column


KEYS = {"a": [-1.0, 0.1], "b": [1.0, 0.0], "c": [0.3, 0.9], "x": [0.2, -0.5], "d": [0.0, 0.1]}

Act = Callable[[Ward], object]
HISTORIES: dict[str, tuple[Act, Act]] = {
    "created with x": (
        lambda ward: (ward.create(["a", "x", "b", "c"]), ward.delete("x")),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
    "x came and went before another": (
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("x"), ward.admit("d"), ward.delete("x")),
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("d")),
    ),
    "x was archived": (
        lambda ward: (
            *(ward.create(["a", "x", "b", "c"]), ward.prune(), ward.delete("x"), ward.admit("d")),
            ward.prune(),
        ),
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("d"), ward.prune()),
    ),
    "archived entries came back": (
        lambda ward: (
            *(ward.create(["a", "b", "c", "x"]), ward.prune(), ward.admit("d"), ward.rebuild()),
            ward.delete("x"),
        ),
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("d")),
    ),
    "x by its subject, and by a process of its own": (
        lambda ward: (
            *(ward.create(["a", "x", "b", "c"]), ward.checkpoint()),
            *(ward.erase_subject("subject of x"), ward.vacuum()),
        ),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
    "a memory of another name was there": (
        lambda ward: (ward.create(["x", "a", "b"], "other"), ward.drop("other"), ward.create(["a", "b", "c"])),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
    "a hold was there": (
        lambda ward: (ward.create(["a", "b", "x", "c"]), ward.hold_and_release("x"), ward.delete("x")),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
}


@pytest.mark.parametrize("by", list(WARDS))
@pytest.mark.parametrize("history", list(HISTORIES))
def test_stores_with_the_same_entries_have_the_same_cells(
    places: list[Place], salts: SaltsById, history: str, by: str
) -> None:
    """One store once held x, and was edited by commands or over HTTP; the other never did, and is the library's."""
    for place, act, ward_class in zip(places, HISTORIES[history], (WARDS[by], Ward), strict=True):
        ward = ward_class(place, salts, KEYS, sigma=1.3, cap=1.0 / 1.7)
        with ward.service.client if isinstance(ward, ServiceWard) else nullcontext():
            act(ward)
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
        async with Client(make_server(ledger)) as client:
            for step in steps:
                name = step.lstrip("-/")
                about = {"subject": f"user of {name}"}
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
    ],
    ids=["deleted", "erased with the user", "the first"],
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
    monkeypatch.setattr("expunge.integrations.langgraph.time.time_ns", lambda: 10**18)
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
