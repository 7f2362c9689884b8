"""A memory of (key, value) entries whose every edit is a checked transaction. Read this second, after `problem`.

An edit prepares a `Draft` beside the published `View` and then replaces the reference to it, in one
assignment: an error or an interrupt at any moment leaves the old view, bit for bit.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from expunge.certificates.certificate import Certificate, certify
from expunge.certificates.warranty import Mode, Warranty
from expunge.errors import AdmissionRefused, DeletionRefused, InputError, MissingExtra, SolveError
from expunge.ledger.commitment import new_salts
from expunge.memory.entries import (
    Entries,
    check_id,
    check_ids,
    check_subject,
    check_subjects,
    decode_payload,
    encode_payload,
    encode_payloads,
    listed,
)
from expunge.memory.pending_edit import Draft, Honoured, rescues
from expunge.memory.queries import Hit, readout, search
from expunge.memory.receipt import Action, Outcome, Receipt, RefusalReason
from expunge.memory.version import View
from expunge.problem.check import StateCheck
from expunge.problem.kernel import kernel_block
from expunge.problem.partition import Partition
from expunge.problem.problem import Problem, as_count, as_point, as_points, as_values, cap_from, fewest_keys, row_bytes
from expunge.problem.solution import Solution
from expunge.solver.attempts import Attempt, Path, transact
from expunge.solver.cold_fit import distinct_sites, fit
from expunge.solver.kernel_rows import GramRows
from expunge.solver.margin_factor import refined_inverse
from expunge.solver.state import ABSENT
from expunge.types import Matrix, Vector

if TYPE_CHECKING:
    from expunge.certificates.bounds import Bounds
    from expunge.certificates.proof import Proof

__all__ = ["Hit", "Memory"]

Seen = TypeVar("Seen")

# Absent sites and wiped slots are tolerated up to a quarter of the memory before it is compacted.
COMPACT_ABOVE = 64


class Memory:
    """Entries weighted by a one-class support-vector fit, with edits that are checked before they count.

    `copy.copy`, `copy.deepcopy` and `pickle` go through the format of `save`: each makes an independent memory in the
    same state, with no journal.
    """

    def __init__(self, view: View, *, initial_size: int, nu: float | None) -> None:
        """Wrap a published view; use `Memory.fit` or `Memory.load`."""
        self._view = view
        self._lock = threading.RLock()
        self._next_id = 0
        self._unwiped: list[int] = []
        self._unsettled = False
        # The factor of the version before, whose memory the next candidate reuses.
        self._spare = view.state.margin.copy()
        # Called with the version before, the version after and the receipt, before the new version counts. What it
        # raises stops the edit: this is where a store makes the edit durable.
        self.journal: Callable[[View, View, Receipt], None] | None = None
        self.initial_size = initial_size
        self.nu = nu
        self.outcomes: Counter[str] = Counter()
        # What the cold fit tried; empty for a memory that was loaded.
        self._attempts: tuple[Attempt, ...] = ()

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
        contents = as_values(values, size)
        names, owners, extras = check_ids(ids, size), check_subjects(subjects, size), encode_payloads(payloads, size)
        memory = cls._solved(problem, contents, names, owners, extras, new_salts(size))
        memory.nu = None if nu is None else float(nu)
        return memory

    @classmethod
    def _solved(
        cls,
        problem: Problem,
        values: Matrix,
        ids: list[str],
        subjects: list[str | None],
        payloads: list[bytes | None],
        salts: bytes,
    ) -> Memory:
        """Cold fit of validated entries."""
        size = problem.keys.shape[0]
        first, site_of = distinct_sites(problem.keys)
        gram = GramRows(problem.keys[first], problem.sigma, capacity=first.size + max(16, first.size // 8))
        counts = np.bincount(site_of, minlength=first.size)
        cold = Path("cold", lambda: fit(gram, counts, problem.cap))
        trial = transact(chain([cold], rescues(gram, counts, problem.cap)), counts)
        if trial.state is None:
            raise SolveError(f"no solver reached an acceptable state: {trial.attempts!r}")
        gram.retain(trial.state.alpha)
        packed = row_bytes(problem.keys)
        entries = Entries(values.shape[1], size)
        entries.extend(ids, packed, values, site_of, subjects, payloads, salts)
        view = View(
            state=trial.state,
            entries=entries,
            count=size,
            alive=np.ones(entries.site.size, dtype=bool),
            size=size,
            check=trial.check,
            site_of_key={packed[row]: site for site, row in enumerate(first.tolist())},
        )
        view.digest  # noqa: B018 — computed now rather than within the first edit
        memory = cls(view, initial_size=size, nu=None)
        memory._next_id, memory._attempts = size, trial.attempts
        if trial.rescued:
            memory.outcomes["rescued"] += 1
        return memory

    def __len__(self) -> int:
        return self._view.size

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._view.slot(name) is not None

    def __reduce__(self) -> tuple[Any, ...]:
        from expunge.memory.snapshot import pack

        with self._lock:
            return _restored, (pack(self), dict(self.outcomes))

    def __repr__(self) -> str:
        def description(view: View) -> str:
            groups, state = Partition.of(view.coefficients, view.state.cap), view.state
            return (
                f"<Memory of {view.size} entries, d={state.gram.keys.shape[1]}: {groups.margin.size} margin, "
                f"{groups.bound.size} bound, {groups.reserve.size} reserve; cap {state.cap:.6g}, "
                f"sigma {state.gram.sigma:g}>"
            )

        return self._seen(description)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in row order."""
        return self._seen(lambda view: view.ids)

    @property
    def subjects(self) -> tuple[str | None, ...]:
        """Subjects in row order."""
        return self._seen(lambda view: view.subjects)

    @property
    def keys(self) -> Matrix:
        """Keys in row order, (n, d) float64, read-only."""
        return self._seen(lambda view: view.keys)

    @property
    def values(self) -> Matrix:
        """Values in row order, (n, dv) float64, read-only."""
        return self._seen(lambda view: view.values)

    @property
    def coefficients(self) -> Vector:
        """Coefficients α in row order, (n,) float64, read-only."""
        return self._seen(lambda view: view.coefficients)

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
        return self._seen(lambda view: Partition.of(view.coefficients, view.state.cap))

    @property
    def inverse(self) -> Matrix:
        """R = M⁻¹ of the margin system, (s+1, s+1): the offset first, then the margin keys in row order.

        Identical margin keys share one row and column: M would be singular with both.
        """

        def margin_block(view: View) -> Matrix:
            gram = view.state.gram
            keys = gram.keys[np.sort(view.state.margin.members)]
            return kernel_block(keys, keys, gram.sigma)

        return refined_inverse(self._seen(margin_block))

    @property
    def deletable(self) -> int:
        """How many more entries can be deleted at this cap: n − ⌈1/C⌉, archived ones included."""
        view = self._view
        return view.size + len(view.warranties.archive) - fewest_keys(view.state.cap)

    @property
    def digest(self) -> str:
        """Digest of the current state, as receipts name it."""
        return self._seen(lambda view: view.digest)

    @property
    def solution(self) -> Solution:
        """Coefficients and offset with the problem that they solve."""
        return self._seen(lambda view: view.solution)

    def payload(self, name: str) -> Any:
        """Payload of an entry."""
        return self._seen(lambda view: decode_payload(view.entries.payloads[_slot(view, name)]))

    def read(self, queries: npt.ArrayLike, *, projection: float | None = None) -> Matrix:
        """Normalized readout o(q) = Σακv / Σακ at queries (m, d) or (d,) → (m, dv).

        Kernel values are scaled by the nearest active key's, which cancels, so a query far from every key
        gets the limit of the formula rather than 0/0. With `projection` = ε the coefficients are first replaced
        by the smallest-norm ones whose objective is within ε·max(1, |f|) of the state's (paper, Eq. 6): near-equal
        keys then share their weight, at the cost of a known step away from the optimum.
        """
        points = as_points(queries, "queries", dimension=self.dimension)
        if projection is None:
            return self._seen(lambda view: readout(view, points, view.coefficients))
        from expunge.solver.min_norm import project

        def projected(view: View) -> Matrix:
            cap, sigma = view.state.cap, view.state.gram.sigma
            point = project(view.keys, view.coefficients, cap=cap, sigma=sigma, tolerance=projection)
            return readout(view, points, point.coefficients)

        return self._seen(projected)

    def score(self, points: npt.ArrayLike) -> Vector:
        """Gate score s(x) = 2Σακ(x, x_i) − ρ at points (m, d) or (d,) → (m,)."""
        return self.solution.score(as_points(points, "points", dimension=self.dimension))

    def search(self, query: npt.ArrayLike, k: SupportsIndex = 5) -> list[Hit]:
        """Entries that carry the readout at a query, largest share first; at most `k`."""
        most = as_count(k, 1, "k must be a positive number of entries")
        point = as_points(query, "query", dimension=self.dimension)
        if point.shape[0] != 1:
            raise InputError(f"search takes one query, not {point.shape[0]}")
        return self._seen(lambda view: search(view, point, most))

    def check(self) -> StateCheck:
        """Mass, box and stationarity errors, recomputed from the keys themselves."""
        return self.solution.check()

    def prove(self) -> Proof:
        """Prove the partition in ball arithmetic, with the keys, cap and width taken as exact.

        ``outcome`` is ``proved``, or says which entries could not be decided, or are wrong. A proof saves to a
        small file that `expunge.verify` rechecks from the keys without any solver. Needs the extra ``proof``.
        """
        from expunge.certificates.proof import prove_partition

        found = self.solution
        return prove_partition(found.problem.keys, found.coefficients, cap=found.problem.cap, sigma=found.problem.sigma)

    def bounds(self) -> Bounds:
        """Rigorous upper bounds on the errors of this state, over every query and not only sampled ones."""
        from expunge.certificates.bounds import rigorous_bounds

        found, values = self._seen(lambda view: (view.solution, view.values))
        return rigorous_bounds(
            found.problem.keys,
            found.coefficients,
            found.offset,
            cap=found.problem.cap,
            sigma=found.problem.sigma,
            values=values,
        )

    def certificate(self, name: str) -> Certificate:
        """What removing an entry now would be: no change at all, or a refit of the others at the same cap."""

        def certified(view: View) -> Certificate:
            row = int(np.flatnonzero(view.slots == _slot(view, name))[0])
            return certify(
                row,
                name,
                view.keys,
                view.values,
                view.coefficients,
                offset=view.state.offset,
                cap=view.state.cap,
                sigma=view.state.gram.sigma,
                proved=bool(view.coefficients[row] == 0.0 and _proved_zero(view)[row]),
            )

        return self._seen(certified)

    def refit(self) -> Memory:
        """Fresh memory with the same entries and cap, solved from nothing: the reference for a deletion."""

        def content(view: View) -> tuple[Problem, Matrix, list[str], list[str | None], list[bytes | None], bytes]:
            entries, slots = view.entries, view.slots.tolist()
            payloads = [entries.payloads[slot] for slot in slots]
            salts = b"".join(entries.salts[slot] for slot in slots)
            return view.solution.problem, view.values, list(view.ids), list(view.subjects), payloads, salts

        fresh = Memory._solved(*self._seen(content))
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
        on_expiry: Literal["report", "refuse"] = "report",
    ) -> Receipt:
        """Add one entry. Raises AdmissionRefused, with nothing changed, if no path passes the check.

        An admission can end certificates of pruned entries; the receipt reports them, and with
        ``on_expiry="refuse"`` such an admission is refused instead.
        """
        if on_expiry not in ("report", "refuse"):
            raise InputError(f'on_expiry must be "report" or "refuse", not {on_expiry!r}')
        started = time.perf_counter()
        point = as_point(key, "key", self.dimension)
        content = as_point(value, "value", self._view.entries.values.shape[1])
        owner, extra = check_subject(subject), encode_payload(payload)
        with self._lock:
            view = self._begin()
            name = self._free_id() if id is None else check_id(id)
            if view.slot(name) is not None or name in view.warranties.records:
                raise InputError(f"id {name!r} is taken: delete it first, or admit under another id")
            draft = Draft(view, self._spare)
            solved = draft.admit(name, point, content, subject=owner, payload=extra)
            honoured = draft.honour_warranties() if solved else Honoured(solved=False)
            if not honoured.solved:
                grounds = _no_state(view, draft)
                raise AdmissionRefused(
                    f"the admission of {name!r} was refused: no solver reached an acceptable state",
                    receipt=self._refusal(view, draft, started, "admission", grounds),
                )
            ended = (*honoured.expired, *draft.reactivated)
            if ended and on_expiry == "refuse":
                grounds = RefusalReason("would_end_warranties", float(len(ended)), 0.0)
                raise AdmissionRefused(
                    f"the admission of {name!r} was refused: it would end {len(ended)} certificates "
                    f"({', '.join(ended[:3])}{', ...' if len(ended) > 3 else ''})",
                    receipt=self._refusal(view, draft, started, "admission", grounds, {"would_end": list(ended)}),
                )
            outcome: Outcome = "rescued" if draft.rescued else "admitted"
            covers = "the memory with the entry equals a fresh fit at the same cap"
            return self._adopt(view, draft, "admission", outcome, (name,), covers, started, honoured)

    def delete(self, ids: str | Iterable[str] | None = None, *, subject: str | None = None) -> Receipt:
        """Remove entries by id, by several ids, or by subject, in one transaction.

        Raises DeletionRefused, with nothing changed, when too few entries would remain for the cap or no path
        passes the check; InputError for an unknown id or subject.
        """
        started = time.perf_counter()
        with self._lock:
            view = self._begin()
            slots, pruned = self._victims(view, ids, subject)
            names = (*(view.entries.ids[slot] or "" for slot in slots), *pruned)
            if not names:
                return self._noop(view, "deletion", "nothing was asked for", started)
            draft = Draft(view, self._spare)
            if pruned:
                draft.warranties = draft.warranties.without(pruned)
            left = view.size + len(draft.warranties.archive) - len(slots)
            fewest = fewest_keys(self.cap)
            if left < fewest:
                asked = view.size + len(view.warranties.archive) - left
                grounds = RefusalReason("too_few_entries", float(asked), float(self.deletable))
                raise DeletionRefused(
                    f"deleting {len(names)} of {len(names) + left} entries leaves {left}, but cap {self.cap:.6g} "
                    f"needs at least {fewest}: {self.deletable} more can be deleted; to go further, "
                    "rebuild at a larger cap, which is a different reference",
                    receipt=self._refusal(view, draft, started, "deletion", grounds),
                )
            solved = draft.recall(fewest + len(slots)) and (not slots or draft.remove(slots))
            honoured = draft.honour_warranties() if solved else Honoured(solved=False)
            if not honoured.solved:
                grounds = _no_state(view, draft)
                raise DeletionRefused(
                    f"the deletion of {len(names)} entries was refused: no solver reached an acceptable state",
                    receipt=self._refusal(view, draft, started, "deletion", grounds),
                )
            weight, site_of = view.state.alpha.item, view.entries.site.item
            zero = not any(weight(site_of(slot)) for slot in slots)
            outcome: Outcome = "rescued" if draft.rescued else "certified_zero" if zero else "decrement"
            covers = (
                "the removed coefficients were exactly zero: no readout changes"
                if outcome == "certified_zero"
                else "the memory equals a fresh fit of the remaining entries at the same cap"
            )
            self._unwiped.extend(slots)
            return self._adopt(view, draft, "deletion", outcome, names, covers, started, honoured)

    def prune(self, mode: Mode = "archive", *, sketch: SupportsIndex = 0) -> Receipt:
        """Drop every entry whose weight is *proved* zero from the live memory, under warranty.

        ``archive`` keeps the content aside and brings an entry back when it would become active again, so that
        the live memory always equals the one that never pruned. ``forget`` keeps no content: the certificate
        holds until `warranties()` says it expired. `sketch` live neighbours are remembered for each entry
        (12 bytes each), which makes warranties last longer. An entry that looks like zero but cannot be proved
        stays, and is counted in the receipt.
        """
        if mode not in ("archive", "forget"):
            raise InputError(f'mode must be "archive" or "forget", not {mode!r}')
        sketch = as_count(sketch, 0, "sketch must be a number of neighbours")
        if mode == "forget" and sketch >= self.dimension:
            raise InputError(
                f"a sketch of {sketch} numbers for keys of {self.dimension} is the content again; use fewer"
            )
        started = time.perf_counter()
        with self._lock:
            view = self._begin()
            proved = _proved_zero(view)
            slots = view.slots[proved].tolist()
            # A rescued state may keep a rounding where zero is proved, so the two are not counted apart.
            unproved = int(np.count_nonzero((view.coefficients == 0.0) & ~proved))
            details = {"mode": mode, "unproved": unproved}
            draft = Draft(view, self._spare)
            if not slots:
                return self._noop(view, "pruning", "no entry is proved to be zero", started, details)
            names = tuple(view.entries.ids[slot] or "" for slot in slots)
            if not draft.prune(slots, mode, sketch):
                grounds = _no_state(view, draft)
                raise DeletionRefused(
                    "the pruning was refused: no solver reached an acceptable state",
                    receipt=self._refusal(view, draft, started, "pruning", grounds),
                )
            covers = "the pruned coefficients are proved to be zero: no readout changes while the warranties hold"
            self._unwiped.extend(slots)
            return self._adopt(view, draft, "pruning", "pruned", names, covers, started, Honoured(), details)

    def rebuild(self, *, nu: float | None = None, cap: float | None = None) -> Receipt:
        """Solve afresh at a new cap, archived entries included: a *different* reference, and recorded as such.

        Certificates of forgotten entries end with the cap that they were issued at.
        """
        started = time.perf_counter()
        with self._lock:
            view = self._begin()
            warranties = view.warranties
            count = view.size + len(warranties.archive)
            new_cap = cap_from(count, nu=nu, cap=cap)
            archived = list(warranties.archive.values())
            slots = view.slots.tolist()
            entries = view.entries
            fresh = Memory._solved(
                Problem(np.vstack([view.keys, *(entry.key for entry in archived)]), new_cap, self.sigma),
                np.vstack([view.values, *(entry.value for entry in archived)]),
                [*self.ids, *warranties.archive],
                [*self.subjects, *(entry.subject for entry in archived)],
                [*(entries.payloads[slot] for slot in slots), *(entry.payload for entry in archived)],
                b"".join([*(entries.salts[slot] for slot in slots), *(entry.salt for entry in archived)]),
            )
            ended = [name for name, record in warranties.records.items() if record.expired_at is None]
            lost = [name for name in ended if name not in warranties.archive]
            after = replace(
                fresh._view,
                warranties=warranties.without(warranties.archive).ended(view.edit + 1, fresh._view.state.sites),
                edit=view.edit + 1,
            )
            details: dict[str, Any] = {"cap_before": self.cap, "cap": new_cap}
            if lost:
                details["expired"] = lost
            if warranties.archive:
                details["reactivated"] = list(warranties.archive)
            covers = "the memory equals a fresh fit at the new cap; nothing is said about the old one"
            draft = Draft(after, self._spare)
            draft.attempts.extend(fresh._attempts)
            receipt = self._receipt("rebuild", "rebuilt", (), view, after, draft, covers, started, details)
            if self.journal is not None:
                self.journal(view, after, receipt)
            self._view, self._spare = after, after.state.margin.copy()
            self._unsettled = False
            self.initial_size, self.nu = count, None if nu is None else float(nu)
            self.outcomes += fresh.outcomes
            return receipt

    def warranties(self) -> list[Warranty]:
        """Where each pruned entry stands: slack at pruning, what is proved to remain of it, status."""
        return self._seen(lambda view: view.warranties.rows(view.state))

    def save(self, path: str | FilePath) -> None:
        """Write the memory to one file, atomically."""
        from expunge.memory.snapshot import save

        save(self, _file_path(path))

    @classmethod
    def load(cls, path: str | FilePath) -> Memory:
        """Read a memory that `save` wrote; a truncated or altered file is refused."""
        from expunge.memory.snapshot import load

        return load(_file_path(path))

    def _begin(self) -> View:
        """Start an edit from exactly what is published, whatever an interrupted one left behind."""
        view = self._view
        if self._unsettled:
            view.state.gram.rewind(view.state.sites, view.state.active())
            view.entries.rewind(view.count)
            # A site that the edit had emptied may have lost its place to one that it had added.
            present = view.state.present()
            view.site_of_key.clear()
            view.site_of_key.update(zip(row_bytes(view.state.gram.keys[present]), present.tolist(), strict=True))
            # Stopped right after publishing, it has left the published factor here.
            self._spare = view.state.margin.copy()
            self._wipe(view)
        self._unsettled = True
        return view

    def _adopt(
        self,
        before: View,
        draft: Draft,
        action: Action,
        outcome: Outcome,
        names: tuple[str, ...],
        covers: str,
        started: float,
        honoured: Honoured,
        details: dict[str, Any] | None = None,
    ) -> Receipt:
        """Publish a draft: everything up to the assignment can fail without a trace."""
        details = dict(details or {})
        ended = {"expired": honoured.expired, "reactivated": draft.reactivated, "renewed": honoured.renewed}
        details |= {word: list(found) for word, found in ended.items() if found}
        if honoured.rechecks:
            details["rechecks"] = honoured.rechecks
        view = draft.view()
        receipt = self._receipt(action, outcome, names, before, view, draft, covers, started, details)
        if self.journal is not None:
            self.journal(before, view, receipt)
        self._view = view
        if view.state.margin is not before.state.margin:
            self._spare = before.state.margin
        self._wipe(view)
        # Every absent site once held an entry whose slot is still there, so counting slots is enough.
        if view.count - view.size > max(COMPACT_ABOVE, view.size // 4):
            self._view = view.compacted()
        self._unsettled = False
        return receipt

    def _refusal(
        self,
        view: View,
        draft: Draft,
        started: float,
        action: Action,
        grounds: RefusalReason,
        details: dict[str, Any] | None = None,
    ) -> Receipt:
        covers = f"nothing: the {action} was refused"
        receipt = self._receipt(action, "refused", (), view, view, draft, covers, started, details, grounds)
        if self.journal is not None:
            self.journal(view, view, receipt)
        return receipt

    def _noop(
        self, view: View, action: Action, covers: str, started: float, details: dict[str, Any] | None = None
    ) -> Receipt:
        receipt = self._receipt(action, "noop", (), view, view, Draft(view, self._spare), covers, started, details)
        if self.journal is not None:
            self.journal(view, view, receipt)
        return receipt

    def _wipe(self, view: View) -> None:
        """Overwrite the content of entries that the published view no longer counts; drop kernel rows of no use."""
        state, entries = view.state, view.entries
        slots = [slot for slot in self._unwiped if not view.alive[slot]]
        gone = []
        for slot in slots:
            site = entries.site.item(slot)
            if site >= 0 and state.status[site] == ABSENT:
                gone.append(site)
                packed = state.gram.keys[site].tobytes()
                # The key may be wiped already, and zero may be another site's.
                if view.site_of_key.get(packed) == site:
                    del view.site_of_key[packed]
        state.gram.retain(state.alpha, gone)
        entries.wipe(slots)
        self._unwiped.clear()

    def _receipt(
        self,
        action: Action,
        outcome: Outcome,
        names: tuple[str, ...],
        before: View,
        after: View,
        draft: Draft,
        covers: str,
        started: float,
        details: dict[str, Any] | None = None,
        refusal: RefusalReason | None = None,
    ) -> Receipt:
        self.outcomes[outcome] += 1
        return Receipt(
            action=action,
            outcome=outcome,
            applied=names,
            check=after.check,
            attempts=tuple(draft.attempts),
            covers=covers,
            state_before=before.digest,
            state_after=after.digest,
            seconds=time.perf_counter() - started,
            pivots=draft.pivots,
            refusal=refusal,
            details=details or {},
        )

    def _victims(self, view: View, ids: str | Iterable[str] | None, subject: str | None) -> tuple[list[int], list[str]]:
        """Live slots and pruned ids that a deletion names."""
        if (ids is None) == (subject is None):
            raise InputError("delete takes ids, or subject=..., and exactly one of them")
        records = view.warranties.records
        if ids is None:
            owner = check_subject(subject)
            mine = view.entries.slots_of.get(owner or "", set())
            slots = sorted(slot for slot in mine if slot < view.count and view.alive[slot])
            pruned = [name for name, record in records.items() if record.subject == owner]
            if not slots and not pruned:
                raise InputError(f"no entry belongs to subject {subject!r}; nothing was deleted")
            return slots, pruned
        wanted = [ids] if isinstance(ids, str) else [check_id(name) for name in listed(ids, "ids")]
        if len(set(wanted)) < len(wanted):
            twice = next(name for name, times in Counter(wanted).items() if times > 1)
            raise InputError(f"id {twice!r} is listed twice; nothing was deleted")
        slots, pruned = [], []
        for name in wanted:
            slot = view.slot(check_id(name))
            if slot is not None:
                slots.append(slot)
            elif name in records:
                pruned.append(name)
            else:
                raise InputError(f"no entry has id {name!r}; nothing was deleted")
        return sorted(slots), pruned

    def _seen(self, look: Callable[[View], Seen]) -> Seen:
        """Look at one version, whole: again if an edit has published another, and wiped content, in between."""
        while True:
            view = self._view
            try:
                found = look(view)
            except Exception:
                if self._view is view:
                    raise
            else:
                if self._view is view:
                    return found

    def _free_id(self) -> str:
        view = self._view
        while view.slot(str(self._next_id)) is not None or str(self._next_id) in view.warranties.records:
            self._next_id += 1
        name = str(self._next_id)
        self._next_id += 1
        return name


def _restored(data: bytes, outcomes: dict[str, int]) -> Memory:
    """The memory that `Memory.__reduce__` packed."""
    from expunge.memory.snapshot import unpack

    memory = unpack(data)
    memory.outcomes.update(outcomes)
    return memory


def _proved_zero(view: View) -> npt.NDArray[np.bool_]:
    """Rows whose coefficient is proved to be zero: by rigorous bounds, and where these fall short by balls."""
    from expunge.certificates.bounds import proved_zero
    from expunge.certificates.proof import prove_partition

    cap, sigma = view.state.cap, view.state.gram.sigma
    zero = proved_zero(view.keys, view.coefficients, cap=cap, sigma=sigma)
    looks_zero = np.asarray(view.coefficients == 0.0)
    if np.array_equal(zero, looks_zero):
        return zero
    try:
        proof = prove_partition(view.keys, view.coefficients, cap=cap, sigma=sigma)
    except MissingExtra:
        return zero
    return looks_zero if proof.outcome == "proved" else zero


def _slot(view: View, name: str) -> int:
    slot = view.slot(check_id(name))
    if slot is None:
        raise InputError(f"no entry has id {name!r}")
    return slot


def _file_path(path: str | FilePath) -> FilePath:
    if not isinstance(path, str | FilePath) or "\0" in str(path) or not str(path):
        raise InputError(f"a file's path must be a string or a Path, not {path!r}")
    return FilePath(path)


def _no_state(view: View, draft: Draft) -> RefusalReason:
    return RefusalReason("no_acceptable_state", _best_residual(draft.attempts), view.check.tolerance)


def _best_residual(attempts: Sequence[Attempt]) -> float:
    return min((a.check.worst for a in attempts if a.check is not None), default=math.inf)
