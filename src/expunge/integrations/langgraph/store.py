"""LangGraph's `BaseStore` over one notebook of an expunge store.

A batch writes the new versions of its items in one edit, and then erases those that they replace in another, so an
item is never missing in between; readers take the newest. Receipts are on the side: `receipts` has outcome and leaf of
the latest, `on_receipt` is called with each and every item that it is about.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Required, TypedDict, cast

import numpy as np
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from expunge.errors import ExpungeError, InputError
from expunge.integrations.embedding import DIMENSION, Embedder, require_same, words
from expunge.integrations.langgraph.catalogue import Catalogue, Catalogues
from expunge.integrations.langgraph.distances import Distance, check_distance
from expunge.integrations.langgraph.gathered_puts import GatheredPuts
from expunge.integrations.langgraph.items import ItemVersion, Name, end_of, item_id, item_name, item_payload
from expunge.integrations.langgraph.search import list_namespaces, open_item, search_items
from expunge.integrations.notebook import Erasure, Notebook, NotebookEdit
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.store import Store
from expunge.types import Matrix, Vector

__all__ = ["EmbedderIndexConfig", "ExpungeStore", "ItemReceipt", "second_label"]

SubjectOf = Callable[[tuple[str, ...], str], str | None]


class DistanceIndexConfig(IndexConfig, total=False):
    """LangGraph's `IndexConfig` with the distance, as its PostgreSQL store has it."""

    distance_type: Distance


class EmbedderIndexConfig(TypedDict, total=False):
    """The same with an `Embedder`, whose name and digest become part of the memory."""

    dims: Required[int]
    embed: Required[Embedder]
    fields: list[str] | None
    distance_type: Distance


def second_label(namespace: tuple[str, ...], key: str) -> str | None:
    """Whose an item is, as LangGraph's own examples have it: ``("memories", user_id)``."""
    return namespace[1] if len(namespace) > 1 else None


@dataclass(frozen=True)
class ItemReceipt:
    """The receipt of one edit, and an item that it is about; an edit of several items is told for each."""

    namespace: tuple[str, ...]
    key: str
    edit: NotebookEdit


@dataclass
class _Plan:
    """A batch, taken apart: what is to be embedded, and what is to be done with it."""

    ops: list[Op]
    puts: dict[Name, PutOp] = field(default_factory=dict)
    texts: dict[Name, list[str]] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)

    @property
    def to_embed(self) -> list[str]:
        return [text for texts in self.texts.values() for text in texts]


# A read puts an end off where this share of the time to live has passed: each time costs two edits with receipts.
_REFRESH_AFTER = 0.1
# At this time nothing has ended.
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


class ExpungeStore(BaseStore):
    """LangGraph's store interface over one memory of an expunge store, with or without an index."""

    supports_ttl = True

    def __init__(
        self,
        store: Store,
        *,
        memory: str = "langgraph",
        index: EmbedderIndexConfig | DistanceIndexConfig | IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        sigma: float = 1.0,
        nu: float = 0.5,
        subject: SubjectOf = second_label,
        on_receipt: Callable[[ItemReceipt], None] | None = None,
        actor: str | None = None,
    ) -> None:
        """`index` is LangGraph's: dims, embed, fields, and distance_type: ``cosine``, ``inner_product`` or ``l2``.
        Where embed is an `Embedder`, its name and digest are part of the memory, and InputError
        (``embedder-mismatch``) is raised for another one; of any other function nothing is known, and nothing checked.
        `ttl` is LangGraph's as well: default_ttl, refresh_on_read and omit_expired, which is true here unless it is
        given; nothing is swept but by `sweep_ttl`.

        `subject` says whose an item is, for `erase_subject`.

        Receipts commit to the `actor`, the name of the graph that asks.
        """
        self.ledger = store
        given = None if index is None else index["embed"]
        embedder = given if isinstance(given, Embedder) else None
        self.notebook = Notebook(store, memory, sigma=sigma, nu=nu, actor=actor, embed=embedder)
        # Without the ids of entries, here or elsewhere: they name what may be erased.
        self.receipts: deque[NotebookEdit] = deque(maxlen=1000)
        self.index_config = index
        self.ttl_config = ttl
        self.embeddings = None if given is None else ensure_embeddings(cast(Any, given))
        # The one word is that of the type, the other is what LangGraph's SqliteStore reads.
        options = cast(Mapping[str, Any], index or {})
        fields = options.get("fields") or options.get("text_fields") or ["$"]
        self._fields = [fields] if isinstance(fields, str) else list(fields)
        self._dimension = DIMENSION if index is None else index["dims"]
        self._distance = check_distance("cosine" if index is None else index.get("distance_type", "cosine"))
        self._subject = subject
        self._on_receipt = on_receipt
        self._lock = threading.Lock()
        self._catalogues = Catalogues()
        self._gathered = GatheredPuts(self._awrite)
        self.notebook.inspect(self._require_embedder, None)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads see the store as it was before the batch; of several puts of one item the last one counts."""
        plan = self._plan(ops)
        rows, points = [], []
        if self.embeddings is not None:
            rows = self.embeddings.embed_documents(plan.to_embed) if plan.to_embed else []
            points = [self.embeddings.embed_query(query) for query in plan.queries]
        return self._execute(plan, rows, points)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`; embeddings are awaited, the database is used in a thread.

        Batches with puts that wait at the same time are written as one.
        """
        plan = self._plan(ops)
        return await (self._gathered.write(plan.ops) if plan.puts else self._arun(plan))

    async def _awrite(self, ops: Sequence[Op]) -> list[Result]:
        return await self._arun(self._plan(ops))

    async def _arun(self, plan: _Plan) -> list[Result]:
        rows: list[list[float]] = []
        points: list[list[float]] = []
        if self.embeddings is not None:
            rows = await self.embeddings.aembed_documents(plan.to_embed) if plan.to_embed else []
            points = list(await asyncio.gather(*map(self.embeddings.aembed_query, plan.queries)))
        return await asyncio.to_thread(self._execute, plan, rows, points)

    def erase_subject(self, subject: str) -> Erasure:
        """Erase every item of a subject, and whatever else of theirs is in the expunge store.

        `receipts` and `on_receipt` have the receipt of each memory, the summary, and the rebuild that may follow.
        """
        with self._lock, self._editing():
            done = self.notebook.erase_subject(subject)
        here: list[NotebookEdit] = []
        for part in done.summary.memories:
            if part.receipt is not None and part.memory == self.notebook.name:
                here.append(NotebookEdit(part.outcome, part.receipt.index, part.applied))
            elif part.receipt is not None:
                # Of no item of this store.
                self.receipts.append(NotebookEdit(part.outcome, part.receipt.index))
        erased = [name for edit in here for name in edit.applied]
        if done.summary.index is not None:
            here.append(NotebookEdit("subject_erased", done.summary.index))
        self._report([*here, *done.edits], erased)
        return done

    def sweep_ttl(self) -> int:
        """Erase what has ended, here and in every other memory of the expunge store; return how many items went.

        Versions of items that a process left behind, because it died before it erased them, go as well.
        """
        with self._lock, self._editing():
            swept = self.ledger.retain(actor=self.notebook.actor)
            here = [
                NotebookEdit(part.outcome, part.receipt.index, part.applied)
                for part in swept.memories
                if part.receipt is not None and part.memory == self.notebook.name
            ]
            known = self.notebook.inspect(self._catalogues.of, Catalogue())
            left = [version.id for version in known.superseded()]
            # Without any it sees to the cap.
            edits = [*here, *self.notebook.erase(left, missing_ok=True)]
        gone = {item_name(name) for edit in here for name in edit.applied} - {None}
        self._report(edits, left)
        return len(gone)

    def _plan(self, ops: Iterable[Op]) -> _Plan:
        plan = _Plan(list(ops))
        for op in plan.ops:
            if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):
                raise ValueError(f"Unknown operation type: {type(op)}")
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                plan.puts[op.namespace, op.key] = op
            elif isinstance(op, SearchOp) and op.query and self.embeddings is not None:
                plan.queries.append(op.query)
        if self.embeddings is not None:
            for name, put in plan.puts.items():
                if put.value is not None and put.index is not False:
                    fields = self._fields if put.index is None else put.index
                    paths = [path if path == "$" else tokenize_path(path) for path in fields]
                    plan.texts[name] = [text for path in paths for text in get_text_at_path(put.value, path)]
        return plan

    def _execute(self, plan: _Plan, rows: list[list[float]], points: list[list[float]]) -> list[Result]:
        table = _as_rows(rows, len(plan.to_embed), self._dimension)
        queries = dict(zip(plan.queries, _as_rows(points, len(plan.queries), self._dimension), strict=True))
        now, read = self.ledger.now(), dict[Name, ItemVersion]()

        def look(view: Version) -> list[Result]:
            if queries:
                self._require_embedder(view)
            return [self._read(op, view, queries, now, read) for op in plan.ops]

        results = self.notebook.inspect(look, [self._read(op, None, queries, now, read) for op in plan.ops])
        late = {name for name, version in read.items() if _is_late(version, now)} - plan.puts.keys()
        if plan.puts or late:
            with self._lock, self._editing():
                if plan.puts:
                    self._put(plan, table)
                if late:
                    self._put_off(late)
        return results

    def _read(
        self,
        op: Op,
        view: Version | None,
        queries: Mapping[str, Vector],
        now: datetime,
        read: dict[Name, ItemVersion],
    ) -> Result:
        """What an operation reads; items whose time to live begins again are entered in `read`."""
        if isinstance(op, PutOp):
            return None
        catalogue = Catalogue() if view is None else self._catalogues.of(view)
        now = self._as_of(now)
        if isinstance(op, ListNamespacesOp):
            return list_namespaces(op, catalogue.namespaces(now))
        if isinstance(op, GetOp):
            version = catalogue.newest(op.namespace, op.key, now)
            if view is None or version is None:
                return None
            found: list[tuple[ItemVersion, Any]] = [(version, open_item(view, version))]
        elif view is None:
            return []
        else:
            under = catalogue.under(tuple(op.namespace_prefix), now)
            found = list(search_items(op, view, under, queries.get(op.query or ""), self._distance))
        if op.refresh_ttl:
            read |= {version.name: version for version, _ in found}
        items = [item for _, item in found]
        return items[0] if isinstance(op, GetOp) else items

    def _as_of(self, now: datetime) -> datetime:
        """The time for which items are read: where expired ones are not omitted, a time at which none has expired."""
        omits = (self.ttl_config or {}).get("omit_expired", True)
        return now if omits else _BEFORE_ALL

    def _require_embedder(self, view: Version) -> None:
        """Raise InputError where the vectors there are were made by another embedder than the index has."""
        made_by = view.preprocessing.embedder if view.size or view.warranties.archive else None
        if self.notebook.embedder is not None:
            require_same(self.notebook.embedder, made_by)

    def _put(self, plan: _Plan, rows: Matrix) -> None:
        """Write the new versions of all items that are put, in one edit, and erase what they replace, in another."""
        known = self.notebook.inspect(self._catalogues.of, Catalogue())
        old = {name: known.versions(*name) for name in plan.puts}
        stale = [version.id for versions in old.values() for version in versions]
        made, at, today = _no_entries(), 0, self.ledger.now()
        for name, put in plan.puts.items():
            count = len(plan.texts.get(name, ()))
            vectors, at = rows[at : at + count], at + count
            if put.value is None:
                continue
            now = max([time.time_ns(), *(max(version.age) + 1 for version in old[name])])
            created = min([now, *(version.created for version in old[name])])
            value = dict(put.value)
            key = vectors[0] if count else words([json.dumps(value, default=str)], self._dimension)[0]
            payload = item_payload(value, vectors[1:].tolist() if count else None, put.ttl)
            cells = (key, item_id(name, created, now), self._subject(*name), payload, end_of(put.ttl, today))
            for column, cell in zip(made.values(), cells, strict=True):
                column.append(cell)
        self._replace(made, stale)

    def _put_off(self, names: Iterable[Name]) -> None:
        """Let items end later, as of now: each is replaced by a version that says so."""

        def later(view: Version) -> dict[str, list[Any]]:
            made, catalogue, now = _no_entries(), self._catalogues.of(view), self.ledger.now()
            for name in names:
                version = catalogue.newest(*name, self._as_of(now))
                if version is not None and _is_late(version, now):
                    entry = view.warranties.archive.get(version.id)
                    key = view.state.gram.keys[view.entries.site[version.slot]] if entry is None else entry.key
                    content = decode_payload(view.entries.payloads[version.slot])
                    again = item_id(name, version.created, version.updated, max(time.time_ns(), version.refreshed + 1))
                    owner = view.entries.subjects[version.slot]
                    cells = (key.copy(), again, owner, content, end_of(version.ttl, now))
                    for column, cell in zip(made.values(), cells, strict=True):
                        column.append(cell)
                    old[again] = version.id
            return made

        old: dict[str, str] = {}
        made = self.notebook.inspect(later, _no_entries())
        if not old or self.notebook.held(list(old.values())):
            # What must be kept stays as it is; it is swept when the hold is released.
            return
        edits = [*self.notebook.write_many(made.pop("keys"), **made, settle=False)]
        erased = self.notebook.erase(list(old.values()), missing_ok=True)
        edits += erased
        gone = {name for edit in erased for name in edit.applied}
        # What somebody else has erased or replaced since it was read does not come back.
        edits += self.notebook.erase([again for again, before in old.items() if before not in gone], missing_ok=True)
        self._report(edits, old)

    def _replace(self, made: dict[str, list[Any]], stale: list[str]) -> None:
        """Write entries in one edit, and erase those that they replace in another."""
        edits: list[NotebookEdit] = []
        about = (*stale, *made["ids"])
        try:
            if made["ids"]:
                if stale and self.notebook.held(stale):
                    # What must be kept is not replaced either: this is refused before anything is written.
                    edits += self.notebook.erase(stale, missing_ok=True)
                edits += self.notebook.write_many(made.pop("keys"), **made, settle=not stale)
            if stale:
                # Somebody else may have erased some of them since; what is left is older than what they put.
                edits += self.notebook.erase(stale, missing_ok=True)
        finally:
            # What was done is reported, though a later edit has failed.
            self._report(edits, about)

    def _report(self, edits: Iterable[NotebookEdit], about: Iterable[str]) -> None:
        """Keep receipts, and tell them for each item. Those that name no entry, as a rebuild's, are about all."""
        for edit in edits:
            self.receipts.append(replace(edit, applied=(), elsewhere=None))
            if self._on_receipt is not None:
                for name in dict.fromkeys(map(item_name, edit.applied or about)):
                    if name is not None:
                        self._on_receipt(ItemReceipt(*name, edit))

    @contextmanager
    def _editing(self) -> Iterator[None]:
        """Keep the version that is there during an edit, for the catalogue of the next one to begin with its own.

        That one is made at once: the catalogue before it names what was erased.
        """
        # Held until the end.
        before = self.notebook.inspect(lambda view: (view, self._catalogues.of(view)), None)
        try:
            yield
        finally:
            try:
                self.notebook.inspect(self._catalogues.of, None)
            except ExpungeError:
                self._catalogues.forget()
            del before


def _no_entries() -> dict[str, list[Any]]:
    return {"keys": [], "ids": [], "subjects": [], "payloads": [], "expires": []}


def _is_late(version: ItemVersion, now: datetime) -> bool:
    """Whether an item that is read now is to end later than it does."""
    if version.ttl is None or version.expires is None:
        return False
    return version.expires + _REFRESH_AFTER * timedelta(minutes=version.ttl) <= now + timedelta(minutes=version.ttl)


def _as_rows(rows: list[list[float]], count: int, dimension: int) -> Matrix:
    if len(rows) != count:
        raise InputError(f"the embedding returned {len(rows)} rows for {count} texts")
    if not count:
        return np.zeros((0, dimension))
    table = np.asarray(rows, dtype=np.float64)
    if table.shape != (count, dimension) or not np.isfinite(table).all():
        raise InputError(f"the embedding returned {table.shape}, not finite rows of {dimension} dimensions")
    return table
