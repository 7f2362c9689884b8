"""A memory of (key, value) entries whose every edit is a checked transaction. Read this second, after `problem`.

An edit prepares a `PendingEdit` beside the published version and then replaces the reference to it, in one
assignment: an error or an interrupt at any moment leaves the old version, bit for bit.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np

from expunge.certificates.warranty import Mode
from expunge.errors import AdmissionRefused, Busy, DeletionRefused, InputError, Refused, SolveError
from expunge.ledger.commitment import new_salts
from expunge.memory.attributes import DerivedChoice, Source, decode_attributes, has_attributes, made_from_them
from expunge.memory.entries import (
    check_attributes,
    check_id,
    check_ids,
    check_subject,
    check_subjects,
    encode_payload,
    encode_payloads,
)
from expunge.memory.first_version import first_version
from expunge.memory.net_change import NetChange
from expunge.memory.pending_edit import PendingEdit, WarrantyChanges
from expunge.memory.queries import Hit
from expunge.memory.reader import Found, MemoryReader, proved_zero_rows
from expunge.memory.receipt import FORGET_NOTICE, Action, Receipt, RecordedOutcome, RefusalReason
from expunge.memory.version import Version
from expunge.preprocessing.measurements import key_coordinates, value_numbers
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.preprocessing.width import DEFAULT_NU, choose_width
from expunge.problem.check import StateCheck
from expunge.problem.problem import (
    Problem,
    as_count,
    as_point,
    as_points,
    as_values,
    cap_from,
    fewest_keys,
    widened_cap,
    width_from,
)
from expunge.solver.attempts import Attempt
from expunge.solver.recomputation import RECOMPUTED_EVERY, recompute
from expunge.solver.state import ABSENT
from expunge.types import Matrix, Progress, Rows

__all__ = ["Hit", "Memory"]

# Absent sites and wiped slots are tolerated up to a quarter of the memory before it is compacted.
COMPACT_ABOVE = 64


class Memory(MemoryReader):
    """Entries weighted by a one-class support-vector fit, with edits that are checked before they count.

    `copy.copy`, `copy.deepcopy` and `pickle` go through the format of `save`: each makes an independent memory in the
    same state, with no journal.
    """

    def __init__(
        self,
        version: Version,
        *,
        initial_size: int | None = None,
        nu: float | None = None,
        attempts: tuple[Attempt, ...] = (),
    ) -> None:
        """Wrap a published version; use `Memory.fit` or `Memory.load`."""
        self._version = version
        self._lock = threading.RLock()
        self._unwiped: list[int] = []
        self._unsettled = False
        # Since everything that is kept for the next edit was last recomputed.
        self._edits = 0
        # Versions that a fresh fit is about to replace, and the slots of each to overwrite then.
        self._replaced: list[tuple[Version, list[int]]] = []
        # What readers see while several edits wait to be made durable together.
        self._shown: Version | None = None
        # The factor of the version before, whose memory the next candidate reuses.
        self._spare = version.state.margin.copy()
        # Called with the version before, the version after and the receipt, before the new version counts. What it
        # raises stops the edit: this is where a store makes the edit durable.
        self.journal: Callable[[Version, Version, Receipt], None] | None = None
        # Called with the version and the ids that a deletion names, before anything is solved. What it raises stops
        # the deletion: this is where a store looks at legal holds.
        self.guard: Callable[[Version, tuple[str, ...]], None] | None = None
        # Of the fit or rebuild that set the cap, which deletions may double since; for receipts. Neither is saved: a
        # memory that was loaded has none.
        self.initial_size = initial_size
        self.nu = nu
        # What the cold fit tried; empty for a memory that was loaded.
        self.attempts = attempts
        self.outcomes: Counter[str] = Counter({"rescued": 1} if len(attempts) > 1 else ())

    @classmethod
    def fit(
        cls,
        keys: Rows,
        values: Rows,
        *,
        sigma: float | Literal["auto"] = "auto",
        nu: float | None = None,
        cap: float | None = None,
        ids: Sequence[str] | None = None,
        subjects: Sequence[str | None] | None = None,
        payloads: Sequence[Any] | None = None,
        expires: Sequence[datetime | None] | None = None,
        derived_from: Sequence[Sequence[Source]] | None = None,
        preprocessing: Preprocessing | None = None,
        progress: Progress | None = None,
    ) -> Memory:
        """Fit a memory to keys (n, d) and values (n, dv) or (n,).

        `sigma` is the kernel width, or chosen from the keys: on a coarse grid, because an exact median distance tells
        of single entries. `preprocessing` names the columns of keys and values; rows by column name
        (`expunge.preprocessing.as_key_rows`) are then filled and scaled by it, while arrays are coordinates of keys.

        The cap is C = 1/(ν n) for this n, or `cap` itself; without both, ν is 0.1. From now on only a deletion that
        leaves too few entries for it, or a `rebuild`, changes it. Keys of shape (0, d) and values of shape (0, dv) make
        an empty memory, whose cap is 1 and whose offset is 0. Raises InputError for unusable arguments and SolveError
        if no solver reaches an acceptable state. `progress` is told, now and then, what is under way, how much of it is
        done, and of how much; what it raises ends the fit. `expires` and `derived_from` are as for `admit_many`.
        """
        if nu is None and cap is None:
            nu = DEFAULT_NU
        columns = Preprocessing() if preprocessing is None else preprocessing
        rows = key_coordinates(keys, columns)
        if isinstance(sigma, str) and sigma == "auto":
            rows = as_points(rows, "keys", empty=True)
            limit = cap_from(len(rows), nu=nu, cap=cap)
            sigma = choose_width(rows, nu=min(1.0, 1.0 / (limit * max(1, len(rows)))))
            columns = replace(columns, width="auto")
        problem = Problem.of(rows, sigma=sigma, nu=nu, cap=cap, empty=True)
        size = problem.keys.shape[0]
        contents = as_values(value_numbers(values, columns), size)
        columns.require_shapes(problem.keys.shape[1], contents.shape[1])
        names, owners = check_ids(ids, size), check_subjects(subjects, size)
        extras = encode_payloads(payloads, size, check_attributes(expires, derived_from, size, now=datetime.now(UTC)))
        _require_sources(names, extras, None)
        salts = new_salts(size)
        version, attempts = first_version(
            problem, contents, names, owners, extras, salts, preprocessing=columns, progress=progress
        )
        return cls(version, initial_size=size, nu=None if nu is None else float(nu), attempts=attempts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what `save` writes, and nothing that counts the past."""
        from expunge.memory.snapshot import pack, unpack

        with self._lock:
            return unpack, (pack(self),)

    def __repr__(self) -> str:
        return f"<Memory of {self.describe()}>"

    @property
    def version(self) -> Version:
        """The published version. An edit replaces it; it is never changed."""
        return self._shown or self._version

    @property
    def newest(self) -> Version:
        """The version that the next edit begins with: between `begin_group` and `end_group` it is not published."""
        return self._version

    def begin_group(self) -> None:
        """Begin several edits that are published together, by `end_group`.

        Until then readers see the version as it is now, with all of its content. Where `end_group` is never called,
        because the edits could not be made durable, they do so for good, and the memory is not to be edited again.
        """
        with self._lock:
            self.settle()
            self._shown = self._version
            # Readers may use the factor of what they see.
            if self._spare is self._shown.state.margin:
                self._spare = self._spare.copy()

    def end_group(self) -> None:
        """Publish the edits since `begin_group`, and overwrite what they erased."""
        with self._lock:
            self._shown = None
            self._tidy()

    @contextmanager
    def held(self, timeout: float = -1) -> Iterator[None]:
        """Let no other thread edit the memory. Raises Busy where one does for ``timeout`` seconds."""
        if not self._lock.acquire(timeout=timeout):
            raise Busy(f"another thread has been editing the memory for {timeout:g} s; try again")
        try:
            yield
        finally:
            self._lock.release()

    def follow(self, change: NetChange) -> bool:
        """Take over what another process has done to the same entries; whether that leads to the digest it has.

        States are canonical, so the net change leads to the very state that its edits led to one by one, and to that of
        a memory that is loaded afresh. Nothing is recorded. What is gone is overwritten as after an edit. On False the
        version is what it was.
        """
        with self._lock:
            if self._version.state.ready:
                edit = self._begin("admission")
                followed = edit.follow(change)
            else:
                # What was never edited here goes on without rows.
                self.settle()
                self._unsettled = True
                edit = PendingEdit(self._version, self._spare, "admission")
                followed = edit.take_over(change)
            version = replace(edit.version(), edit=change.edit) if followed else None
            if version is None or version.digest != change.digest:
                self.settle()
                return False
            self._unwiped.extend(change.gone)
            self._adopt(edit, version)
            return True

    def look(self, at: Callable[[Version], Found]) -> Found:
        """Return what `at` makes of one version, whole: again if an edit has published another in between."""
        while True:
            version = self.version
            try:
                found = at(version)
            except Exception:
                if self.version is version:
                    raise
            else:
                if self.version is version:
                    return found

    def check(self) -> StateCheck:
        """Mass, box and stationarity errors, recomputed from the keys themselves; 0 of an empty memory.

        What is kept for the next edit is compared with what the keys give, too, and made afresh. What was wrong is in
        ``faults``; the next edit then solves afresh. Every 1,024 edits this happens without being asked for. Edits wait
        until it is done. The weights of an opened memory are compared with those of the exact optimum first.
        """
        with self._lock:
            self.make_ready()
            self._edits = 0
            return replace(self._version.solution.check(), faults=recompute(self._version.state))

    def refit(self) -> Memory:
        """Fresh memory with the same entries and cap, solved from nothing: the reference for a deletion."""
        problem, columns, preprocessing = self.look(
            lambda version: (version.solution.problem, version.columns()[1], version.preprocessing)
        )
        version, attempts = first_version(problem, *columns, preprocessing=preprocessing)
        return Memory(version, initial_size=self.initial_size, nu=self.nu, attempts=attempts)

    def admit(
        self,
        key: Rows,
        value: Rows,
        *,
        id: str | None = None,  # noqa: A002 — the public word
        subject: str | None = None,
        payload: Any = None,
        expires: datetime | None = None,
        derived_from: Sequence[Source] = (),
        on_expiry: Literal["report", "refuse"] = "report",
    ) -> Receipt:
        """Add one entry. Raises AdmissionRefused, with nothing changed, if no path passes the check.

        Without an `id` the entry gets a random one of 16 hexadecimal digits, which counts nothing.
        An admission can end certificates of pruned entries; the receipt reports them, and with
        ``on_expiry="refuse"`` such an admission is refused instead.

        ``expires`` is when the entry is to be erased, a time with a zone, in whole seconds: it is found by `due`.
        ``derived_from`` has the ids of live or archived entries that this one was made from. Both are kept in the
        encoded payload, and go with the entry.
        """
        _check_on_expiry(on_expiry)
        columns = self._version.preprocessing
        point = as_point(key_coordinates(key, columns), "key", self.dimension)
        content = as_point(value_numbers(value, columns), "value", self._version.entries.values.shape[1])
        attributes = check_attributes([expires], [derived_from], 1, now=datetime.now(UTC)) or ()
        owner, extra = check_subject(subject), encode_payload(payload, *attributes)
        names = [secrets.token_hex(8) if id is None else check_id(id)]
        return self._admit(names, point[None, :], content[None, :], [owner], [extra], on_expiry)

    def admit_many(
        self,
        keys: Rows,
        values: Rows,
        *,
        ids: Sequence[str] | None = None,
        subjects: Sequence[str | None] | None = None,
        payloads: Sequence[Any] | None = None,
        expires: Sequence[datetime | None] | None = None,
        derived_from: Sequence[Sequence[Source]] | None = None,
        on_expiry: Literal["report", "refuse"] = "report",
    ) -> Receipt:
        """Add entries, keys (m, d) and values (m, dv) or (m,), in one edit with one receipt: all of them, or none.

        Ids, subjects, payloads, attributes, `on_expiry` and refusals are those of `admit`; each list has one item per
        key. An entry may be made from one that stands before it. No key at all is no edit, and its receipt says so.
        """
        _check_on_expiry(on_expiry)
        version = self._version
        rows = key_coordinates(keys, version.preprocessing)
        points = as_points(rows, "keys", dimension=int(version.keys.shape[1]), empty=True)
        size, width = points.shape[0], version.entries.values.shape[1]
        contents = as_values(value_numbers(values, version.preprocessing), size)
        if contents.shape[1] != width:
            raise InputError(f"values must have {width} coordinates, like the memory, not {contents.shape[1]}")
        names = [secrets.token_hex(8) for _ in range(size)] if ids is None else check_ids(ids, size)
        owners = check_subjects(subjects, size)
        extras = encode_payloads(payloads, size, check_attributes(expires, derived_from, size, now=datetime.now(UTC)))
        return self._admit(names, points, contents, owners, extras, on_expiry)

    def _admit(
        self,
        names: list[str],
        keys: Matrix,
        values: Matrix,
        subjects: list[str | None],
        payloads: list[bytes | None],
        on_expiry: str,
    ) -> Receipt:
        """Add validated entries, in order."""
        with self._lock:
            edit = self._begin("admission")
            version = edit.base
            if not names:
                return self._noop(edit, "nothing was asked for")
            for name in names:
                if version.slot(name) is not None or name in version.warranties:
                    raise InputError(f"id {name!r} is taken: delete it first, or admit under another id")
                if version.made_from([name]):
                    raise InputError(
                        f"what was made from an erased entry {name!r} is still here, and would be taken for made from "
                        "this one: erase it first, or admit under another id",
                        code="source-erased",
                    )
            _require_sources(names, payloads, version)
            solved = edit.admit(names, keys, values, subjects, payloads)
            changes = edit.update_warranties() if solved else WarrantyChanges(solved=False)
            what = repr(names[0]) if len(names) == 1 else f"{len(names)} entries"
            if not changes.solved:
                reason = f"the admission of {what} was refused: no solver reached an acceptable state"
                raise self._refused(AdmissionRefused, reason, edit, edit.no_acceptable_state())
            ended = (*changes.expired, *edit.reactivated)
            if ended and on_expiry == "refuse":
                raise self._refused(
                    AdmissionRefused,
                    f"the admission of {what} was refused: it would end {len(ended)} certificates "
                    f"({', '.join(ended[:3])}{', ...' if len(ended) > 3 else ''})",
                    edit,
                    RefusalReason("would_end_warranties", float(len(ended)), 0.0),
                    {"would_end": list(ended)},
                )
            entries = "entry" if len(names) == 1 else "entries"
            covers = f"the memory with the {entries} equals a fresh fit at the same cap"
            return self._publish(edit, "admitted", tuple(names), covers, changes)

    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        subject: str | None = None,
        derived: DerivedChoice | Literal["keep"] = "erase",
    ) -> Receipt:
        """Remove entries by id, by several ids, or by subject, in one transaction.

        What was made from them (``derived_from``), directly or not, goes with them: the receipt lists all. With
        ``derived="refuse"`` Conflict (``derived-entries``) is raised instead, and nothing is changed, where anything
        was; with ``"keep"`` it stays. Certificates of entries that were forgotten while one of them was live end. The
        cap never stands in the way. Where fewer than ⌈1/C⌉ entries remain, these, archived ones included, are
        fitted afresh in the same edit at the cap doubled as often as needed (outcome ``refitted``; certificates of
        forgotten entries end, as with `rebuild`). Where none remains, the memory is empty (``emptied``). Raises
        DeletionRefused, with nothing changed, when no path passes the check; InputError for an unknown id or subject.
        """
        with self._lock:
            edit = self._begin("deletion")
            version = edit.base
            names = tuple(version.names_of(ids, subject))
            if derived != "keep" and version.entries.derived and (made := version.made_from(names)):
                if derived == "refuse":
                    raise made_from_them(len(names), [*made])
                names = tuple(version.names_of([*names, *made], None))
            slots, pruned = version.named(names, None)
            if not names:
                return self._noop(edit, "nothing was asked for")
            if self.guard is not None:
                self.guard(version, names)
            archived = [name for name in pruned if name in version.warranties.archive]
            over = [version.warranties.archive[name].slot for name in archived]
            left = version.size + len(version.warranties.archive) - len(archived) - len(slots)
            fewest = fewest_keys(version.state.cap)
            edit.warranties = edit.warranties.without(pruned)
            if left < fewest and (slots or over):
                return self._delete_beyond_cap(edit, names, [*slots, *over], left)
            solved = edit.recall(fewest + len(slots)) and edit.erase(slots, over)
            changes = edit.update_warranties() if solved else WarrantyChanges(solved=False)
            if not changes.solved:
                raise self._unsolved_deletion(edit, names)
            weight, site_of = version.state.alpha.item, version.entries.site.item
            zero = not any(weight(site_of(slot)) for slot in slots)
            covers = (
                "the removed coefficients were exactly zero: no readout changes"
                if zero
                else "the memory equals a fresh fit of the remaining entries at the same cap"
            )
            self._unwiped.extend([*slots, *over])
            return self._publish(edit, "certified_zero" if zero else "decrement", names, covers, changes)

    def _delete_beyond_cap(self, edit: PendingEdit, names: tuple[str, ...], erased: list[int], left: int) -> Receipt:
        """Remove live and archived entries where fewer remain than the cap needs; `erased` are their slots."""
        cap = widened_cap(edit.base.state.cap, left)
        try:
            after = self._fitted_afresh(edit, cap, erased)
        except SolveError:
            raise self._unsolved_deletion(edit, names) from None
        covers = (
            "more entries were removed than the old cap allows: the memory equals a fresh fit of the remaining entries "
            "at a larger cap, and nothing is said about the old one"
            if left
            else "no entry is left, live or archived"
        )
        return self._replace(edit, "refitted" if left else "emptied", names, after, covers, erased)

    def _unsolved_deletion(self, edit: PendingEdit, names: tuple[str, ...]) -> Refused:
        reason = f"the deletion of {len(names)} entries was refused: no solver reached an acceptable state"
        return self._refused(DeletionRefused, reason, edit, edit.no_acceptable_state())

    def prune(self, mode: Mode = "archive", *, sketch: SupportsIndex = 0, progress: Progress | None = None) -> Receipt:
        """Drop every entry whose weight is *proved* zero from the live memory, under warranty.

        ``archive`` keeps the content aside and brings an entry back when it would become active again, so that
        the live memory always equals the one that never pruned. ``forget`` keeps no content, and its certificates end
        early: **the first erasure of an entry that is live now ends all certificates of this pruning**, because what
        they rest on would give the erased key back. A later ``forget`` of such an entry is an erasure of it. An
        admission may expire a certificate for a while. `sketch` live neighbours are remembered for each forgotten
        entry (12 bytes each), which makes certificates last longer under admissions; an archive needs none. An entry
        that looks like zero but cannot be proved stays, and is counted in the receipt. An entry with an end or with
        sources is archived and never forgotten: its record would not say when, or with which entries, it is to go.
        `progress` is as for `fit`, in three steps; what it raises leaves the memory as it was.
        """
        if mode not in ("archive", "forget"):
            raise InputError(f'mode must be "archive" or "forget", not {mode!r}')
        sketch = as_count(sketch, 0, "sketch must be a number of neighbours")
        if mode == "forget" and sketch >= self.dimension:
            raise InputError(
                f"a sketch of {sketch} numbers for keys of {self.dimension} is the content again; use fewer"
            )
        with self._lock:
            edit = self._begin("pruning")
            version = edit.base
            if progress is not None:
                progress("proving which entries weigh nothing", 0, 3)
            proved = proved_zero_rows(version)
            slots = version.slots[proved].tolist()
            if mode == "forget":
                # What is left of a forgotten entry has no room for its attributes.
                slots = [slot for slot in slots if slot not in version.entries.attributes]
            # A rescued state may keep a rounding where zero is proved, so the two are not counted apart.
            unproved = int(np.count_nonzero((version.coefficients == 0.0) & ~proved))
            details = {"mode": mode, "unproved": unproved}
            if not slots:
                return self._noop(edit, "no entry is proved to be zero", details)
            names = tuple(version.entries.ids[slot] or "" for slot in slots)
            if not edit.prune(slots, mode, sketch, progress):
                reason = "the pruning was refused: no solver reached an acceptable state"
                raise self._refused(DeletionRefused, reason, edit, edit.no_acceptable_state())
            covers = "the pruned coefficients are proved to be zero: no readout changes while the warranties hold"
            if mode == "forget":
                covers += f"; {FORGET_NOTICE}"
            self._unwiped.extend(slots)
            return self._publish(edit, "pruned", names, covers, edit.certificate_changes(), details)

    def rebuild(
        self,
        *,
        nu: float | None = None,
        cap: float | None = None,
        sigma: float | Literal["auto"] | None = None,
        progress: Progress | None = None,
    ) -> Receipt:
        """Solve afresh at a new cap or width, archived entries included: a *different* reference, recorded as such.

        Parameters
        ----------
        nu : float, optional
            Sparsity: the cap becomes 1/(ν n) for the entries that there are now, archived ones included.
        cap : float, optional
            The cap itself, instead of `nu`. Without both the cap stays; a width must then be given.
        sigma : float or "auto", optional
            The new width, or ``"auto"`` to choose it from the keys as a new memory would. Without it the width stays.
        progress : callable, optional
            As for `fit`; what it raises leaves the memory as it was.

        Returns
        -------
        Receipt
            With the outcome ``rebuilt``. Certificates of forgotten entries end with the problem that they were issued
            for. An empty memory stays as it is: its cap is 1, and its outcome ``noop``.

        """
        with self._lock:
            edit = self._begin("rebuild")
            version = edit.base
            count, old_cap = version.size + len(edit.warranties.archive), version.state.cap
            same_cap = sigma is not None and nu is None and cap is None
            new_cap = old_cap if same_cap else cap_from(count, nu=nu, cap=cap)
            columns, width = version.preprocessing, version.state.gram.sigma
            auto = isinstance(sigma, str) and sigma == "auto"
            if sigma is not None:
                columns = replace(columns, width="auto" if auto else "given")
                width = width if auto else width_from(sigma)
            if not version.size:
                return self._noop(edit, "the memory is empty: its cap is 1, and it keeps its width")
            if auto:
                width = choose_width(version.columns(archived=True)[0], nu=1.0 / (new_cap * count))
            after = self._fitted_afresh(edit, new_cap, sigma=width, preprocessing=columns, progress=progress)
            covers = "the memory equals a fresh fit at the new cap and width; nothing is said about the old ones"
            receipt = self._replace(edit, "rebuilt", (), after, covers)
            if new_cap != old_cap:
                self.initial_size = after.size
            if not same_cap:
                self.nu = None if nu is None else float(nu)
            return receipt

    def _fitted_afresh(
        self,
        edit: PendingEdit,
        cap: float,
        erased: Sequence[int] = (),
        *,
        sigma: float | None = None,
        preprocessing: Preprocessing | None = None,
        progress: Progress | None = None,
    ) -> Version:
        """The version that a fresh fit gives of all entries, archived ones included, but the erased slots.

        Certificates of forgotten entries end. Raises SolveError if no solver reaches an acceptable state.
        """
        keys, columns = edit.base.columns(archived=True, without=erased)
        problem = Problem(keys, cap, edit.base.state.gram.sigma if sigma is None else sigma)
        fresh, tried = first_version(
            problem, *columns, preprocessing=preprocessing or edit.base.preprocessing, progress=progress
        )
        edit.attempts.extend(tried)
        return replace(fresh, warranties=edit.warranties.ended(), edit=edit.base.edit + 1)

    def _replace(
        self,
        edit: PendingEdit,
        outcome: RecordedOutcome,
        names: tuple[str, ...],
        after: Version,
        covers: str,
        erased: Sequence[int] = (),
    ) -> Receipt:
        """Publish a version that `_fitted_afresh` gave, and overwrite what the one before holds of erased entries."""
        before = edit.base
        details: dict[str, Any] = {"cap_before": before.state.cap, "cap": after.state.cap}
        if after.state.gram.sigma != before.state.gram.sigma:
            details |= {"sigma_before": before.state.gram.sigma, "sigma": after.state.gram.sigma}
        if ended := before.warranties.ended_in(after.warranties):
            details["ended"] = list(ended)
        if edit.warranties.archive:
            details["reactivated"] = list(edit.warranties.archive)
        receipt = self._recorded(edit.receipt(outcome, names, after, covers, details), before, after)
        # Slots that earlier edits of a group erased are those of this version's entries.
        self._replaced.append((before, [*erased, *(slot for slot in self._unwiped if not before.alive[slot])]))
        self._unwiped.clear()
        self._version = after
        self._spare = after.state.margin.copy()
        self._overwrite_replaced()
        self._unsettled = False
        if len(edit.attempts) > 1:
            self.outcomes["rescued"] += 1
        return receipt

    def _overwrite_replaced(self) -> None:
        """Overwrite what versions that a fresh fit has replaced hold of erased entries; again if interrupted."""
        while self._replaced and self._shown is None:
            before, erased = self._replaced[-1]
            if before is not self._version:
                if erased:
                    before.overwrite(erased)
                    self._spare.clear()
                    self.attempts = ()
                self._spare = self._version.state.margin.copy()
            self._replaced.pop()

    def save(self, path: str | Path) -> None:
        """Write the memory to one file, atomically."""
        from expunge.memory.snapshot import save

        save(self, _file_path(path))

    @classmethod
    def load(cls, path: str | Path) -> Memory:
        """Read a memory that `save` wrote; a truncated or altered file is refused."""
        from expunge.memory.snapshot import load

        return load(_file_path(path))

    def _begin(self, action: Action) -> PendingEdit:
        """Start an edit from exactly what is published, whatever an interrupted one left behind."""
        self.settle()
        self._make_ready()
        self._edits += 1
        if self._edits > RECOMPUTED_EVERY:
            self._edits = 0
            recompute(self._version.state)
        self._unsettled = True
        return PendingEdit(self._version, self._spare, action)

    def _make_ready(self) -> None:
        """Build what an edit starts from: an opened memory reads without it."""
        if not self._version.state.ready:
            self._version.make_ready()
            self._spare = self._version.state.margin.copy()

    def make_ready(self) -> None:
        """Find the exact optimum of the entries anew, as the first edit of an opened memory does.

        It builds the kernel rows and the factor that edits start from, and raises VerificationError where the weights
        that were stored are not those of the exact optimum.
        """
        with self._lock:
            self.settle()
            self._make_ready()

    def release(self, timeout: float = -1) -> None:
        """Let go of the kernel rows and the factor, until the next edit. Raises Busy as `held` does."""
        with self.held(timeout):
            if self._shown is None:
                self.settle()
                self._version.release()
                self._spare.clear()
                self._spare = self._version.state.margin.copy()

    def settle(self) -> None:
        """Overwrite what an edit that was not applied (refused, interrupted, a dry run) has left in the buffers."""
        with self._lock:
            if not self._unsettled:
                return
            self._overwrite_replaced()
            version = self._version
            state = version.state
            state.gram.rewind(state.sites)
            version.entries.rewind(version.count)
            # A site that the edit had emptied may have lost its place to one that it had added.
            if state.ready:
                version.number_keys()
            # Stopped right after publishing, the edit has left the published factor here.
            if self._spare is not state.margin:
                self._spare.clear()
            self._spare = state.margin.copy()
            self._wipe(version)
            self._unsettled = False

    def _publish(
        self,
        edit: PendingEdit,
        outcome: RecordedOutcome,
        names: tuple[str, ...],
        covers: str,
        changes: WarrantyChanges,
        details: dict[str, Any] | None = None,
    ) -> Receipt:
        """Publish an edit: everything up to the assignment can fail without a trace."""
        details = dict(details or {})
        changed = {"ended": changes.ended, "expired": changes.expired, "renewed": changes.renewed}
        changed["reactivated"] = tuple(edit.reactivated)
        details |= {word: list(found) for word, found in changed.items() if found}
        before, version = edit.base, edit.version()
        receipt = self._recorded(edit.receipt(outcome, names, version, covers, details), before, version)
        self._adopt(edit, version)
        return receipt

    def _adopt(self, edit: PendingEdit, version: Version) -> None:
        """Let the version count that an edit leads to."""
        before, self._version = edit.base, version
        used = version.state.margin if self._shown is None else self._shown.state.margin
        if before.state.margin not in (version.state.margin, used):
            self._spare = before.state.margin
        self._tidy()
        self._unsettled = False

    def _tidy(self) -> None:
        """Overwrite what published edits erased, and compact what has become loose, unless readers may still see it."""
        if self._shown is not None:
            return
        self._overwrite_replaced()
        version = self._version
        self._wipe(version)
        # Every absent site once held an entry whose slot is still there, so counting slots is enough.
        if version.count - version.size - len(version.warranties.archive) > max(COMPACT_ABOVE, version.size // 4):
            self._version = version.compacted()

    def _refused(
        self,
        kind: type[Refused],
        message: str,
        edit: PendingEdit,
        reason: RefusalReason,
        details: dict[str, Any] | None = None,
    ) -> Refused:
        """The error to raise for an edit that is not applied, with its receipt."""
        covers = f"nothing: the {edit.action} was refused"
        receipt = edit.receipt("refused", (), edit.base, covers, details, reason)
        refused = kind(message, receipt=self._recorded(receipt, edit.base, edit.base))
        self.settle()
        return refused

    def _noop(self, edit: PendingEdit, covers: str, details: dict[str, Any] | None = None) -> Receipt:
        return self._recorded(edit.receipt("noop", (), edit.base, covers, details), edit.base, edit.base)

    def _recorded(self, receipt: Receipt, before: Version, after: Version) -> Receipt:
        """Count a receipt and hand it to the journal, which may stop the edit."""
        self.outcomes[receipt.outcome] += 1
        if self.journal is not None:
            self.journal(before, after, receipt)
        return receipt

    def _wipe(self, version: Version) -> None:
        """Overwrite the content of entries that the published version no longer counts; drop kernel rows of no use."""
        if self._shown is not None:
            return
        state, entries = version.state, version.entries
        slots = [slot for slot in self._unwiped if not version.alive[slot]]
        gone = []
        for slot in slots:
            site = entries.site.item(slot)
            if site >= 0 and state.status[site] == ABSENT:
                gone.append(site)
                packed = state.gram.keys[site].tobytes()
                # The key may be wiped already, and zero may be another site's.
                if version.site_of_key.get(packed) == site:
                    del version.site_of_key[packed]
        state.gram.retain(state.status, gone)
        if slots:
            # The factor of the version before has the erased key's kernel values, and so have unused parts of this one.
            state.slack[gone] = 0.0
            state.margin.clear(after=state.margin.size)
            if self._spare is not state.margin:
                self._spare.clear()
            self.attempts = ()
        # An archived entry keeps its slot, and with it its place in the order of admission.
        archived = {entry.slot for entry in version.warranties.archive.values()}
        for slot in archived.intersection(slots):
            entries.site[slot] = -1
        entries.wipe([slot for slot in slots if slot not in archived])
        self._unwiped.clear()


def _check_on_expiry(on_expiry: str) -> None:
    if on_expiry not in ("report", "refuse"):
        raise InputError(f'on_expiry must be "report" or "refuse", not {on_expiry!r}')


def _require_sources(names: list[str], payloads: list[bytes | None], version: Version | None) -> None:
    """Raise InputError unless each source in this memory is there, live or archived, or stands before its entry.

    A store looks for the others.
    """
    before: set[str] = set()
    for name, payload in zip(names, payloads, strict=True):
        for source in decode_attributes(payload).derived_from if has_attributes(payload) else ():
            if not (isinstance(source, tuple) or source in before or (version is not None and version.holds(source))):
                raise InputError(
                    f"{name!r} is made from {source!r}, which is not there: admit the source first, or leave it out",
                    code="source-unknown",
                )
        before.add(name)


def _file_path(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or "\0" in str(path) or not str(path):
        raise InputError(f"a file's path must be a string or a Path, not {path!r}")
    return Path(path)
