"""Searching the items of one version, and listing their namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from langgraph.store.base import Item, ListNamespacesOp, MatchCondition, SearchItem, SearchOp

from expunge.integrations.filters import matches
from expunge.integrations.langgraph.distances import Distance, scores
from expunge.integrations.langgraph.items import ItemVersion
from expunge.memory.version import Version
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["list_namespaces", "open_item", "search_items"]


def search_items(
    op: SearchOp, view: Version, found: Iterable[ItemVersion], query: Vector | None, distance: Distance
) -> list[tuple[ItemVersion, SearchItem]]:
    """Items that match, each with its version: by score where there is a query, then the newest first.

    Items without a vector have no score, and follow those that have one. Values are decoded in this order, until there
    are enough.
    """
    candidates = list(found)
    age = -np.array([version.updated for version in candidates], dtype=np.int64)
    score = np.full(len(candidates), np.nan)
    if query is not None:
        score = _scores(view, candidates, query, distance)
    order = np.lexsort((age, -score))
    return list(islice(_matching(op, view, candidates, score, order), op.offset, op.offset + op.limit))


def open_item(view: Version, version: ItemVersion) -> Item:
    """An item of a version."""
    return version.item(view.entries.payloads[version.slot])


def list_namespaces(op: ListNamespacesOp, namespaces: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Namespaces that meet every condition, cut off at a depth, in order."""
    found = set(namespaces)
    for condition in op.match_conditions or ():
        found = {namespace for namespace in found if _fits(condition, namespace)}
    if op.max_depth is not None:
        found = {namespace[: op.max_depth] for namespace in found}
    return sorted(found)[op.offset : op.offset + op.limit]


def _matching(
    op: SearchOp, view: Version, candidates: list[ItemVersion], score: Vector, order: IndexArray
) -> Iterator[tuple[ItemVersion, SearchItem]]:
    for place in order.tolist():
        item = open_item(view, candidates[place])
        if not op.filter or _matches_paths(item.value, op.filter):
            known = None if np.isnan(score[place]) else float(score[place])
            content = item.namespace, item.key, item.value, item.created_at, item.updated_at
            yield candidates[place], SearchItem(*content, known)


def _matches_paths(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a value has what a filter asks for; a name that it does not have is a path, with dots between names."""
    if any(name.startswith("$") for name in wanted):
        return matches(value, wanted)
    return all(matches(_at_path(value, name), part) for name, part in wanted.items())


def _at_path(value: Any, path: str) -> Any:
    """What is at a path, or None. The name that the whole path is comes first."""
    if not isinstance(value, Mapping):
        return None
    if path in value:
        return value[path]
    name, dot, rest = path.partition(".")
    return _at_path(value.get(name), rest) if dot else None


def _scores(view: Version, candidates: list[ItemVersion], query: Vector, distance: Distance) -> Vector:
    """The best score of each item's vectors; NaN for an item that has none."""
    indexed = [place for place, version in enumerate(candidates) if version.further is not None]
    slots = np.array([candidates[place].slot for place in indexed], dtype=np.int64)
    live = view.alive[slots]
    found = np.empty(len(indexed))
    found[live] = scores(distance, view.state.gram.keys, view.entries.site[slots[live]], query)
    aside = np.flatnonzero(~live).tolist()
    if aside:
        archive = view.warranties.archive
        keys: Matrix = np.array([archive[candidates[indexed[place]].id].key for place in aside])
        found[aside] = scores(distance, keys, np.arange(len(aside)), query)
    more = [(place, further) for place, at in enumerate(indexed) if len(further := _further(candidates[at]))]
    if more:
        table = np.vstack([further for _, further in more])
        owners = np.repeat([place for place, _ in more], [len(further) for _, further in more])
        np.maximum.at(found, owners, scores(distance, table, np.arange(len(table)), query))
    score = np.full(len(candidates), np.nan)
    score[indexed] = found
    return score


def _further(version: ItemVersion) -> Matrix:
    return np.zeros((0, 0)) if version.further is None else version.further


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
