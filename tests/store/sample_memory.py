"""A small ward to test stores with: keys of patients, notes as payloads, and what a memory looks like from outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import func, select

from expunge import Memory, Refused
from expunge.store import Leaf, SignedReceipt, Store, StoredMemory
from expunge.store.backends import tables

if TYPE_CHECKING:
    from .conftest import Place

__all__ = ["SAMPLE_EDITS", "appearance", "arrival", "entries", "fill", "fitted", "leaf_of", "reloaded", "row_counts"]

SIGMA, NU = 2.0, 0.3


def entries(size: int = 40, seed: int = 0, *, patients: int = 8, dimension: int = 4) -> dict[str, Any]:
    """Keys, values and the rest, with a pair of identical keys."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((size, dimension))
    keys[size // 2] = keys[0]
    return {
        "keys": keys,
        "values": rng.standard_normal((size, 2)),
        "ids": [f"e{row}" for row in range(size)],
        "subjects": [f"patient-{row % patients}" if row % 5 else None for row in range(size)],
        "payloads": [_payload(row) for row in range(size)],
    }


def _payload(row: int) -> Any:
    return (None, f"note {row}: naïve ☃", {"hour": row, "text": "x" * row}, bytes([row % 256]) * row)[row % 4]


def fill(store: Store, name: str = "icu", size: int = 40, seed: int = 0, **options: Any) -> StoredMemory:
    """Create a memory of the ward."""
    return store.create(name, **entries(size, seed, **options), sigma=SIGMA, nu=NU)


def fitted(size: int = 40, seed: int = 0, **options: Any) -> Memory:
    """The same memory, not stored."""
    return Memory.fit(**entries(size, seed, **options), sigma=SIGMA, nu=NU)


def arrival(number: int, *, far: float = 1.0) -> dict[str, Any]:
    """One new entry, reproducible."""
    rng = np.random.default_rng(10_000 + number)
    return {
        "key": far * rng.standard_normal(4),
        "value": rng.standard_normal(2),
        "id": f"new-{number}",
        "subject": f"patient-{number % 8}",
        "payload": f"arrival {number}",
    }


def appearance(memory: Memory | StoredMemory) -> dict[str, Any]:
    """Everything that a caller can see of a memory, bit for bit."""
    return {
        "ids": memory.ids,
        "subjects": memory.subjects,
        "payloads": [memory.payload(name) for name in memory.ids],
        "keys": memory.keys.tobytes(),
        "values": memory.values.tobytes(),
        "coefficients": memory.coefficients.tobytes(),
        "offset": memory.offset,
        "cap": memory.cap,
        "sigma": memory.sigma,
        "initial_size": memory.initial_size,
        "deletable": memory.deletable,
        # A bound may take another, equally valid path to its last digit after a reload.
        "warranties": [
            {name: item for name, item in dataclasses.asdict(row).items() if name != "remaining"}
            for row in memory.warranties()
        ],
    }


def leaf_of(store: Store, problem: Refused) -> Leaf:
    """The ledger's record of a refusal."""
    assert isinstance(problem.receipt, SignedReceipt)
    return store.leaf(problem.receipt.index)


def reloaded(place: Place, name: str = "icu") -> StoredMemory:
    """The memory as a new process would find it."""
    return place.open()[name]


def row_counts(store: Store) -> dict[str, int]:
    """Rows of every table."""
    with store._database.reading() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables.metadata.sorted_tables
        }


# One of each kind, on a memory of `fill`.
SAMPLE_EDITS: dict[str, Callable[[Any], Any]] = {
    "admit-outlier": lambda memory: memory.admit(**arrival(1, far=4.0)),
    "admit-reserve": lambda memory: memory.admit(**arrival(2, far=0.05)),
    "admit-copy": lambda memory: memory.admit(memory.keys[3], [1.0, 2.0], id="copy"),
    "admit-far": lambda memory: memory.admit([3.0, 3.0, 0.0, 0.0], [1.0, 2.0], id=f"far-{len(memory)}"),
    "delete-active": lambda memory: memory.delete(memory.ids[int(memory.partition.bound[0])]),
    "delete-margin": lambda memory: memory.delete(memory.ids[int(memory.partition.margin[0])]),
    "delete-reserve": lambda memory: memory.delete(memory.ids[int(memory.partition.reserve[0])]),
    "delete-one-of-a-pair": lambda memory: memory.delete("e0"),
    "delete-several": lambda memory: memory.delete(["e3", "e7", "e20"]),
    "delete-subject": lambda memory: memory.delete(subject="patient-3"),
    "prune-archive": lambda memory: memory.prune("archive"),
    "prune-archive-sketch": lambda memory: memory.prune("archive", sketch=2),
    "prune-forget": lambda memory: memory.prune("forget", sketch=2),
    "rebuild": lambda memory: memory.rebuild(nu=0.5),
    "rebuild-all": lambda memory: memory.rebuild(nu=1),
}
