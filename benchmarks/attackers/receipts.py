"""Game B: the attacker sees ledger and receipts and says which of x₀ and x₁ was erased.

The attacker re-runs the history with either candidate, has the statements made about it, and compares them field by
field with the ones that it saw. A field that differs between two runs of the *same* history is random or a clock, and
is left out: the attacker learns which these are by running one history twice. Whatever is left and differs between
the candidates decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge import Memory
from expunge.attestation.statements import attest

__all__ = ["deciding_fields", "fields_of", "group_of", "noise_fields"]

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]
Fields = dict[str, str]

# Drawn at random, and a clock of whole seconds: equal in both worlds, so that neither is taken for a difference.
_MEMORY = "6f1c8f1e-6a43-4d0c-9c0a-2b9d4b1f7a11"
_NOW = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)


def fields_of(keys: Matrix, values: Matrix, x: Vector, *, sigma: float, cap: float, pruned: bool = False) -> Fields:
    """Every field of the receipts of x's admission and erasure, by its path, in one history; `pruned` before it."""
    memory = Memory.fit(keys, values, sigma=sigma, cap=cap)
    if pruned:
        memory.prune("archive")
    made: list[Any] = []
    memory.journal = lambda before, after, receipt: made.extend(
        attest(receipt, before, after, memory=_MEMORY, edit=len(made) + 1, clock=lambda: _NOW)
    )
    memory.admit(x, np.full(values.shape[1], 0.5), id="x")
    memory.delete("x")
    return {
        f"{word}.{path}": value
        for word, statement in zip(("admission", "deletion"), made, strict=True)
        for path, value in _flat(json.loads(statement.to_bytes())["predicate"], "")
    }


def group_of(keys: Matrix, values: Matrix, x: Vector, *, sigma: float, cap: float) -> str:
    """Group of x among the others: reserve, margin or bound."""
    memory = Memory.fit(np.vstack([keys, x]), np.vstack([values, values[:1]]), sigma=sigma, cap=cap)
    weight = float(memory.coefficients[-1])
    return "reserve" if weight == 0.0 else "bound" if weight == memory.cap else "margin"


def noise_fields(one: Fields, again: Fields) -> set[str]:
    """Fields that differ between two runs of one history."""
    return {path for path in one.keys() | again.keys() if one.get(path) != again.get(path)}


def deciding_fields(seen: Fields, other: Fields, noise: set[str]) -> set[str]:
    """Fields, neither random nor a clock, that tell the true candidate's receipts from the other's."""
    return {
        _general(path)
        for path in (seen.keys() | other.keys()) - noise
        if seen.get(path) != other.get(path) and _general(path) not in {_general(one) for one in noise}
    }


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield f"{path}.length", str(len(value))
        for number, item in enumerate(value):
            yield from _flat(item, f"{path}[{number}]")
    else:
        yield path, json.dumps(value)


def _general(path: str) -> str:
    """A path without numbers of items."""
    return "".join(part.split("]")[-1] if "]" in part else part for part in path.replace("[", "\0[").split("\0"))
