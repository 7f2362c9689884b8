"""How a lie is told: what every class of lies is built from, and where it is registered by its name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from expunge.ledger.receipt_format import Predicate, Sizes
from expunge.ledger.statement import Subject

from .model import ModelMemory, World
from .model_steps import run

__all__ = [
    "LIES",
    "NOW",
    "SKEW",
    "Lie",
    "admitting",
    "archived",
    "deleting",
    "forgotten",
    "fresh",
    "in_parts",
    "lie",
    "nothing",
    "one",
    "summary",
    "tell",
    "with_certificate",
]

# What the verifier's clock says.
NOW: Final = 4_000_000_000
SKEW: Final = 300


@dataclass(frozen=True)
class Lie:
    """A class of lies, and the code that it is refused under."""

    code: str
    plant: Callable[[World], None]


LIES: Final[dict[str, Lie]] = {}


def tell(name: str, seed: int, number: int) -> World:
    """An honest ledger of the model, and a lie of one class in it."""
    world = World(random.Random(f"{name} {seed} {number}"))
    run(world, world.rng.randint(0, 12))
    world.longest = 1 << 60
    LIES[name].plant(world)
    if world.rng.random() < 0.5:
        world.create()
    return world


def lie(code: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """Register a function as a class of lies."""

    def add(plant: Callable[[World], None]) -> Callable[[World], None]:
        LIES[plant.__name__] = Lie(code, plant)
        return plant

    return add


def fresh(world: World, count: int = 8) -> ModelMemory:
    """A memory with entries enough for any edit."""
    return world.create(count, 0.5)


def one(world: World, memory: ModelMemory) -> str:
    """One live entry."""
    return world.rng.choice(sorted(memory.live))


def archived(world: World, memory: ModelMemory) -> str:
    """An entry that is archived now."""
    name = one(world, memory)
    world.prune(memory, frozenset({name}), "archive")
    return name


def forgotten(world: World, memory: ModelMemory) -> str:
    """An entry that is forgotten now."""
    name = one(world, memory)
    world.prune(memory, frozenset({name}), "forget")
    return name


def nothing(world: World, memory: ModelMemory, **stated: Any) -> Predicate:
    """A receipt that nothing was done."""
    return world.edit(memory, "deletion", "noop", **stated)


def admitting(world: World, memory: ModelMemory, names: set[str], **stated: Any) -> Predicate:
    """An admission of these entries, which adds up by itself."""
    before = memory.sizes
    after = Sizes(before.live + len(names), before.pruned)
    return world.edit(
        memory, "admission", "admitted", **{"applied": names, "after": after, "state_after": world.name(), **stated}
    )


def deleting(
    world: World, memory: ModelMemory, names: set[str], *, live: int | None = None, **stated: Any
) -> Predicate:
    """A deletion of these entries, `live` of which were live, that adds up by itself."""
    before = memory.sizes
    gone = len(names) if live is None else live
    after = Sizes(before.live - gone, before.pruned - (len(names) - gone))
    return world.edit(
        memory,
        "deletion",
        "certified_zero",
        **{"applied": names, "after": after, "state_after": world.name(), **stated},
    )


def in_parts(world: World) -> tuple[int, ModelMemory]:
    """An admission with its list in two parts at least; its leaf."""
    memory, leaf = fresh(world), len(world.leaves)
    while True:
        world.longest = 2
        world.admit(memory, 5)
        world.longest = 1 << 60
        if len(world.leaves) > leaf + 2:
            return leaf, memory
        leaf = len(world.leaves)


def with_certificate(world: World) -> tuple[ModelMemory, str]:
    """A memory with a forgotten entry, and the entry."""
    memory = fresh(world)
    return memory, forgotten(world, memory)


def summary(world: World, parts: list[dict[str, Any]], requested: int | None = None, subject: str = "") -> None:
    """Write a summary of an erasure."""
    kept = any(part["outcome"] in ("refused", "failed") for part in parts)
    world.note(
        "subject_erased",
        None,
        Subject("subject", subject or world.name()),
        memories=parts,
        complete=not kept,
        requested=requested,
    )
