"""Lies about any leaf, and about the file itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from expunge.ledger.event import Event
from expunge.ledger.receipt_format import Refusal
from expunge.ledger.statement import Subject

from .model import World
from .model_steps import change_key
from .telling import (
    NOW,
    SKEW,
    admitting,
    archived,
    deleting,
    fresh,
    in_parts,
    lie,
    nothing,
    one,
    summary,
    with_certificate,
)


def any_leaf(world: World) -> None:
    """A leaf of any kind that can come at any time."""
    memory = fresh(world)
    other = world.ask()
    acts: list[Callable[[], object]] = [
        world.ask,
        lambda: change_key(world),
        lambda: nothing(world, memory),
        lambda: world.hold(memory, None),
        lambda: world.drop(memory, named=True),
        lambda: world.note("erasure_cancelled", None, Subject("subject", world.requests[other]), requested=other),
        lambda: world.restore(memory, memory.edit - 1),
    ]
    world.admit(memory, 1)
    world.rng.choice(acts)()


@lie("ledger-leaf-repeated")
def the_same_leaf_twice(world: World) -> None:
    any_leaf(world)
    world.leaves.append(world.leaves[-1])


@lie("ledger-request-repeated")
def a_request_id_twice(world: World) -> None:
    any_leaf(world)
    world.leaves[-1] = replace(world.leaves[-1], request=world.rng.choice(world.leaves[:-1]).request)


@lie("ledger-request-repeated")
def a_request_id_in_a_receipt_and_an_event(world: World) -> None:
    memory = fresh(world)
    world.hold(memory, None)
    world.leaves[-1] = replace(world.leaves[-1], request=world.leaves[-2].request)


@lie("ledger-key-repeated")
def a_key_added_twice(world: World) -> None:
    key = world.add_key()
    if world.rng.random() < 0.5:
        world.revoke_key(key)
    world.add_key(key)


@lie("ledger-key-unknown")
def a_key_revoked_that_is_none(world: World) -> None:
    key = world.add_key()
    world.revoke_key(key)
    world.revoke_key(key)


@lie("ledger-key-malformed")
def a_key_under_the_id_of_another(world: World) -> None:
    world.add_key()
    other = world.name()
    _altered(world, -1, keyid=other)


@lie("ledger-key-last")
def the_last_key_revoked(world: World) -> None:
    for key in world.spare:
        world.revoke_key(key)
    world.revoke_key(world.head_key)


@lie("ledger-list-missing")
def a_list_that_does_not_come(world: World) -> None:
    leaf, memory = in_parts(world)
    del world.leaves[leaf + 1 :]
    if world.rng.random() < 0.5:
        world.hold(memory, None)


@lie("ledger-list-missing")
def a_list_that_breaks_off(world: World) -> None:
    in_parts(world)
    world.leaves.pop()


@lie("ledger-list-missing")
def something_between_a_receipt_and_its_list(world: World) -> None:
    leaf, _ = in_parts(world)
    fresh(world)
    world.leaves.insert(leaf + 1, world.leaves.pop())


@lie("ledger-list-unowed")
def a_list_that_nobody_owes(world: World) -> None:
    in_parts(world)
    world.leaves.append(replace(world.leaves[-1], request=world.request()))


def _altered(world: World, leaf: int, **facts: Any) -> None:
    part = world.leaves[leaf]
    if not isinstance(part, Event):
        raise TypeError("a part is an event")
    world.leaves[leaf] = replace(part, facts={**part.facts, **facts})


@lie("ledger-list-mismatch")
def parts_in_another_order(world: World) -> None:
    leaf, _ = in_parts(world)
    world.leaves[leaf + 1], world.leaves[leaf + 2] = world.leaves[leaf + 2], world.leaves[leaf + 1]


@lie("ledger-list-mismatch")
def a_part_of_another_list(world: World) -> None:
    leaf, _ = in_parts(world)
    _altered(world, leaf + 1, **world.rng.choice([{"list": "renewed"}, {"receipt": world.request().id}]))


@lie("ledger-list-mismatch")
def a_part_with_another_entry(world: World) -> None:
    leaf, _ = in_parts(world)
    event = world.leaves[leaf + 1]
    if isinstance(event, Event):
        *names, last = cast("tuple[str, ...]", event.facts["commitments"])
        _altered(world, leaf + 1, commitments=(*names, last[:-1] + ("0" if last[-1] != "0" else "1")))


@lie("ledger-list-mismatch")
def a_part_of_another_memory(world: World) -> None:
    other = fresh(world)
    leaf, _ = in_parts(world)
    world.leaves[leaf + 1] = replace(world.leaves[leaf + 1], memory=other.uuid)


@lie("ledger-time-future")
def a_leaf_from_tomorrow(world: World) -> None:
    any_leaf(world)
    world.leaves[-1] = replace(world.leaves[-1], time=world.at(NOW + SKEW + world.rng.randint(1, 86_400)))


@lie("ledger-time-future")
def the_year_9999(world: World) -> None:
    fresh(world)
    world.leaves[-1] = replace(world.leaves[-1], time="9999-12-31T23:59:59Z")


@lie("ledger-time-after-head")
def a_leaf_later_than_its_witness(world: World) -> None:
    late = world.now + 1000
    nothing(world, fresh(world), time=world.at(late))
    world.now = late
    world.seen = [(world.head(), late - SKEW - world.rng.randint(1, 1000))]


@lie("ledger-time-reversed")
def a_leaf_before_an_earlier_one(world: World) -> None:
    memory = fresh(world)
    latest = world.now + world.rng.randint(0, 1000)
    nothing(world, memory, time=world.at(latest))
    nothing(world, memory, time=world.at(latest - SKEW - world.rng.randint(1, 10_000)))


@lie("ledger-deletion-before-creation")
def a_deletion_before_its_admission(world: World) -> None:
    memory = fresh(world)
    born = world.now + 50
    name = world.name()
    admitting(world, memory, {name}, time=world.at(born))
    memory.live |= {name}
    deleting(world, memory, {name}, time=world.at(born - SKEW - world.rng.randint(1, 100_000)))


@lie("ledger-size-mismatch")
def the_last_leaf_cut_off(world: World) -> None:
    nothing(world, fresh(world))
    nothing(world, fresh(world))
    world.alter = lambda envelopes: envelopes[:-1]


@lie("ledger-root-mismatch")
def two_leaves_exchanged(world: World) -> None:
    memory, other = fresh(world), fresh(world)
    nothing(world, memory)
    nothing(world, other)
    at = len(world.leaves) - 2
    world.alter = lambda envelopes: [*envelopes[:at], envelopes[at + 1], envelopes[at], *envelopes[at + 2 :]]


@lie("ledger-receipt-invalid")
def a_leaf_that_was_altered(world: World) -> None:
    fresh(world)
    at = world.rng.randrange(len(world.leaves))

    def alter(envelopes: list[bytes]) -> list[bytes]:
        return [*envelopes[:at], envelopes[at].replace(b"ey", b"ez", 1), *envelopes[at + 1 :]]

    world.alter = alter


# What no program of ours writes, signed by whoever has the key.


def _forge(world: World, forge: Callable[[dict[str, Any]], None]) -> None:
    world.forged[len(world.leaves) - 1] = forge


def _deleted(world: World) -> None:
    memory = fresh(world)
    world.delete(memory, {one(world, memory)})


@lie("receipt-entries-mismatch")
def a_creation_that_changes_other_entries(world: World) -> None:
    """Nothing was there that it could end, renew or bring back; not even in another memory."""
    other, certified = with_certificate(world)
    name = world.rng.choice([certified, archived(world, other), world.name()])
    fresh(world)
    listed = {"commitments": [name], "count": 1, "root": None}
    which = world.rng.choice(["ended", "expired", "renewed", "reactivated"])
    _forge(world, lambda receipt: receipt["warranties"].update({which: listed}))


@lie("receipt-applied-empty")
def a_deletion_that_names_nothing(world: World) -> None:
    _deleted(world)
    _forge(world, lambda receipt: receipt.update(applied={"commitments": [], "count": 0, "root": None}))


@lie("receipt-count-mismatch")
def a_deletion_that_counts_more_than_it_names(world: World) -> None:
    _deleted(world)
    _forge(world, lambda receipt: receipt["applied"].update(count=world.rng.choice([0, 2, 9])))


@lie("receipt-entries-mismatch")
def a_deletion_that_takes_more_than_it_names(world: World) -> None:
    """One is named and counted, and more are gone."""
    _deleted(world)
    gone = world.rng.randint(1, 3)
    _forge(world, lambda receipt: receipt["entries"]["after"].update(live=7 - gone))


@lie("receipt-state-mismatch")
def a_state_that_changes_where_nothing_was_done(world: World) -> None:
    nothing(world, fresh(world))
    _forge(world, lambda receipt: receipt["state"].update(after=world.name()))


@lie("receipt-state-mismatch")
def a_state_that_stays_where_weight_was_removed(world: World) -> None:
    memory = fresh(world)
    world.delete(memory, {one(world, memory)})
    changed = {"outcome": "decrement", "covers": "fresh_fit"}

    def forge(receipt: dict[str, Any]) -> None:
        receipt.update(changed)
        receipt["state"].update(after=receipt["state"]["before"])

    _forge(world, forge)


@lie("receipt-cap-infeasible")
def fewer_live_entries_than_the_cap_allows(world: World) -> None:
    fresh(world)
    # Eight entries.
    _forge(world, lambda receipt: receipt["problem"].update(cap=world.rng.choice([0.1, 0.124, 1e-9]).hex()))


@lie("receipt-empty-unstated")
def an_empty_memory_that_is_not_called_empty(world: World) -> None:
    memory = fresh(world)
    world.delete(memory, memory.live)
    outcome, covers = world.rng.choice([("decrement", "fresh_fit"), ("certified_zero", "no_readout_change")])
    _forge(world, lambda receipt: receipt.update(outcome=outcome, covers=covers))


def _refused_for_hold(world: World, **numbers: int) -> None:
    memory = fresh(world)
    number = world.hold(memory, None)
    world.edit(memory, "deletion", "refused", refusal=Refusal("legal_hold", 1, 0, (number,)))
    _forge(world, lambda receipt: receipt["refusal"].update(numbers))


@lie("receipt-refusal-unmeasured")
def a_refusal_that_measured_nothing(world: World) -> None:
    _refused_for_hold(world, measured=0)


@lie("receipt-refusal-unmeasured")
def a_refusal_for_no_hold(world: World) -> None:
    """None counted, and none named."""
    memory = fresh(world)
    number = world.hold(memory, None)
    world.edit(memory, "deletion", "refused", refusal=Refusal("legal_hold", 1, 0, (number,)))
    _forge(world, lambda receipt: receipt["refusal"].update(measured=0, holds=[]))


@lie("receipt-refusal-not-exceeded")
def a_refusal_for_numbers_that_do_not_refuse(world: World) -> None:
    _refused_for_hold(world, allowed=world.rng.randint(1, 9))


@lie("statement-summary-empty")
def a_summary_of_nothing_called_complete(world: World) -> None:
    summary(world, [])
