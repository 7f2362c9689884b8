"""Lies about the certificates of forgotten entries."""

from __future__ import annotations

from typing import Any

from expunge.ledger.receipt_format import Pruning

from .model import ModelMemory, World
from .telling import fresh, lie, one, with_certificate


def _admit_plainly(world: World, memory: ModelMemory, **stated: Any) -> str:
    name = world.name()
    memory.live |= {name}
    world.edit(memory, "admission", "admitted", applied={name}, **stated)
    return name


@lie("ledger-certificate-unknown")
def a_certificate_of_what_is_not_forgotten(world: World) -> None:
    memory, _ = with_certificate(world)
    names = [one(world, memory), world.name()]
    _admit_plainly(world, memory, **{world.rng.choice(["expired", "renewed"]): {world.rng.choice(names)}})


@lie("ledger-certificate-unknown")
def a_certificate_of_what_was_erased(world: World) -> None:
    memory, name = with_certificate(world)
    world.delete(memory, {name})
    _admit_plainly(world, memory, expired={name})


@lie("ledger-certificate-ended")
def a_certificate_that_ended_and_comes_back(world: World) -> None:
    memory, name = with_certificate(world)
    world.delete(memory, {one(world, memory)})
    _admit_plainly(world, memory, **{world.rng.choice(["expired", "renewed"]): {name}})


@lie("ledger-certificate-ended")
def a_certificate_that_ends_twice(world: World) -> None:
    memory, name = with_certificate(world)
    world.delete(memory, {one(world, memory)})
    gone = one(world, memory)
    memory.live -= {gone}
    world.edit(memory, "deletion", "decrement", applied={gone}, ended={name})


@lie("ledger-certificate-kept")
def a_certificate_kept_over_an_erasure(world: World) -> None:
    memory, _ = with_certificate(world)
    gone = one(world, memory)
    memory.live -= {gone}
    world.edit(memory, "deletion", "decrement", applied={gone})


@lie("ledger-certificate-kept")
def a_certificate_kept_over_a_rebuild(world: World) -> None:
    memory, _ = with_certificate(world)
    memory.initial = None
    world.edit(memory, "rebuild", "rebuilt")


@lie("ledger-certificate-kept")
def a_certificate_kept_over_a_forgetting(world: World) -> None:
    memory, _ = with_certificate(world)
    name = one(world, memory)
    memory.live -= {name}
    memory.forgotten[name] = None
    world.edit(memory, "pruning", "pruned", applied={name}, pruning=Pruning("forget", 0))


@lie("ledger-certificate-unfounded")
def a_certificate_ended_without_reason(world: World) -> None:
    memory, name = with_certificate(world)
    late = _admit_plainly(world, memory)
    memory.live -= {late}
    world.edit(memory, "deletion", "decrement", applied={late}, ended={name})


@lie("ledger-certificate-status")
def a_certificate_that_expires_twice(world: World) -> None:
    memory, name = with_certificate(world)
    _admit_plainly(world, memory, expired={name})
    if renewed := world.rng.random() < 0.5:
        _admit_plainly(world, memory, renewed={name})
    _admit_plainly(world, memory, **{"renewed" if renewed else "expired": {name}})


@lie("ledger-notice-mismatch")
def a_notice_of_something_else(world: World) -> None:
    memory, name = with_certificate(world)
    if world.rng.random() < 0.5:
        _admit_plainly(world, memory, expired={name})
        name = one(world, memory)
    world.edit(memory, "expiry", "expired", expired={name})


@lie("ledger-notice-mismatch")
def a_notice_that_comes_again_or_late(world: World) -> None:
    memory, name = with_certificate(world)
    _admit_plainly(world, memory, expired={name})
    if world.rng.random() < 0.5:
        world.edit(memory, "expiry", "expired", expired={name})
    else:
        fresh(world)
    world.edit(memory, "expiry", "expired", expired={name})


@lie("ledger-certificate-status")
def a_certificate_that_expires_and_is_renewed_at_once(world: World) -> None:
    memory, name = with_certificate(world)
    _admit_plainly(world, memory, expired={name}, renewed={name})


@lie("ledger-certificate-status")
def a_certificate_renewed_that_has_not_expired(world: World) -> None:
    memory, name = with_certificate(world)
    _admit_plainly(world, memory, renewed={name})
