"""Lies about holds, refusals and drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from expunge.ledger.receipt_format import Refusal
from expunge.ledger.statement import Subject

from .model import ModelMemory, World
from .telling import archived, forgotten, fresh, lie, nothing, one, with_certificate


@lie("ledger-event-mismatch")
def an_event_in_another_state(world: World) -> None:
    memory = fresh(world)
    state = memory.digest
    world.admit(memory, 1)
    wrong = Subject("state", world.rng.choice([state, world.name()]))
    world.note("held", memory, wrong, hold=world.last_hold + 1, entry=None)


@lie("ledger-event-mismatch")
def a_drop_with_other_sizes(world: World) -> None:
    world.note("dropped", fresh(world), live=world.rng.choice([7, 9]), pruned=0, entries=None)


@lie("ledger-hold-repeated")
def a_hold_number_given_twice(world: World) -> None:
    memory = fresh(world)
    number = world.hold(memory, None)
    if world.rng.random() < 0.5:
        world.release(number)
    world.note("held", world.rng.choice([memory, fresh(world)]), hold=number, entry=None)


@lie("ledger-hold-entry-unknown")
def a_hold_on_what_is_not_there(world: World) -> None:
    memory = fresh(world)
    name = one(world, memory)
    world.delete(memory, {name})
    world.hold(memory, world.rng.choice([name, world.name()]))


@lie("ledger-hold-unknown")
def a_release_of_no_hold(world: World) -> None:
    world.note("released", fresh(world), hold=world.last_hold + 7, cause="request")


@lie("ledger-hold-memory")
def a_release_by_another_memory(world: World) -> None:
    number = world.hold(fresh(world), None)
    world.note("released", fresh(world), hold=number, cause=world.rng.choice(["request", "lost_in_restore"]))


@lie("ledger-hold-released")
def a_hold_released_twice(world: World) -> None:
    memory = fresh(world)
    number = world.hold(memory, None)
    world.release(number)
    world.note("released", memory, hold=number, cause="request")


@lie("ledger-hold-not-lost")
def a_hold_lost_in_no_restore(world: World) -> None:
    memory = fresh(world)
    number = world.hold(memory, world.rng.choice([None, one(world, memory)]))
    world.admit(memory, 1)
    if world.rng.random() < 0.5:
        # Long ago there was one, and the hold outlived it.
        world.restore(memory, memory.edit - 1)
        world.admit(memory, 1)
    world.release(number, "lost_in_restore")


@lie("ledger-hold-not-lost")
def a_hold_lost_in_a_restore_from_a_later_backup(world: World) -> None:
    memory = fresh(world)
    number = world.hold(memory, world.rng.choice([None, one(world, memory)]))
    world.admit(memory, 1)
    world.admit(memory, 1)
    world.restore(memory, memory.edit - 1)
    world.release(number, "lost_in_restore")


@lie("ledger-hold-broken")
def a_held_entry_erased(world: World) -> None:
    memory = fresh(world)
    name = world.rng.choice([one(world, memory), archived(world, memory), forgotten(world, memory)])
    world.hold(memory, name)
    world.delete(memory, {name})


@lie("ledger-hold-broken")
def a_held_entry_forgotten(world: World) -> None:
    memory = fresh(world)
    name = one(world, memory)
    world.hold(memory, name)
    world.prune(memory, frozenset({name}), "forget")


@lie("ledger-hold-broken")
def a_held_memory_dropped(world: World) -> None:
    memory = fresh(world)
    world.hold(memory, world.rng.choice([None, one(world, memory)]))
    world.drop(memory, named=True)


def _refused(world: World, memory: ModelMemory, reason: Any, *numbers: Any, action: str = "deletion") -> None:
    world.edit(memory, action, "refused", refusal=Refusal(reason, *numbers))


@lie("ledger-hold-not-in-force")
def a_refusal_for_a_hold_that_is_not(world: World) -> None:
    memory = fresh(world)
    number = world.hold(world.rng.choice([memory, fresh(world)]), None)
    if world.holds[number][0] is memory:
        world.release(number)
    number = world.rng.choice([number, world.last_hold + 1])
    _refused(world, memory, "legal_hold", 1, 0, (number,))


@lie("ledger-refusal-unfounded")
def a_refusal_for_more_holds_than_can_be(world: World) -> None:
    memory = fresh(world)
    held = world.hold(memory, None), world.hold(memory, one(world, memory))
    _refused(
        world, memory, "legal_hold", *world.rng.choice([(9, 0, held[:1]), (2, 0, held[1:]), (1, 0, held), (2, 1, held)])
    )


@lie("ledger-refusal-unfounded")
def a_refusal_for_certificates_that_are_not(world: World) -> None:
    memory, _ = with_certificate(world)
    archived(world, memory)
    _refused(world, memory, "would_end_warranties", world.rng.randint(3, 99), 0, action="admission")


@lie("ledger-refusal-unfounded")
def a_refusal_for_a_reason_of_another_action(world: World) -> None:
    memory, _ = with_certificate(world)
    held = world.hold(memory, None)
    if world.rng.random() < 0.5:
        _refused(world, memory, "would_end_warranties", 1, 0)
    else:
        _refused(world, memory, "legal_hold", 1, 0, (held,), action=world.rng.choice(["admission", "rebuild"]))


@lie("ledger-refusal-unfounded")
def a_pruning_refused_for_what_is_not_live(world: World) -> None:
    memory = fresh(world)
    name = world.rng.choice([archived(world, memory), forgotten(world, memory)])
    if world.rng.random() < 0.5:
        _refused(world, memory, "legal_hold", 1, 0, (world.hold(memory, name),), action="pruning")
    else:
        _refused(world, memory, "legal_hold", 7, 0, (world.hold(memory, None),), action="pruning")


@lie("ledger-refusal-unfounded")
def a_refusal_where_nothing_had_to_be_fitted(world: World) -> None:
    count, actions = world.rng.choice(
        [(0, ["deletion", "pruning", "rebuild"]), (1, ["deletion", "pruning", "rebuild"]), (2, ["deletion", "pruning"])]
    )
    memory = world.create(count, 0.5 if count == 2 else 1.0)
    _refused(world, memory, "no_acceptable_state", action=world.rng.choice(actions))


@lie("ledger-drop-mismatch")
def a_drop_of_other_entries(world: World) -> None:
    memory = fresh(world)
    names = memory.everything
    wrong = world.rng.choice([names[1:], [*names[1:], world.name()], [*names, world.name()]])
    listed, _ = world.listed(wrong)
    entries = {"commitments": listed.commitments, "count": listed.count, "root": None}
    world.note("dropped", memory, live=8, pruned=0, entries=entries)


@lie("ledger-hold-left")
def a_hold_on_what_a_restoration_took(world: World) -> None:
    memory = fresh(world)
    world.admit(memory, 1)
    (name,) = memory.live - memory.copies[0].live
    number = world.hold(memory, name)
    world.restore(memory, 0)
    restoration = memory.last
    follows: list[Callable[[], object]] = [
        lambda: None,
        lambda: world.admit(memory, 1),
        lambda: nothing(world, memory),
        lambda: _refused(world, memory, "legal_hold", 1, 0, (number,)),
    ]
    world.rng.choice(follows)()
    if memory.last is not restoration and world.rng.random() < 0.5:
        # Too late.
        world.release(number)
