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

from expunge.certificates.warranty import Archived, Mode
from expunge.memory.receipt import Action, Outcome, Receipt, RefusalReason
from expunge.memory.version import Version
from expunge.problem.tolerances import SLACK_TOLERANCE
from expunge.solver import path
from expunge.solver.active_set import finish
from expunge.solver.attempts import Attempt, Method, Trial, first_accepted, rescue_methods
from expunge.solver.cold_fit import fit
from expunge.solver.margin_factor import MarginFactor
from expunge.solver.state import State
from expunge.types import IndexArray, Vector

__all__ = ["PendingEdit", "WarrantyChanges"]


@dataclass(frozen=True)
class WarrantyChanges:
    """What an edit did to the certificates of entries that stay pruned."""

    expired: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()
    rechecks: int = 0
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
        )

    def receipt(
        self,
        outcome: Outcome,
        names: tuple[str, ...],
        after: Version,
        covers: str,
        details: dict[str, Any] | None = None,
        refusal: RefusalReason | None = None,
    ) -> Receipt:
        """The record of the edit from the version that it began with to `after`."""
        return Receipt(
            action=self.action,
            outcome=outcome,
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

    def slack(self, key: Vector) -> float:
        """G at a key under the candidate."""
        gram = self.state.gram
        weights = self.state.alpha[gram.site_of[: gram.count]]
        return self.state.offset - 1.0 + 2.0 * float(weights @ gram.column_for(key))

    def admit(
        self,
        name: str,
        key: Vector,
        value: Vector,
        *,
        subject: str | None = None,
        payload: bytes | None = None,
        salt: bytes | None = None,
    ) -> bool:
        """Add one entry."""
        started = time.perf_counter()
        base, state, gram = self.base, self.state, self.state.gram
        packed = key.tobytes()
        site = self._site(key)
        if site is None:
            column = gram.column_for(key)
            slack = state.offset - 1.0 + 2.0 * float(state.alpha[gram.site_of[: gram.count]] @ column)
            site = gram.add_site(key, column)
            grown = state.with_site(site, slack)
            # A stale number is found out by comparing keys, so this may be written before the version is adopted.
            base.site_of_key[packed] = site
            stays = slack >= 0.0 and state.exact
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
        slot = base.entries.append(name, key, value, site, subject=subject, payload=payload, salt=salt)
        if self.alive.size < base.entries.site.size:
            alive = np.ones(base.entries.site.size, dtype=bool)
            alive[: self.count] = self.alive[: self.count]
            self.alive = alive
        self.alive[slot] = True
        self.count, self.size = slot + 1, self.size + 1
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
        if not self._solve(state, lambda candidate: path.remove(candidate, losses), counts):
            return False
        self.alive = self.alive.copy()
        for slot in slots:
            self.alive[slot] = False
        self.size -= len(slots)
        return True

    def update_warranties(self) -> WarrantyChanges:
        """Settle what the steps so far did to pruned entries.

        A forgotten entry whose warranty ran out is expired. An archived one is rechecked exactly, and renewed,
        or brought back when its slack is negative or a copy of its key has weight, which the two then share; each
        return can end further warranties, so this repeats until none is left.
        """
        if not self.warranties.records:
            return WarrantyChanges()
        edit = self.base.edit + 1
        expired: list[str] = []
        rechecks = 0
        while True:
            self.warranties, due = self.warranties.settled(self.state)
            lost = [name for name in due if self.warranties.records[name].mode == "forget"]
            if lost:
                self.warranties = self.warranties.expired(lost, edit)
                expired += lost
            held = [name for name in due if self.warranties.records[name].mode == "archive"]
            slacks = {name: self.slack(self.warranties.archive[name].key) for name in held}
            rechecks += len(held)
            back = min(slacks, key=lambda name: slacks[name], default=None)
            if back is None or slacks[back] >= -SLACK_TOLERANCE:
                back = next((name for name in held if self._weighs(self.warranties.archive[name].key)), None)
            if back is None:
                break
            if not self._return(back):
                return WarrantyChanges(tuple(expired), (), rechecks, solved=False)
        if held:
            sketch = max(self.warranties.records[name].neighbours.size for name in held)
            entries = [self.warranties.archive[name] for name in held]
            self.warranties = self.warranties.issued(held, entries, self.state, edit, "archive", sketch)
        return WarrantyChanges(tuple(expired), tuple(held), rechecks)

    def recall(self, wanted: int) -> bool:
        """Bring archived entries back until the live memory has this many, those nearest to being active first."""
        archive = self.warranties.archive
        if self.size >= wanted or not archive:
            return True
        nearest = sorted(archive, key=lambda name: self.slack(archive[name].key))
        return all(self._return(name) for name in nearest[: wanted - self.size])

    def _return(self, name: str) -> bool:
        entry = self.warranties.archive[name]
        self.warranties = self.warranties.without([name])
        self.reactivated.append(name)
        return self.admit(name, entry.key, entry.value, subject=entry.subject, payload=entry.payload, salt=entry.salt)

    def prune(self, slots: list[int], mode: Mode, sketch: int) -> bool:
        """Take entries of zero weight out of the live memory, under warranty."""
        entries = self.base.entries
        names = [entries.ids[slot] or "" for slot in slots]
        contents = [
            Archived(
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
        self.warranties = self.warranties.issued(names, contents, self.state, self.base.edit + 1, mode, sketch)
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
            trial = first_accepted([Method("path", along_path, finish)], counts)
        if trial is None or trial.state is None:
            failed = () if trial is None else trial.attempts
            cold = Method("cold", lambda: fit(gram, counts, state.cap))
            trial = first_accepted(chain([cold], rescue_methods(gram, counts, state.cap)), counts, failed=failed)
        self.attempts.extend(trial.attempts)
        if trial.state is None:
            return False
        if self.warranties.records:
            self.warranties = self.warranties.travelled(state, trial.state)
        self.rescued = self.rescued or len(trial.attempts) > 1
        self.state, self.check = trial.state, trial.check
        self.pivots += trial.state.pivots
        return True
