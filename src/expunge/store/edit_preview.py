"""What an edit would do, found out by doing it beside the published version and throwing the result away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from expunge.errors import ExpungeError, Refused, StoreError
from expunge.memory.memory import Memory
from expunge.memory.receipt import Outcome, Receipt
from expunge.memory.version import View
from expunge.store.legal_holds import Hold, hold_reason, matching
from expunge.store.row_writer import erased_content

__all__ = ["Act", "Preview", "look_ahead"]

# Readouts are compared at this many of the remaining keys, spread evenly over the rows.
_PROBES = 256


Act = Callable[[Memory], Receipt]


class _Enough(ExpungeError):
    """Raised in the journal of a dry run, which has seen what it wanted."""


@dataclass(frozen=True)
class Preview:
    """The outcome of an edit that was not applied.

    ``readout_change`` is the largest change of a readout at ``probes`` of the remaining keys, in units of the value
    range (of one, where all values are equal); ``changed_coefficients`` counts entries whose weight would move. A
    refused edit has its ``reason``, and changes nothing.
    """

    outcome: Outcome
    applied: tuple[str, ...]
    size: int
    deletable: int
    changed_coefficients: int = 0
    readout_change: float = 0.0
    probes: int = 0
    expired: tuple[str, ...] = ()
    reactivated: tuple[str, ...] = ()
    reason: str | None = None


def look_ahead(memory: Memory, act: Act, holds: list[Hold], doomed: list[str]) -> Preview:
    """What an edit would do. The memory's journal is taken for the purpose, and left to the caller to set again.

    Of what is `doomed` it is known before it is tried that a hold forbids it.
    """
    if kept := matching(holds, memory._view, doomed):
        return _refused(memory._view, hold_reason(kept))
    seen: list[Preview] = []

    def look(before: View, after: View, receipt: Receipt) -> None:
        if receipt.outcome == "refused":
            return
        held = matching(holds, before, erased_content(before, after))
        seen.append(_refused(before, hold_reason(held)) if held else _preview_of(before, after, receipt))
        raise _Enough

    counted, next_id = memory.outcomes.copy(), memory.next_id
    memory.journal = look
    try:
        act(memory)
    except _Enough:
        return seen[0]
    except Refused as problem:
        return _refused(memory._view, problem.reason)
    finally:
        memory.outcomes, memory.next_id = counted, next_id
    raise StoreError("the dry run came to no end")


def _preview_of(before: View, after: View, receipt: Receipt) -> Preview:
    """What the edit between two versions amounts to."""
    staying = [name for name in _names(after) if before.slot(name) is not None]
    old, new = _weights(before), _weights(after)
    keys = after.keys[np.unique(np.linspace(0, after.size - 1, min(_PROBES, after.size)).astype(np.int64))]
    spread = float(np.max(np.ptp(before.values, axis=0))) or 1.0
    difference = np.abs(before.readout(keys) - after.readout(keys))
    return Preview(
        outcome=receipt.outcome,
        applied=receipt.applied,
        size=after.size,
        deletable=after.deletable,
        changed_coefficients=sum(old[name] != new[name] for name in staying),
        readout_change=float(np.max(difference)) / spread,
        probes=keys.shape[0],
        expired=tuple(receipt.details.get("expired", ())),
        reactivated=tuple(receipt.details.get("reactivated", ())),
    )


def _refused(view: View, reason: str) -> Preview:
    return Preview("refused", (), view.size, view.deletable, reason=reason)


def _names(view: View) -> list[str]:
    return [view.entries.ids[slot] or "" for slot in view.slots.tolist()]


def _weights(view: View) -> dict[str, float]:
    return dict(zip(_names(view), view.coefficients.tolist(), strict=True))
