"""A small ward to test stores with: keys of patients, notes as payloads, and what a memory looks like from outside."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge import Memory, Refused
from expunge.store import Leaf, SignedReceipt, Store, StoredMemory

if TYPE_CHECKING:
    from .conftest import Place

__all__ = ["appearance", "arrival", "entries", "fill", "fitted", "leaf_of", "reloaded"]

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
        "nu": memory.nu,
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
