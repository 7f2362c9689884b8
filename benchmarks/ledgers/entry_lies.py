"""Lies about entries: admitted, erased, pruned and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from expunge.ledger.receipt_format import Predicate, Pruning, Sizes

from .model import ModelMemory, World
from .telling import admitting, archived, deleting, forgotten, fresh, lie, one


@lie("ledger-entry-repeated")
def an_entry_admitted_twice(world: World) -> None:
    memory = fresh(world)
    names = [one(world, memory), archived(world, memory), forgotten(world, memory)]
    admitting(world, memory, {world.rng.choice(names), world.name()})


@lie("ledger-entry-reused")
def an_erased_entry_admitted_again(world: World) -> None:
    memory = fresh(world)
    name = one(world, memory)
    world.delete(memory, {name})
    admitting(world, memory, {name})


@lie("ledger-entry-reused")
def a_lost_entry_admitted_again(world: World) -> None:
    memory = fresh(world)
    world.admit(memory, 1)
    (name,) = memory.live - memory.copies[0].live
    world.restore(memory, 0)
    admitting(world, memory, {name})


@lie("ledger-drop-undone")
def entries_of_a_dropped_memory(world: World) -> None:
    gone, memory = fresh(world), fresh(world)
    world.drop(gone, named=world.rng.random() < 0.5)
    admitting(world, memory, {world.rng.choice(sorted(gone.live))})


@lie("ledger-drop-undone")
def the_state_of_a_dropped_memory(world: World) -> None:
    gone = fresh(world)
    world.drop(gone, named=True)
    fresh(world)
    receipt = world.leaves[-1]
    if isinstance(receipt, Predicate):
        world.leaves[-1] = replace(receipt, state_after=gone.digest)


@lie("ledger-entry-shared")
def an_entry_with_two_lives(world: World) -> None:
    other, memory = fresh(world), fresh(world)
    name = one(world, other)
    if world.rng.random() < 0.5:
        world.delete(other, {name})
    admitting(world, memory, {name})


@lie("ledger-erasure-repeated")
def an_entry_erased_twice(world: World) -> None:
    memory = fresh(world)
    name = one(world, memory)
    world.delete(memory, {name})
    deleting(world, memory, {name})


@lie("ledger-entry-elsewhere")
def an_entry_of_another_memory_erased(world: World) -> None:
    other, memory = fresh(world), fresh(world)
    deleting(world, memory, {one(world, other)})


@lie("ledger-deletion-unknown")
def an_entry_erased_that_never_was(world: World) -> None:
    deleting(world, fresh(world), {world.name()})


@lie("ledger-deletion-unknown")
def an_archived_entry_kept_under_another_name(world: World) -> None:
    memory = fresh(world)
    archived(world, memory)
    deleting(world, memory, {world.name()}, live=0, state_after=memory.digest)


@lie("ledger-deletion-unknown")
def an_entry_erased_that_a_restoration_lost(world: World) -> None:
    memory = fresh(world)
    world.admit(memory, 1)
    (name,) = memory.live - memory.copies[0].live
    world.restore(memory, 0)
    deleting(world, memory, {name})


def _pruning(world: World, memory: ModelMemory, name: str) -> None:
    sizes = memory.sizes
    mode: Any = world.rng.choice(["archive", "forget"])
    world.edit(
        memory,
        "pruning",
        "pruned",
        applied={name},
        after=Sizes(sizes.live - 1, sizes.pruned + 1),
        state_after=world.name(),
        pruning=Pruning(mode, 0),
    )


@lie("ledger-pruning-not-live")
def a_pruning_of_what_is_not_live(world: World) -> None:
    memory = fresh(world)
    names = [archived(world, memory), forgotten(world, memory), world.name()]
    _pruning(world, memory, world.rng.choice(names))


def _reactivating(world: World, memory: ModelMemory, name: str) -> None:
    sizes = memory.sizes
    after = Sizes(sizes.live + 2, sizes.pruned - 1)
    admitting(world, memory, {world.name()}, reactivated={name}, after=after)


@lie("ledger-forgotten-returned")
def a_forgotten_entry_reactivated(world: World) -> None:
    memory = fresh(world)
    _reactivating(world, memory, forgotten(world, memory))


@lie("ledger-reactivation-unknown")
def an_entry_reactivated_that_was_not_archived(world: World) -> None:
    memory = fresh(world)
    cold = archived(world, memory)
    name = world.rng.choice([one(world, memory), world.name()])
    if world.rng.random() < 0.3:
        # It was, and was erased.
        world.delete(memory, {cold})
        archived(world, memory)
        name = cold
    _reactivating(world, memory, name)


@lie("ledger-sizes-mismatch")
def an_archived_entry_erased_as_a_live_one(world: World) -> None:
    memory = fresh(world)
    name = archived(world, memory)
    deleting(world, memory, {name}, live=1, state_after=memory.digest)


@lie("ledger-sizes-mismatch")
def a_live_entry_erased_as_an_archived_one(world: World) -> None:
    memory = fresh(world)
    archived(world, memory)
    deleting(world, memory, {one(world, memory)}, live=0)


@lie("ledger-sizes-mismatch")
def more_zeros_than_entries(world: World) -> None:
    memory = fresh(world)
    name = one(world, memory)
    memory.live -= {name}
    memory.archived |= {name}
    world.edit(memory, "pruning", "pruned", applied={name}, pruning=Pruning("archive", world.rng.randint(8, 99)))


@lie("ledger-archive-left")
def a_rebuild_that_leaves_an_archive(world: World) -> None:
    memory = fresh(world)
    cold = archived(world, memory)
    archived(world, memory)
    memory.live |= {cold}
    memory.archived -= {cold}
    memory.initial = None
    world.edit(memory, "rebuild", "rebuilt", reactivated={cold})


@lie("ledger-archive-left")
def a_refit_that_leaves_an_archive(world: World) -> None:
    memory = world.create(8, 0.125)
    # Two entries of an archive that is full from the beginning; the cap is for those that are live.
    memory.cap = 0.25
    memory.initial = None
    world.edit(memory, "rebuild", "rebuilt")
    archived(world, memory)
    gone = memory.live - frozenset(sorted(memory.live)[:3])
    memory.live -= gone
    memory.cap = 0.5
    world.edit(memory, "deletion", "refitted", applied=gone)


@lie("ledger-archive-left")
def an_empty_memory_with_an_archive(world: World) -> None:
    memory = fresh(world)
    archived(world, memory)
    gone, memory.live, memory.cap = memory.live, frozenset(), 1.0
    world.edit(memory, "deletion", "emptied", applied=gone)


@lie("ledger-outcome-unfounded")
def a_decrement_of_what_had_no_weight(world: World) -> None:
    memory = fresh(world)
    name = world.rng.choice([archived(world, memory), forgotten(world, memory)])
    sizes = memory.sizes
    after = Sizes(sizes.live, sizes.pruned - 1)
    world.edit(memory, "deletion", "decrement", applied={name}, after=after, state_after=world.name())


@lie("ledger-outcome-unfounded")
def a_certified_zero_of_what_must_have_weight(world: World) -> None:
    # Seven entries at a cap of 1/4: four have weight at least. Those that come back make up for the others.
    memory = world.create(7, 0.25)
    cold = frozenset(sorted(memory.live)[:2])
    world.prune(memory, cold, "archive")
    gone = frozenset(sorted(memory.live)[: world.rng.choice([2, 3])])
    memory.live = (memory.live - gone) | cold
    memory.archived = frozenset()
    world.edit(memory, "deletion", "certified_zero", applied=gone, reactivated=cold)


@lie("ledger-outcome-unfounded")
def a_certified_zero_that_brings_an_entry_back(world: World) -> None:
    memory = fresh(world)
    cold, gone = archived(world, memory), one(world, memory)
    memory.live = (memory.live - {gone}) | {cold}
    memory.archived -= {cold}
    world.edit(memory, "deletion", "certified_zero", applied={gone}, reactivated={cold})


@lie("ledger-sizes-mismatch")
def zeros_where_all_have_weight(world: World) -> None:
    memory = fresh(world)
    if world.rng.random() < 0.5:
        # Two of the eight have weight at least.
        world.edit(memory, "pruning", "noop", pruning=Pruning("archive", world.rng.randint(7, 99)))
        return
    name = one(world, memory)
    memory.live -= {name}
    memory.archived |= {name}
    world.edit(memory, "pruning", "pruned", applied={name}, pruning=Pruning("archive", world.rng.randint(6, 7)))
