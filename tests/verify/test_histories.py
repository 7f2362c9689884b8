"""Histories with restorations, against a plain model of what is in the memory: what was erased must not be in its end.

States are digests of the live entries alone, as in a memory, so that states recur while archived entries differ.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from expunge.ledger.envelope import sign_statement
from expunge.ledger.receipt_format import Listed, Predicate, Pruning, RequestStated, Sizes
from raising import raises_code

from .cases import SIGNER, case
from .test_ledger import replay

CREATED, ADMITTED = case("ward-created").predicate, case("ward-admitted").predicate
PROBLEM = replace(CREATED.problem, cap=1.0, initial_entries=None)
ALIKE: dict[str, Any] = {"memory": CREATED.memory, "problem": PROBLEM, "expired": Listed()}


def named(*names: str) -> Listed:
    return Listed.of(hashlib.sha256(name.encode()).digest() for name in names)


@dataclass
class Model:
    """One memory, its receipts, and a copy of its entries after each edit."""

    live: frozenset[str] = frozenset("abcdef")
    cold: frozenset[str] = frozenset()
    gone: set[str] = field(default_factory=set)
    copies: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    receipts: list[Predicate] = field(default_factory=list)
    # Whether something happened while an erased entry was back.
    undone: bool = False

    def __post_init__(self) -> None:
        self.receipts.append(
            replace(
                CREATED,
                **ALIKE,
                state_after=self.digest,
                after=self.sizes,
                applied=named(*self.live),
                request=RequestStated.new(),
            )
        )
        self.copies.append((self.live, self.cold))

    @property
    def digest(self) -> str:
        return hashlib.sha256("".join(sorted(self.live)).encode()).hexdigest()

    @property
    def sizes(self) -> Sizes:
        return Sizes(len(self.live), len(self.cold))

    @property
    def back(self) -> set[str]:
        """What was erased and is there."""
        return self.gone & (self.live | self.cold)

    def edit(self, live: frozenset[str], cold: frozenset[str], **stated: Any) -> None:
        before: dict[str, Any] = {"state_before": self.digest, "before": self.sizes, "request": RequestStated.new()}
        back = self.back
        self.live, self.cold = live, cold
        after: dict[str, Any] = {"state_after": self.digest, "after": self.sizes, "edit": len(self.copies)}
        self.receipts.append(replace(ADMITTED, **ALIKE, **before, **after, **stated))
        self.copies.append((live, cold))
        erased = stated.get("action") == "deletion" and not self.back
        self.undone |= bool(back) and not erased and stated.get("action") != "restoration"

    def admit(self, name: str) -> None:
        self.edit(self.live | {name}, self.cold, applied=named(name))

    def archive(self, name: str) -> None:
        kind: dict[str, Any] = {"action": "pruning", "outcome": "pruned", "pruning": Pruning("archive", 0)}
        self.edit(self.live - {name}, self.cold | {name}, applied=named(name), **kind)

    def delete(self, *names: str) -> None:
        kind: dict[str, Any] = {"action": "deletion", "outcome": "certified_zero"}
        self.edit(self.live - {*names}, self.cold - {*names}, applied=named(*names), **kind)
        self.gone |= {*names}

    def restore(self, edit: int) -> None:
        kind: dict[str, Any] = {"action": "restoration", "outcome": "restored", "restored_edit": edit}
        self.edit(*self.copies[edit], applied=Listed(), **kind)

    def verify(self) -> None:
        replay([sign_statement(receipt.to_statement(), SIGNER).to_bytes() for receipt in self.receipts])


@pytest.fixture
def model() -> Model:
    return Model()


def test_an_erasure_before_the_backup_is_not_back(model: Model) -> None:
    """Deleting an archived entry leaves the digest as it was."""
    model.archive("a")
    model.delete("a")
    model.admit("g")
    model.restore(2)
    model.verify()


def test_a_restoration_that_brings_an_archived_entry_back(model: Model) -> None:
    model.archive("a")
    model.delete("a")
    model.restore(1)
    with raises_code("ledger-erasure-undone", match="1 erasures"):
        model.verify()
    model.delete("a")
    model.verify()


def test_an_older_backup_and_then_a_newer_one(model: Model) -> None:
    model.delete("a")
    model.admit("g")
    model.restore(0)
    model.delete("a")
    model.restore(1)
    model.verify()


def test_a_restoration_to_a_restoration_that_was_not_finished(model: Model) -> None:
    """The erased entry was erased earlier than the restored state, and is in it all the same."""
    model.delete("a")
    model.restore(0)
    model.delete("a")
    model.restore(2)
    with raises_code("ledger-erasure-undone"):
        model.verify()
    model.restore(3)
    model.verify()


def test_what_was_admitted_elsewhere_is_not_back(model: Model) -> None:
    """A restoration lost the entry, another one found it, and a third goes back to where it was lost."""
    model.admit("g")
    model.restore(0)
    model.admit("h")
    model.restore(1)
    model.delete("g")
    model.restore(3)
    model.verify()
    # It is back where it was.
    model.restore(1)
    with raises_code("ledger-erasure-undone"):
        model.verify()


def test_what_was_admitted_after_an_equal_state_is_back(model: Model) -> None:
    """The digest is that of the creation; the entry that is back was admitted later."""
    model.admit("g")
    model.archive("g")
    model.delete("g")
    model.restore(2)
    with raises_code("ledger-erasure-undone"):
        model.verify()


def recurring() -> Model:
    """Edits 1 and 4 left the same digest and sizes; the archive had `a` at first, and has `g` now."""
    model = Model()
    model.archive("a")
    model.delete("a")
    model.admit("g")
    model.archive("g")
    model.admit("h")
    return model


def test_the_edit_tells_equal_states_apart() -> None:
    model = recurring()
    model.restore(4)
    model.verify()
    model.restore(1)
    with raises_code("ledger-erasure-undone"):
        model.verify()


@pytest.mark.parametrize("edit", [0, 2, 3])
def test_an_edit_that_left_another_state(edit: int) -> None:
    model = recurring()
    model.restore(4)
    model.receipts[-1] = replace(model.receipts[-1], restored_edit=edit)
    with raises_code("ledger-restoration-mismatch"):
        model.verify()


def test_nothing_comes_between_a_restoration_and_its_erasures(model: Model) -> None:
    model.delete("a", "b")
    model.restore(0)
    model.delete("a", "b")
    model.verify()
    model.restore(0)
    model.delete("a")
    model.delete("b")
    with raises_code("ledger-erasure-undone", match="1 erasures"):
        model.verify()


@pytest.mark.parametrize("seed", range(40))
def test_random_histories(seed: int) -> None:
    """A ledger verifies if what a restoration brought back was erased at once each time, and never else."""
    rng = random.Random(seed)
    model = Model()
    for step in range(40):
        live, cold = sorted(model.live), sorted(model.cold)
        match rng.choice(["admit", "admit", "archive", "archive", "delete", "delete", "restore"]):
            case "archive" if len(live) > 1:
                model.archive(rng.choice(live))
            case "delete" if cold or len(live) > 1:
                model.delete(rng.choice(cold or live))
            case "restore":
                model.restore(rng.randrange(len(model.copies)))
                # Mostly, what was erased is erased again.
                if model.back and len(model.live - model.gone) > 0 and rng.random() < 0.97:
                    model.delete(*model.back)
            case _:
                model.admit(f"<{step}>")
    if model.undone or model.back:
        with raises_code("ledger-erasure-undone"):
            model.verify()
    else:
        model.verify()
