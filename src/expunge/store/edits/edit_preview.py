"""What an edit would do: it is prepared beside the published version, and discarded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.certificates.readout_change import readout_change_bound
from expunge.display.card import LISTED, Card, Displayed, counted
from expunge.display.outcomes import OUTCOMES
from expunge.errors import ExpungeError, Refused, StoreError
from expunge.memory.memory import Memory
from expunge.memory.receipt import FORGET_NOTICE, Receipt, RecordedOutcome
from expunge.memory.version import Version
from expunge.preprocessing.outdated import OutdatedChoice
from expunge.problem.tolerances import PUBLISHED
from expunge.store.legal_holds import Hold, hold_reason, holds_on_entries
from expunge.store.row_writer import erased_ids

if TYPE_CHECKING:
    from expunge.store.derivations import DerivedEntry

__all__ = ["Edit", "Preview", "preview_edit"]

# Readouts are compared at this many of the remaining keys, spread evenly over the rows.
_PROBES = 256

Edit = Callable[[Memory], Receipt]


class _PreviewReady(ExpungeError):
    """Raised in the journal of a dry run, to end the edit once its preview is made."""


@dataclass(frozen=True)
class Preview(Displayed):
    """The outcome of an edit that was not applied.

    ``size`` counts the entries that would be live; ``cap`` is the cap there would be, which differs from
    ``cap_before``, the present one, only where the outcome is ``refitted`` or ``emptied``. ``deletable`` counts what
    could be deleted afterwards before the cap changes: more can be deleted, too. ``readout_bound`` is what no
    readout changes by, at any query inside the boundary as it is now, in units of the value range (of one, where all
    values are equal); 0 says that none changes at any query whatever. ``readout_change`` is the largest change at a
    sample, ``probes`` of the remaining keys, in the same units. Where the memory is empty before or after there is no
    readout to compare: ``probes`` is 0 and the bound None, as it is where too many coefficients change for a bound.
    ``changed_coefficients`` counts entries whose weight would move, ``reactivated`` has the archived entries that
    would come back. A refused edit has its ``reason``, and the numbers of ``holds`` that forbid it, and changes
    nothing. ``notice`` says what a pruning in the
    mode *forget* entails. ``outdated`` has the numbers that were chosen from entries, such as a width, and would be
    others chosen from those that remain; None, where the entries are so many that finding it takes long.
    """

    outcome: RecordedOutcome
    applied: tuple[str, ...]
    size: int
    deletable: int
    cap_before: float
    cap: float
    changed_coefficients: int = 0
    readout_bound: float | None = None
    readout_change: float = 0.0
    probes: int = 0
    ended: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    reactivated: tuple[str, ...] = ()
    reason: str | None = None
    holds: tuple[int, ...] = ()
    notice: str | None = None
    outdated: tuple[OutdatedChoice, ...] | None = ()
    derived: tuple[DerivedEntry, ...] = ()
    elsewhere: Mapping[str, Preview] = field(default_factory=dict)

    @property
    def readout_text(self) -> str:
        """What happens to readouts, in a sentence; empty where there is none to compare."""
        if not self.probes:
            return ""
        if self.readout_bound == 0.0:
            return "does not change, at any query"
        sampled = f"{self.readout_change:.2%} of the value range, the largest change at {self.probes} sampled keys"
        if self.readout_bound is None:
            return f"{sampled}; how far it changes elsewhere was not bounded"
        # Rounded up: what is printed is a bound, too.
        bound = math.ceil(self.readout_bound * 1e4) / 1e4
        return f"changes by at most {bound:.2%} of the value range, inside the boundary ({sampled})"

    def to_json(self) -> dict[str, Any]:
        """Every field; what would be done in other memories by their names."""
        elsewhere = {name: one.to_json() for name, one in self.elsewhere.items()}
        return {**vars(self), "derived": [one.to_json() for one in self.derived], "elsewhere": elsewhere}

    def _card(self) -> Card:
        named = ", ".join(self.applied[:LISTED]) + (", …" if len(self.applied) > LISTED else "")
        more, others = ", …" if len(self.derived) > LISTED else "", self.elsewhere.items()
        ends = ((self.ended, "would end for good"), (self.expired, "would expire"))
        return Card(
            title="Dry run: nothing was changed",
            sentence=self.reason or f"{counted(len(self.applied), 'entry')}: {OUTCOMES[self.outcome]}",
            rows=(
                ("entries", named),
                ("made from others", ", ".join(map(str, self.derived[:LISTED])) + more),
                ("elsewhere", ", ".join(f"{counted(len(one.applied), 'entry')} of {name}" for name, one in others)),
                ("left", f"{self.size} live" if self.size else ""),
                ("weights", f"{self.changed_coefficients} would change" if self.reason is None else ""),
                ("readout", self.readout_text),
                ("certificates", ", ".join(f"{len(names)} {text}" for names, text in ends if names)),
                ("archive", f"{len(self.reactivated)} would come back" if self.reactivated else ""),
                ("note", self.notice or ""),
            ),
            details=(
                ("outcome", self.outcome),
                (
                    "cap",
                    f"{self.cap_before:.6g} → {self.cap:.6g}" if self.cap != self.cap_before else f"{self.cap:.6g}",
                ),
                ("deletable afterwards", f"{self.deletable} before the cap changes"),
            ),
        )


def preview_edit(memory: Memory, edit: Edit, holds: list[Hold]) -> Preview:
    """What an edit would do. The memory's journal and guard are used for it, and left to the caller to set again."""
    previews: list[Preview] = []

    def guard(version: Version, names: tuple[str, ...]) -> None:
        """A hold on an entry that the edit names is the answer, without a try."""
        if held := holds_on_entries(holds, version, names):
            previews.append(_held(version, held))
            raise _PreviewReady

    def journal(before: Version, after: Version, receipt: Receipt) -> None:
        if receipt.outcome == "refused":
            return
        held = holds_on_entries(holds, before, erased_ids(before, after))
        previews.append(_held(before, held) if held else _preview_of(before, after, receipt))
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
    # Readouts are sums over the entries with a weight alone.
    still = before.entries is after.entries and _active(before) == _active(after)
    old, new = ({}, {}) if still else (_weights(before), _weights(after))
    keys = after.keys[np.unique(np.linspace(0, after.size - 1, min(_PROBES, after.size)).astype(np.int64))]
    if not before.size:
        keys = keys[:0]
    change, bound = 0.0, None
    if keys.shape[0] and still:
        bound = 0.0
    elif keys.shape[0]:
        spread = float(np.max(np.ptp(before.values, axis=0))) or 1.0
        change = float(np.max(np.abs(before.readout(keys) - after.readout(keys)))) / spread
        most = _bound(before, after, old, new)
        bound = None if most is None else most / spread
    return Preview(
        outcome=receipt.recorded_outcome,
        applied=receipt.applied,
        size=after.size,
        deletable=after.deletable,
        cap_before=before.state.cap,
        cap=after.state.cap,
        changed_coefficients=sum(old[name] != weight for name, weight in new.items() if name in old),
        readout_bound=bound,
        readout_change=change,
        probes=keys.shape[0],
        ended=tuple(receipt.details.get("ended", ())),
        expired=tuple(receipt.details.get("expired", ())),
        reactivated=tuple(receipt.details.get("reactivated", ())),
        notice=FORGET_NOTICE if receipt.details.get("mode") == "forget" else None,
        outdated=after.outdated_at_once,
    )


def _refused(version: Version, reason: str) -> Preview:
    return Preview("refused", (), version.size, version.deletable, version.state.cap, version.state.cap, reason=reason)


def _held(version: Version, held: dict[str, Hold]) -> Preview:
    return replace(_refused(version, hold_reason(held)), holds=tuple(sorted({hold.number for hold in held.values()})))


def _bound(before: Version, after: Version, old: dict[str, float], new: dict[str, float]) -> float | None:
    """What no readout changes by inside the boundary, in units of the values."""
    added = [row for row, name in enumerate(_names(after)) if name not in old]
    remaining = np.array([new.get(name, 0.0) for name in old])
    return readout_change_bound(
        np.vstack([before.keys, after.keys[added]]),
        np.vstack([before.values, after.values[added]]),
        np.concatenate([before.coefficients, np.zeros(len(added))]),
        np.concatenate([remaining, after.coefficients[added]]),
        sigma=before.state.gram.sigma,
        # What is called inside may be short of the boundary by the published tolerance.
        denominator=0.5 * (1.0 - before.state.offset - PUBLISHED),
    )


def _names(version: Version) -> list[str]:
    return [version.entries.ids[slot] or "" for slot in version.slots.tolist()]


def _active(version: Version) -> dict[int, float]:
    """Weight of each entry that has one, by its slot."""
    rows = np.flatnonzero(version.coefficients)
    return dict(zip(version.slots[rows].tolist(), version.coefficients[rows].tolist(), strict=True))


def _weights(version: Version) -> dict[str, float]:
    return dict(zip(_names(version), version.coefficients.tolist(), strict=True))
