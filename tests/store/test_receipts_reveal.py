"""Game B: an attacker sees the ledger, the answers and the remaining entries, and must say which entry was erased.

Two stores hold the same entries and one more, x0 or x1, which is then erased. Where both were in the same group, every
receipt and every answer is the same but for random names, commitments, digests and times. What may differ elsewhere is
what docs/formats/receipt.md lists.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import expunge
from expunge.memory.receipt import Receipt
from expunge.store import SignedReceipt, Store, StoredMemory
from expunge.types import Matrix, Vector
from verify.cases import PATH, broken

RANDOM = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9-]{10}T[0-9:]{8}Z")
SIZE, DIMENSION = 24, 3


def rest(seed: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((SIZE, DIMENSION))


def candidates(seed: int) -> list[Vector]:
    """Keys inside, outside and far away, a copy of a remaining key and two that are next to one."""
    rng, keys = np.random.default_rng(1000 + seed), rest(seed)
    drawn = [scale * rng.standard_normal(DIMENSION) for scale in (0.1, 0.3, 1.0, 1.0, 2.0, 2.0, 4.0, 30.0)]
    return [*drawn, keys[int(rng.integers(SIZE))], keys[0] + 1e-7, keys[1] + 1e-3 * rng.standard_normal(DIMENSION)]


def masked(content: Any) -> Any:
    """JSON without what is drawn at random, hashed or told by a clock."""
    return json.loads(RANDOM.sub("*", json.dumps(content)))


def differences(one: Any, other: Any, path: str = "") -> set[str]:
    """Where two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {found for key in one for found in differences(one[key], other[key], f"{path}.{key}".lstrip("."))}
    return set() if one == other else {path}


class Play:
    """One history in a store of its own, and everything of it that the attacker sees."""

    def __init__(self, file: Path, seed: int, *, prune: str | None = None) -> None:
        self.store: Store = expunge.open(f"sqlite:///{file}")
        self.memory: StoredMemory = self.store.create(
            "m", rest(seed), np.arange(SIZE), sigma=2.0, nu=0.3, ids=[f"e{row}" for row in range(SIZE)]
        )
        if prune is not None:
            self.memory.prune(prune)  # type: ignore[call-overload]

    def erase(self, key: Vector) -> tuple[SignedReceipt, list[Any], Receipt]:
        """Admit a key and erase it again: the answer, what the attacker sees, and what was measured."""
        start = self.store.size
        admitted = self.memory.admit(key, 99.0, id="x")
        erased = self.memory.delete("x", idempotency_key=f"request {start}")
        assert erased.measured is not None
        again = self.memory.delete("x", idempotency_key=f"request {start}")
        assert again == erased
        assert again.to_json() == erased.to_json()
        leaves = self.store.receipts(start=start)
        seen = [[leaf.kind, json.loads(leaf.statement.to_bytes())] for leaf in leaves]
        for index, (_, statement) in enumerate(seen):
            # The number of the edit counts the rounds of this game.
            statement["predicate"]["edit"] -= self.memory.version.edit
            assert leaves[index].index == start + index
        answers = [answer.to_json() | {"edit": 0, "index": 0} for answer in (admitted, erased)]
        return erased, masked([seen, answers]), erased.measured


@pytest.mark.parametrize("seed", range(12))
def test_two_entries_of_one_group_leave_the_same_receipts_and_answers(tmp_path: Path, seed: int) -> None:
    play = Play(tmp_path / "ward.db", seed)
    digest = play.memory.digest
    seen: dict[str, list[Any]] = {}
    measured: dict[str, set[Any]] = {}
    for key in candidates(seed):
        erased, shown, receipt = play.erase(key)
        # A function of the remaining entries and their salts.
        assert erased.state_after == digest
        seen.setdefault(erased.outcome, []).append(shown)
        measured.setdefault(erased.outcome, set()).add((receipt.check, receipt.pivots))
    play.store.close()
    assert set(seen) == {"certified_zero", "decrement"}
    for outcome, shown in seen.items():
        assert all(one == shown[0] for one in shown), outcome
    # The measurements would have told the entries apart, so the comparison above can fail.
    assert any(len(found) > 1 for found in measured.values())


def test_a_rescue_does_not_show(tmp_path: Path) -> None:
    play = Play(tmp_path / "ward.db", 0)
    key = 4.0 * np.ones(DIMENSION)
    plain, shown, _ = play.erase(key)
    play.memory.admit(key, 99.0, id="x")
    start = play.store.size
    with broken(*PATH):
        rescued = play.memory.delete("x")
    assert rescued.measured is not None
    assert (rescued.outcome, rescued.measured.outcome, plain.outcome) == ("decrement", "rescued", "decrement")
    (leaf,) = play.store.receipts(start=start)
    assert leaf.kind == "decrement"
    statement = masked(json.loads(leaf.statement.to_bytes()))
    statement["predicate"]["edit"] = 0
    assert statement == shown[0][1][1]
    play.store.verify()
    play.store.close()


@pytest.mark.parametrize("prune", ["archive", "forget"])
def test_what_differs_beside_a_pruning_is_what_the_format_lists(tmp_path: Path, prune: str) -> None:
    """Which certificates and archived entries an erasure touches depends on the entry, and on nothing else of it."""
    found: Counter[str] = Counter()
    for seed in range(6):
        seen: dict[str, list[Any]] = {}
        for number, key in enumerate(candidates(seed)):
            # What came back from the archive stays, so each candidate has a store of its own.
            play = Play(tmp_path / f"{seed}-{number}.db", seed, prune=prune)
            erased, (leaves, _), _ = play.erase(key)
            play.store.close()
            deletion = next(one["predicate"] for kind, one in leaves if kind == erased.outcome)
            seen.setdefault(erased.outcome, []).append(deletion)
        for shown in seen.values():
            for one in shown[1:]:
                found.update(differences(shown[0], one))
    lists = {f"warranties.{part}.{half}" for part in ("expired", "renewed") for half in ("count", "commitments")}
    lists |= {f"warranties.reactivated.{half}" for half in ("count", "commitments")}
    sizes = {f"entries.{when}.{what}" for when in ("before", "after") for what in ("live", "pruned")}
    assert set(found) <= lists | sizes, found
    assert found, "the pruning made no difference, so nothing was tested"
