"""Which entries of a version are versions of which item: made once, and from then on brought up to date per edit.

It is never stored. It goes with the memory's version that it was made for, unless the next one takes over from it: so
nothing of an erased item is left in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from datetime import datetime

import numpy as np
import numpy.typing as npt

from expunge.integrations.langgraph.items import ItemVersion
from expunge.memory.version import Version
from expunge.types import IndexArray

__all__ = ["Catalogue", "Catalogues"]

Namespace = tuple[str, ...]
Keys = dict[str, tuple[ItemVersion, ...]]


class Catalogue:
    """The items of one version. It is not changed any more: the next one shares what stays the same."""

    def __init__(self) -> None:
        self._present: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._at: dict[int, ItemVersion] = {}
        # Versions of an item, oldest first.
        self.items: dict[Namespace, Keys] = {}

    def after(self, view: Version) -> Catalogue:
        """The catalogue of another version over the same entries."""
        present = _present(view)
        known = np.zeros_like(present)
        known[: self._present.size] = self._present[: present.size]
        following = Catalogue()
        following._present, following._at, following.items = present, self._at.copy(), self.items.copy()
        copied: set[Namespace] = set()
        entries = view.entries
        gone = [*np.flatnonzero(known & ~present).tolist(), *range(present.size, self._present.size)]
        for slot in gone:
            version = following._at.pop(slot, None)
            if version is not None:
                keys = following._keys(version.namespace, copied)
                left = tuple(other for other in keys.pop(version.key) if other is not version)
                if left:
                    keys[version.key] = left
                elif not keys:
                    del following.items[version.namespace]
        for slot in np.flatnonzero(present & ~known).tolist():
            version = ItemVersion.of(entries.ids[slot] or "", slot, entries.payloads[slot])
            if version is not None:
                following._at[slot] = version
                keys = following._keys(version.namespace, copied)
                keys[version.key] = tuple(sorted((*keys.get(version.key, ()), version), key=lambda made: made.age))
        return following

    def versions(self, namespace: Namespace, key: str) -> tuple[ItemVersion, ...]:
        """Versions of one item, oldest first; none where there is no such item."""
        return self.items.get(namespace, {}).get(key, ())

    def newest(self, namespace: Namespace, key: str, now: datetime) -> ItemVersion | None:
        """The newest version of one item; None where there is no such item, or it has ended."""
        versions = self.versions(namespace, key)
        return versions[-1] if versions and not versions[-1].has_ended(now) else None

    def under(self, prefix: Namespace, now: datetime) -> Iterator[ItemVersion]:
        """The newest version of every item that has not ended in the namespaces that begin like this."""
        for namespace, keys in self.items.items():
            if namespace[: len(prefix)] == prefix:
                for versions in keys.values():
                    if not versions[-1].has_ended(now):
                        yield versions[-1]

    def namespaces(self, now: datetime) -> Iterator[Namespace]:
        """Namespaces with an item that has not ended."""
        for namespace, keys in self.items.items():
            if any(not versions[-1].has_ended(now) for versions in keys.values()):
                yield namespace

    def superseded(self) -> Iterator[ItemVersion]:
        """Versions that a newer one has replaced, and that are still to be erased."""
        for keys in self.items.values():
            for versions in keys.values():
                yield from versions[:-1]

    def _keys(self, namespace: Namespace, copied: set[Namespace]) -> Keys:
        """Keys of a namespace that may be changed: other catalogues may use those that were there before."""
        if namespace not in copied or namespace not in self.items:
            copied.add(namespace)
            self.items[namespace] = dict(self.items.get(namespace, {}))
        return self.items[namespace]


class Catalogues:
    """The catalogue of the version that was read last."""

    def __init__(self) -> None:
        self._last: tuple[weakref.ref[Version], Catalogue] | None = None

    def of(self, view: Version) -> Catalogue:
        """The catalogue of a version."""
        last = self._last
        before = None if last is None else last[0]()
        if last is not None and before is view:
            return last[1]
        known = Catalogue() if last is None or before is None or before.entries is not view.entries else last[1]
        found = known.after(view)
        self._last = weakref.ref(view, self._let_go), found
        return found

    def forget(self) -> None:
        """Drop the catalogue."""
        self._last = None

    def _let_go(self, view: weakref.ref[Version]) -> None:
        last = self._last
        if last is not None and last[0] is view:
            self._last = None


def _present(view: Version) -> npt.NDArray[np.bool_]:
    """Which slots count: entries that are live or in the archive."""
    present = view.alive[: view.count].copy()
    archive = view.warranties.archive
    if archive:
        slots: IndexArray = np.fromiter((entry.slot for entry in archive.values()), np.int64, len(archive))
        present[slots] = True
    return present
