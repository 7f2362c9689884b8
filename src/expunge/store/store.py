"""Many named memories in one database, one ledger for all of them.

Every edit is durable before it counts, and its receipt is a leaf of the ledger. What concerns more than one memory is
here: creating and dropping them, erasing a data subject everywhere, legal holds, proofs of the ledger, backup and
restore.
"""

from __future__ import annotations

import gc
import hmac
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from sqlalchemy import Select, bindparam, select

from expunge.errors import Conflict, InputError, StoreError
from expunge.ledger.certificate.contents import Revealed, What
from expunge.ledger.event import KeyUse
from expunge.ledger.merkle.proof_file import ExtensionProof, InclusionProof
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.signing import VerifyingKey
from expunge.memory.attributes import DerivedChoice, Source
from expunge.memory.entries import check_subject
from expunge.memory.memory import Memory
from expunge.preprocessing.measurements import key_coordinates
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.problem.problem import as_points
from expunge.store.backends.connect import url_without_password
from expunge.store.backends.database import CheckedConnection, Database, LedgerObserver, VacuumResult
from expunge.store.backends.schema_version import check_schema, schema_version
from expunge.store.backends.tables import memories
from expunge.store.cases import Case, case_of_leaf, cases_of_leaves, erase_cases, leaf_time, read_cases
from expunge.store.derivations import DerivationReader
from expunge.store.due_erasures import PendingErasure, cancel_erasure, due_time, read_erasures, request_erasure
from expunge.store.edits.edit_transaction import MemoryContext
from expunge.store.edits.group_commit import GroupCommits
from expunge.store.edits.idempotency import Request, peppered_key, same_entries
from expunge.store.erasure_summary import JointErasure
from expunge.store.identity import Identity
from expunge.store.joint_erasure import JointPreview
from expunge.store.key_rotation import RevocationReason, add_key, revoke_key
from expunge.store.key_table import StoreKey, read_keys
from expunge.store.ledger_proofs import prove_extension, prove_inclusion, sign_checkpoint_of
from expunge.store.ledger_tables import (
    Leaf,
    newest_leaves,
    read_frontier,
    read_leaf,
    read_leaves,
)
from expunge.store.legal_holds import Hold, check_hold_terms, place_hold, read_holds, release_hold
from expunge.store.memory_budget import MemoryBudget
from expunge.store.memory_lifecycle import create_memory, drop_memory
from expunge.store.mirroring.attached_mirror import AttachedMirror
from expunge.store.mirroring.mirror_keeper import MirrorKeeper
from expunge.store.mirroring.mirror_pass import MirrorPass
from expunge.store.pepper import save_pepper
from expunge.store.retention import due_entries, preview_sweep, sweep
from expunge.store.rows import LoadedMemory, MemorySummary, last_edits, read_summaries
from expunge.store.stated_entries import StatedEntries
from expunge.store.stored_memory import StoredMemory
from expunge.store.subject_erasure import (
    SubjectErasure,
    SubjectPreview,
    carry_out,
    erase_subject,
    find_summary,
    preview_subject,
)
from expunge.store.subject_map import SubjectMap, Subjects
from expunge.store.subject_search import LookAlike, SubjectSearch
from expunge.types import Progress, Rows

if TYPE_CHECKING:
    from expunge.store.maintenance.backup_scan import BackupScan
    from expunge.store.maintenance.integrity import VerifyResult
    from expunge.store.maintenance.restore import RestoreResult
    from expunge.store.mirroring.comparison import MirrorComparison
    from expunge.store.subject_export import SubjectExport

__all__ = ["ErasureOptions", "Store", "check_name"]

_ROW = select(memories.c.number, memories.c.uuid).where(memories.c.name == bindparam("name_"))
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}")


class ErasureOptions(TypedDict, total=False):
    """Options of `Store.erase_subject`."""

    idempotency_key: str | None
    progress: Callable[[int, int], None] | None
    salt: bytes | None
    look_alikes: bool
    derived: DerivedChoice
    expected: str | None
    case: str | None
    actor: str | None


class Store:
    """An open store. Make one with `expunge.open`."""

    def __init__(self, database: Database, identity: Identity, memory_budget: int | None = None) -> None:
        self.subjects = SubjectMap()
        self.budget = MemoryBudget(memory_budget, self.subjects.size_in_bytes)
        self._database = database
        self._identity = identity
        self._opened: dict[str, StoredMemory] = {}
        self._lock = threading.Lock()
        self._open = True
        # The size of the ledger when garbage was last collected.
        self._collected_at: int | None = None
        self.derivations = DerivationReader(self)
        self.group_commits = GroupCommits(self, database)
        self.mirror_keeper = MirrorKeeper(self, database, lambda: self._identity)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.origin} at {url_without_password(self._database.engine.url)}>"

    def __len__(self) -> int:
        return len(self.names())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _NAME.fullmatch(name) is not None and self._row(name) is not None

    def __getitem__(self, name: str) -> StoredMemory:
        """The memory of this name; InputError if there is none."""
        row = self._row(check_name(name))
        if row is None:
            raise InputError(f"there is no memory {name!r} in this store; expunge show lists them")
        return self._memory(MemoryContext(self._database, self._identity, row.number, row.uuid), name)

    @property
    def uuid(self) -> str:
        """The store's own id."""
        return self._identity.uuid

    @property
    def origin(self) -> str:
        """The identity of its ledger."""
        return self._identity.origin

    @property
    def public_key(self) -> VerifyingKey:
        """The key that its receipts verify under."""
        return self._identity.signing_key.public

    @property
    def public_keys(self) -> tuple[VerifyingKey, ...]:
        """The keys that its receipts, old ones included, verify under."""
        return self._identity.known("receipts")

    @property
    def head_key(self) -> VerifyingKey:
        """The key that signs its heads."""
        return self._identity.head_key.public

    @property
    def log_key(self) -> NoteKey:
        """The key that its checkpoints verify under, with the origin as its name."""
        return self._identity.log_key

    @property
    def log_keys(self) -> tuple[NoteKey, ...]:
        """The keys that its checkpoints, old ones included, verify under."""
        return self._identity.log_keys

    def names(self) -> list[str]:
        """Names of the memories, sorted."""
        with self.reading() as connection:
            return sorted(connection.values(select(memories.c.name)))

    def memories(self) -> list[MemorySummary]:
        """Name, UUID, edit number and size of every memory; none is loaded."""
        with self.reading() as connection:
            return read_summaries(connection)

    def name_of(self, uuid: str) -> str | None:
        """Name of the memory with a UUID, or None."""
        row = self.read_row(select(memories.c.name).where(memories.c.uuid == uuid))
        return None if row is None else row.name

    def create(
        self,
        name: str,
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
        idempotency_key: str | None = None,
        case: str | None = None,
        actor: str | None = None,
        progress: Progress | None = None,
    ) -> StoredMemory:
        """Fit a memory (see `Memory.fit`) and keep it under a name that is not taken.

        What ``progress`` raises, until the transaction begins, leaves the store as it was; so does an interrupt at any
        time. ``expires`` and ``derived_from`` are as for `StoredMemory.admit_many`. ``case`` and ``actor`` are as for
        `StoredMemory.delete`, here and in the other methods. Under an ``idempotency_key`` that made this memory before
        the memory is returned as it is now; Conflict where it was dropped, or its entries are others.
        """
        asked = Case.of(case, actor)
        request = self._request(idempotency_key, case, verb="create", name=check_name(name))
        if request is not None and (made := self._created_under(request)) is not None:
            if not made.look(lambda version: same_entries(version, ids, keys, values, payloads)):
                raise Conflict("this idempotency key was used to make a memory of other entries; nothing was done")
            return made
        if check_name(name) in self:
            raise InputError(f"there is a memory {name!r} already: import into it, drop it first, or take another name")
        points = as_points(key_coordinates(keys, preprocessing or Preprocessing()), "keys", empty=True)
        stated = StatedEntries.of(self, name, payloads, expires, derived_from, points.shape[0])
        stated.require_to_come(self._identity.clock())
        sources = stated.memories(self)
        stated.require_outside(sources)
        memory = Memory.fit(
            points,
            values,
            sigma=sigma,
            nu=nu,
            cap=cap,
            ids=ids,
            subjects=subjects,
            payloads=stated.payloads,
            preprocessing=preprocessing,
            progress=progress,
        )
        if progress is not None:
            progress("writing and signing", 0, len(memory))
        context, forgotten, mirrored = create_memory(
            self._database, self._identity, name, memory, stated, sources, asked, request
        )
        if mirrored:
            self.mirror_keeper.owe()
        stored = self._memory(context, name)
        stored.set_loaded(LoadedMemory(memory, forgotten))
        self.mirror_keeper.follow()
        return stored

    def _created_under(self, request: Request) -> StoredMemory | None:
        """The memory that a request made before; None where there was no such request."""
        with self.reading() as connection:
            answer = request.earlier_answer(connection)
        if answer is None:
            return None
        name = self.name_of(answer["memory"])
        if name is None:
            raise Conflict("the memory that was made under this idempotency key was dropped; nothing was done")
        return self[name]

    def drop(
        self,
        name: str,
        *,
        derived: DerivedChoice = "erase",
        expected: str | None = None,
        idempotency_key: str | None = None,
        case: str | None = None,
        actor: str | None = None,
    ) -> Leaf:
        """Delete a memory with all its content. Raises DeletionRefused while it has a hold.

        What was made from its entries in other memories goes before it; with ``derived="refuse"`` Conflict
        (``derived-entries``) is raised instead.

        The memory is not loaded, so one that is damaged can be dropped as well: its last receipt says what it was.
        ``expected`` is the digest of the state that the caller has seen; if it is no longer the stored one, Stale is
        raised and the memory stays.
        """
        asked, told = Case.of(case, actor), {} if derived == "erase" else {"derived": derived}
        request = self._request(idempotency_key, case, verb="drop", name=check_name(name), **told)
        if request is not None:
            with self.reading() as connection:
                answer = request.earlier_answer(connection)
                if answer is not None:
                    return read_leaf(connection, answer["leaf"])
        with self.mirror_keeper.together():
            leaf = drop_memory(self, self._database, self._identity, self[name], expected, request, asked, derived)
        self._forget_dropped(leaf.memory or "")
        return leaf

    @overload
    def erase_subject(
        self, subject: str, *, dry_run: Literal[False] = False, after: None = None, **options: Unpack[ErasureOptions]
    ) -> SubjectErasure: ...
    @overload
    def erase_subject(
        self, subject: str, *, dry_run: Literal[False] = False, after: timedelta, **options: Unpack[ErasureOptions]
    ) -> PendingErasure: ...
    @overload
    def erase_subject(
        self, subject: str, *, dry_run: Literal[True], after: None = None, **options: Unpack[ErasureOptions]
    ) -> SubjectPreview: ...
    @overload
    def erase_subject(
        self, subject: str, *, dry_run: bool, after: None = None, **options: Unpack[ErasureOptions]
    ) -> SubjectErasure | SubjectPreview: ...
    def erase_subject(
        self,
        subject: str,
        *,
        dry_run: bool = False,
        after: timedelta | None = None,
        idempotency_key: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        salt: bytes | None = None,
        look_alikes: bool = True,
        derived: DerivedChoice = "erase",
        expected: str | None = None,
        case: str | None = None,
        actor: str | None = None,
    ) -> SubjectErasure | PendingErasure | SubjectPreview:
        """Delete everything of a data subject, in every memory, with one summary in the ledger.

        What was made from these entries goes with them, whosever it is; with ``derived="refuse"`` Conflict
        (``derived-entries``) is raised instead. Each memory is one transaction with its own receipt: everything that is
        to go from it goes, or, where that is refused, nothing. The summary says which. Where no entry belongs to the
        subject, nothing is written, and the answer is the same whether the subject was erased before or never there:
        anything else would confirm a guess. Only who gives the ``salt`` of an earlier erasure is told its leaf.

        Subjects are compared as they are written. The answer names the memories with entries that have no subject, and
        with ``look_alikes`` the subjects that differ only by what is often a slip (`find_subject`); erase each that is
        the same person by its own name.

        ``expected`` is the `SubjectPreview.digest` that the caller has seen. Where other entries would go, Stale is
        raised, and nothing was done; a memory that more came into while others were edited is left as it is, and the
        summary says so.

        If the process dies on the way, repeat the call under the same idempotency key: what was done is not done again,
        the rest is, and the summary covers both. `progress` is told how many memories are done, and of how many, before
        each and at the end; what it raises ends the erasure there, to be taken up again in the same way.

        With a delay, ``after``, nothing is deleted now. The request is a leaf of the ledger, and `carry_out_erasures`
        carries it out when it is due; until then `cancel_erasure` undoes it. It is recorded whether or not an entry
        belongs to the subject now: what is there when it is due goes.
        """
        owner, asked = _named(subject), Case.of(case, actor)
        if dry_run and after is not None:
            raise InputError("a dry run tells what an erasure would do now: leave after out")
        if salt is not None and (dry_run or after is not None):
            raise InputError("the salt of an earlier erasure goes without dry_run and after: leave it out")
        if expected is not None and (dry_run or after is not None):
            raise InputError("the preview that was seen is for an erasure now: leave expected out")
        if derived == "refuse" and after is not None:
            raise InputError("what is there when an erasure is due goes, and what was made from it: leave derived out")
        if dry_run:
            return preview_subject(self, owner, derived, look_alikes=look_alikes)
        if after is not None:
            return self._erase_later(owner, after, idempotency_key, case, asked)
        told = {} if derived == "erase" else {"derived": derived}
        request = self._request(idempotency_key, case, verb="erase_subject", subject=owner, **told)
        # Read first: what could go wrong here must not keep receipts and salt from the caller.
        with self.reading() as connection:
            subjects = self.current_subjects(connection)
            not_searched, alike = subjects.unsearched(), subjects.look_alikes(owner) if look_alikes else ()
            earlier = None if salt is None else find_summary(connection, owner, salt)
        with self.mirror_keeper.together():
            done = erase_subject(
                self,
                self._database,
                self._identity,
                owner,
                request,
                progress,
                asked=asked,
                derived=derived,
                expected=expected,
            )
        if done is None:
            raise StoreError("an erasure without a delay came to no end")
        return replace(done, earlier=earlier, not_searched=not_searched, look_alikes=alike)

    def observe(self, observer: LedgerObserver) -> None:
        """Tell an observer, from now on, what this process commits to the ledger: every leaf, and every edit."""
        self._database.observer = observer

    def now(self) -> datetime:
        """The time, by the store's clock: by it entries end, requests are due, and leaves are dated."""
        return self._identity.clock()

    def due(self, now: datetime | None = None) -> dict[str, list[str]]:
        """Ids of the entries whose end has come by ``now``, or by the store's clock, by name of their memory."""
        self._require_open()
        return due_entries(self, self._identity.clock() if now is None else now)

    @overload
    def retain(
        self,
        *,
        dry_run: Literal[False] = False,
        progress: Callable[[int, int], None] | None = None,
        case: str | None = None,
        actor: str | None = None,
    ) -> JointErasure: ...
    @overload
    def retain(self, *, dry_run: Literal[True]) -> JointPreview: ...
    def retain(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
        case: str | None = None,
        actor: str | None = None,
    ) -> JointErasure | JointPreview:
        """Erase what has ended by the store's clock, and what has lost a source, with what was made from it.

        One edit per memory with its receipt, and one summary of them with the time. Entries under a hold stay, and are
        reported. Where nothing has ended, nothing is written. Until it is swept, an entry that has ended is part of
        its memory like any other: readouts and certificates speak of it. ``dry_run`` tells what would go.
        """
        asked, now = Case.of(case, actor), self._identity.clock()
        self._require_open()
        if dry_run:
            return preview_sweep(self, now)
        with self.mirror_keeper.together():
            return sweep(self, self._database, self._identity, now, asked, progress)

    def find_subject(self, subject: str, *, look_alikes: bool = True) -> SubjectSearch:
        """Search every memory for a data subject, and for subjects that look like it; nothing is written.

        Two subjects look alike where they are equal once case, accents, Unicode form, punctuation, blanks, invisible
        characters and leading zeros are put aside, or where names of at least eight letters differ by one slip besides
        (`expunge.store.look_alikes`).
        """
        owner = _named(subject)
        with self.reading() as connection:
            subjects = self.current_subjects(connection)
        alike = subjects.look_alikes(owner) if look_alikes else ()
        return SubjectSearch(owner, subjects.memories_of(owner), subjects.unsearched(), alike)

    def search_subjects(self, text: str, *, most: int = 50) -> tuple[tuple[LookAlike, ...], bool]:
        """Subjects of any memory whose names have every word of a text in them, or look like it, and whether there are
        more than ``most`` of them. One that is written like the text comes first; nothing is written.
        """
        wanted = _named(text)
        with self.reading() as connection:
            subjects = self.current_subjects(connection)
        return subjects.matching(wanted, most)

    def current_subjects(self, connection: CheckedConnection) -> Subjects:
        """Whose entries are where, as a connection sees them. The first call opens every entry."""
        return self.subjects.refresh(connection, self._identity, self.loaded)

    def export_subject(self, subject: str) -> SubjectExport:
        """Everything that the store holds of a data subject, in every memory; it is read, and nothing is written."""
        from expunge.store.subject_export import export_subject

        return export_subject(self, self._identity, _named(subject))

    def erasures(self) -> list[PendingErasure]:
        """Erasures that were requested with a delay and are still to be carried out, in order of their requests."""
        with self.reading() as connection:
            return read_erasures(connection)

    def cancel_erasure(self, leaf: int, *, case: str | None = None, actor: str | None = None) -> Leaf:
        """Cancel the erasure that was requested at a leaf. Raises Conflict when it is due."""
        asked = Case.of(case, actor)
        with self.writing("subjects") as connection:
            return cancel_erasure(self._database, connection, self._identity, leaf, asked)

    def carry_out_erasures(self) -> list[SubjectErasure]:
        """Carry out the erasures that are due, each with a summary that names its request.

        `expunge.open` and the service do so too. A memory where an erasure is refused keeps the subject's entries;
        the summary says so, and the request is over. Where a memory cannot be edited the request stays open, and
        StoreError is raised after the others were tried. Where nothing of the subject is left, the summary lists every
        memory without an entry.
        """
        self._require_open()
        with self.mirror_keeper.together():
            carried_out = carry_out(self, self._database, self._identity)
        if not carried_out:
            return []
        with self.reading() as connection:
            not_searched = self.current_subjects(connection).unsearched()
        return [replace(done, not_searched=not_searched) for done in carried_out]

    def case_of(self, leaf: int) -> Case | None:
        """Case and actor that a leaf of the ledger commits to; None where there is none, or it was erased."""
        with self.reading() as connection:
            return case_of_leaf(connection, leaf)

    def cases(self, case: str | None = None) -> list[Case]:
        """Cases and actors that can still be read, in order of their first leaf; of one reference, or all."""
        with self.reading() as connection:
            found = read_cases(connection).values()
        return sorted((one for one in found if case in (None, one.case)), key=lambda one: one.leaves)

    def case_numbers(self) -> list[int]:
        """Numbers of the cases that can still be read, which say nothing of them: see `restore`."""
        with self.reading() as connection:
            return sorted(read_cases(connection))

    def erase_cases(
        self, *, leaf: int | None = None, case: str | None = None, older_than: timedelta | None = None
    ) -> int:
        """Erase texts and salts of cases: that of a leaf, those of a reference, or all with no leaf since a delay ago.

        Afterwards nobody can open the commitments in those leaves. Returns how many cases were erased.
        """
        if (leaf is not None) + (case is not None) + (older_than is not None) != 1:
            raise InputError("say which cases: leaf, case or older_than, and one of them")
        before = None
        if older_than is not None:
            if not isinstance(older_than, timedelta) or older_than < timedelta(0):
                raise InputError(f"older_than is a time span, not {older_than!r}")
            before = self._identity.clock() - older_than
        with self.writing("cases") as connection:
            count = erase_cases(self._database, connection, leaf=leaf, case=case, before=before)
            connection.commit()
            if count:
                self._database.finish_erasure(connection)
        return count

    def hold(
        self,
        name: str,
        id: str | None = None,  # noqa: A002 — the public word
        *,
        subject: str | None = None,
        reason: str,
        case: str | None = None,
        actor: str | None = None,
    ) -> Hold:
        """Forbid the erasure of an entry, or of every entry of a subject, present and to come, in one memory.

        An erasure that would touch it is refused with the reason, and the refusal has its receipt. The reason is kept
        with the hold and not in the ledger.
        """
        terms, asked = check_hold_terms(id, subject, reason), Case.of(case, actor)
        number = place_hold(self._database, self._identity, self[name], terms, asked)
        return Hold(number, name, terms["id"], terms["subject"], reason)

    def release(self, hold: Hold | int, *, case: str | None = None, actor: str | None = None) -> Leaf:
        """End a hold. The memory is not loaded, so a damaged one can be released, and then dropped."""
        number, asked = hold.number if isinstance(hold, Hold) else hold, Case.of(case, actor)
        found = next((known for known in self.holds() if known.number == number), None)
        if found is None:
            raise InputError(f"there is no hold {number}")
        return release_hold(self._database, self._identity, self[found.memory], number, asked)

    def holds(self, name: str | None = None) -> list[Hold]:
        """Holds in order of placement, of one memory or of all."""
        number = None if name is None else self[name].number
        with self.reading() as connection:
            return read_holds(connection, number)

    def mirror(
        self,
        url: str,
        *,
        memory: str | None = None,
        map: Mapping[str, Any] | None = None,  # noqa: A002 — the public word
        case: str | None = None,
        actor: str | None = None,
    ) -> AttachedMirror:
        """Keep a copy of a memory, or of all, in another system, and delete from it what is deleted here.

        ``url`` is as for ``expunge scan``: ``chroma:///folder#collection``, ``postgresql://host/db#pgvector:table``,
        ``lancedb:///folder#table``, ``qdrant:///folder``. It is kept in the store, without a password: one in the URL
        is refused, and the driver takes it from the environment. ``map`` says what becomes of an entry
        (`expunge.store.mirroring.copy_map`).

        What is in the store is written there, what is admitted follows, and what is erased is deleted there, its bytes
        reclaimed and searched for. An edit never waits for it: whatever the other system does not take is owed, and
        tried again after later edits, by `sync_mirrors` and by the service. What was found after an erasure is a leaf
        of the ledger.
        """
        return self.mirror_keeper.add(url, memory, map, Case.of(case, actor))

    def mirrors(self) -> list[AttachedMirror]:
        """The mirrors, with what is still owed to each."""
        return self.mirror_keeper.attached()

    def remove_mirror(self, leaf: int, *, case: str | None = None, actor: str | None = None) -> Leaf:
        """Stop keeping a mirror in step, by the leaf that says since when; what is there stays there.

        The event counts the erasures that the mirror has not followed. Nobody deletes these copies any more.
        """
        return self.mirror_keeper.remove(leaf, Case.of(case, actor))

    def sync_mirrors(self, leaf: int | None = None) -> list[MirrorPass]:
        """Do now what is owed to one mirror, or to all, whether or not it is put off; what came of it."""
        self._require_open()
        return self.mirror_keeper.sync(leaf)

    def check_mirror(self, leaf: int, *, delete: bool = False) -> MirrorComparison:
        """Compare every copy in a mirror with the store: what is missing there, and what should not be there.

        ``delete`` deletes copies of entries that were erased here, as after somebody has restored the other system.
        """
        from expunge.store.mirroring.comparison import compare_mirror

        self._require_open()
        return compare_mirror(self, self.mirror_keeper.one(leaf), delete=delete)

    def receipts(self, name: str | None = None, *, start: int = 0, limit: int | None = None) -> list[Leaf]:
        """Leaves of the ledger in order, from index `start`, of one memory or of all, at most `limit`."""
        uuid = None if name is None else self[name].uuid
        with self.reading() as connection:
            return list(read_leaves(connection, start=start, memory=uuid, limit=limit))

    def newest_leaves(
        self,
        *,
        memories: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
        before: int | None = None,
        since: int | None = None,
        among: Sequence[int] | None = None,
        limit: int | None = None,
    ) -> list[Leaf]:
        """Leaves from the newest back, with an index from `since` to below `before`; of memories by UUID, of kinds, and
        `among` indices where given.
        """
        with self.reading() as connection:
            return newest_leaves(
                connection, memories=memories, kinds=kinds, before=before, since=since, among=among, limit=limit
            )

    def first_leaf_at(self, time: datetime) -> int:
        """Index of the first leaf of a time or later, by the signer's clock; the ledger's size where there is none."""
        with self.reading() as connection:
            low, high = 0, read_frontier(connection).size
            while low < high:
                middle = (low + high) // 2
                if leaf_time(read_leaf(connection, middle).statement) < time:
                    low = middle + 1
                else:
                    high = middle
        return low

    def cases_of_leaves(self, indices: Sequence[int]) -> dict[int, Case]:
        """Case and actor of each of these leaves that has one which was not erased."""
        with self.reading() as connection:
            return cases_of_leaves(connection, indices)

    def leaf(self, index: int) -> Leaf:
        """One leaf of the ledger."""
        with self.reading() as connection:
            return read_leaf(connection, index)

    @property
    def size(self) -> int:
        """Number of leaves in the ledger."""
        with self.reading() as connection:
            return read_frontier(connection).size

    def checkpoint(self) -> SignedNote:
        """The signed head of the ledger as it stands. Hand it out: whoever keeps it holds the ledger to it."""
        self._require_open()
        return sign_checkpoint_of(self._database, self._identity)

    def inclusion(self, index: int, head: SignedNote | None = None) -> InclusionProof:
        """Proof that a leaf is in the ledger, with the head that it leads to: a new one, or an earlier ``head`` of this
        ledger with whatever cosignatures it has since been given.
        """
        with self.reading() as connection:
            return prove_inclusion(connection, self._identity, index, head)

    def revealed(self, index: int) -> Mapping[What, Revealed]:
        """Texts and salts of the case and the actor that leaf ``index`` commits to, as far as the store has them."""
        found = self.case_of(index)
        return {} if found is None else found.revealed

    def consistency(self, old_size: int, head: SignedNote | None = None) -> ExtensionProof:
        """Proof that the ledger only grew since it had `old_size` leaves, with the head that it leads to: a new one, or
        an earlier ``head`` of this ledger.
        """
        with self.reading() as connection:
            return prove_extension(connection, self._identity, old_size, head)

    def cose(self, index: int, head: SignedNote | None = None) -> tuple[bytes, InclusionProof]:
        """A leaf as a COSE message that carries its COSE Receipt, and the proof in it; under a new head or ``head``."""
        from expunge.ledger.cose import cose_statement

        proof = self.inclusion(index, head)
        return cose_statement(self.leaf(index).envelope, proof, self._identity.head_key), proof

    def verify(self) -> VerifyResult:
        """Check everything: the database, every memory, every receipt and signature, the whole ledger.

        Raises VerificationError at the first thing that is wrong.
        """
        from expunge.store.maintenance.integrity import verify_store

        self._require_open()
        return verify_store(self._database, self._identity)

    def vacuum(self) -> VacuumResult:
        """Remove what earlier erasures left in the database's files; on PostgreSQL it is this that completes them."""
        self._require_open()
        return self._database.vacuum()

    def waiting(self) -> str | None:
        """The reason why the database's files still hold erased secrets, as far as is known; None if they hold none."""
        return self.erasures_waiting()[1]

    def erasures_waiting(self) -> tuple[int, str | None]:
        """How many erasures (on PostgreSQL: erased secrets) the files still hold, as far as is known, and why."""
        self._require_open()
        return self._database.waiting()

    def retry_erasures(self) -> None:
        """Try once more to remove erased secrets that a reader has kept in the files; the next edit does so, too.

        Memories that this process has loaded and another has edited since are brought up to date, which overwrites
        what is gone; where too much has changed they are let go.
        Where the ledger has grown since the last call, Python's garbage is collected: objects that only refer to each
        other may hold what was erased.
        """
        self._require_open()
        self._database.retry_erasures()
        with self._lock:
            opened = dict(self._opened)
        if opened:
            self._refresh(opened)
        if self.subjects.built:
            with self.reading() as connection:
                self.current_subjects(connection)

    def _refresh(self, opened: dict[str, StoredMemory]) -> None:
        with self.reading() as connection:
            edits = last_edits(connection, opened)
            size = read_frontier(connection).size
        for uuid, stored in opened.items():
            if uuid in edits:
                stored.versions.refresh(edits[uuid])
            else:
                self._forget_dropped(uuid)
        if size != self._collected_at:
            self._collected_at = size
            gc.collect()

    def delete_expired(self, now: float | None = None) -> int:
        """Delete what is kept for a limited time and is older: see `expunge.store.maintenance.expiry`.

        ``now`` is in seconds since 1970. Returns how many rows were deleted.
        """
        from expunge.store.maintenance.expiry import delete_expired

        self._require_open()
        return delete_expired(self._database, f"{self.uuid} expiry", time.time() if now is None else now)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the whole store to a new SQLite file, without the signing key."""
        from expunge.store.maintenance.backup import write_backup

        with self.reading() as connection:
            write_backup(connection, Path(path))

    def scan_backups(self, *files: str | Path, subject: str | None = None) -> list[BackupScan]:
        """How much of what was erased since, or of a subject, each backup of this store still holds."""
        from expunge.store.maintenance.backup_scan import scan_backups

        return scan_backups(self.reading, self._identity, [Path(file) for file in files], check_subject(subject))

    def signing_keys(self) -> list[StoreKey]:
        """The public keys of the store, valid and revoked, in the order in which they were added."""
        with self.reading() as connection:
            return list(read_keys(connection))

    def add_key(self, key: VerifyingKey, use: KeyUse) -> Leaf:
        """Let a further key sign receipts or heads: a spare one, or the next one. The ledger says so.

        The store goes on to sign with the key that it was opened with; open it with the other one to change that.
        """
        self._require_open()
        self._keep_pepper()
        leaf, identity = add_key(self._database, self._identity, key, use)
        self._replace_identity(identity)
        return leaf

    def revoke_key(self, key: VerifyingKey, use: KeyUse, reason: RevocationReason) -> Leaf:
        """Let a key sign no more. The ledger says so; what the key signed before stays valid.

        The store must have been opened with another key, which signs the event.
        """
        self._require_open()
        leaf, identity = revoke_key(self._database, self._identity, key, use, reason)
        self._replace_identity(identity)
        return leaf

    def export_ledger(self, path: str | Path) -> SignedNote:
        """Write every leaf to a new file, one envelope per line, and return the head that covers them."""
        from expunge.store.maintenance.backup import export_ledger

        with self.reading() as connection:
            frontier = export_ledger(connection, Path(path))
        return self._identity.sign_head(frontier)

    def restore(
        self,
        path: str | Path,
        *,
        ledger: Store | str | Path | None = None,
        checkpoint: SignedNote | None = None,
        cases: Collection[int] | None = None,
    ) -> RestoreResult:
        """Fill this store, which must be empty and opened by nobody else, from a backup; erase again what was since.

        `ledger` is the newest ledger there is: a store that still has it, or a file by `export_ledger`. It must
        extend the backup's, and reach `checkpoint` where one was kept; the restored store continues it. Entries are
        matched by their commitments. Content that was erased after the backup never reaches this database. Edits
        since then other than erasures are lost; so is a memory of whose remaining entries no solver finds a state. At
        the end the store is swept (`retain`).

        A ledger does not tell which cases were erased. So only those come back that a store given as `ledger` still
        has, or whose numbers are among ``cases``, by `case_numbers` of the store that was lost.
        """
        from expunge.store.maintenance.restore import restore_store

        self._require_open()
        source: Path | list[bytes] | None
        if isinstance(ledger, Store):
            cases = ledger.case_numbers() if cases is None else cases
            source = [leaf.envelope for leaf in ledger.receipts()]
        else:
            source = None if ledger is None else Path(ledger)
        with self.writing("restore") as connection:
            identity, restored = restore_store(
                self._database, connection, self._identity, Path(path), source, checkpoint, set(cases or ())
            )
            connection.commit()
            self._database.finish_erasure(connection)
        self._replace_identity(identity)
        return replace(restored, retained=self.retain())

    def close(self) -> None:
        """Finish what an erasure may have left to do, and give the connections back."""
        if not self._open:
            return
        self._open = False
        self._database.close()

    @contextmanager
    def reading(self) -> Iterator[CheckedConnection]:
        """One consistent snapshot of the database, for whoever has tables of its own in it, such as the service."""
        self._require_open()
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def writing(self, lock: str) -> Iterator[CheckedConnection]:
        """A transaction under a lock of the store with this name; nothing counts unless the caller commits."""
        self._require_open()
        with self._database.writing(f"{self.uuid} {lock}") as connection:
            yield connection

    def loaded(self, uuid: str, edit: int) -> Memory | None:
        """The version of a memory after an edit, if this process has loaded it."""
        with self._lock:
            stored = self._opened.get(uuid)
        return None if stored is None else stored.versions.loaded_at(edit)

    def read_row(self, query: Select[Any], parameters: dict[str, Any] | None = None) -> Any:
        """First row of one query by itself, or None."""
        self._require_open()
        return self._database.read_row(query, parameters)

    def check_schema(self) -> None:
        """Raise StoreError if the tables are no longer those that this program reads."""
        with self.reading() as connection:
            check_schema(schema_version(connection), "this store")

    def mac(self, message: bytes) -> bytes:
        """HMAC-SHA-256 of a message under the store's secret; begin the message with its purpose."""
        return hmac.digest(self._identity.secret, message, "sha256")

    def peppered_key(self, key: str) -> str:
        """An idempotency key as the store uses it: nobody without the signing key finds it by trying."""
        return peppered_key(self._identity.pepper, key)

    def _replace_identity(self, identity: Identity) -> None:
        with self._lock:
            self._identity = identity
            opened, self._opened = self._opened, {}
        for stored in opened.values():
            stored.let_go()

    def _keep_pepper(self) -> None:
        """Write the pepper to its file, so that the store has it under another key as well."""
        path = self._identity.pepper_file
        if path is None:
            raise StoreError(
                "another key has another pepper, unless this one is kept in a file: name it with --pepper, "
                "$EXPUNGE_PEPPER or pepper=",
                code="pepper-missing",
            )
        if not path.exists():
            save_pepper(path, self._identity.pepper)

    def _request(self, key: str | None, case: str | None, **asked: Any) -> Request | None:
        named = asked if case is None else asked | {"case": case}
        return Request.of(self.uuid, self._identity.pepper, key, **named)

    def _erase_later(
        self, subject: str, after: timedelta, key: str | None, case: str | None, asked: Case | None
    ) -> PendingErasure:
        due = due_time(self._identity.clock(), after)
        request = self._request(key, case, verb="erase_subject", subject=subject, after=after.total_seconds())
        with self.writing("subjects") as connection:
            answer = None if request is None else request.earlier_answer(connection)
            if answer is not None:
                found = read_erasures(connection, answer["requested"])
                if not found:
                    raise Conflict(f"the erasure requested at leaf {answer['requested']} is over; nothing was done")
                return found[0]
            return request_erasure(self._database, connection, self._identity, subject, due, asked, request)

    def _require_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")

    def _row(self, name: str) -> Any:
        return self.read_row(_ROW, {"name_": name})

    def _memory(self, context: MemoryContext, name: str) -> StoredMemory:
        with self._lock:
            if context.uuid not in self._opened:
                self._opened[context.uuid] = StoredMemory(context, name, self)
            return self._opened[context.uuid]

    def _forget_dropped(self, uuid: str) -> None:
        with self._lock:
            stored = self._opened.pop(uuid, None)
        if stored is not None:
            stored.let_go()


def _named(subject: Any) -> str:
    """A subject that is one."""
    owner = check_subject(subject)
    if owner is None:
        raise InputError("whose entries? a subject is a non-empty string")
    return owner


def check_name(name: Any) -> str:
    """A memory's name has 1 to 200 printable characters."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"a memory's name has 1 to 200 printable characters, not {name!r:.80}")
    return name
