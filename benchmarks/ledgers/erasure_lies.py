"""Lies about erasures of subjects, and about sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from expunge.ledger.receipt_format import Refusal
from expunge.ledger.statement import Subject

from .model import ModelMemory, World, write_sweep
from .telling import SKEW, fresh, lie, one, summary


def _part(world: World, memory: ModelMemory | None = None) -> dict[str, Any]:
    """A deletion, and what a summary says of it."""
    memory = memory or fresh(world)
    receipt = world.delete(memory, sorted(memory.live)[:2])
    leaf = next(at for at, found in enumerate(world.leaves) if found is receipt)
    return {"memory": memory.uuid, "outcome": receipt.outcome, "leaf": leaf, "entries": receipt.applied.count}


@lie("ledger-summary-double")
def a_summary_that_counts_a_receipt_twice(world: World) -> None:
    part = _part(world)
    summary(world, [part, part | {"memory": fresh(world).uuid}])


@lie("ledger-summary-mismatch")
def a_summary_of_other_receipts(world: World) -> None:
    part = _part(world)
    other = fresh(world)
    wrong: dict[str, Any] = world.rng.choice(
        [
            {"leaf": len(world.leaves) + 3},
            {"leaf": len(world.leaves) - 1},
            {"memory": other.uuid},
            {"outcome": "refitted"},
            {"outcome": "failed", "entries": 0},
            {"outcome": "noop", "entries": 0},
        ]
    )
    summary(world, [part | wrong])


@lie("ledger-summary-entries")
def a_summary_that_counts_fewer_entries(world: World) -> None:
    part = _part(world)
    summary(world, [part | {"entries": part["entries"] + world.rng.choice([-1, 1])}])


@lie("ledger-summary-repeated")
def two_summaries_of_one_receipt(world: World) -> None:
    part = _part(world)
    summary(world, [part])
    summary(world, [part])


@lie("ledger-summary-early")
def an_erasure_before_its_request(world: World) -> None:
    part = _part(world)
    leaf = world.ask()
    summary(world, [part], leaf, world.requests[leaf])


@lie("ledger-erasure-request-unknown")
def an_erasure_that_nobody_asked_for(world: World) -> None:
    part = _part(world)
    leaf = world.rng.choice([part["leaf"], len(world.leaves) + 2])
    if world.rng.random() < 0.5:
        summary(world, [part], leaf)
    else:
        world.note("erasure_cancelled", None, Subject("subject", world.name()), requested=leaf)


@lie("ledger-erasure-request-subject")
def an_erasure_of_another_subject(world: World) -> None:
    leaf = world.ask()
    if world.rng.random() < 0.5:
        summary(world, [_part(world)], leaf)
    else:
        world.note("erasure_cancelled", None, Subject("subject", world.name()), requested=leaf)


@lie("ledger-erasure-request-cancelled")
def a_cancelled_request_carried_out(world: World) -> None:
    leaf = world.ask()
    subject = world.requests.pop(leaf)
    world.note("erasure_cancelled", None, Subject("subject", subject), requested=leaf)
    if world.rng.random() < 0.5:
        summary(world, [_part(world)], leaf, subject)
    else:
        world.note("erasure_cancelled", None, Subject("subject", subject), requested=leaf)


@lie("ledger-erasure-request-done")
def a_request_carried_out_twice(world: World) -> None:
    leaf = world.ask()
    subject = world.requests.pop(leaf)
    world.now = world.due[leaf]
    summary(world, [_part(world)], leaf, subject)
    if world.rng.random() < 0.5:
        summary(world, [_part(world)], leaf, subject)
    else:
        world.note("erasure_cancelled", None, Subject("subject", subject), requested=leaf)


def _kept(memory: ModelMemory, outcome: str, leaf: int | None = None) -> dict[str, Any]:
    return {"memory": memory.uuid, "outcome": outcome, "leaf": leaf, "entries": 0}


@lie("ledger-summary-unfounded")
def a_summary_of_a_dropped_memory(world: World) -> None:
    memory = fresh(world)
    world.drop(memory, named=world.rng.random() < 0.5)
    summary(world, [_kept(memory, world.rng.choice(["noop", "failed", "refused"])), _part(world)])


@lie("ledger-summary-unfounded")
def something_kept_in_an_empty_memory(world: World) -> None:
    memory = world.create(0)
    summary(world, [_kept(memory, world.rng.choice(["failed", "refused"])), _part(world)])


@lie("ledger-summary-unfounded")
def a_refusal_that_no_receipt_states(world: World) -> None:
    memory = fresh(world)
    if world.rng.random() < 0.5:
        world.hold(memory, None)
    summary(world, [_kept(memory, "refused"), _part(world)])


@lie("ledger-summary-unfounded")
def something_kept_for_a_hold_that_was_released(world: World) -> None:
    memory = fresh(world)
    number = world.hold(memory, world.rng.choice([None, one(world, memory)]))
    world.edit(memory, "deletion", "refused", refusal=Refusal("legal_hold", 1, 0, (number,)))
    leaf = len(world.leaves) - 1
    world.release(number)
    if world.rng.random() < 0.5:
        # Another hold does not make an old refusal a new one.
        world.hold(memory, None)
    summary(world, [_kept(memory, "refused", leaf)])


@lie("ledger-summary-not-due")
def a_request_carried_out_before_it_is_due(world: World) -> None:
    leaf = world.ask()
    parts = [_part(world)]
    if world.rng.random() < 0.5:
        # What it counts is from before then, at least.
        world.now = world.due[leaf]
    summary(world, parts, leaf, world.requests[leaf])


@lie("ledger-erasure-request-due")
def a_request_that_is_due_at_no_time(world: World) -> None:
    late = 366 * 86_400 + SKEW + world.rng.randint(101, 10**8)
    due = world.at(world.now + world.rng.choice([-SKEW - world.rng.randint(101, 10**8), late]))
    world.note("erasure_requested", None, Subject("subject", world.name()), due=due)


@lie("ledger-sweep-not-due")
def a_sweep_of_what_has_not_ended(world: World) -> None:
    parts = [_part(world)]
    due = world.now + SKEW + world.rng.randint(101, 10**8)
    if world.rng.random() < 0.5:
        # What it counts is from before then, at least.
        world.now = due
    write_sweep(world, parts, due)


@lie("ledger-sweep-too-new")
def a_sweep_of_what_came_in_after_it_had_ended(world: World) -> None:
    due = world.now - SKEW - world.rng.randint(101, 10**6)
    write_sweep(world, [_part(world)], due)


@lie("ledger-sweep-unfounded")
def a_sweep_that_leaves_entries_to_no_hold(world: World) -> None:
    for number in list(world.holds):
        world.release(number)
    memory, parts = fresh(world), [_part(world)]
    held = world.rng.randint(1, 5)
    if world.rng.random() < 0.5:
        world.hold(memory, None)
        held += memory.sizes.total
    write_sweep(world, parts, world.now, held)


@lie("ledger-summary-repeated")
def a_sweep_and_a_summary_of_one_receipt(world: World) -> None:
    part = _part(world)
    tellings: list[Callable[[], object]] = [
        lambda: summary(world, [part]),
        lambda: write_sweep(world, [part], world.now),
    ]
    world.rng.shuffle(tellings)
    for telling in tellings:
        telling()


@lie("ledger-summary-unfounded")
def an_erasure_of_what_was_erased_again(world: World) -> None:
    memory = fresh(world)
    world.delete(memory, sorted(memory.live)[:2])
    back = world.restore(memory, 0)
    receipt = world.delete(memory, back)
    leaf = next(at for at, found in enumerate(world.leaves) if found is receipt)
    part = {"memory": memory.uuid, "outcome": receipt.outcome, "leaf": leaf, "entries": receipt.applied.count}
    summary(world, [part])


@lie("ledger-summary-unfounded")
def a_refusal_that_the_next_summary_does_not_know(world: World) -> None:
    """The hold is still there, or released; the entries were not erased since."""
    memory, leaf = fresh(world), world.ask()
    world.now = world.due[leaf]
    number = world.hold(memory, world.rng.choice([None, one(world, memory)]))
    world.edit(memory, "deletion", "refused", refusal=Refusal("legal_hold", 1, 0, (number,)))
    summary(world, [_kept(memory, "refused", len(world.leaves) - 1)], leaf, world.requests[leaf])
    if world.rng.random() < 0.5:
        world.release(number)
    world.admit(memory, 1)
    world.prune(memory, frozenset({one(world, memory)} - world.held(memory)) or world.prunable(memory), "archive")
    parts = [_part(world), *([_kept(memory, "noop")] if world.rng.random() < 0.5 else [])]
    summary(world, parts, leaf, world.requests[leaf])


@lie("ledger-subject-repeated")
def a_request_that_a_summary_does_not_name(world: World) -> None:
    """So it would be neither too early, nor cancelled, nor carried out already."""
    leaf = world.ask()
    subject = world.requests[leaf]
    if world.rng.random() < 0.5:
        summary(world, [_part(world)], None, subject)
    else:
        world.note("erasure_requested", None, Subject("subject", subject), due=world.at(world.now + 86_400))


@lie("ledger-subject-repeated")
def two_summaries_of_one_subject(world: World) -> None:
    subject = world.name()
    for _ in range(2):
        summary(world, [_part(world)], None, subject)


@lie("ledger-summary-case")
def an_erasure_in_another_case(world: World) -> None:
    """The deletion of somebody's entries passes for that of the subject who asked."""
    leaf = world.ask()
    world.now = world.due[leaf]
    memory, subject = fresh(world), world.requests[leaf]
    case, actor = world.asked[leaf]
    other: tuple[str | None, str | None] = world.rng.choice([(world.name(), actor), (case, world.name())])
    wrong = world.rng.choice(["deletion", "refusal", "summary"])
    if wrong == "refusal":
        number = world.hold(memory, None)
        with world.asked_by(*other):
            world.edit(memory, "deletion", "refused", refusal=Refusal("legal_hold", 1, 0, (number,)))
        summary(world, [_kept(memory, "refused", len(world.leaves) - 1)], leaf, subject)
        return
    with world.asked_by(*(other if wrong == "deletion" else (case, actor))):
        part = _part(world, memory)
    with world.asked_by(*(other if wrong == "summary" else (case, actor))):
        summary(world, [part], leaf, subject)


@lie("ledger-summary-unfounded")
def a_refusal_that_its_own_summary_leaves_out(world: World) -> None:
    """The commitments to case and actor, whose salts one erasure alone has, tell that both belong together."""
    memory = fresh(world)
    number = world.hold(memory, world.rng.choice([None, one(world, memory)]))
    asked: tuple[str | None, str | None] = world.rng.choice([(world.name(), None), (None, world.name())])
    with world.asked_by(*asked):
        world.edit(memory, "deletion", "refused", refusal=Refusal("legal_hold", 1, 0, (number,)))
        parts = [_part(world), *([_kept(memory, "noop")] if world.rng.random() < 0.5 else [])]
        summary(world, parts)
