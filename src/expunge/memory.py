"""A memory of (key, value) entries whose every edit is a checked transaction. Read this second, after `problem`.

A `View` is one published, immutable-by-convention version: the solver's state, which entries it counts, and
the check that let it through. An edit prepares everything beside the current view and then replaces the
reference to it, in one assignment: an error or an interrupt at any moment leaves the old view, bit for bit.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge.check import StateCheck, check_state
from expunge.commitment import new_salts, state_digest
from expunge.entries import Entries, check_id, check_subject, decode_payload, encode_payload
from expunge.errors import AdmissionRefused, DeletionRefused, InputError, SolveError
from expunge.kernel import squared_distances
from expunge.partition import Partition
from expunge.problem import Problem, as_points, fewest_keys, row_bytes
from expunge.receipt import Attempt, Outcome, Receipt
from expunge.solution import Solution
from expunge.solver import path
from expunge.solver.fit import distinct_sites, fit
from expunge.solver.gram import GramRows
from expunge.solver.margin import refined_inverse
from expunge.solver.pivot import finish
from expunge.solver.state import ABSENT, State
from expunge.transaction import Path, Trial, transact
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["Hit", "Memory"]

# Absent sites and wiped slots are tolerated up to a quarter of the memory before it is compacted.
COMPACT_ABOVE = 64


@dataclass(frozen=True)
class Hit:
    """One entry of a search: its share of the readout at the query, and what it holds."""

    id: str
    share: float
    similarity: float
    value: Vector
    subject: str | None
    payload: Any


@dataclass(eq=False)
class View:
    """One published version."""

    state: State
    entries: Entries
    count: int
    alive: npt.NDArray[np.bool_]
    size: int
    check: StateCheck
    site_of_key: dict[bytes, int] = field(repr=False)

    @cached_property
    def slots(self) -> IndexArray:
        """Slots of the entries, in row order."""
        return np.flatnonzero(self.alive[: self.count])

    @cached_property
    def sites(self) -> IndexArray:
        """Site of each entry, in row order."""
        return self.entries.site[self.slots]

    @cached_property
    def coefficients(self) -> Vector:
        """α of each entry, in row order."""
        return _frozen(self.state.shares()[self.sites])

    @cached_property
    def keys(self) -> Matrix:
        """Key of each entry, in row order."""
        return _frozen(self.state.gram.keys[self.sites])

    @cached_property
    def values(self) -> Matrix:
        """Value of each entry, in row order."""
        return _frozen(self.entries.values[self.slots])

    @cached_property
    def digest(self) -> str:
        """Digest of the whole state."""
        return state_digest(
            self.state.cap,
            self.state.gram.sigma,
            self.state.offset,
            self.entries.commitments[self.slots],
            self.coefficients,
        )

    def slot(self, name: str) -> int | None:
        """Slot of a live entry, or None."""
        slot = self.entries.slot_of.get(name)
        return slot if slot is not None and slot < self.count and self.alive[slot] else None


class Memory:
    """Entries weighted by a one-class support-vector fit, with edits that are checked before they count."""

    def __init__(self, view: View, *, initial_size: int, nu: float | None) -> None:
        """Wrap a published view; use `Memory.fit` or `Memory.load`."""
        self._view = view
        self._lock = threading.RLock()
        self._next_id = 0
        self._unwiped: list[int] = []
        self._unsettled = False
        # The factor of the version before, whose memory the next candidate reuses.
        self._spare = view.state.margin.copy()
        self.initial_size = initial_size
        self.nu = nu
        self.outcomes: Counter[str] = Counter()

    @classmethod
    def fit(
        cls,
        keys: npt.ArrayLike,
        values: npt.ArrayLike,
        *,
        sigma: float,
        nu: float | None = None,
        cap: float | None = None,
        ids: Sequence[str] | None = None,
        subjects: Sequence[str | None] | None = None,
        payloads: Sequence[Any] | None = None,
    ) -> Memory:
        """Fit a memory to keys (n, d) and values (n, dv) or (n,).

        The cap is C = 1/(ν n) for this n, fixed from now on, or `cap` itself. Raises InputError for unusable
        arguments and SolveError if no solver reaches an acceptable state.
        """
        problem = Problem.of(keys, sigma=sigma, nu=nu, cap=cap)
        size = problem.keys.shape[0]
        contents = _values(values, size)
        names = _ids(ids, size)
        owners = _subjects(subjects, size)
        extras = _payloads(payloads, size)
        first, site_of = distinct_sites(problem.keys)
        gram = GramRows(problem.keys[first], problem.sigma, capacity=first.size + max(16, first.size // 8))
        counts = np.bincount(site_of, minlength=first.size)
        trial = transact(
            [Path("cold", lambda: fit(gram, counts, problem.cap)), *_rescues(gram, counts, problem.cap)],
            counts,
        )
        if trial.state is None:
            raise SolveError(f"no solver reached an acceptable state: {trial.attempts!r}")
        gram.retain(trial.state.active())
        entries = Entries(contents.shape[1], size)
        bytes_of_keys = row_bytes(problem.keys)
        entries.extend(names, bytes_of_keys, contents, site_of, owners, extras, new_salts(size))
        view = View(
            state=trial.state,
            entries=entries,
            count=size,
            alive=np.ones(entries.site.size, dtype=bool),
            size=size,
            check=trial.check,
            site_of_key={bytes_of_keys[row]: site for site, row in enumerate(first.tolist())},
        )
        memory = cls(view, initial_size=size, nu=None if nu is None else float(nu))
        memory._next_id = size
        view.digest  # noqa: B018 — computed now rather than within the first edit
        if trial.rescued:
            memory.outcomes["rescued"] += 1
        return memory

    def __len__(self) -> int:
        return self._view.size

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._view.slot(name) is not None

    def __repr__(self) -> str:
        groups = self.partition
        return (
            f"<Memory of {len(self)} entries, d={self.dimension}: {groups.margin.size} margin, "
            f"{groups.bound.size} bound, {groups.reserve.size} reserve; cap {self.cap:.6g}, sigma {self.sigma:g}>"
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in row order."""
        names = self._view.entries.ids
        return tuple(names[slot] or "" for slot in self._view.slots.tolist())

    @property
    def subjects(self) -> tuple[str | None, ...]:
        """Subjects in row order."""
        owners = self._view.entries.subjects
        return tuple(owners[slot] for slot in self._view.slots.tolist())

    @property
    def keys(self) -> Matrix:
        """Keys in row order, (n, d) float64, read-only."""
        return self._view.keys

    @property
    def values(self) -> Matrix:
        """Values in row order, (n, dv) float64, read-only."""
        return self._view.values

    @property
    def coefficients(self) -> Vector:
        """Coefficients α in row order, (n,) float64, read-only."""
        return self._view.coefficients

    @property
    def offset(self) -> float:
        """Offset ρ: from the margin, or the least t of the bound keys when the margin is empty."""
        return self._view.state.offset

    @property
    def cap(self) -> float:
        """Cap C, fixed since the fit."""
        return self._view.state.cap

    @property
    def sigma(self) -> float:
        """Kernel width σ."""
        return self._view.state.gram.sigma

    @property
    def dimension(self) -> int:
        """Coordinates of a key."""
        return int(self._view.state.gram.keys.shape[1])

    @property
    def partition(self) -> Partition:
        """Rows on the margin, at the bound and in reserve."""
        return Partition.of(self.coefficients, self.cap)

    @property
    def inverse(self) -> Matrix:
        """R = M⁻¹ of the margin system, (s+1, s+1): the offset first, then the margin keys in row order.

        Identical margin keys share one row and column: M would be singular with both.
        """
        state = self._view.state
        order = np.sort(state.margin.members)
        return refined_inverse(state.gram.block(order, order))

    @property
    def deletable(self) -> int:
        """How many more entries can be deleted at this cap: n − ⌈1/C⌉."""
        return len(self) - fewest_keys(self.cap)

    @property
    def digest(self) -> str:
        """Digest of the current state, as receipts name it."""
        return self._view.digest

    @property
    def solution(self) -> Solution:
        """Coefficients and offset with the problem that they solve."""
        return Solution(Problem(self.keys, self.cap, self.sigma), self.coefficients, self.offset)

    def payload(self, name: str) -> Any:
        """Payload of an entry."""
        return decode_payload(self._view.entries.payloads[self._slot(name)])

    def read(self, queries: npt.ArrayLike) -> Matrix:
        """Normalized readout o(q) = Σακv / Σακ at queries (m, d) or (d,) → (m, dv).

        Kernel values are scaled by the nearest active key's, which cancels, so a query far from every key
        gets the limit of the formula rather than 0/0.
        """
        points = as_points(queries, "queries", dimension=self.dimension)
        view = self._view
        active = np.flatnonzero(view.coefficients)
        weights = self._weights(points, active)
        totals = weights.sum(axis=1, keepdims=True)
        return np.asarray(weights @ view.values[active] / totals)

    def score(self, points: npt.ArrayLike) -> Vector:
        """Gate score s(x) = 2Σακ(x, x_i) − ρ at points (m, d) or (d,) → (m,)."""
        return self.solution.score(as_points(points, "points", dimension=self.dimension))

    def search(self, query: npt.ArrayLike, k: int = 5) -> list[Hit]:
        """Entries that carry the readout at a query, largest share first; at most `k`."""
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InputError(f"k must be a positive number of entries, not {k!r}")
        point = as_points(query, "query", dimension=self.dimension)
        if point.shape[0] != 1:
            raise InputError(f"search takes one query, not {point.shape[0]}")
        view = self._view
        active = np.flatnonzero(view.coefficients)
        weights = self._weights(point, active)[0]
        shares = weights / weights.sum()
        similarity = np.exp(-squared_distances(point, view.keys[active])[0] / self.sigma**2)
        hits = []
        for place in np.argsort(-shares, kind="stable")[:k].tolist():
            slot = int(view.slots[active[place]])
            hits.append(
                Hit(
                    id=view.entries.ids[slot] or "",
                    share=float(shares[place]),
                    similarity=float(similarity[place]),
                    value=view.values[active[place]],
                    subject=view.entries.subjects[slot],
                    payload=decode_payload(view.entries.payloads[slot]),
                )
            )
        return hits

    def check(self) -> StateCheck:
        """Mass, box and stationarity errors, recomputed from the keys themselves."""
        return check_state(self.keys, self.coefficients, self.offset, cap=self.cap, sigma=self.sigma)

    def refit(self) -> Memory:
        """Fresh memory with the same entries and cap, solved from nothing: the reference for a deletion."""
        view = self._view
        slots = view.slots.tolist()
        fresh = Memory.fit(
            self.keys,
            self.values,
            sigma=self.sigma,
            cap=self.cap,
            ids=self.ids,
            subjects=self.subjects,
        )
        for row, slot in enumerate(slots):
            fresh._view.entries.payloads[row] = view.entries.payloads[slot]
            fresh._view.entries.salts[row] = view.entries.salts[slot]
            fresh._view.entries.commitments[row] = view.entries.commitments[slot]
        fresh.initial_size, fresh.nu, fresh._next_id = self.initial_size, self.nu, self._next_id
        return fresh

    def admit(
        self,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
        *,
        id: str | None = None,  # noqa: A002 — the public word
        subject: str | None = None,
        payload: Any = None,
    ) -> Receipt:
        """Add one entry. Raises AdmissionRefused, with nothing changed, if no path passes the check."""
        started = time.perf_counter()
        point = as_points(key, "key", dimension=self.dimension)
        if point.shape[0] != 1:
            raise InputError(f"admit takes one key, not {point.shape[0]}")
        content = _value(value, self._view.entries.values.shape[1])
        owner, extra = check_subject(subject), encode_payload(payload)
        with self._lock:
            view = self._begin()
            name = self._free_id() if id is None else check_id(id)
            if view.slot(name) is not None:
                raise InputError(f"id {name!r} is taken: delete it first, or admit under another id")
            return self._admit(view, name, point[0], content, owner, extra, started)

    def delete(self, ids: str | Iterable[str] | None = None, *, subject: str | None = None) -> Receipt:
        """Remove entries by id, by several ids, or by subject, in one transaction.

        Raises DeletionRefused, with nothing changed, when too few entries would remain for the cap or no path
        passes the check; InputError for an unknown id or subject.
        """
        started = time.perf_counter()
        with self._lock:
            view = self._begin()
            slots = self._victims(view, ids, subject)
            names = tuple(view.entries.ids[slot] or "" for slot in slots)
            if not slots:
                return self._receipt("noop", (), view, view, (), "nothing was asked for", started)
            return self._delete(view, slots, names, started)

    def save(self, path: str | FilePath) -> None:
        """Write the memory to one file, atomically."""
        from expunge.savefile import save

        save(self, FilePath(path))

    @classmethod
    def load(cls, path: str | FilePath) -> Memory:
        """Read a memory that `save` wrote; a truncated or altered file is refused."""
        from expunge.savefile import load

        return load(FilePath(path))

    def _admit(
        self,
        view: View,
        name: str,
        key: Vector,
        value: Vector,
        subject: str | None,
        payload: bytes | None,
        started: float,
    ) -> Receipt:
        state, gram = view.state, view.state.gram
        known = view.site_of_key.get(key.tobytes(), -1)
        known = known if known >= 0 and state.status[known] != ABSENT else -1
        untouched = False
        if known >= 0:
            site = known
            grown = replace(state, multiplicity=state.multiplicity.copy(), ceiling=state.ceiling.copy())
            grown.set_multiplicity(site, int(state.multiplicity[site]) + 1)
        else:
            column = gram.column_for(key)
            weights = state.alpha[gram.site_of[: gram.count]]
            slack = state.offset - 1.0 + 2.0 * float(weights @ column)
            site = gram.add_site(key, column)
            grown = state.with_site(site, slack)
            # Neither coefficients nor offset change, so every other term of the last check still stands.
            untouched = slack >= 0.0 and state.exact
        counts = grown.multiplicity[: grown.sites]
        if untouched:
            check = view.check
            trial = Trial(grown, (Attempt("reserve", check, time.perf_counter() - started),))
        else:
            trial = self._solve(grown, lambda candidate: path.admit(candidate, site), counts)
        if trial.state is None:
            receipt = self._receipt(
                "refused", (), view, view, trial.attempts, "nothing: the admission was refused", started
            )
            raise AdmissionRefused(
                f"the admission of {name!r} was refused: no solver reached an acceptable state",
                receipt=receipt,
                measured=_best_residual(trial.attempts),
                allowed=view.check.tolerance,
            )
        slot = view.entries.append(name, key, value, site, subject=subject, payload=payload)
        alive = view.alive
        if alive.size < view.entries.site.size:
            alive = np.ones(view.entries.site.size, dtype=bool)
            alive[: view.count] = view.alive[: view.count]
        alive[slot] = True
        if known < 0:
            view.site_of_key[key.tobytes()] = site
        after = View(
            state=trial.state,
            entries=view.entries,
            count=slot + 1,
            alive=alive,
            size=view.size + 1,
            check=trial.check,
            site_of_key=view.site_of_key,
        )
        outcome: Outcome = "rescued" if trial.rescued else "admitted"
        covers = "the memory with the entry equals a fresh fit at the same cap"
        receipt = self._receipt(outcome, (name,), view, after, trial.attempts, covers, started)
        self._publish(after)
        return receipt

    def _delete(self, view: View, slots: list[int], names: tuple[str, ...], started: float) -> Receipt:
        state = view.state
        left = view.size - len(slots)
        if left < fewest_keys(state.cap):
            reason = (
                f"deleting {len(slots)} of {view.size} entries leaves {left}, but cap {state.cap:.6g} needs at "
                f"least {fewest_keys(state.cap)}: {self.deletable} more can be deleted; to go further, rebuild "
                "at a larger cap, which is a different reference"
            )
            receipt = self._receipt("refused", (), view, view, (), "nothing: the deletion was refused", started)
            raise DeletionRefused(reason, receipt=receipt, measured=left * state.cap, allowed=1.0)
        losses = Counter(view.entries.site[slots].tolist())
        counts = state.multiplicity[: state.sites].copy()
        for site, lost in losses.items():
            counts[site] -= lost
        zero = all(state.alpha[site] == 0.0 for site in losses)
        trial = self._solve(state, lambda candidate: path.remove(candidate, dict(losses)), counts)
        if trial.state is None:
            receipt = self._receipt(
                "refused", (), view, view, trial.attempts, "nothing: the deletion was refused", started
            )
            raise DeletionRefused(
                f"the deletion of {len(slots)} entries was refused: no solver reached an acceptable state",
                receipt=receipt,
                measured=_best_residual(trial.attempts),
                allowed=view.check.tolerance,
            )
        alive = view.alive.copy()
        alive[slots] = False
        after = View(
            state=trial.state,
            entries=view.entries,
            count=view.count,
            alive=alive,
            size=left,
            check=trial.check,
            site_of_key=view.site_of_key,
        )
        outcome: Outcome = "rescued" if trial.rescued else "certified_zero" if zero else "decrement"
        covers = (
            "the removed coefficients were exactly zero: no readout changes"
            if outcome == "certified_zero"
            else "the memory equals a fresh fit of the remaining entries at the same cap"
        )
        receipt = self._receipt(outcome, names, view, after, trial.attempts, covers, started)
        self._unwiped.extend(slots)
        self._publish(after)
        return receipt

    def _solve(self, state: State, update: Callable[[State], None], counts: IndexArray) -> Trial:
        def along_path() -> State:
            candidate = state.copy(self._spare)
            update(candidate)
            return candidate

        gram = state.gram
        paths = [Path("path", along_path, finish)] if state.exact else []
        paths.append(Path("cold", lambda: fit(gram, counts, state.cap)))
        return transact([*paths, *_rescues(gram, counts, state.cap)], counts)

    def _begin(self) -> View:
        """Start an edit from exactly what is published, whatever an interrupted one left behind."""
        view = self._view
        if self._unsettled:
            self._wipe(view)
            view.entries.rewind(view.count)
            view.state.gram.rewind(view.state.sites, view.state.active())
        self._unsettled = True
        return view

    def _publish(self, view: View) -> None:
        before, self._view = self._view, view
        if view.state.margin is not before.state.margin:
            self._spare = before.state.margin
        self._wipe(view)
        view.state.gram.retain(view.state.active())
        # Every absent site once held an entry whose slot is still there, so counting slots is enough.
        if view.count - view.size > max(COMPACT_ABOVE, view.size // 4):
            self._view = _compacted(view)
        self._unsettled = False

    def _wipe(self, view: View) -> None:
        """Overwrite the content of entries that the published view no longer counts."""
        while self._unwiped:
            slots = [slot for slot in self._unwiped if not view.alive[slot]]
            sites = {int(view.entries.site[slot]) for slot in slots} - {-1}
            gone = [site for site in sites if view.state.status[site] == ABSENT]
            for site in gone:
                view.site_of_key.pop(view.state.gram.keys[site].tobytes(), None)
            view.state.gram.wipe(gone)
            view.entries.wipe(slots)
            self._unwiped.clear()

    def _receipt(
        self,
        outcome: Outcome,
        names: tuple[str, ...],
        before: View,
        after: View,
        attempts: tuple[Attempt, ...],
        covers: str,
        started: float,
    ) -> Receipt:
        self.outcomes[outcome] += 1
        return Receipt(
            outcome=outcome,
            applied=names,
            check=after.check,
            attempts=attempts,
            covers=covers,
            state_before=before.digest,
            state_after=after.digest,
            seconds=time.perf_counter() - started,
            pivots=after.state.pivots if after is not before else 0,
        )

    def _victims(self, view: View, ids: str | Iterable[str] | None, subject: str | None) -> list[int]:
        if (ids is None) == (subject is None):
            raise InputError("delete takes ids, or subject=..., and exactly one of them")
        if subject is not None:
            owner = check_subject(subject)
            slots = sorted(s for s in view.entries.slots_of.get(owner or "", set()) if s < view.count and view.alive[s])
            if not slots:
                raise InputError(f"no entry belongs to subject {subject!r}; nothing was deleted")
            return slots
        if ids is None:
            return []
        wanted = [ids] if isinstance(ids, str) else _listed(ids)
        found = []
        for name in wanted:
            slot = view.slot(check_id(name))
            if slot is None:
                raise InputError(f"no entry has id {name!r}; nothing was deleted")
            found.append(slot)
        if len(set(found)) < len(found):
            twice = next(name for name, times in Counter(wanted).items() if times > 1)
            raise InputError(f"id {twice!r} is listed twice; nothing was deleted")
        return sorted(found)

    def _weights(self, points: Matrix, rows: IndexArray) -> Matrix:
        distances = squared_distances(points, self._view.keys[rows])
        distances -= distances.min(axis=1, keepdims=True)
        return self._view.coefficients[rows] * np.exp(-distances / self.sigma**2)

    def _slot(self, name: str) -> int:
        slot = self._view.slot(check_id(name))
        if slot is None:
            raise InputError(f"no entry has id {name!r}")
        return slot

    def _free_id(self) -> str:
        while self._view.slot(str(self._next_id)) is not None:
            self._next_id += 1
        name = str(self._next_id)
        self._next_id += 1
        return name


def _rescues(gram: GramRows, counts: IndexArray, cap: float) -> list[Path]:
    """Independent backends, in order; each takes the problem from the keys, none from the failed state."""

    def by(backend: str) -> Callable[[], State]:
        def solve() -> State:
            from expunge.solver.reference import solve_reference

            present = np.flatnonzero(counts)
            keys = np.repeat(gram.keys[present], counts[present], axis=0)
            answer = solve_reference(keys, cap=cap, sigma=gram.sigma, backend=backend)
            alpha = np.zeros(counts.size)
            np.add.at(alpha, np.repeat(present, counts[present]), answer.coefficients)
            return State.foreign(gram, counts, cap, alpha, answer.offset)

        return solve

    return [Path("daqp", by("daqp")), Path("proxqp", by("proxqp"))]


def _compacted(view: View) -> View:
    """Same version without absent sites and wiped slots; row order is kept."""
    state = view.state
    kept = state.present()
    renumbered = np.full(state.sites, -1, dtype=np.int64)
    renumbered[kept] = np.arange(kept.size)
    gram = state.gram.compacted(kept)
    fresh = State.start(gram, state.multiplicity[kept], state.cap)
    for name in ("alpha", "slack", "status"):
        getattr(fresh, name)[: kept.size] = getattr(state, name)[kept]
    fresh.offset, fresh.exact, fresh.pivots = state.offset, state.exact, state.pivots
    fresh.margin = state.margin.copy()
    fresh.margin.renumber(renumbered)
    old = view.entries
    entries = old.compacted(view.slots, renumbered[view.sites])
    alive = np.ones(entries.site.size, dtype=bool)
    keys = {gram.keys[site].tobytes(): site for site in range(kept.size)}
    return View(fresh, entries, view.size, alive, view.size, view.check, keys)


def _best_residual(attempts: tuple[Attempt, ...]) -> float:
    return min((a.check.worst for a in attempts if a.check is not None), default=math.inf)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def _listed(items: Any) -> list[Any]:
    try:
        return list(items)
    except TypeError:
        raise InputError(f"ids must be a string or a list of strings, not {items!r}") from None


def _values(values: Any, size: int) -> Matrix:
    given = np.asarray(values) if not isinstance(values, np.ndarray) else values
    points = as_points(given[:, None] if given.ndim == 1 else given, "values")
    if points.shape[0] != size:
        raise InputError(f"values must have one row per key: {size}, not {points.shape[0]}")
    return points


def _value(value: Any, width: int) -> Vector:
    given = np.asarray(value)
    points = as_points(given.reshape(1, -1) if given.ndim < 2 else given, "value", dimension=width)
    if points.shape[0] != 1:
        raise InputError(f"admit takes one value, not {points.shape[0]}")
    return np.asarray(points[0])


def _ids(ids: Any, size: int) -> list[str]:
    if ids is None:
        return [str(row) for row in range(size)]
    names = [check_id(name) for name in _sized(ids, size, "ids")]
    if len(set(names)) < size:
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise InputError(f"ids must be unique; {twice!r} is not")
    return names


def _subjects(subjects: Any, size: int) -> list[str | None]:
    if subjects is None:
        return [None] * size
    return [check_subject(owner) for owner in _sized(subjects, size, "subjects")]


def _payloads(payloads: Any, size: int) -> list[bytes | None]:
    if payloads is None:
        return [None] * size
    return [encode_payload(payload) for payload in _sized(payloads, size, "payloads")]


def _sized(items: Any, size: int, name: str) -> list[Any]:
    if isinstance(items, str | bytes):
        raise InputError(f"{name} must be a list with one item per key, not a string")
    listed = _listed(items)
    if len(listed) != size:
        raise InputError(f"{name} must have one item per key: {size}, not {len(listed)}")
    return listed
