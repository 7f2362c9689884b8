"""The entries of one memory as its receipts have left them, after any edit of its history."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from expunge.ledger.receipt_format import Sizes

__all__ = ["Entry", "EntryTable", "Status"]

Status = Literal["live", "archived", "forgotten"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an entry stands since an edit.

    ``lived`` has the stretches of edits, both ends included, over which it was live before. ``anchor`` is the edit that
    forgot it, for as long as its certificate has not ended; ``valid`` whether the certificate has not expired since.
    """

    status: Status
    since: int
    lived: tuple[tuple[int, int], ...] = ()
    anchor: int | None = None
    valid: bool = True


@dataclass(frozen=True, slots=True)
class _Replaced:
    """What an edit replaced, in order; None for what was not there."""

    entries: list[tuple[str, Entry | None]]
    forgettings: list[tuple[int, tuple[str, ...] | None]]


class EntryTable:
    """Entries by commitment, and the forgettings whose certificates have not ended; any earlier edit can come back.

    Every edit keeps what it replaced, so a restoration takes as long as the edits that it takes back.
    """

    def __init__(self) -> None:
        self.now: dict[str, Entry] = {}
        # By edit: the entries that it forgot, while their certificates last.
        self._forgettings: dict[int, tuple[str, ...]] = {}
        self._open: list[int] = []
        self._replaced: list[_Replaced] = []
        self._counts = {"live": 0, "archived": 0, "forgotten": 0}
        # Forgotten entries whose certificates have not ended.
        self.certificates = 0
        self._live_sum = 0

    @property
    def sizes(self) -> Sizes:
        """Live entries, and pruned ones."""
        return Sizes(self._counts["live"], self.archived + self._counts["forgotten"])

    @property
    def archived(self) -> int:
        """Number of archived entries."""
        return self._counts["archived"]

    @property
    def live_set(self) -> tuple[int, int]:
        """A fingerprint of the set of live entries: how many they are, and the sum of their hashes."""
        return self._counts["live"], self._live_sum

    @property
    def edit(self) -> int:
        """The edit that is being made, or was made last."""
        return len(self._replaced) - 1

    def begin_edit(self) -> None:
        """Start the next edit."""
        self._replaced.append(_Replaced([], []))

    def put(self, name: str, entry: Entry | None) -> None:
        """Replace an entry, or remove it."""
        self._replaced[-1].entries.append((name, self._swap(name, entry)))

    def admit(self, name: str) -> None:
        """Add a live entry."""
        self.put(name, Entry("live", self.edit))

    def prune(self, names: Iterable[str], *, forget: bool) -> None:
        """Take live entries to the archive, or forget them, with certificates that rest on what stays live."""
        pruned = tuple(names)
        for name in pruned:
            old = self.now[name]
            lived = () if forget else (*old.lived, (old.since, self.edit - 1))
            status: Status = "forgotten" if forget else "archived"
            self.put(name, Entry(status, self.edit, lived, self.edit if forget else None))
        if forget:
            self._put_forgetting(self.edit, pruned)

    def reactivate(self, name: str) -> None:
        """Bring an archived entry back."""
        self.put(name, Entry("live", self.edit, self.now[name].lived))

    def state_validity(self, name: str, valid: bool) -> None:
        """Note what a receipt says of a forgotten entry's certificate."""
        old = self.now[name]
        self.put(name, Entry(old.status, old.since, old.lived, old.anchor, valid))

    def forgettings_on(self, entries: Iterable[Entry]) -> set[int]:
        """The forgettings whose certificates rest on one of these entries, which are live or archived or were."""
        found: set[int] = set()
        for entry in entries:
            if entry.status == "forgotten":
                continue
            if entry.status == "live":
                found.update(self._open[bisect_left(self._open, entry.since) :])
            for first, last in entry.lived:
                found.update(self._open[bisect_left(self._open, first) : bisect_right(self._open, last)])
        return found

    def open_forgettings(self) -> set[int]:
        """All whose certificates have not ended."""
        return set(self._open)

    def end(self, forgettings: Iterable[int]) -> set[str]:
        """End the certificates of these forgettings; return the entries that had one."""
        ended: set[str] = set()
        for edit in forgettings:
            for name in self._forgettings[edit]:
                old = self.now.get(name)
                if old is not None and old.anchor == edit:
                    self.put(name, Entry("forgotten", old.since))
                    ended.add(name)
            self._put_forgetting(edit, None)
        return ended

    def restore(self, edit: int) -> set[str]:
        """Make an edit, the one that was begun, that goes back to what an earlier one left; return what it touched."""
        touched: dict[str, Entry | None] = {}
        forgettings: dict[int, tuple[str, ...] | None] = {}
        for number in range(self.edit, edit, -1):
            for name, entry in reversed(self._replaced[number].entries):
                replaced = self._swap(name, entry)
                touched.setdefault(name, replaced)
            for forgetting, members in reversed(self._replaced[number].forgettings):
                taken = self._swap_forgetting(forgetting, members)
                forgettings.setdefault(forgetting, taken)
        self._replaced[-1] = _Replaced(list(touched.items()), list(forgettings.items()))
        return set(touched)

    def _swap(self, name: str, entry: Entry | None) -> Entry | None:
        old = self.now.get(name)
        for each, sign in ((old, -1), (entry, 1)):
            if each is not None:
                self._counts[each.status] += sign
                self.certificates += sign * (each.anchor is not None)
                if each.status == "live":
                    # Hashed once more, so that nobody chooses the numbers that are added.
                    hashed = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")
                    self._live_sum = (self._live_sum + sign * hashed) % (1 << 256)
        if entry is None:
            self.now.pop(name, None)
        else:
            self.now[name] = entry
        return old

    def _put_forgetting(self, edit: int, members: tuple[str, ...] | None) -> None:
        self._replaced[-1].forgettings.append((edit, self._swap_forgetting(edit, members)))

    def _swap_forgetting(self, edit: int, members: tuple[str, ...] | None) -> tuple[str, ...] | None:
        old = self._forgettings.get(edit)
        if old is not None:
            del self._open[bisect_left(self._open, edit)]
            del self._forgettings[edit]
        if members is not None:
            insort(self._open, edit)
            self._forgettings[edit] = members
        return old
