"""A LangGraph store whose deletions come with receipts: `BaseStore` over one notebook of an expunge store.

One item is one entry: its key is the item's first vector (or, for what is not indexed, its hashed words), its payload
the value and any further vectors. The entry's id holds namespace, key, when the item was made and when it was last
put. An update writes the new version before it erases the old one, so an item is never missing in between; readers
take the newest.

Receipts are on the side: `receipts` has outcome and leaf of the latest, `on_receipt` is called with each and the item
that it is about, `erase_subject` forgets a user in the whole store. Where this differs from LangGraph's
`InMemoryStore`, on purpose:

1. `created_at` stays what it was when an item is updated.
2. A namespace is listed while it has an item, not because somebody once asked for one in it.
3. An update without an index, or with fewer fields, takes the old vectors away.
4. Pages of a search go on from scored to unscored items instead of repeating the latter.
5. ``$gt`` and its kin do not match a value that is missing or no number; they do not raise.
6. Values are JSON: what goes in as a tuple comes out as a list.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np

from expunge.errors import InputError, MissingExtra
from expunge.integrations.embedding import DIMENSION, words
from expunge.integrations.notebook import Erasure, Notebook, NotebookEdit
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.store import Store
from expunge.types import Matrix, Vector

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        ensure_embeddings,
        get_text_at_path,
        tokenize_path,
        validate_op_namespace,
    )
except ImportError:
    raise MissingExtra("a LangGraph store needs the extra: pip install 'expunge[langgraph]'") from None

__all__ = ["ExpungeStore", "ItemReceipt", "second_label"]

Name = tuple[tuple[str, ...], str]
SubjectOf = Callable[[tuple[str, ...], str], str | None]

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "$gt": lambda value, bound: value > bound,
    "$gte": lambda value, bound: value >= bound,
    "$lt": lambda value, bound: value < bound,
    "$lte": lambda value, bound: value <= bound,
}


def second_label(namespace: tuple[str, ...], key: str) -> str | None:
    """Whose an item is, as LangGraph's own examples have it: ``("memories", user_id)``."""
    return namespace[1] if len(namespace) > 1 else None


@dataclass(frozen=True)
class ItemReceipt:
    """The receipt of one edit, and the item that it is about."""

    namespace: tuple[str, ...]
    key: str
    edit: NotebookEdit


@dataclass(frozen=True)
class _ItemVersion:
    """One entry: an item as of one put; times in nanoseconds."""

    namespace: tuple[str, ...]
    key: str
    created: int
    updated: int
    id: str
    row: int

    @property
    def name(self) -> Name:
        return self.namespace, self.key


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


class ExpungeStore(BaseStore):
    """LangGraph's store interface over one memory of an expunge store, with or without an index."""

    def __init__(
        self,
        store: Store,
        *,
        memory: str = "langgraph",
        index: IndexConfig | None = None,
        sigma: float = 1.0,
        nu: float = 0.5,
        subject: SubjectOf = second_label,
        on_receipt: Callable[[ItemReceipt], None] | None = None,
    ) -> None:
        """`index` is LangGraph's: dims, embed, fields. `subject` says whose an item is, for `erase_subject`."""
        self.ledger = store
        self.notebook = Notebook(store, memory, sigma=sigma, nu=nu)
        # Without the ids that an edit was applied to: they name items, and these may be erased.
        self.receipts: deque[NotebookEdit] = deque(maxlen=1000)
        self.index_config = index
        self._embeddings = None if index is None else ensure_embeddings(index["embed"])
        self._fields = ["$"] if index is None else list(index.get("fields") or ["$"])
        self._dimension = DIMENSION if index is None else index["dims"]
        self._subject = subject
        self._on_receipt = on_receipt
        self._lock = threading.Lock()
        # Of the version that was read last. It names items, so that it goes with every edit.
        self._cached: tuple[Version, dict[Name, list[_ItemVersion]]] | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads see the store as it was before the batch; of several puts of one item the last one counts."""
        plan = self._plan(ops)
        rows, points = [], []
        if self._embeddings is not None:
            rows = self._embeddings.embed_documents(plan.to_embed) if plan.to_embed else []
            points = [self._embeddings.embed_query(query) for query in plan.queries]
        return self._execute(plan, rows, points)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`; embeddings are awaited, the database is used in a thread."""
        plan = self._plan(ops)
        rows: list[list[float]] = []
        points: list[list[float]] = []
        if self._embeddings is not None:
            rows = await self._embeddings.aembed_documents(plan.to_embed) if plan.to_embed else []
            points = list(await asyncio.gather(*map(self._embeddings.aembed_query, plan.queries)))
        return await asyncio.to_thread(self._execute, plan, rows, points)

    def erase_subject(self, subject: str) -> Erasure:
        """Erase every item of a subject, and whatever else of theirs is in the expunge store."""
        with self._lock:
            try:
                return self.notebook.erase_subject(subject)
            finally:
                self._cached = None

    def _plan(self, ops: Iterable[Op]) -> _Plan:
        plan = _Plan(list(ops))
        for op in plan.ops:
            if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):
                raise ValueError(f"Unknown operation type: {type(op)}")
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                plan.puts[op.namespace, op.key] = op
            elif isinstance(op, SearchOp) and op.query and self._embeddings is not None:
                plan.queries.append(op.query)
        if self._embeddings is not None:
            for name, put in plan.puts.items():
                if put.value is not None and put.index is not False:
                    fields = self._fields if put.index is None else put.index
                    paths = [path if path == "$" else tokenize_path(path) for path in fields]
                    plan.texts[name] = [text for path in paths for text in get_text_at_path(put.value, path)]
        return plan

    def _execute(self, plan: _Plan, rows: list[list[float]], points: list[list[float]]) -> list[Result]:
        table = _as_rows(rows, len(plan.to_embed), self._dimension)
        queries = dict(zip(plan.queries, _as_rows(points, len(plan.queries), self._dimension), strict=True))
        results = self.notebook.inspect(
            lambda view: [self._read(op, view, queries) for op in plan.ops],
            [self._read(op, None, queries) for op in plan.ops],
        )
        at = 0
        with self._lock:
            for name, put in plan.puts.items():
                count = len(plan.texts.get(name, ()))
                self._put(name, put, table[at : at + count])
                at += count
        return results

    def _read(self, op: Op, view: Version | None, queries: Mapping[str, Vector]) -> Result:
        if isinstance(op, GetOp):
            found = None if view is None else self._catalogue(view).get((op.namespace, op.key))
            return None if view is None or found is None else _item(view, found[-1])
        if isinstance(op, SearchOp):
            return [] if view is None else self._search(op, view, queries)
        if isinstance(op, ListNamespacesOp):
            return _namespaces(op, () if view is None else self._catalogue(view))
        return None

    def _catalogue(self, view: Version) -> dict[Name, list[_ItemVersion]]:
        """Versions of every item, oldest first; items in order of making."""
        cached = self._cached
        if cached is not None and cached[0] is view:
            return cached[1]
        found: dict[Name, list[_ItemVersion]] = {}
        for row, name in enumerate([*view.ids, *view.warranties.archive]):
            version = _version(name, row)
            if version is not None:
                found.setdefault(version.name, []).append(version)
        for versions in found.values():
            versions.sort(key=lambda version: version.updated)
        ordered = dict(sorted(found.items(), key=lambda item: item[1][-1].created))
        self._cached = view, ordered
        return ordered

    def _search(self, op: SearchOp, view: Version, queries: Mapping[str, Vector]) -> list[SearchItem]:
        wanted = [
            versions[-1]
            for (namespace, _), versions in self._catalogue(view).items()
            if namespace[: len(op.namespace_prefix)] == op.namespace_prefix
        ]
        found = [_open_item(view, version) for version in wanted]
        if op.filter:
            found = [pair for pair in found if _matches(pair[0].value, op.filter)]
        query = queries.get(op.query or "")
        scored: list[tuple[float | None, Item]] = [(None, item) for item, _ in found]
        if query is not None:
            scored = [(None if rows is None else _cosine(query, rows), item) for item, rows in found]
            scored.sort(key=lambda pair: -math.inf if pair[0] is None else pair[0], reverse=True)
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for score, item in scored[op.offset : op.offset + op.limit]
        ]

    def _put(self, name: Name, put: PutOp, rows: Matrix) -> None:
        none: list[_ItemVersion] = []
        old = self.notebook.inspect(lambda view: self._catalogue(view).get(name, none), none)
        stale = [version.id for version in old]
        edits: list[NotebookEdit] = []
        try:
            if put.value is not None:
                if stale and self.notebook.held(stale):
                    # What must be kept is not replaced either: this is refused before anything is written.
                    edits += self.notebook.erase(stale, missing_ok=True)
                now = max([time.time_ns(), *(version.updated + 1 for version in old)])
                created = min([now, *(version.created for version in old)])
                value = dict(put.value)
                key = rows[0] if len(rows) else words([json.dumps(value, default=str)], self._dimension)[0]
                payload = {"value": value, "vectors": rows[1:].tolist() if len(rows) else None}
                label = json.dumps([list(name[0]), name[1], created, now], ensure_ascii=False)
                subject = self._subject(*name)
                edits += self.notebook.write(key, id=label, subject=subject, payload=payload, settle=not stale)
            if stale:
                # Somebody else may have erased some of them since; what is left is older than what they put.
                edits += self.notebook.erase(stale, missing_ok=True)
        finally:
            # What was done is reported, though a later edit has failed.
            for edit in edits:
                self.receipts.append(replace(edit, applied=()))
                if self._on_receipt is not None:
                    self._on_receipt(ItemReceipt(*name, edit))
            self._cached = None


def _version(name: str, row: int) -> _ItemVersion | None:
    """What an entry's id says; None for an entry that this store did not write."""
    try:
        namespace, key, created, updated = json.loads(name)
        return _ItemVersion(tuple(namespace), key, int(created), int(updated), name, row)
    except (ValueError, TypeError):
        return None


def _open_item(view: Version, version: _ItemVersion) -> tuple[Item, Matrix | None]:
    """An item, and its vectors where it is indexed."""
    if version.row < view.size:
        payload, key = view.entries.payloads[int(view.slots[version.row])], view.keys[version.row]
    else:
        entry = view.warranties.archive[version.id]
        payload, key = entry.payload, entry.key
    content = decode_payload(payload)
    item = Item(
        value=content["value"],
        key=version.key,
        namespace=version.namespace,
        created_at=_time(version.created),
        updated_at=_time(version.updated),
    )
    more = content["vectors"]
    return item, None if more is None else np.vstack([key, *map(np.array, more)])


def _item(view: Version, version: _ItemVersion) -> Item:
    return _open_item(view, version)[0]


def _time(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC)


def _as_rows(rows: list[list[float]], count: int, dimension: int) -> Matrix:
    if len(rows) != count:
        raise InputError(f"the embedding returned {len(rows)} rows for {count} texts")
    if not count:
        return np.zeros((0, dimension))
    table = np.asarray(rows, dtype=np.float64)
    if table.shape != (count, dimension) or not np.isfinite(table).all():
        raise InputError(f"the embedding returned {table.shape}, not finite rows of {dimension} dimensions")
    return table


def _cosine(query: Vector, rows: Matrix) -> float:
    """The best of an item's vectors; one without a direction is like nothing."""
    lengths = np.linalg.norm(rows, axis=1) * float(np.linalg.norm(query))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.max(np.where(lengths > 0.0, rows @ query / lengths, 0.0)))


def _namespaces(op: ListNamespacesOp, names: Iterable[Name]) -> list[tuple[str, ...]]:
    found = {namespace for namespace, _ in names}
    for condition in op.match_conditions or ():
        found = {namespace for namespace in found if _fits(condition, namespace)}
    if op.max_depth is not None:
        found = {namespace[: op.max_depth] for namespace in found}
    return sorted(found)[op.offset : op.offset + op.limit]


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a value has what a filter asks for."""
    if isinstance(wanted, Mapping):
        if any(str(word).startswith("$") for word in wanted):
            return all(_compares(value, word, bound) for word, bound in wanted.items())
        return isinstance(value, Mapping) and all(_matches(value.get(name), part) for name, part in wanted.items())
    if isinstance(wanted, list | tuple):
        alike = isinstance(value, list | tuple) and len(value) == len(wanted)
        return alike and all(map(_matches, value, wanted))
    return bool(value == wanted)


def _compares(value: Any, word: str, bound: Any) -> bool:
    if word in ("$eq", "$ne"):
        return bool(value == bound) == (word == "$eq")
    compare = _OPERATORS.get(word)
    if compare is None:
        raise ValueError(f"Unsupported operator: {word}")
    try:
        return compare(float(value), float(cast(Any, bound)))
    except (TypeError, ValueError):
        return False
