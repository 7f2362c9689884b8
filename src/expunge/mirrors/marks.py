"""Searching raw bytes for what an entry consists of: its vector, its text, its metadata, its id.

A mark is a piece of eight bytes or more. That a mark is not found proves something only where it was found before: a
system may compress or encrypt. So whoever deletes counts marks before as well (:mod:`expunge.mirrors.removal`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from expunge.mirrors.mirror import Copy
from expunge.types import AnyArray

__all__ = ["LEAST", "count_marks", "held_by", "marks_of", "text_marks"]

# Shorter pieces turn up by chance.
LEAST: Final = 8
_LONGEST: Final = 64
_MOST: Final = 32
_CHUNK: Final = 8 << 20


def marks_of(copy: Copy) -> dict[bytes, str]:
    """The marks of an entry, each with what it is a piece of: vector, text, metadata, id or raw."""
    found: dict[bytes, str] = {}
    for piece in copy.raw:
        found |= dict.fromkeys(_pieces(piece), "raw")
    found |= dict.fromkeys(text_marks(copy.id), "id")
    for value in copy.metadata.values():
        if isinstance(value, str):
            found |= dict.fromkeys(text_marks(value), "metadata")
    found |= dict.fromkeys(text_marks(copy.text or ""), "text")
    if copy.vector is not None:
        for kind in ("<f4", "<f8"):
            packed = np.asarray(copy.vector, dtype=kind)
            # A vector of one number repeated is no mark of anybody.
            if np.unique(packed).size > 1:
                found |= dict.fromkeys(_pieces(packed.tobytes()), "vector")
    return found


def text_marks(text: str) -> list[bytes]:
    """Pieces of a text as it may be stored: in UTF-8, and as JSON spells it where that differs."""
    spelled = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return [piece for form in sorted(spelled) for piece in _pieces(form.encode("utf-8", "surrogatepass"))]


def count_marks(files: Iterable[Path], marks: Iterable[bytes]) -> dict[bytes, Counter[str]]:
    """How often each mark is in each file, by the file's path; marks that are nowhere are left out."""
    anchors: dict[int, list[tuple[int, bytes]]] = {}
    for mark in set(marks):
        if len(mark) >= LEAST:
            offset = _anchor(mark)
            anchors.setdefault(int.from_bytes(mark[offset : offset + LEAST], "little"), []).append((offset, mark))
    wanted = np.array(sorted(anchors), dtype=np.uint64)
    likely = np.zeros(1 << 16, dtype=bool)
    likely[wanted & np.uint64(0xFFFF)] = True
    found: dict[bytes, Counter[str]] = {}
    for file in files if anchors else ():
        for data in _chunks(file):
            for at in _hits(data, wanted, likely):
                for offset, mark in anchors[int.from_bytes(data[at : at + LEAST], "little")]:
                    if 0 <= at - offset < _CHUNK and data.startswith(mark, at - offset):
                        found.setdefault(mark, Counter())[str(file)] += 1
    return found


def _anchor(mark: bytes) -> int:
    """Where the eight bytes of a mark begin that it is looked for by: not with blanks, which files are full of.

    Many pieces of a sparse vector begin with zeros.
    """
    return min(len(mark) - len(mark.lstrip(b"\0 ")), len(mark) - LEAST)


def held_by(copies: Iterable[Copy], marks: Mapping[bytes, object]) -> set[bytes]:
    """The marks that entries that are still there have as well: nobody can say whose bytes these are."""
    left = set(marks)
    shared: set[bytes] = set()
    for copy in copies:
        if not left:
            break
        text = (copy.text or "").encode("utf-8", "surrogatepass")
        # Whole, because a mark may stand elsewhere in them than a piece of theirs begins.
        blob = b"\0".join((*marks_of(copy), *copy.raw, copy.id.encode(), text))
        blob += b"\0".join(str(value).encode("utf-8", "surrogatepass") for value in copy.metadata.values())
        hit = {mark for mark in left if mark in blob}
        shared |= hit
        left -= hit
    return shared


def _pieces(data: bytes) -> Iterator[bytes]:
    """A few pieces from start to end, which do not overlap."""
    count = min(_MOST, max(1, len(data) // _LONGEST))
    step = max(1, len(data) // count)
    for at in range(0, step * count, step):
        piece = data[at : at + min(step, _LONGEST)]
        if len(piece) >= LEAST and piece.strip(b"\0 "):
            yield piece


def _chunks(file: Path) -> Iterator[bytes]:
    """The content of a file in parts that overlap, so that none cuts a mark."""
    try:
        with file.open("rb") as stream:
            for start in range(0, file.stat().st_size, _CHUNK):
                stream.seek(start)
                yield stream.read(_CHUNK + _LONGEST)
    except FileNotFoundError:
        # Systems remove files at their own times.
        return


def _hits(data: bytes, wanted: AnyArray, likely: AnyArray) -> Iterator[int]:
    """Where eight bytes stand that a mark is looked for by, at any position."""
    for shift in range(LEAST):
        count = (len(data) - shift) // LEAST
        if count <= 0:
            continue
        low = np.frombuffer(data, dtype="<u2", count=4 * count, offset=shift)[::4]
        at = np.flatnonzero(likely[low])
        words = np.frombuffer(data, dtype="<u8", count=count, offset=shift)[at]
        for place in at[np.isin(words, wanted)].tolist():
            yield shift + LEAST * place
