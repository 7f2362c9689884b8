"""How far an edit or an erasure was done, in one word: for jobs, and for lines of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from expunge.ledger.event import ERASED, EVENT_TYPE, SUMMARIES, parse_event
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement

__all__ = ["EditState", "LeafState", "state_of_leaf", "state_of_parts", "state_of_result"]

EditState = Literal["applied", "partly_refused", "refused", "nothing"]
# An event that is no erasure, such as a hold or a dropped memory, was done; there is nothing to grade.
LeafState = EditState | Literal["event"]


def state_of_parts(outcomes: Iterable[str], *, held: bool = False) -> EditState:
    """How far an erasure in several memories was done, by its outcomes in each; ``held`` if it left out entries."""
    found = set(outcomes)
    kept = held or not found.isdisjoint(("refused", "failed"))
    if found.isdisjoint(ERASED):
        return "refused" if kept else "nothing"
    return "partly_refused" if kept else "applied"


def state_of_result(result: Mapping[str, Any]) -> EditState:
    """How far the job of an erasure or a sweep went, by its result."""
    return state_of_parts((part["outcome"] for part in result["memories"]), held=bool(result.get("held")))


def state_of_leaf(statement: Statement) -> LeafState:
    """How far what a leaf states was done."""
    if statement.predicate_type != EVENT_TYPE:
        outcome = parse_predicate(statement).outcome
        return "refused" if outcome == "refused" else "nothing" if outcome == "noop" else "applied"
    event = parse_event(statement)
    if event.kind not in SUMMARIES:
        return "event"
    facts = cast(Any, event.facts)
    return state_of_parts((part["outcome"] for part in facts["memories"]), held=facts.get("held", 0) > 0)
