"""Whether an edit can have been refused for the reason that its receipt states."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

from expunge.ledger.receipt_format import Predicate, Refusal
from expunge.verify.replay.contradiction import Place
from expunge.verify.replay.hold_register import HoldRegister
from expunge.verify.replay.memory_history import MemoryHistory

__all__ = ["check_refusal"]


def check_refusal(place: Place, receipt: Predicate, history: MemoryHistory, holds: HoldRegister) -> None:
    """Raise if a refusal names holds or counts that are not there, or no fit where one was not needed."""
    refusal = receipt.refusal
    if refusal is None or history.last is None:
        return
    if refusal.reason == "no_acceptable_state":
        if _most_fitted(receipt, history) <= 1:
            raise _unfounded(place, receipt, "no edit of these entries needs more than a fit of one, which is exact")
        return
    if refusal.reason == "legal_hold":
        least, most = _held(place, receipt, refusal, history, holds)
        suits = receipt.action in ("deletion", "pruning")
    else:
        least, most = 1, history.table.archived + history.table.certificates
        suits = receipt.action == "admission"
    measured, allowed = refusal.measured or 0, refusal.allowed
    if not suits or allowed != 0 or not least <= measured <= most:
        raise _unfounded(place, receipt, f"{measured} measured, {allowed} allowed, and {least} to {most} are possible")


def _held(
    place: Place, receipt: Predicate, refusal: Refusal, history: MemoryHistory, holds: HoldRegister
) -> tuple[int, int]:
    """The fewest entries, or holds of a memory that was to be dropped, that a refusal can count, and the most."""
    table, prunes = history.table, receipt.action == "pruning"
    in_force = holds.in_force.get(receipt.memory, set())
    for number in refusal.holds:
        if number not in in_force:
            raise place.contradiction("ledger-hold-not-in-force", f"refused for hold {number}, not in force here")
        entry = holds.placed[number].entry
        found = None if entry is None else table.now.get(entry)
        if entry is not None and (found is None or (prunes and found.status != "live")):
            status = "not there" if found is None else found.status
            raise _unfounded(place, receipt, f"the entry of hold {number}, {entry}, is {status}")
    least = len(refusal.holds)
    if all(holds.placed[number].entry is not None for number in refusal.holds):
        return least, least
    # A drop counts its holds, and needs no entry.
    return least, table.sizes.live if prunes else max(least, table.sizes.total)


def _most_fitted(receipt: Predicate, history: MemoryHistory) -> float:
    """How many entries the fit is of, at most, that an edit of this kind needs."""
    live, archived = history.table.sizes.live, history.table.archived
    match receipt.action:
        case "deletion":
            return live + archived - 1
        case "pruning":
            # Where all have weight, none is taken.
            return live - 1 if live > ceil(1 / Fraction(receipt.problem.cap)) else 0
        case "rebuild":
            return live + archived
        case _:
            return inf


def _unfounded(place: Place, receipt: Predicate, why: str) -> Exception:
    reason = "" if receipt.refusal is None else receipt.refusal.reason
    return place.contradiction("ledger-refusal-unfounded", f"a {receipt.action} refused for {reason}: {why}")
