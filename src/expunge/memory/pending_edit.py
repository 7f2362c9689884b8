"""Everything that an edit prepares beside the published version: candidate states, new slots, attempts, the receipt.

An edit may take several steps (a deletion that brings archived entries back takes one for each). Every step passes the
check before the next, and nothing counts until the memory publishes the version that the steps lead to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from expunge.certificates.warranty import Archived, Mode, Warranties, archived_slack_is_negative
from expunge.memory.net_change import NetChange
from expunge.memory.receipt import Action, Receipt, RecordedOutcome, RefusalReason
from expunge.memory.version import Version
from expunge.problem.problem import row_bytes
from expunge.solver import path
from expunge.solver.attempts import Attempt, Method, Trial, first_accepted, rescue_methods
from expunge.solver.candidate_check import slack_error
from expunge.solver.cold_fit import fit
from expunge.solver.margin_factor import MarginFactor
from expunge.solver.state import ABSENT, MARGIN, RESERVE, State
from expunge.types import IndexArray, Matrix, Progress, Vector

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
        self.check = version.known_check
        self.attempts: list[Attempt] = []
        self.pivots = 0
        self.rescued = False
        # Archived entries that came back, in order: recalled for the cap, or active again.
        self.reactivated: list[str] = []
        self.warranties = version.warranties
        # Slots that came or went, once for each time.
        self._turned: list[int] = []
        self._spare = spare
        self._valid: frozenset[str] | None = None
        self._pairs = version.__dict__.get("pairs", version.known_pairs)

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
            base.preprocessing,
            base.veil ^ base.entries.veil(self._turned) if self._turned else base.veil,
            self._pairs,
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
            check=after.confirmed,
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

    def _site(self, key: Vector, state: State) -> int | None:
        """Where entries of a state have this very key."""
        packed = key.tobytes()
        site = self.base.site_of_key.get(packed, -1)
        if 0 <= site < state.sites and state.multiplicity[site] > 0 and state.gram.keys[site].tobytes() == packed:
            return site
        return None

    def _weighs(self, key: Vector) -> bool:
        site = self._site(key, self.state)
        return site is not None and bool(self.state.alpha[site] > 0.0)

    def admit(
        self,
        names: Sequence[str],
        keys: Matrix,
        values: Matrix,
        subjects: Sequence[str | None],
        payloads: Sequence[bytes | None],
        salts: Sequence[bytes | None] | None = None,
    ) -> bool:
        """Add entries after all others, in order: one motion, made canonical and checked once.

        Salts are new ones but for entries that have theirs already.
        """
        sites = self._weigh(keys)
        if sites is None:
            return False
        known = [None] * len(names) if salts is None else salts
        for name, key, value, site, subject, payload, salt in zip(
            names, keys, values, sites, subjects, payloads, known, strict=True
        ):
            self._append(name, key, value, site, subject, payload, salt)
        return True

    def follow(self, change: NetChange) -> bool:
        """Make the edits that another process has made of the same entries, as one.

        New entries come first: so there are never too few for the cap. Pruned entries that came back are those of the
        other process; which certificates there are is taken from it as well.
        """
        if change.ids:
            columns = change.subjects, change.payloads, change.salts
            if not self.admit(change.ids, change.keys, change.values, *columns):
                return False
        if not all(self._return(name) for name in change.returned):
            return False
        live = [slot for slot in change.gone if self.alive[slot]]
        if live and not self.remove(live):
            return False
        gone = set(change.gone)
        archive = {name: entry for name, entry in self.warranties.archive.items() if entry.slot not in gone}
        self.warranties = Warranties(archive, change.forgotten)
        return True

    def take_over(self, change: NetChange) -> bool:
        """`follow` of a version that has no rows: the weights are those that the other process stored.

        They are compared with those of the exact optimum before the first edit, as those of an opened memory are.
        """
        base, state, gram = self.base, self.state, self.state.gram
        back = [self.warranties.archive[name] for name in change.returned]
        keys = np.vstack([change.keys, *(entry.key for entry in back)])
        sites = self._sites_of(keys)
        counts = np.zeros(gram.sites, dtype=np.int64)
        counts[: state.sites] = state.multiplicity[: state.sites]
        live = [slot for slot in change.gone if self.alive[slot]]
        np.subtract.at(counts, base.entries.site[live], 1)
        np.add.at(counts, sites, 1)
        self.alive = self.alive.copy()
        self.alive[change.gone] = False
        self._turned += live
        for row, name in enumerate(change.ids):
            owner, payload, salt = change.subjects[row], change.payloads[row], change.salts[row]
            self._append(name, change.keys[row], change.values[row], int(sites[row]), owner, payload, salt)
        for entry, site in zip(back, sites[len(change.ids) :].tolist(), strict=True):
            # No published version reads the site of a slot that it does not count.
            base.entries.site[entry.slot] = site
            self.alive[entry.slot] = True
            self._turned.append(entry.slot)
        slots = np.flatnonzero(self.alive[: self.count])
        gone = {*change.gone, *(entry.slot for entry in back)}
        archive = {name: entry for name, entry in self.warranties.archive.items() if entry.slot not in gone}
        weights = change.weights[~np.isin(change.slots, [entry.slot for entry in archive.values()])]
        shares = np.zeros(gram.sites)
        shares[base.entries.site[slots]] = weights
        if not np.array_equal(shares[base.entries.site[slots]], weights):
            return False
        self.state = State.stored(gram, counts, state.cap, shares, change.offset)
        self._pairs = None
        self.size = slots.size
        self.check = None
        self.warranties = Warranties(archive, change.forgotten)
        return True

    def _sites_of(self, keys: Matrix) -> IndexArray:
        """Site of each key, new ones at the end; nothing has numbered the keys there are."""
        gram, present = self.state.gram, self.state.present()
        # Equal keys have equal first coordinates, and few others have.
        near = present[np.isin(gram.keys[present, 0], keys[:, 0])]
        known = dict(zip(row_bytes(gram.keys[near]), near.tolist(), strict=True))
        first: list[int] = []
        sites = []
        for row, packed in enumerate(row_bytes(keys)):
            if packed not in known:
                known[packed] = gram.sites + len(first)
                first.append(row)
            sites.append(known[packed])
        gram.add_sites(keys[first])
        return np.array(sites, dtype=np.int64)

    def _return(self, name: str) -> bool:
        """Bring an archived entry back, at the slot where it was."""
        entry = self.warranties.archive[name]
        self.warranties = self.warranties.without([name])
        self.reactivated.append(name)
        sites = self._weigh(entry.key[None, :])
        if sites is None:
            return False
        # No published version reads the site of a slot that it does not count.
        self.base.entries.site[entry.slot] = sites[0]
        self.alive = self.alive.copy()
        self.alive[entry.slot] = True
        self._turned.append(entry.slot)
        return True

    def _weigh(self, keys: Matrix) -> list[int] | None:
        """Find the state with one entry more at each of these keys: their sites, or None."""
        started = time.perf_counter()
        grown, gram = self.state, self.state.gram
        _require_rows(grown)
        sites: list[int] = []
        stays, copied = True, False
        for key in keys:
            site = self._site(key, grown)
            if site is None:
                gram.count_bound(grown.bound_counts())
                site = gram.add_site(key)
                slack = grown.offset - 1.0 + 2.0 * gram.sum_at(site, grown.alpha, grown.cap)
                grown = grown.with_site(site, slack)
                # A stale number is found out by comparing keys, so this may be written before the version is adopted.
                self.base.site_of_key[key.tobytes()] = site
                stays = stays and slack > slack_error(grown)
            else:
                if not copied:
                    grown = replace(grown, multiplicity=grown.multiplicity.copy(), ceiling=grown.ceiling.copy())
                    copied = True
                grown.set_multiplicity(site, int(grown.multiplicity[site]) + 1)
                stays = False
            sites.append(site)
        if stays:
            # Neither coefficients nor offset change, so every other term of the last check still stands.
            self.state = grown
            self.attempts.append(Attempt("reserve", self.check, time.perf_counter() - started))
        else:
            moved = sorted(set(sites))
            if not self._solve(
                grown, lambda candidate: path.admit(candidate, moved), grown.multiplicity[: grown.sites]
            ):
                return None
        self.size += len(sites)
        return sites

    def _append(
        self,
        name: str,
        key: Vector,
        value: Vector,
        site: int,
        subject: str | None,
        payload: bytes | None,
        salt: bytes | None = None,
    ) -> None:
        base = self.base
        slot = base.entries.append(name, key, value, site, subject=subject, payload=payload, salt=salt)
        if self.alive.size < base.entries.site.size:
            alive = np.ones(base.entries.site.size, dtype=bool)
            alive[: self.count] = self.alive[: self.count]
            self.alive = alive
        self.alive[slot] = True
        self._turned.append(slot)
        self.count = slot + 1

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
        if self._pairs is not None:
            # While the keys that go are still there.
            gone = [site for site in losses if counts[site] == 0]
            self._pairs = self._pairs.moved(state.gram.keys, np.setdiff1d(self._pairs.rows, gone))
        if all(state.status[site] == RESERVE for site in losses):
            self._remove_reserve(losses, counts)
        elif not self._solve(state, lambda candidate: path.remove(candidate, losses), counts):
            return False
        self.alive = self.alive.copy()
        for slot in slots:
            self.alive[slot] = False
        self._turned += slots
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

    def prune(self, slots: list[int], mode: Mode, sketch: int, progress: Progress | None = None) -> bool:
        """Take entries of zero weight out of the live memory, under warranty: steps 2 and 3 of a pruning."""
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
        if progress is not None:
            progress(f"removing {len(slots)} entries", 1, 3)
        if not self.remove(slots):
            return False
        if progress is not None:
            progress(f"certifying {len(slots)} entries", 2, 3)
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
        _require_rows(state)
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


def _require_rows(state: State) -> None:
    """Make the rows of the margin, where a dry run or a refusal has left none."""
    if not state.gram.count:
        state.gram.require(np.flatnonzero(state.status[: state.sites] == MARGIN))
