"""Notes by their words: BM25, from an index that lives in the process and nowhere else.

A term is a word cut to its first five letters, so that "painted" finds "painting". Words are folded: case,
compatibility forms and diacritics make no difference. Scripts without blanks between words are cut into pairs of
characters. Words of a query that say little (`STOP_WORDS`, English) are passed over, unless it has no others.

The index hangs on the buffers of the entries that it was made from (`Entries.index`). A slot that is wiped is taken out
at once, and overwritten. The index keeps no word: a term is its hash under the process's own key. It keeps the terms of
each note, and how often each occurs there. Document frequencies and the mean length are counted for each search, over
the notes that this search may see. So nobody's scores depend on notes that they may not see.

Scores have the same bits on every machine, unless hashes of 64 bits collide: sums run in the order of the query's
terms, and logarithms are correctly rounded.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from expunge.memory.entries import Entries
from expunge.types import IndexArray, Vector

__all__ = ["LENGTH_SHARE", "SATURATION", "STOP_WORDS", "TextIndex", "query_terms", "terms", "text_index"]

# BM25's k₁ and b, and the letters of a term: the best of a grid on half of LoCoMo's conversations.
SATURATION = 0.6
LENGTH_SHARE = 0.2
LETTERS = 5

_STOP_WORDS = """a about am an and are as at be been but by can could d did do does for from had has have he her him
his how i if in is it its ll m me my no not of on or our re s she should so t that the their them these they this those
to us ve was we were what when where which who whom whose why will with would you your"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Scripts that put no blanks between words, or join what other languages write apart.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_UNSPACED}]+|[^ {_UNSPACED}]+")


def terms(text: str) -> list[str]:
    """Terms of a text, in order, repeated as they are in it."""
    return [_cut(word) for word in _words(text)]


def query_terms(text: str) -> list[str]:
    """Distinct terms of a query, in ascending order; without its stop words, unless it has no others."""
    words = _words(text)
    telling = [word for word in words if word not in STOP_WORDS]
    return sorted({_cut(word) for word in telling or words})


def _cut(word: str) -> str:
    return word[:LETTERS]


def _words(text: str) -> list[str]:
    """Folded words; of unspaced scripts, pairs of characters."""
    folded = text.casefold()
    if folded.isascii():
        return _ASCII_WORD.findall(folded)
    # A letter and its diacritic, whether they were one character or two, give the letter.
    parted = unicodedata.normalize("NFKD", folded)
    plain = "".join(letter for letter in parted if not "\u0300" <= letter <= "\u036f")
    whole = unicodedata.normalize("NFKC", plain)
    blanked = "".join(letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in whole)
    found = []
    for run in _RUN.findall(blanked):
        if re.match(f"[{_UNSPACED}]", run) and len(run) > 1:
            found += [run[at : at + 2] for at in range(len(run) - 1)]
        else:
            found.append(run)
    return found


class TextIndex:
    """Terms of the notes in the slots of one `Entries`, hashed, with how often each occurs in its note.

    Parameters
    ----------
    text_of : callable
        From an encoded payload to the text that is searched, or None for a note without one.

    """

    def __init__(self, text_of: Callable[[bytes | None], str | None]) -> None:
        self._text_of = text_of
        self._lock = threading.Lock()
        # One row per term of a note; the rows of a note are side by side.
        self._rows = 0
        self._terms = np.zeros(64, dtype=np.int64)
        self._slots = np.zeros(64, dtype=np.int64)
        self._times = np.zeros(64, dtype=np.int64)
        # By slot: first and last row, and the length in terms; −1 where there is no text.
        self._read = 0
        self._first = np.zeros(8, dtype=np.int64)
        self._last = np.zeros(8, dtype=np.int64)
        self._lengths = np.full(8, -1, dtype=np.int64)

    def __len__(self) -> int:
        """Notes with a text."""
        return int(np.count_nonzero(self._lengths[: self._read] >= 0))

    def read_up_to(self, count: int, payloads: Sequence[bytes | None]) -> None:
        """Take in the slots below `count` that were not read yet."""
        with self._lock:
            for slot in range(self._read, count):
                # A payload that is wiped from here on is forgotten after it was taken in: `forget` waits.
                self._add(slot, self._text_of(payloads[slot]))

    def forget(self, slots: Iterable[int]) -> None:
        """Overwrite what there is of these slots."""
        with self._lock:
            for slot in slots:
                if slot < self._read:
                    rows = slice(int(self._first[slot]), int(self._last[slot]))
                    for column in (self._terms, self._slots, self._times):
                        column[rows] = 0
                    self._lengths[slot] = -1

    def rewind(self, count: int) -> None:
        """Forget the slots from `count` on, which will be written anew."""
        self.forget(range(count, self._read))
        with self._lock:
            self._read = min(self._read, count)

    def scores(self, words: Sequence[str], visible: npt.NDArray[np.bool_]) -> Vector:
        """BM25 of each slot (n,) for query terms; 0 where a slot is not visible, or has none of them.

        Counts and lengths are those of the visible slots, by `visible` (n,).
        """
        found = np.zeros(visible.size)
        with self._lock:
            size = min(visible.size, self._read)
            seen = visible[:size] & (self._lengths[:size] >= 0)
            total = int(np.count_nonzero(seen))
            length = int(self._lengths[:size][seen].sum())
            if not length:
                return found
            share = self._lengths[:size] * (total / length)
            norm = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * share)
            for word in words:
                rows = np.flatnonzero(self._terms[: self._rows] == _number(word))
                slots = self._slots[rows]
                counted = (slots < size) & seen[np.minimum(slots, size - 1)]
                slots, times = slots[counted], self._times[rows[counted]].astype(np.float64)
                if slots.size:
                    found[slots] += _rarity(slots.size, total) * ((SATURATION + 1.0) * times / (times + norm[slots]))
        return found

    def _add(self, slot: int, text: str | None) -> None:
        if slot >= self._first.size:
            self._first, self._last = _grown(self._first), _grown(self._last)
            self._lengths = _grown(self._lengths, -1)
        if text is not None:
            listed = [_number(term) for term in terms(text)]
            counts = Counter(listed)
            first, last = self._rows, self._rows + len(counts)
            while last > self._terms.size:
                self._terms, self._slots, self._times = map(_grown, (self._terms, self._slots, self._times))
            self._terms[first:last] = list(counts)
            self._times[first:last] = list(counts.values())
            self._slots[first:last] = slot
            self._first[slot], self._last[slot], self._lengths[slot] = first, last, len(listed)
            self._rows = last
        else:
            self._first[slot] = self._last[slot] = self._rows
            self._lengths[slot] = -1
        self._read = slot + 1


_creating = threading.Lock()


def text_index(entries: Entries, count: int, text_of: Callable[[bytes | None], str | None]) -> TextIndex:
    """The index of these entries, with all slots below `count`; made where there is none."""
    with _creating:
        if not isinstance(entries.index, TextIndex):
            entries.index = TextIndex(text_of)
        index = entries.index
    index.read_up_to(count, entries.payloads)
    return index


def _number(term: str) -> int:
    """A term's hash under the process's own key, never 0: that is what overwritten rows have."""
    return hash(term) or 1


def _rarity(count: int, total: int) -> float:
    """ln(1 + (N − n + ½)/(n + ½)) for n of N notes, correctly rounded: libraries differ in the last bit of a log."""
    with localcontext(prec=40):
        return float((1 + Decimal(2 * (total - count) + 1) / Decimal(2 * count + 1)).ln())


def _grown(column: IndexArray, fill: int = 0) -> IndexArray:
    """A column of twice the size; the old one is overwritten, because it may hold what is to be erased."""
    larger = np.full(2 * column.size, fill, dtype=np.int64)
    larger[: column.size] = column
    column[:] = fill
    return larger
