"""One erasure in several memories: the edits of a plan in their order, and a deletion whose closure is in others, too.

What was made from an entry goes with it, in whatever memory it is. Each memory is edited in a transaction of its own.
Derived entries go before their sources: so where a process dies in between, the sources are still there, and the
repeated call finds the rest. Where a memory refuses, or cannot be edited, the others go all the same; what stays there
without its source is an orphan, which the next sweep takes (:mod:`expunge.store.retention`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from expunge.errors import DeletionRefused, InputError, Refused, Stale, StoreError, VerificationError
from expunge.memory.attributes import DerivedChoice, made_from_them
from expunge.store.backends.database import Database
from expunge.store.cases import Case
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_preview import Preview
from expunge.store.edits.edit_transaction import check_closure
from expunge.store.edits.idempotency import Request
from expunge.store.edits.signed_receipt import SignedReceipt
from expunge.store.erasure_plan import Part, Plan, closure_mark, plan_of
from expunge.store.erasure_summary import JointErasure, MemoryErasure, append_erased
from expunge.store.identity import Identity

if TYPE_CHECKING:
    from expunge.store.store import Store
    from expunge.store.stored_memory import StoredMemory

__all__ = ["JointPreview", "delete_closure", "erase_parts", "preview_parts", "refuse_derived"]


@dataclass(frozen=True, eq=False)
class JointPreview(Mapping[str, Preview]):
    """What an erasure would do, by the name of each memory; ``held`` has the entries of a sweep that holds keep.

    ``not_read`` names damaged memories, of which nobody can tell what their entries were made from.
    """

    previews: dict[str, Preview]
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_read: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Preview:
        return self.previews[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.previews)

    def __len__(self) -> int:
        return len(self.previews)


def preview_parts(store: Store, plan: Plan, without: str | None = None) -> dict[str, Preview]:
    """What each part would do, by name of the memory; not of the memory ``without``, by UUID."""
    parts = sorted((part for uuid, part in plan.parts.items() if uuid != without), key=lambda part: part.name)
    previews = {part.name: store[part.name].preview_part(part) for part in parts}
    return {part.name: replace(previews[part.name], derived=plan.derived_in(part.uuid)) for part in parts}


def refuse_derived(plan: Plan, derived: DerivedChoice, named: int = 1) -> None:
    """Raise Conflict where entries would go that were not named, and are not to."""
    if derived == "refuse" and plan.parts and (made := plan.derived):
        raise made_from_them(named, [str(entry) for entry in made])


def erase_parts(
    store: Store,
    plan: Plan,
    key: str | None,
    asked: Case | None,
    progress: Callable[[int, int], None] | None = None,
    *,
    expected: Mapping[str, str | None] | None = None,
    bound: bool = False,
) -> list[MemoryErasure]:
    """Edit memory after memory; what became of each that had something to erase.

    ``expected`` has, by UUID, digests that the caller has seen. Stale is raised where one is no longer the stored one,
    and, if the erasure is ``bound`` to the plan, where something that is not in it would go. An erasure of a subject,
    which expects no digests, has failed in that memory where others have been edited already.
    """
    parts, done = plan.order(), []
    for number, part in enumerate(parts):
        if progress is not None:
            progress(number, len(parts))
        try:
            done.append(_erase_part(store, part, plan, key, asked, (expected or {}).get(part.uuid), bound))
        except Stale as problem:
            if expected is not None or not any(done):
                raise
            done.append(MemoryErasure(part.name, part.uuid, "failed", None, str(problem)))
        crash_point("part_done")
    if progress is not None:
        progress(len(parts), len(parts))
    return [part for part in done if part is not None]


def _mark_begun(store: Store, request: Request) -> None:
    mark = closure_mark(request)
    with store.writing("subjects") as connection:
        if mark.earlier_answer(connection) is None:
            mark.save_answer(connection, {})
            connection.commit()


def _erase_part(
    store: Store, part: Part, plan: Plan, key: str | None, asked: Case | None, expected: str | None, bound: bool
) -> MemoryErasure | None:
    """What became of one part; None if others have erased it, or dropped the memory, meanwhile."""
    if part.name not in store:
        return None
    stored = store[part.name]
    if stored.uuid != part.uuid:
        return None
    try:
        receipt = stored.erase_part(part, plan.known, key, asked, expected, bound=bound)
        return MemoryErasure(part.name, part.uuid, receipt.outcome, receipt)
    except Refused as problem:
        refusal = problem.receipt if isinstance(problem.receipt, SignedReceipt) else None
        return MemoryErasure(part.name, part.uuid, "refused", refusal, problem.reason)
    except (InputError, StoreError) as problem:
        if isinstance(problem, Stale):
            raise
        if part.name not in store or not _is_there(stored, part):
            return None
        return MemoryErasure(part.name, part.uuid, "failed", None, str(problem))
    except VerificationError as problem:
        # It is damaged and cannot be edited; the others can.
        return MemoryErasure(part.name, part.uuid, "failed", None, str(problem))


def _is_there(stored: StoredMemory, part: Part) -> bool:
    """Whether any of the entries of a part is in its memory."""
    try:
        return bool(stored.look(part.names_in))
    except InputError:
        return False


def delete_closure(
    store: Store,
    database: Database,
    identity: Identity,
    part: Part,
    *,
    derived: DerivedChoice,
    expected: str | None,
    closure: str | None,
    request: Request | None,
    asked: Case | None,
) -> SignedReceipt:
    """Delete entries of one memory, and what was made from them in others; the receipt of the one memory.

    Where the plan is not that of the ``closure`` that the caller has seen, Stale is raised.
    """
    key = None if request is None else request.key
    plan = plan_of(store, [part], identity.pepper, key)
    refuse_derived(plan, derived, len(part.ids))
    check_closure(closure, plan.digest)
    if request is not None and plan.parts.keys() != {part.uuid}:
        _mark_begun(store, request)
    try:
        done = erase_parts(store, plan, key, asked, expected={part.uuid: expected}, bound=closure is not None)
    except Stale as problem:
        raise Stale(f"{problem}; what was made from its entries in other memories may be erased: ask again") from None
    mine = next((one for one in done if one.uuid == part.uuid), None)
    if mine is None:
        raise InputError(f"nothing that was to be deleted is in {part.name!r} any more")
    others = tuple(one for one in done if one is not mine)
    elsewhere = None
    if others:
        found = JointErasure(others, not_read=plan.graph.not_read)
        elsewhere = append_erased(store, database, identity, found, done, asked, request, mine)
    if mine.outcome == "refused" and mine.receipt is not None:
        raise DeletionRefused(mine.reason or "", receipt=mine.receipt)
    if mine.receipt is None:
        raise StoreError(f"the entries themselves could not be deleted ({mine.reason}); ask again")
    return mine.receipt if elsewhere is None else replace(mine.receipt, elsewhere=elsewhere)
