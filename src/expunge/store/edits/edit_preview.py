"""What an edit would do: it is prepared beside the published version, and discarded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from expunge.errors import ExpungeError, Refused, StoreError
from expunge.memory.memory import Memory
from expunge.memory.receipt import Outcome, Receipt
from expunge.memory.version import View
from expunge.problem.kernel import squared_distances
from expunge.problem.problem import fewest_keys
from expunge.store.legal_holds import Hold, hold_reason, holds_on_entries
from expunge.store.row_writer import erased_ids
from expunge.types import Matrix

__all__ = ["Edit", "Preview", "preview_edit"]

# Readouts are compared at this many of the remaining keys, spread evenly over the rows.
_PROBES = 256

Edit = Callable[[Memory], Receipt]


class _PreviewReady(ExpungeError):
    """Raised in the journal of a dry run, to end the edit once its preview is made."""


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


def preview_edit(memory: Memory, edit: Edit, holds: list[Hold], erases: list[str]) -> Preview:
    """What an edit would do. The memory's journal is used for it, and left to the caller to set again.

    `erases` are ids that the edit is known to erase: a hold on one of them is the answer, without a try.
    """
    if kept := holds_on_entries(holds, memory._view, erases):
        return _refused(memory._view, hold_reason(kept))
    previews: list[Preview] = []

    def journal(before: View, after: View, receipt: Receipt) -> None:
        if receipt.outcome == "refused":
            return
        held = holds_on_entries(holds, before, erased_ids(before, after))
        previews.append(_refused(before, hold_reason(held)) if held else _preview_of(before, after, receipt))
        raise _PreviewReady

    counted, next_id = memory.outcomes.copy(), memory._next_id
    memory.journal = journal
    try:
        edit(memory)
    except _PreviewReady:
        return previews[0]
    except Refused as problem:
        return _refused(memory._view, problem.reason)
    finally:
        memory.outcomes, memory._next_id = counted, next_id
    raise StoreError("the dry run came to no end")


def _preview_of(before: View, after: View, receipt: Receipt) -> Preview:
    """What the edit between two versions amounts to."""
    staying = [name for name in _names(after) if before.slot(name) is not None]
    old, new = _weights(before), _weights(after)
    keys = after.keys[np.unique(np.linspace(0, after.size - 1, min(_PROBES, after.size)).astype(np.int64))]
    spread = float(np.max(np.ptp(before.values, axis=0))) or 1.0
    difference = np.abs(_readout(before, keys) - _readout(after, keys))
    return Preview(
        outcome=receipt.outcome,
        applied=receipt.applied,
        size=after.size,
        deletable=_deletable(after),
        changed_coefficients=sum(old[name] != new[name] for name in staying),
        readout_change=float(np.max(difference)) / spread,
        probes=keys.shape[0],
        expired=tuple(receipt.details.get("expired", ())),
        reactivated=tuple(receipt.details.get("reactivated", ())),
    )


def _refused(view: View, reason: str) -> Preview:
    return Preview("refused", (), view.size, _deletable(view), reason=reason)


def _deletable(view: View) -> int:
    return view.size + len(view.warranties.archive) - fewest_keys(view.state.cap)


def _names(view: View) -> list[str]:
    return [view.entries.ids[slot] or "" for slot in view.slots.tolist()]


def _weights(view: View) -> dict[str, float]:
    return dict(zip(_names(view), view.coefficients.tolist(), strict=True))


def _readout(view: View, points: Matrix) -> Matrix:
    """Σακv / Σακ; kernel values are scaled by the nearest active key's, which cancels."""
    active = np.flatnonzero(view.coefficients)
    distances = squared_distances(points, view.keys[active])
    distances -= distances.min(axis=1, keepdims=True)
    weights = view.coefficients[active] * np.exp(-distances / view.state.gram.sigma**2)
    return np.asarray(weights @ view.values[active] / weights.sum(axis=1, keepdims=True))
