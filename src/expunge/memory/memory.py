"""A memory of (key, value) entries whose every edit is a checked transaction. Read this second, after `problem`.

An edit prepares a `PendingEdit` beside the published version and then replaces the reference to it, in one
assignment: an error or an interrupt at any moment leaves the old version, bit for bit.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from expunge.certificates.warranty import Mode
from expunge.errors import AdmissionRefused, DeletionRefused, InputError, Refused
from expunge.ledger.commitment import new_salts
from expunge.memory.entries import check_id, check_ids, check_subject, check_subjects, encode_payload, encode_payloads
from expunge.memory.first_version import first_version
from expunge.memory.pending_edit import PendingEdit, WarrantyChanges
from expunge.memory.queries import Hit
from expunge.memory.reader import Found, MemoryReader, proved_zero_rows
from expunge.memory.receipt import FORGET_NOTICE, Action, Receipt, RecordedOutcome, RefusalReason
from expunge.memory.version import Version
from expunge.problem.problem import Problem, as_count, as_point, as_values, cap_from, fewest_keys, row_bytes
from expunge.solver.attempts import Attempt
from expunge.solver.state import ABSENT, MARGIN

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
        # The factor of the version before, whose memory the next candidate reuses.
        self._spare = version.state.margin.copy()
        # Called with the version before, the version after and the receipt, before the new version counts. What it
        # raises stops the edit: this is where a store makes the edit durable.
        self.journal: Callable[[Version, Version, Receipt], None] | None = None
        # Called with the version and the ids that a deletion names, before anything is solved. What it raises stops
        # the deletion: this is where a store looks at legal holds.
        self.guard: Callable[[Version, tuple[str, ...]], None] | None = None
        # Of the fit that set the cap, for receipts. Neither is saved: a memory that was loaded has none.
        self.initial_size = initial_size
        self.nu = nu
        # What the cold fit tried; empty for a memory that was loaded.
        self.attempts = attempts
        self.outcomes: Counter[str] = Counter({"rescued": 1} if len(attempts) > 1 else ())

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
        version, attempts = first_version(problem, contents, names, owners, extras, new_salts(size))
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
        return self._version

    def look(self, at: Callable[[Version], Found]) -> Found:
        """Return what `at` makes of one version, whole: again if an edit has published another in between."""
        while True:
            version = self._version
            try:
                found = at(version)
            except Exception:
                if self._version is version:
                    raise
            else:
                if self._version is version:
                    return found

    def refit(self) -> Memory:
        """Fresh memory with the same entries and cap, solved from nothing: the reference for a deletion."""
        version, attempts = first_version(*self.look(lambda version: (version.solution.problem, *version.columns()[1])))
        return Memory(version, initial_size=self.initial_size, nu=self.nu, attempts=attempts)

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

        Without an `id` the entry gets a random one of 16 hexadecimal digits, which counts nothing.
        An admission can end certificates of pruned entries; the receipt reports them, and with
        ``on_expiry="refuse"`` such an admission is refused instead.
        """
        if on_expiry not in ("report", "refuse"):
            raise InputError(f'on_expiry must be "report" or "refuse", not {on_expiry!r}')
        point = as_point(key, "key", self.dimension)
        content = as_point(value, "value", self._version.entries.values.shape[1])
        owner, extra = check_subject(subject), encode_payload(payload)
        with self._lock:
            edit = self._begin("admission")
            version = edit.base
            name = secrets.token_hex(8) if id is None else check_id(id)
            if version.slot(name) is not None or name in version.warranties:
                raise InputError(f"id {name!r} is taken: delete it first, or admit under another id")
            solved = edit.admit(name, point, content, subject=owner, payload=extra)
            changes = edit.update_warranties() if solved else WarrantyChanges(solved=False)
            if not changes.solved:
                reason = f"the admission of {name!r} was refused: no solver reached an acceptable state"
                raise self._refused(AdmissionRefused, reason, edit, edit.no_acceptable_state())
            ended = (*changes.expired, *edit.reactivated)
            if ended and on_expiry == "refuse":
                raise self._refused(
                    AdmissionRefused,
                    f"the admission of {name!r} was refused: it would end {len(ended)} certificates "
                    f"({', '.join(ended[:3])}{', ...' if len(ended) > 3 else ''})",
                    edit,
                    RefusalReason("would_end_warranties", float(len(ended)), 0.0),
                    {"would_end": list(ended)},
                )
            covers = "the memory with the entry equals a fresh fit at the same cap"
            return self._publish(edit, "admitted", (name,), covers, changes)

    def delete(self, ids: str | Iterable[str] | None = None, *, subject: str | None = None) -> Receipt:
        """Remove entries by id, by several ids, or by subject, in one transaction.

        Everything derived from them goes, too: certificates of entries that were forgotten while one of them was live
        end. Raises DeletionRefused, with nothing changed, when too few entries would remain for the cap or no path
        passes the check; InputError for an unknown id or subject.
        """
        with self._lock:
            edit = self._begin("deletion")
            version = edit.base
            slots, pruned = version.named(ids, subject)
            names = (*(version.entries.ids[slot] or "" for slot in slots), *pruned)
            if not names:
                return self._noop(edit, "nothing was asked for")
            if self.guard is not None:
                self.guard(version, names)
            archived = [name for name in pruned if name in version.warranties.archive]
            over = [version.warranties.archive[name].slot for name in archived]
            left = version.size + len(version.warranties.archive) - len(archived) - len(slots)
            fewest = fewest_keys(version.state.cap)
            if left < fewest:
                asked = version.size + len(version.warranties.archive) - left
                raise self._refused(
                    DeletionRefused,
                    f"deleting {len(names)} of {len(names) + left} entries leaves {left}, but cap {self.cap:.6g} "
                    f"needs at least {fewest}: {version.deletable} more can be deleted; to go further, "
                    "rebuild at a larger cap, which is a different reference",
                    edit,
                    RefusalReason("too_few_entries", float(asked), float(version.deletable)),
                )
            edit.warranties = edit.warranties.without(pruned)
            solved = edit.recall(fewest + len(slots)) and edit.erase(slots, over)
            changes = edit.update_warranties() if solved else WarrantyChanges(solved=False)
            if not changes.solved:
                reason = f"the deletion of {len(names)} entries was refused: no solver reached an acceptable state"
                raise self._refused(DeletionRefused, reason, edit, edit.no_acceptable_state())
            weight, site_of = version.state.alpha.item, version.entries.site.item
            zero = not any(weight(site_of(slot)) for slot in slots)
            covers = (
                "the removed coefficients were exactly zero: no readout changes"
                if zero
                else "the memory equals a fresh fit of the remaining entries at the same cap"
            )
            self._unwiped.extend([*slots, *over])
            return self._publish(edit, "certified_zero" if zero else "decrement", names, covers, changes)

    def prune(self, mode: Mode = "archive", *, sketch: SupportsIndex = 0) -> Receipt:
        """Drop every entry whose weight is *proved* zero from the live memory, under warranty.

        ``archive`` keeps the content aside and brings an entry back when it would become active again, so that
        the live memory always equals the one that never pruned. ``forget`` keeps no content, and its certificates end
        early: **the first erasure of an entry that is live now ends all certificates of this pruning**, because what
        they rest on would give the erased key back. A later ``forget`` of such an entry is an erasure of it. An
        admission may expire a certificate for a while. `sketch` live neighbours are remembered for each forgotten
        entry (12 bytes each), which makes certificates last longer under admissions; an archive needs none. An entry
        that looks like zero but cannot be proved stays, and is counted in the receipt.
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
            proved = proved_zero_rows(version)
            slots = version.slots[proved].tolist()
            # A rescued state may keep a rounding where zero is proved, so the two are not counted apart.
            unproved = int(np.count_nonzero((version.coefficients == 0.0) & ~proved))
            details = {"mode": mode, "unproved": unproved}
            if not slots:
                return self._noop(edit, "no entry is proved to be zero", details)
            names = tuple(version.entries.ids[slot] or "" for slot in slots)
            if not edit.prune(slots, mode, sketch):
                reason = "the pruning was refused: no solver reached an acceptable state"
                raise self._refused(DeletionRefused, reason, edit, edit.no_acceptable_state())
            covers = "the pruned coefficients are proved to be zero: no readout changes while the warranties hold"
            if mode == "forget":
                covers += f"; {FORGET_NOTICE}"
            self._unwiped.extend(slots)
            return self._publish(edit, "pruned", names, covers, edit.certificate_changes(), details)

    def rebuild(self, *, nu: float | None = None, cap: float | None = None) -> Receipt:
        """Solve afresh at a new cap, archived entries included: a *different* reference, and recorded as such.

        Certificates of forgotten entries end with the cap that they were issued at.
        """
        with self._lock:
            edit = self._begin("rebuild")
            version, archived = edit.base, edit.warranties.archive
            keys, columns = version.columns(archived=True)
            new_cap = cap_from(len(keys), nu=nu, cap=cap)
            fresh, tried = first_version(Problem(keys, new_cap, self.sigma), *columns)
            after = replace(fresh, warranties=edit.warranties.ended(), edit=version.edit + 1)
            details: dict[str, Any] = {"cap_before": self.cap, "cap": new_cap}
            if ended := version.warranties.ended_in(after.warranties):
                details["ended"] = list(ended)
            if archived:
                details["reactivated"] = list(archived)
            edit.attempts.extend(tried)
            covers = "the memory equals a fresh fit at the new cap; nothing is said about the old one"
            receipt = self._recorded(edit.receipt("rebuilt", (), after, covers, details), version, after)
            self._version, self._spare = after, after.state.margin.copy()
            self._unsettled = False
            self.initial_size, self.nu = after.size, None if nu is None else float(nu)
            if len(tried) > 1:
                self.outcomes["rescued"] += 1
            return receipt

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
        self._unsettled = True
        return PendingEdit(self._version, self._spare, action)

    def settle(self) -> None:
        """Overwrite what an edit that was not applied (refused, interrupted, a dry run) has left in the buffers."""
        with self._lock:
            if not self._unsettled:
                return
            version = self._version
            state = version.state
            state.gram.rewind(state.sites, np.flatnonzero(state.status[: state.sites] == MARGIN))
            version.entries.rewind(version.count)
            # A site that the edit had emptied may have lost its place to one that it had added.
            present = version.state.present()
            version.site_of_key.clear()
            version.site_of_key.update(zip(row_bytes(version.state.gram.keys[present]), present.tolist(), strict=True))
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
        self._version = version
        if version.state.margin is not before.state.margin:
            self._spare = before.state.margin
        self._wipe(version)
        # Every absent site once held an entry whose slot is still there, so counting slots is enough.
        if version.count - version.size - len(version.warranties.archive) > max(COMPACT_ABOVE, version.size // 4):
            self._version = version.compacted()
        self._unsettled = False
        return receipt

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


def _file_path(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or "\0" in str(path) or not str(path):
        raise InputError(f"a file's path must be a string or a Path, not {path!r}")
    return Path(path)
