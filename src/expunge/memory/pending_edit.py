"""Everything that an edit prepares beside the published version: candidate states, new slots, attempts, the receipt.

An edit may take several steps (a deletion that brings archived entries back takes one for each). Every step passes the
check before the next, and nothing counts until the memory publishes the version that the steps lead to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from expunge.certificates.warranty import Archived, Mode, archived_slack_is_negative
from expunge.memory.receipt import Action, Receipt, RecordedOutcome, RefusalReason
from expunge.memory.version import Version
from expunge.solver import path
from expunge.solver.attempts import Attempt, Method, Trial, first_accepted, rescue_methods
from expunge.solver.canonical import slack_error
from expunge.solver.cold_fit import fit
from expunge.solver.margin_factor import MarginFactor
from expunge.solver.state import ABSENT, RESERVE, State
from expunge.types import IndexArray, Vector

__all__ = ["PendingEdit", "WarrantyChanges"]


@dataclass(frozen=True)
class WarrantyChanges:
    """What an edit did to the certificates of entries that stay pruned.

    ``ended`` certificates have lost their numbers for good; ``expired`` ones may be ``renewed`` by a later edit.
    """

    ended: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()
    solved: bool = True


class PendingEdit:
    """A version in the making. A step that no method can solve returns False, and the edit is then refused."""

    def __init__(self, version: Version, spare: MarginFactor, action: Action) -> None:
        self.action = action
        self.started = time.perf_counter()
        self.base = version
        self.state = version.state
        self.count = version.count
        self.alive = version.alive
        self.size = version.size
        self.check = version.check
        self.attempts: list[Attempt] = []
        self.pivots = 0
        self.rescued = False
        # Archived entries that came back, in order: recalled for the cap, or active again.
        self.reactivated: list[str] = []
        self.warranties = version.warranties
        self._spare = spare
        self._valid: frozenset[str] | None = None

    def version(self) -> Version:
        """The version that the steps so far lead to."""
        base = self.base
        return Version(
            self.state,
            base.entries,
            self.count,
            self.alive,
            self.size,
            self.check,
            base.site_of_key,
            self.warranties,
            base.edit + 1,
            self._valid,
        )

    def receipt(
        self,
        outcome: RecordedOutcome,
        names: tuple[str, ...],
        after: Version,
        covers: str,
        details: dict[str, Any] | None = None,
        refusal: RefusalReason | None = None,
    ) -> Receipt:
        """The record of the edit from the version that it began with to `after`."""
        rescued = self.rescued and outcome in ("admitted", "certified_zero", "decrement")
        return Receipt(
            action=self.action,
            outcome="rescued" if rescued else outcome,
            rescued_to=outcome if rescued else None,
            applied=names,
            check=after.check,
            attempts=tuple(self.attempts),
            covers=covers,
            state_before=self.base.digest,
            state_after=after.digest,
            seconds=time.perf_counter() - self.started,
            pivots=self.pivots,
            refusal=refusal,
            details=details or {},
        )

    def no_acceptable_state(self) -> RefusalReason:
        """Why the edit is refused after every method has failed: the best residual beside the tolerance."""
        best = min((tried.check.worst for tried in self.attempts if tried.check is not None), default=math.inf)
        return RefusalReason("no_acceptable_state", best, self.base.check.tolerance)

    def _site(self, key: Vector) -> int | None:
        """Where live entries have this very key."""
        state, packed = self.state, key.tobytes()
        site = self.base.site_of_key.get(packed, -1)
        if 0 <= site < state.sites and state.multiplicity[site] > 0 and state.gram.keys[site].tobytes() == packed:
            return site
        return None

    def _weighs(self, key: Vector) -> bool:
        site = self._site(key)
        return site is not None and bool(self.state.alpha[site] > 0.0)

    def admit(
        self,
        name: str,
        key: Vector,
        value: Vector,
        *,
        subject: str | None = None,
        payload: bytes | None = None,
        salt: bytes | None = None,
        slot: int | None = None,
    ) -> bool:
        """Add one entry: after all others, or back at the slot where it was before it was archived."""
        started = time.perf_counter()
        base, state, gram = self.base, self.state, self.state.gram
        packed = key.tobytes()
        site = self._site(key)
        if site is None:
            gram.count_bound(state.bound_counts())
            site = gram.add_site(key)
            slack = state.offset - 1.0 + 2.0 * gram.sum_at(site, state.alpha, state.cap)
            grown = state.with_site(site, slack)
            # A stale number is found out by comparing keys, so this may be written before the version is adopted.
            base.site_of_key[packed] = site
            stays = slack > slack_error(state)
        else:
            grown = replace(state, multiplicity=state.multiplicity.copy(), ceiling=state.ceiling.copy())
            grown.set_multiplicity(site, int(state.multiplicity[site]) + 1)
            stays = False
        if stays:
            # Neither coefficients nor offset change, so every other term of the last check still stands.
            self.state = grown
            self.attempts.append(Attempt("reserve", self.check, time.perf_counter() - started))
        elif not self._solve(grown, lambda candidate: path.admit(candidate, site), grown.multiplicity[: grown.sites]):
            return False
        self.size += 1
        if slot is not None:
            # No published version reads the site of a slot that it does not count.
            base.entries.site[slot] = site
            self.alive = self.alive.copy()
            self.alive[slot] = True
            return True
        slot = base.entries.append(name, key, value, site, subject=subject, payload=payload, salt=salt)
        if self.alive.size < base.entries.site.size:
            alive = np.ones(base.entries.site.size, dtype=bool)
            alive[: self.count] = self.alive[: self.count]
            self.alive = alive
        self.alive[slot] = True
        self.count = slot + 1
        return True

    def remove(self, slots: list[int]) -> bool:
        """Take entries away, in one coupled path."""
        state = self.state
        losses: dict[int, int] = {}
        counts = state.multiplicity[: state.sites].copy()
        site_of = self.base.entries.site
        for slot in slots:
            site = site_of.item(slot)
            losses[site] = losses.get(site, 0) + 1
            counts[site] -= 1
        if all(state.status[site] == RESERVE for site in losses):
            self._remove_reserve(losses, counts)
        elif not self._solve(state, lambda candidate: path.remove(candidate, losses), counts):
            return False
        self.alive = self.alive.copy()
        for slot in slots:
            self.alive[slot] = False
        self.size -= len(slots)
        return True

    def _remove_reserve(self, losses: dict[int, int], counts: IndexArray) -> None:
        """Take away entries whose weight in the exact optimum is zero: it stays the optimum, to the bit."""
        started = time.perf_counter()
        state = self.state
        status = state.status.copy()
        for site in losses:
            if counts[site] == 0:
                status[site] = ABSENT
        multiplicity, ceiling = state.multiplicity.copy(), state.ceiling.copy()
        self.state = replace(state, status=status, multiplicity=multiplicity, ceiling=ceiling, pivots=0)
        for site in losses:
            self.state.set_multiplicity(site, int(counts[site]))
        self.attempts.append(Attempt("reserve", self.check, time.perf_counter() - started))

    def erase(self, slots: list[int], archived: list[int]) -> bool:
        """Take live entries away for good, with everything that was derived from them or from archived ones."""
        self.warranties = self.warranties.erased([*slots, *archived])
        return not slots or self.remove(slots)

    def update_warranties(self) -> WarrantyChanges:
        """Settle what the steps so far did to pruned entries.

        An archived entry comes back when its slack is negative or a copy of its key has weight, which the two then
        share; each return moves the optimum, so this repeats until none is left.
        """
        archive = self.warranties.archive
        while archive:
            fit = self.version().fit
            due = self.warranties.due(fit)
            if not due:
                break
            slacks, negative = archived_slack_is_negative(np.array([archive[name].key for name in due]), fit)
            worst = int(np.argmin(slacks))
            back = due[worst] if negative[worst] else None
            if back is None:
                back = next((name for name in due if self._weighs(archive[name].key)), None)
            if back is None:
                self.warranties = self.warranties.rechecked(due, fit)
                break
            if not self._return(back):
                return WarrantyChanges(solved=False)
            archive = self.warranties.archive
        return self.certificate_changes()

    def certificate_changes(self) -> WarrantyChanges:
        """Forgotten entries whose certificates the steps so far ended, expired, or made valid again."""
        if not self.base.warranties.forgotten and not self.warranties.forgotten:
            self._valid = frozenset()
            return WarrantyChanges()
        before, after = self.base.valid, self.version().valid
        self._valid = after
        left = self.warranties.forgotten
        ended = self.base.warranties.ended_in(self.warranties)
        return WarrantyChanges(
            ended,
            tuple(name for name in left if name in before and name not in after and name not in ended),
            tuple(name for name in left if name in after and name in self.base.warranties and name not in before),
        )

    def recall(self, wanted: int) -> bool:
        """Bring archived entries back until the live memory has this many, those nearest to being active first."""
        archive = self.warranties.archive
        if self.size >= wanted or not archive:
            return True
        slacks, _ = archived_slack_is_negative(np.array([entry.key for entry in archive.values()]), self.version().fit)
        nearest = sorted(zip(slacks.tolist(), archive, strict=True), key=lambda pair: pair[0])
        return all(self._return(name) for _, name in nearest[: wanted - self.size])

    def _return(self, name: str) -> bool:
        entry = self.warranties.archive[name]
        self.warranties = self.warranties.without([name])
        self.reactivated.append(name)
        return self.admit(name, entry.key, entry.value, slot=entry.slot)

    def prune(self, slots: list[int], mode: Mode, sketch: int) -> bool:
        """Take entries of zero weight out of the live memory, under warranty."""
        entries = self.base.entries
        names = [entries.ids[slot] or "" for slot in slots]
        contents = [
            Archived(
                slot,
                self.state.gram.keys[entries.site[slot]].copy(),
                entries.values[slot].copy(),
                entries.subjects[slot],
                entries.payloads[slot],
                entries.salts[slot],
            )
            for slot in slots
        ]
        if not self.remove(slots):
            return False
        fit = self.version().fit
        if mode == "archive":
            self.warranties = self.warranties.archived(dict(zip(names, contents, strict=True)), fit)
        else:
            self.warranties = self.warranties.erased(slots).forgetting(names, contents, fit, sketch)
        return True

    def _solve(self, state: State, update: Callable[[State], None], counts: IndexArray) -> bool:
        def along_path() -> State:
            spare = self._spare if self._spare is not state.margin else None
            candidate = state.copy(spare)
            update(candidate)
            return candidate

        gram = state.gram
        trial: Trial | None = None
        if state.exact:
            trial = first_accepted([Method("path", along_path)], counts)
        if trial is None or trial.state is None:
            failed = () if trial is None else trial.attempts
            cold = Method("cold", lambda: fit(gram, counts, state.cap))
            trial = first_accepted(chain([cold], rescue_methods(gram, counts, state.cap)), counts, failed=failed)
        self.attempts.extend(trial.attempts)
        if trial.state is None:
            return False
        self.rescued = self.rescued or len(trial.attempts) > 1
        self.state, self.check = trial.state, trial.check
        self.pivots += trial.state.pivots
        return True
