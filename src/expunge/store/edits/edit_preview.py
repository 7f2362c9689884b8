"""What an edit would do: it is prepared beside the published version, and discarded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from expunge.errors import ExpungeError, Refused, StoreError
from expunge.memory.memory import Memory
from expunge.memory.receipt import FORGET_NOTICE, Receipt, RecordedOutcome
from expunge.memory.version import Version
from expunge.store.legal_holds import Hold, hold_reason, holds_on_entries
from expunge.store.row_writer import erased_ids

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
    refused edit has its ``reason``, and changes nothing. ``notice`` says what a pruning in the mode *forget* entails.
    """

    outcome: RecordedOutcome
    applied: tuple[str, ...]
    size: int
    deletable: int
    changed_coefficients: int = 0
    readout_change: float = 0.0
    probes: int = 0
    ended: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    reactivated: tuple[str, ...] = ()
    reason: str | None = None
    notice: str | None = None


def preview_edit(memory: Memory, edit: Edit, holds: list[Hold]) -> Preview:
    """What an edit would do. The memory's journal and guard are used for it, and left to the caller to set again."""
    previews: list[Preview] = []

    def guard(version: Version, names: tuple[str, ...]) -> None:
        """A hold on an entry that the edit names is the answer, without a try."""
        if held := holds_on_entries(holds, version, names):
            previews.append(_refused(version, hold_reason(held)))
            raise _PreviewReady

    def journal(before: Version, after: Version, receipt: Receipt) -> None:
        if receipt.outcome == "refused":
            return
        held = holds_on_entries(holds, before, erased_ids(before, after))
        previews.append(_refused(before, hold_reason(held)) if held else _preview_of(before, after, receipt))
        raise _PreviewReady

    counted = memory.outcomes.copy()
    memory.journal, memory.guard = journal, guard
    try:
        edit(memory)
    except _PreviewReady:
        return previews[0]
    except Refused as problem:
        return _refused(memory.version, problem.reason)
    finally:
        memory.outcomes = counted
        memory.settle()
    raise StoreError("the dry run came to no end")


def _preview_of(before: Version, after: Version, receipt: Receipt) -> Preview:
    """What the edit between two versions amounts to."""
    staying = [name for name in _names(after) if before.slot(name) is not None]
    old, new = _weights(before), _weights(after)
    keys = after.keys[np.unique(np.linspace(0, after.size - 1, min(_PROBES, after.size)).astype(np.int64))]
    spread = float(np.max(np.ptp(before.values, axis=0))) or 1.0
    difference = np.abs(before.readout(keys) - after.readout(keys))
    return Preview(
        outcome=receipt.recorded_outcome,
        applied=receipt.applied,
        size=after.size,
        deletable=after.deletable,
        changed_coefficients=sum(old[name] != new[name] for name in staying),
        readout_change=float(np.max(difference)) / spread,
        probes=keys.shape[0],
        ended=tuple(receipt.details.get("ended", ())),
        expired=tuple(receipt.details.get("expired", ())),
        reactivated=tuple(receipt.details.get("reactivated", ())),
        notice=FORGET_NOTICE if receipt.details.get("mode") == "forget" else None,
    )


def _refused(version: Version, reason: str) -> Preview:
    return Preview("refused", (), version.size, version.deletable, reason=reason)


def _names(version: Version) -> list[str]:
    return [version.entries.ids[slot] or "" for slot in version.slots.tolist()]


def _weights(version: Version) -> dict[str, float]:
    return dict(zip(_names(version), version.coefficients.tolist(), strict=True))
