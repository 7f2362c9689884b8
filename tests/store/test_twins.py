"""Two stores that hold the same entries have the same rows, whatever either held before.

Salts are the same by id, and everything else that is drawn at random is a constant. Compared is every cell but those of
the ledger, of answers to requests, of the service, and of the store's own row.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from expunge.store import SignedReceipt, Store, StoredMemory
from expunge.store.backends import tables
from expunge.store.encryption import decrypt_state
from expunge.store.rows import _unpack_state

from .conftest import Place

SALT_BYTES = 32
# What tells of the past on purpose, and what is drawn for a store as a whole.
APART = {"ledger", "leaves", "nodes", "checkpoints", "requests", "jobs", "tokens", "store", "waiting"}


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
    """A store with entries by name, each with its key, value, subject, payload and salt."""

    def __init__(self, store: Store, salts: SaltsById, keys: dict[str, list[float]], sigma: float, cap: float) -> None:
        self.store, self._salts, self._keys, self._sigma, self._cap = store, salts, keys, sigma, cap

    @property
    def memory(self) -> StoredMemory:
        return self.store["icu"]

    def create(self, names: list[str], name: str = "icu") -> StoredMemory:
        self._salts.names = list(names)
        return self.store.create(
            name,
            [self._keys[one] for one in names],
            [[float(len(one)), 1.0] for one in names],
            sigma=self._sigma,
            cap=self._cap,
            ids=list(names),
            subjects=[f"subject of {one}" for one in names],
            payloads=[f"payload of {one}" for one in names],
        )

    def admit(self, name: str) -> SignedReceipt:
        self._salts.names = [name]
        about = {"subject": f"subject of {name}", "payload": f"payload of {name}"}
        return self.memory.admit(self._keys[name], [float(len(name)), 1.0], id=name, **about)


def cells(store: Store, *, weights: bool = True) -> dict[str, list[Any]]:
    """Every cell by column, in order of the primary key; without weights, the state opened and without their bits."""
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
        if not weights:
            del found["expunge_states.digest"]
            together = b"".join(connection.execute(select(tables.secrets.c.secret)).scalars())
            header, arrays, order = _unpack_state(decrypt_state(together, found.pop("expunge_states.state")[0]))
            del header["offset"]
            found["state"] = [header, order.tolist(), arrays["archived"].tolist(), (arrays["alpha"] > 0).tolist()]
    return found


EXACT = {"a": [-1.0, 0.0], "b": [1.0, 0.0], "c": [0.0, 0.9], "x": [0.0, -0.5], "d": [0.0, 0.1], "y": [0.0, 0.2]}

Act = Callable[[Ward], object]
HISTORIES: dict[str, tuple[Act, Act]] = {
    "created with x": (
        lambda ward: (ward.create(["a", "x", "b", "c"]), ward.memory.delete("x")),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
    "x came and went before another": (
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("x"), ward.admit("d"), ward.memory.delete("x")),
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("d")),
    ),
    "x was archived": (
        lambda ward: (
            *(ward.create(["a", "x", "b", "c"]), ward.memory.prune(), ward.memory.delete("x"), ward.admit("d")),
            ward.memory.prune(),
        ),
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("d"), ward.memory.prune()),
    ),
    "archived entries came back": (
        lambda ward: (
            *(ward.create(["a", "b", "c", "x"]), ward.memory.prune(), ward.admit("d")),
            *(ward.memory.rebuild(cap=1.0), ward.memory.delete("x")),
        ),
        lambda ward: (ward.create(["a", "b", "c"]), ward.admit("d")),
    ),
    "x by its subject, and by a process of its own": (
        lambda ward: (
            *(ward.create(["a", "x", "b", "c"]), ward.store.checkpoint()),
            *(ward.store.erase_subject("subject of x", idempotency_key="k"), ward.store.vacuum()),
        ),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
    "a memory of another name was there": (
        lambda ward: (ward.create(["x", "a", "b"], "other"), ward.store.drop("other"), ward.create(["a", "b", "c"])),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
    "a hold was there": (
        lambda ward: (
            *(ward.create(["a", "b", "x", "c"]), ward.store.release(ward.store.hold("icu", "x", reason="court"))),
            ward.memory.delete("x"),
        ),
        lambda ward: ward.create(["a", "b", "c"]),
    ),
}


@pytest.mark.parametrize("history", list(HISTORIES))
def test_stores_with_the_same_entries_have_the_same_cells(places: list[Place], salts: SaltsById, history: str) -> None:
    """In these problems the weights are ½ and ½, on whatever path they are reached."""
    dumps = []
    for place, act in zip(places, HISTORIES[history], strict=True):
        ward = Ward(place.open(), salts, EXACT, sigma=5.0, cap=1.0)
        act(ward)
        ward.store.verify()
        ward.store.close()
        dumps.append(cells(place.open()))
    assert "expunge_secrets.secret" in dumps[0]
    for column in dumps[0].keys() | dumps[1].keys():
        assert dumps[0].get(column) == dumps[1].get(column), column


@pytest.mark.parametrize("prune", [False, True], ids=["live", "archive"])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_history_leaves_the_rows_of_its_entries(
    places: list[Place], salts: SaltsById, seed: int, prune: bool
) -> None:
    """Last bits of weights aside: which rows there are, their numbers, their order, what is archived, the secrets."""
    rng = np.random.default_rng(seed)
    keys = {f"e{number}": rng.standard_normal(3).tolist() for number in range(60)}
    ward, twin = (Ward(place.open(), salts, keys, sigma=2.0, cap=1 / 9) for place in places)
    members = [f"e{number}" for number in range(30)]
    ward.create(members)
    for step in range(30, 60):
        if prune and step % 7 == 0:
            ward.memory.prune("archive")
        ward.admit(f"e{step}")
        gone = members.pop(int(rng.integers(len(members))))
        members.append(f"e{step}")
        ward.memory.delete(gone)
    if prune:
        ward.memory.prune("archive")
    twin.create(members)
    if prune:
        twin.memory.prune("archive")
        assert len(twin.memory) < len(members)
    mine, theirs = (cells(each.store, weights=False) for each in (ward, twin))
    assert mine == theirs
