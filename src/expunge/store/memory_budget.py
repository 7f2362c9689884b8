"""How much of a process's memory loaded memories may take: the least recently used let go of something.

First of what edits start from: kernel rows, the factor and what belongs to it, which are found again before the next
edit, and which no reader needs. Where that is not enough, of everything.

Counted are the arrays of a loaded memory (keys, kernel rows, the factor, values, commitments), its texts and maps, the
index of a text search, and the map of subjects. What is let go is overwritten once no reader has it in hand, as a
version is that was replaced; the next use loads it again. The memory that is in use stays, however large it is.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.errors import InputError
from expunge.memory.active_entries import ActiveEntries
from expunge.memory.memory import Memory
from expunge.solver.margin_factor import MarginFactor
from expunge.types import AnyArray

if TYPE_CHECKING:
    from expunge.store.version_cache import VersionCache

__all__ = ["MemoryBudget", "byte_count", "editing_bytes", "loaded_bytes"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Of an entry of a dictionary, and of a set with one member.
_SLOT_BYTES, _SET_BYTES = 100, 250
# A memory that is used all the time is measured this often.
MEASURED_SECONDS = 1.0


def byte_count(text: str | int | None) -> int | None:
    """A number of bytes: as it is, or as in ``3G`` or ``512M``, in powers of 1,024; None for none."""
    if text is None:
        return None
    if isinstance(text, str):
        number, unit = text.strip().upper().removesuffix("B").removesuffix("I"), ""
        if number[-1:] in _UNITS:
            number, unit = number[:-1], number[-1:]
        if not (number.isascii() and number.isdigit()):
            raise InputError(f"a memory budget is a number of bytes, as in 3G or 512M, not {text!r:.40}")
        text = int(number) * _UNITS[unit]
    if isinstance(text, bool) or not isinstance(text, int) or text < 1:
        raise InputError(f"a memory budget is a positive number of bytes, not {text!r}")
    return text


def loaded_bytes(memory: Memory | ActiveEntries) -> int:
    """About how many bytes of this process a memory takes, or what was opened of one."""
    if isinstance(memory, ActiveEntries):
        return sum(array.nbytes for array in _arrays(vars(memory).values())) + _SET_BYTES * memory.coefficients.size
    version = memory.newest
    state, entries = version.state, version.entries
    parts: list[Any] = [version, state, state.gram, state.gram.bound, entries]
    parts += [] if entries.index is None else [entries.index]
    total = _nbytes(
        [*(array for part in parts for array in _arrays(vars(part).values()) if array is not state.gram.rows)]
    )
    total += editing_bytes(memory)
    total += sum(map(sys.getsizeof, chain(entries.ids, entries.subjects, entries.payloads, entries.salts)))
    total += _SLOT_BYTES * len(entries.slot_of) + _SET_BYTES * len(entries.slots_of)
    archive = version.warranties.archive.values()
    return total + sum(one.key.nbytes + one.value.nbytes + _SET_BYTES for one in archive)


def editing_bytes(memory: Memory) -> int:
    """About how many of them are there for the next edit alone."""
    version = memory.newest
    gram = version.state.gram
    factors = [version.state.margin, *(part for part in vars(memory).values() if isinstance(part, MarginFactor))]
    arrays = [gram.rows, *gram.pairs.tables, *(factor.factor for factor in factors)]
    numbered = sum(map(sys.getsizeof, version.site_of_key)) + _SLOT_BYTES * len(version.site_of_key)
    return _nbytes(arrays) + numbered


def _nbytes(arrays: list[AnyArray]) -> int:
    return sum(array.nbytes for array in {id(array): array for array in arrays}.values() if array.base is None)


def _arrays(held: Iterable[Any]) -> Iterator[AnyArray]:
    for one in held:
        if isinstance(one, np.ndarray):
            yield one
        elif isinstance(one, tuple):
            yield from (item for item in one if isinstance(item, np.ndarray))


class MemoryBudget:
    """The memories that one store has loaded, in the order of their use, and what they take; without a limit, all."""

    def __init__(self, limit: int | None, besides: Callable[[], int] = int) -> None:
        self.limit = limit
        self._besides = besides
        self._lock = threading.Lock()
        # Bytes, those of them that are there for edits, and when they were counted; least recently used first.
        self._taken: dict[VersionCache, tuple[int, int, float]] = {}

    @property
    def taken(self) -> int:
        """Bytes that are counted."""
        with self._lock:
            return self._total() + self._besides()

    def _total(self) -> int:
        return sum(taken for taken, _, _ in self._taken.values())

    @property
    def has_room(self) -> bool:
        """Whether one more memory of the size that they have on average has room."""
        if self.limit is None:
            return True
        with self._lock:
            total, count = self._total(), len(self._taken)
        return total + self._besides() + total // max(1, count) <= self.limit

    def used(self, cache: VersionCache, memory: Memory | ActiveEntries) -> None:
        """Count a memory as the one that was used last; others let go of something where they take too much together.

        It is measured anew when it was loaded, and from then on once in a while.
        """
        if self.limit is None:
            return
        now = time.monotonic()
        with self._lock:
            taken, editing, measured = self._taken.pop(cache, (0, 0, -math.inf))
            if now - measured < MEASURED_SECONDS:
                self._taken[cache] = taken, editing, measured
                return
        size, editing = loaded_bytes(memory), 0 if isinstance(memory, ActiveEntries) else editing_bytes(memory)
        with self._lock:
            self._taken[cache] = size, editing, now
            over = self._total() + self._besides() - self.limit
            oldest = [other for other in self._taken if other is not cache]
        for other in oldest:
            if over > 0:
                over -= self._released(other)
        for other in oldest:
            with self._lock:
                taken, _, _ = self._taken.get(other, (0, 0, 0.0))
            if over > 0 and other.let_go(wait=False):
                over -= taken

    def _released(self, other: VersionCache) -> int:
        """Have a memory let go of what it edits with; how many bytes that was."""
        with self._lock:
            taken, editing, measured = self._taken.get(other, (0, 0, 0.0))
        if not editing or not other.release():
            return 0
        with self._lock:
            if other in self._taken:
                self._taken[other] = taken - editing, 0, measured
        return editing

    def gone(self, cache: VersionCache) -> None:
        """Count a memory no more: it was let go."""
        with self._lock:
            self._taken.pop(cache, None)
