"""Sweeps: what has ended is erased, and so is what has lost a source.

One edit per memory, with its receipt, and one summary that says by which time what is erased had ended. Entries under a
hold are left out, one by one, and reported: a sweep comes again. What was made from an entry that goes, goes with it.

An *orphan* is an entry with a source that is not in the store any more: a hold kept it when the source was erased, a
process died between the edits of two memories, or the source's memory was dropped or could not be restored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from expunge.store.backends.database import Database
from expunge.store.cases import Case
from expunge.store.derivations import Derivations, Node
from expunge.store.erasure_plan import Plan
from expunge.store.erasure_summary import JointErasure, append_erased
from expunge.store.identity import Identity
from expunge.store.joint_erasure import JointPreview, erase_parts, preview_parts

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["Sweeper", "due_entries", "preview_sweep", "sweep"]


class Sweeper:
    """Sweeps a store again and again, whenever something can have ended or lost a source since the last time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # After the last sweep: the size of the ledger, and when the next entry ends.
        self._swept: tuple[int, datetime | None] | None = None

    def step(self) -> JointErasure | None:
        """Sweep the store; None where nothing can have ended since."""
        size, now = self._store.size, self._store.now()
        if self._swept is not None and self._swept[0] == size and (self._swept[1] is None or now < self._swept[1]):
            return None
        done = self._store.retain()
        # What failed is tried again.
        failed = any(part.outcome == "failed" for part in done.memories)
        self._swept = None if failed else (self._store.size, done.next_end)
        return done


def due_entries(store: Store, now: datetime) -> dict[str, list[str]]:
    """Ids of the entries whose end has come, by name of their memory."""
    with store.reading() as connection:
        graph = store.derivations.read(connection, ends=True)
    return {graph.names[uuid]: names for uuid, names in _by_memory(graph.due(now)).items()}


def preview_sweep(store: Store, now: datetime) -> JointPreview:
    """What a sweep would do."""
    plan, held = _plan(store, now)
    return JointPreview(preview_parts(store, plan), held, plan.graph.not_read)


def sweep(
    store: Store,
    database: Database,
    identity: Identity,
    now: datetime,
    asked: Case | None,
    progress: Callable[[int, int], None] | None = None,
) -> JointErasure:
    """Erase what has ended by ``now``, in whole seconds, and orphans."""
    plan, held = _plan(store, now)
    parts = erase_parts(store, plan, None, asked, progress)
    due = now.astimezone(UTC).replace(microsecond=0)
    next_end = min((end for end in plan.graph.ends.values() if end > now), default=None)
    done = JointErasure(tuple(parts), due=due, held=held, not_read=plan.graph.not_read, next_end=next_end)
    return append_erased(store, database, identity, done, parts, asked) if parts else done


def _plan(store: Store, now: datetime) -> tuple[Plan, dict[str, tuple[str, ...]]]:
    """What goes, and by memory what would go but for a hold."""
    with store.reading() as connection:
        graph = store.derivations.read(connection, ends=True, orphans=True)
    roots = list(dict.fromkeys([*graph.due(now), *graph.orphans]))
    held = _held(store, graph, [*roots, *graph.made_from(roots)])
    kept = {graph.names[uuid]: tuple(sorted(names)) for uuid, names in _by_memory(held).items()}
    return Plan.of_sweep(graph, roots, held), kept


def _held(store: Store, graph: Derivations, nodes: Collection[Node]) -> set[Node]:
    """Those of these entries that a hold keeps."""
    in_force = {hold.memory for hold in store.holds()} if nodes else set()
    found = set()
    for uuid, names in _by_memory(nodes).items():
        name = graph.names[uuid]
        if name in in_force and name in store:
            found |= {(uuid, one) for one in store[name].holds_on(names)}
    return found


def _by_memory(nodes: Iterable[Node]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for uuid, name in nodes:
        found[uuid].append(name)
    return dict(found)
