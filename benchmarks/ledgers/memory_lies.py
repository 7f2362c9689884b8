"""Lies about the history of a memory: its states, sizes, edits, caps and restorations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from expunge.ledger.receipt_format import Predicate, Refusal, Sizes

from .model import ModelMemory, Names, World
from .telling import archived, deleting, forgotten, fresh, lie, nothing, one, summary


def _continue(world: World, memory: ModelMemory) -> None:
    """Go on with a memory as if nothing was wrong."""
    acts: list[Callable[[], object]] = [
        lambda: world.hold(memory, None),
        lambda: world.admit(memory, 1),
        lambda: nothing(world, memory),
    ]
    world.rng.choice(acts)()


@lie("ledger-memory-dropped")
def an_edit_after_the_drop(world: World) -> None:
    memory = fresh(world)
    world.drop(memory, named=world.rng.random() < 0.5)
    _continue(world, memory)


@lie("ledger-memory-dropped")
def a_dropped_memory_created_again(world: World) -> None:
    memory = fresh(world)
    world.drop(memory, named=True)
    _created_again(world, memory)


def _created_again(world: World, memory: ModelMemory, **stated: Any) -> None:
    names = {world.name() for _ in range(4)}
    world.edit(
        memory,
        "creation",
        "created",
        **{
            "state_before": None,
            "before": Sizes(0, 0),
            "after": Sizes(4, 0),
            "applied": names,
            "edit": 0,
            "state_after": world.name(),
            **stated,
        },
    )


@lie("ledger-creation-missing")
def a_memory_without_a_creation(world: World) -> None:
    memory = fresh(world)
    world.leaves.pop()
    if world.rng.random() < 0.5:
        world.admit(memory, 1)
    else:
        nothing(world, memory)


@lie("ledger-creation-repeated")
def a_memory_created_twice(world: World) -> None:
    _created_again(world, fresh(world))


@lie("ledger-memory-unknown")
def an_event_about_no_memory(world: World) -> None:
    memory = fresh(world)
    world.leaves.pop()
    if world.rng.random() < 0.5:
        world.hold(memory, None)
    else:
        world.drop(memory, named=False)


@lie("ledger-memory-unknown")
def a_summary_about_no_memory(world: World) -> None:
    part = {"memory": world.request().id, "outcome": "noop", "leaf": None, "entries": 0}
    summary(world, [part])


@lie("ledger-state-broken")
def a_receipt_left_out(world: World) -> None:
    memory = fresh(world)
    world.admit(memory, 1)
    world.leaves.pop()
    world.admit(memory, 1)


@lie("ledger-state-broken")
def a_state_from_nowhere(world: World) -> None:
    memory, state = fresh(world), world.name()
    nothing(world, memory, state_before=state, state_after=state)


@lie("ledger-entries-broken")
def sizes_from_nowhere(world: World) -> None:
    memory = fresh(world)
    sizes = world.rng.choice([Sizes(9, 0), Sizes(7, 0), Sizes(8, 1), Sizes(7, 1)])
    nothing(world, memory, before=sizes, after=sizes)


@lie("ledger-edit-order")
def an_edit_number_skipped_or_repeated(world: World) -> None:
    memory = fresh(world)
    memory.edit += world.rng.choice([-1, 1, 5])
    world.admit(memory, 1)


@lie("ledger-edit-order")
def a_refusal_with_a_number_of_its_own(world: World) -> None:
    memory = fresh(world)
    world.edit(memory, "deletion", "refused", refusal=Refusal("no_acceptable_state"), edit=memory.edit + 1)


@lie("ledger-edit-order")
def a_creation_that_is_not_edit_0(world: World) -> None:
    fresh(world)
    leaf = world.leaves[-1]
    if isinstance(leaf, Predicate):
        world.leaves[-1] = replace(leaf, edit=world.rng.randint(1, 9))


@lie("ledger-problem-changed")
def another_problem(world: World) -> None:
    memory = fresh(world)
    problem = world.leaves[-1].problem if isinstance(world.leaves[-1], Predicate) else None
    if problem is None:
        raise TypeError("a creation is a receipt")
    changed: dict[str, Any] = world.rng.choice(
        [{"cap": 0.75}, {"sigma": 3.0}, {"dimension": 4}, {"initial_entries": 5}]
    )
    nothing(world, memory, problem=replace(problem, **changed))


@lie("ledger-problem-changed")
def a_rebuild_in_other_dimensions(world: World) -> None:
    receipt = world.rebuild(fresh(world))
    world.leaves[-1] = replace(receipt, problem=replace(receipt.problem, dimension=4))


@lie("ledger-problem-changed")
def another_width_without_a_rebuild(world: World) -> None:
    memory = fresh(world)
    if world.rng.random() < 0.5:
        world.rebuild(memory)
    name = one(world, memory)
    acts: list[Callable[[], object]] = [
        lambda: world.admit(memory, 1),
        lambda: world.delete(memory, {name}),
        lambda: world.delete(memory, memory.live),
        lambda: world.prune(memory, frozenset({name}), "archive"),
    ]
    memory.width *= 2.0
    world.rng.choice(acts)()


@lie("ledger-restoration-mismatch")
def a_restoration_that_keeps_the_later_width(world: World) -> None:
    memory = fresh(world)
    before = memory.width
    while memory.width == before:
        world.rebuild(memory)
    world.restore(memory, 0)
    receipt = world.leaves[-1]
    if isinstance(receipt, Predicate):
        world.leaves[-1] = replace(receipt, problem=replace(receipt.problem, sigma=2.0 * before))


@lie("ledger-initial-size")
def a_cap_for_another_size(world: World) -> None:
    memory = fresh(world)
    receipt = world.leaves[-1]
    if world.rng.random() < 0.5:
        receipt = world.rebuild(memory)
    if isinstance(receipt, Predicate):
        wrong = replace(receipt.problem, initial_entries=receipt.after.live + world.rng.randint(1, 5))
        world.leaves[-1] = replace(receipt, problem=wrong)


@lie("ledger-initial-size")
def a_new_cap_for_the_old_size(world: World) -> None:
    memory = fresh(world)
    while memory.initial is None:
        memory = fresh(world)
    old_cap, old_size = memory.cap, memory.initial
    world.admit(memory, 1)
    while memory.cap == old_cap:
        receipt = world.rebuild(memory)
    world.leaves[-1] = replace(receipt, problem=replace(receipt.problem, initial_entries=old_size))


@lie("ledger-cap-rule")
def a_refit_at_too_large_a_cap(world: World) -> None:
    memory = world.create(8, 0.125)
    gone = set(sorted(memory.live)[: world.rng.choice([1, 2, 3])])
    # The rule makes it 0.25.
    memory.cap = world.rng.choice([0.5, 1.0, 0.3])
    memory.live -= gone
    world.edit(memory, "deletion", "refitted", applied=gone)


@lie("ledger-cap-rule")
def a_refit_without_need(world: World) -> None:
    memory = fresh(world)
    name = one(world, memory)
    memory.cap = world.rng.choice([1.0, 0.5])
    memory.live -= {name}
    world.edit(memory, "deletion", "refitted", applied={name})


@lie("ledger-state-mismatch")
def an_old_state_with_other_entries(world: World) -> None:
    memory = fresh(world)
    state = memory.digest
    world.admit(memory, 1)
    deleting(world, memory, {min(memory.copies[0].live)}, state_after=state)


@lie("ledger-state-mismatch")
def an_archived_entry_whose_deletion_changes_the_state(world: World) -> None:
    memory = fresh(world)
    name = archived(world, memory)
    deleting(world, memory, {name}, live=0)


@lie("ledger-state-mismatch")
def one_set_of_entries_in_two_states(world: World) -> None:
    memory = fresh(world)
    if world.rng.random() < 0.5:
        world.edit(memory, "rebuild", "rebuilt", state_after=world.name())
        return
    late = world.name()
    memory.live |= {late}
    world.edit(memory, "admission", "admitted", applied={late})
    memory.live -= {late}
    world.edit(memory, "deletion", "decrement", applied={late}, state_after=world.name())


@lie("ledger-state-empty")
def an_empty_state_with_a_digest_of_its_own(world: World) -> None:
    if world.rng.random() < 0.5:
        world.create(0)
        _in_state(world, world.name())
        return
    memory = fresh(world)
    gone, memory.live, memory.cap = memory.live, frozenset(), 1.0
    world.edit(memory, "deletion", "emptied", applied=gone, state_after=world.name())


@lie("ledger-state-empty")
def entries_in_the_state_of_none(world: World) -> None:
    empty = world.create(0).digest
    fresh(world)
    _in_state(world, empty)


def _in_state(world: World, digest: str) -> None:
    """The last leaf says that it left this state."""
    receipt = world.leaves[-1]
    if isinstance(receipt, Predicate):
        world.leaves[-1] = replace(receipt, state_after=digest)


@lie("ledger-outcome-unfounded")
def a_rebuild_that_did_nothing(world: World) -> None:
    world.edit(fresh(world), "rebuild", "noop")


@lie("ledger-state-shared")
def two_memories_in_one_state(world: World) -> None:
    state = fresh(world).digest
    fresh(world)
    _in_state(world, state)


@lie("ledger-restoration-mismatch")
def a_restoration_to_something_else(world: World) -> None:
    memory = fresh(world)
    world.admit(memory, 1)
    archived(world, memory)
    world.restore(memory, 1)
    receipt = world.leaves[-1]
    if isinstance(receipt, Predicate):
        wrong: dict[str, Any] = world.rng.choice(
            [
                {"restored_edit": 0},
                {"restored_edit": 2},
                {"state_after": world.name()},
                {"after": Sizes(receipt.after.live - 1, receipt.after.pruned)},
                {"after": Sizes(receipt.after.live, receipt.after.pruned + 1)},
                {"problem": replace(receipt.problem, cap=0.75)},
            ]
        )
        world.leaves[-1] = replace(receipt, **wrong)


def _undone(world: World, memory: ModelMemory, back: set[str]) -> None:
    """Something else than the erasure follows."""
    acts: list[Callable[[], object]] = [
        lambda: None,
        lambda: world.admit(memory, 1),
        lambda: nothing(world, memory),
        lambda: world.delete(memory, memory.live - back - {max(memory.live - back)}),
    ]
    world.rng.choice(acts)()


@lie("ledger-erasure-undone")
def a_restoration_that_brings_an_erased_entry_back(world: World) -> None:
    memory = fresh(world)
    name = world.rng.choice([one(world, memory), archived(world, memory), forgotten(world, memory)])
    world.delete(memory, {name})
    back = world.restore(memory, max(at for at, copy in enumerate(memory.copies[:-1]) if name in copy.everything))
    if name not in back:
        raise ValueError("it is not back")
    _undone(world, memory, {name})


def _is_erased_again_late(world: World, memory: ModelMemory, back: Names) -> None:
    """Something else comes before what is back goes again."""
    other = fresh(world)
    act = world.rng.choice(["hold", "other"])
    if act == "hold":
        world.hold(memory, world.rng.choice([None, one(world, memory)]))
    else:
        nothing(world, other)
    world.delete(memory, back)


@lie("ledger-erasure-undone")
def an_erasure_that_is_applied_again_late(world: World) -> None:
    memory = fresh(world)
    world.delete(memory, {one(world, memory)})
    _is_erased_again_late(world, memory, world.restore(memory, 0))


@lie("ledger-forgetting-undone")
def a_forgetting_that_is_applied_again_late(world: World) -> None:
    memory = fresh(world)
    forgotten(world, memory)
    _is_erased_again_late(world, memory, world.restore(memory, 0))


@lie("ledger-erasure-undone")
def an_erasure_applied_again_in_part(world: World) -> None:
    memory = fresh(world)
    gone = sorted(memory.live)[:2]
    world.delete(memory, gone)
    world.restore(memory, 0)
    world.delete(memory, gone[:1])


@lie("ledger-forgetting-undone")
def a_restoration_that_brings_a_forgotten_entry_back(world: World) -> None:
    memory = fresh(world)
    name = forgotten(world, memory)
    world.restore(memory, 0)
    _undone(world, memory, {name})
