"""Game A: two worlds end with the same entries, one once held x, and the attacker says which from all bytes.

Compared are the save file, pickle, digest, readouts, scores, warranties, certificates, bounds, the service's map with
its slacks, the evidence bundle of the last edit without its receipt, and, for stores, every cell of the database but
those of the ledger, requests, jobs, tokens, and the store's own row. Salts are equal by id. Where the bytes are equal
nothing is left to decide by; where they differ, the attacker re-runs both histories and is right.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import select

import expunge
from attackers.fixed_salts import FixedSalts, fixed_salts
from expunge import Memory
from expunge.attestation.evidence import write_evidence
from expunge.memory.snapshot import pack, unpack
from expunge.service.memory_map.map_content import map_content
from expunge.store.backends import tables

__all__ = [
    "HISTORIES",
    "Book",
    "World",
    "draw_world",
    "go_on",
    "hold_and_erase_x",
    "memory_bytes",
    "stored_cells",
    "twin_memories",
    "twin_stores",
]

Vector = npt.NDArray[np.float64]
HISTORIES = ("deleted", "admitted and deleted", "archived and deleted", "restored and deleted", "admitted twice")
# What tells of the past on purpose, and what is drawn for a store as a whole.
EXCEPTED = {"ledger", "leaves", "nodes", "checkpoints", "requests", "jobs", "tokens", "store", "waiting"}


@dataclass(frozen=True)
class World:
    """Entries by name in order of admission, the ones that come later, and what is deleted of them; x is apart."""

    first: dict[str, Vector]
    later: dict[str, Vector]
    gone: tuple[str, ...]
    x: Vector
    sigma: float
    cap: float
    prune: bool
    queries: npt.NDArray[np.float64]


def draw_world(rng: np.random.Generator) -> World:
    """A world of one of four kinds of keys."""
    d, size = int(rng.choice([1, 2, 3, 4, 6, 24])), int(rng.integers(10, 40))
    kind = rng.integers(4)
    centres = 2.0 * rng.standard_normal((4, d))

    def key() -> Vector:
        if kind == 1:
            return rng.integers(0, 3, size=d).astype(float)
        if kind == 2:
            return np.asarray(centres[rng.integers(4)] + 10.0 ** rng.uniform(-9, -1) * rng.standard_normal(d))
        return rng.standard_normal(d)

    first = {f"e{row}": key() for row in range(size)}
    later = {f"l{row}": key() for row in range(4)}
    sigma = float(10.0 ** rng.uniform(-1, 3)) if kind == 3 else 2.0
    cap = 1.0 / (rng.uniform(0.2, 0.8) * size)
    gone = tuple(rng.choice([*first], size=2, replace=False).tolist())
    return World(first, later, gone, key(), sigma, cap, bool(rng.random() < 0.5), rng.standard_normal((6, d)))


class Book:
    """One world in the making: a memory in the process, or one of a store."""

    def __init__(self, world: World, salts: FixedSalts, store: Any = None) -> None:
        self.world, self.salts, self.store = world, salts, store
        self._memory: Any = None

    @property
    def memory(self) -> Any:
        """The memory as it stands."""
        return self._memory if self.store is None else self.store["m"]

    def fit(self, names: list[str]) -> None:
        """Begin with these entries."""
        keys = [self.world.x if name == "x" else self.world.first[name] for name in names]
        values = [[float(np.sin(len(name) + key[0])), 1.0] for name, key in zip(names, keys, strict=True)]
        options: dict[str, Any] = {
            "sigma": self.world.sigma,
            "cap": self.world.cap,
            "ids": names,
            "subjects": [f"subject of {name}" for name in names],
            "payloads": [f"payload of {name}" for name in names],
        }
        self.salts.of(names)
        if self.store is None:
            self._memory = Memory.fit(np.array(keys), np.array(values), **options)
        else:
            self.store.create("m", np.array(keys), np.array(values), **options)

    def admit(self, name: str) -> None:
        """Admit a later entry, or x."""
        key = self.world.x if name == "x" else self.world.later[name]
        self.salts.of([name])
        about = {"subject": f"subject of {name}", "payload": f"payload of {name}"}
        self.memory.admit(key, [float(np.sin(len(name) + key[0])), 1.0], id=name, **about)

    def restore(self) -> None:
        """Save and load; a store is left as it is."""
        if self.store is None:
            self._memory = unpack(pack(self._memory))


def hold_and_erase_x(book: Book, history: str, place: int) -> None:
    """A history in which x was there, at this place of the first entries or admitted later, and went."""
    names = [*book.world.first]
    later = [*book.world.later]
    if history in ("deleted", "archived and deleted", "restored and deleted"):
        names.insert(place, "x")
        book.fit(names)
        if history == "archived and deleted":
            book.memory.prune("archive")
        if history == "restored and deleted":
            book.restore()
        book.admit(later[0])
    else:
        book.fit(names)
        book.admit("x")
        if history == "admitted twice":
            book.memory.delete("x")
            book.admit(later[0])
            book.admit("x")
        else:
            book.admit(later[0])
    book.memory.delete("x")
    if history == "restored and deleted":
        book.restore()


def never_hold_x(book: Book) -> None:
    book.fit([*book.world.first])
    book.admit(next(iter(book.world.later)))


def go_on(book: Book, *, prune: bool) -> None:
    """What both worlds go through afterwards; pruned worlds are pruned again, so that the archives are equal."""
    for name in book.world.gone:
        book.memory.delete(name)
    for name in [*book.world.later][1:]:
        book.admit(name)
    if prune:
        book.memory.prune("archive")


def memory_bytes(memory: Memory, queries: npt.NDArray[np.float64]) -> dict[str, bytes]:
    """Everything that a memory publishes or stores, by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bundle"
        write_evidence(path, None, memory.version, b"{}")
        with zipfile.ZipFile(path) as bundle:
            evidence = b"".join(bundle.read(name) for name in sorted(bundle.namelist()))
    return {
        "coefficients": memory.coefficients.tobytes(),
        "offset": memory.offset.hex().encode(),
        "save file": pack(memory),
        "digest": memory.digest.encode(),
        "readouts": memory.read(queries).tobytes(),
        "scores": memory.score(queries).tobytes(),
        "search": repr(memory.search(queries[0])).encode(),
        "warranties": repr(memory.warranties()).encode(),
        "certificates": repr([memory.certificate(name) for name in memory.ids[:4]]).encode(),
        "bounds": repr(memory.bounds()).encode(),
        "pickle": pickle.dumps(memory),
        # The edit number is the ledger's.
        "map": repr(map_content(memory.version) | {"edit": None}).encode(),
        "evidence bundle": evidence,
    }


def stored_cells(store: Any) -> dict[str, bytes]:
    """Every cell of a store by column, in order of the primary key."""
    found: dict[str, list[Any]] = {}
    with store._database.reading() as connection:
        for table in tables.metadata.sorted_tables:
            if table.name.removeprefix("expunge_") in EXCEPTED:
                continue
            for row in connection.execute(select(table).order_by(*table.primary_key.columns)).mappings():
                for column in table.columns:
                    # A memory's UUID is random: it names the memory in the ledger.
                    if column is not tables.memories.c.uuid:
                        found.setdefault(f"{table.name}.{column.name}", []).append(row[column.name])
    return {column: repr(cells).encode() for column, cells in found.items()}


def _differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _pair(
    world: World, history: str, place: int, books: list[Book], show: Callable[[Book], dict[str, bytes]]
) -> list[str]:
    hold_and_erase_x(books[0], history, place)
    never_hold_x(books[1])
    for book in books:
        go_on(book, prune=world.prune or history == "archived and deleted")
    return _differing(show(books[0]), show(books[1]))


def twin_memories(world: World, history: str, place: int) -> list[str]:
    """Names of the artifacts in which two memories differ; empty where the attacker has nothing to go by."""
    with fixed_salts() as salts:
        books = [Book(world, salts), Book(world, salts)]
        return _pair(world, history, place, books, lambda book: memory_bytes(book.memory, world.queries))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108 — what this waits for is mostly the disk
    folder = Path(tempfile.mkdtemp(prefix="twins", dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def twin_stores(world: World, history: str, place: int) -> list[str]:
    """Columns in which two stores differ."""
    with _folder() as folder, fixed_salts() as salts:
        stores = [expunge.open(f"sqlite:///{folder / name}.db", signing_key=folder / "key.pem") for name in "ab"]
        try:
            books = [Book(world, salts, store) for store in stores]
            return _pair(world, history, place, books, lambda book: stored_cells(book.store))
        finally:
            for store in stores:
                store.close()
