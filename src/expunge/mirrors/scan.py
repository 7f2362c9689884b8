"""Search a system for what it still has of somebody, and change nothing there.

Three things are looked at: the entries that the system answers with, by the subject's name in their metadata, text and
id; the entries most like given texts and vectors; and the raw bytes of its files, for pieces of the name, of what is
given, and of the entries that were found. What was deleted and not reclaimed is in the files alone.

A folder is copied to a temporary one before the system's own program opens it, because these programs write when they
open: so a scan needs as much room again. Files that somebody is writing to meanwhile may be copied half. PostgreSQL is
read in transactions that may not write.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from expunge.errors import InputError, StoreError
from expunge.mirrors.address import Address, open_mirror
from expunge.mirrors.marks import LEAST, count_marks, marks_of, text_marks
from expunge.mirrors.mirror import Copy, Mirror
from expunge.types import Vector

__all__ = ["Likeness", "Scan", "parse_like", "scan"]

# At which an entry counts as like a given one: cosine of the vectors, or share of three-letter pieces of the texts.
NEAR_VECTOR: Final = 0.97
NEAR_TEXT: Final = 0.6
_MOST_SHOWN: Final = 5


@dataclass(frozen=True)
class Likeness:
    """An entry that is like a given text or vector; ``given`` is the number of that, from 0."""

    given: int
    id: str
    similarity: float
    by: str


@dataclass(frozen=True)
class Scan:
    """What a system still has.

    Attributes
    ----------
    system : the kind of the system.
    entries : how many it answers with.
    of_subject : ids of those with the subject's name in metadata, text or id.
    alike : those that are like what was given.
    in_files : pieces found in the files by what they are of: ``subject``, ``given``, or ``found`` entries.
    where : how many of these are in which file.
    searched : how many files were searched; None where they cannot be reached from here.
    too_short : whether the subject's name is too short to be searched for in raw bytes.

    """

    system: str
    entries: int
    of_subject: tuple[str, ...] = ()
    alike: tuple[Likeness, ...] = ()
    in_files: dict[str, int] = field(default_factory=dict)
    where: dict[str, int] = field(default_factory=dict)
    searched: int | None = None
    too_short: bool = False

    @property
    def found(self) -> bool:
        """Whether anything was found."""
        return bool(self.of_subject or self.alike or self.in_files)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return asdict(self) | {"found": self.found}


def parse_like(text: str) -> list[Copy]:
    """What a file gives, one per line: a text; a list of numbers; an object with ``text``, ``vector``, ``id``."""
    given = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped:
            continue
        try:
            content = json.loads(stripped) if stripped[0] in "[{" else {"text": stripped}
            parts: dict[str, Any] = {"vector": content} if isinstance(content, list) else content
            vector = parts.get("vector")
            numbers = None if vector is None else np.asarray(vector, dtype=np.float64)
            fits = numbers is None or (numbers.ndim == 1 and numbers.size > 0 and bool(np.isfinite(numbers).all()))
            if not fits or not (parts.keys() & {"text", "vector", "id"}):
                raise ValueError("it has neither text nor vector nor id")
            text_given = None if parts.get("text") is None else str(parts["text"])
            given.append(Copy(str(parts.get("id", "")), None if numbers is None else numbers.tolist(), text_given))
        except (ValueError, TypeError, AttributeError) as problem:
            raise InputError(
                f"line {number} is a text, a list of numbers, or an object with text, vector and id ({problem})"
            ) from None
    return given


def scan(url: str, *, subject: str | None = None, like: Sequence[Copy] = ()) -> Scan:
    """Search a system for a subject, and for what is ``like`` the given; InputError where neither is given."""
    if not subject and not like:
        raise InputError("what is to be searched for? give a subject, or a file of what it is like")
    address = Address.of(url)
    with _for_reading(address) as system:
        entries, mine, alike = 0, [], []
        grams = [(_grams(one.text) if one.text else frozenset(), _unit(one)) for one in like]
        for copy in system.entries():
            entries += 1
            if subject and _names(copy, subject):
                mine.append(copy)
            alike += [(copy, found) for found in _likenesses(copy, like, grams)]
        files = system.files() if address.kind == "pgvector" else _files(address.folder)
        marks = _marks(subject, like, [*mine, *(copy for copy, _ in alike)])
        places = {} if files is None else count_marks(files, marks)
    counts: Counter[str] = Counter()
    where: Counter[str] = Counter()
    for mark, found in places.items():
        counts[marks[mark]] += found.total()
        where.update(found)
    best = sorted((found for _, found in alike), key=lambda one: (one.given, -one.similarity, one.id))
    return Scan(
        system=address.kind,
        entries=entries,
        of_subject=tuple(copy.id for copy in mine),
        alike=tuple(best),
        in_files=dict(counts),
        where=dict(where),
        searched=None if files is None else len(files),
        too_short=bool(subject) and not any(len(mark) >= LEAST for mark in text_marks(subject or "")),
    )


@contextmanager
def _for_reading(address: Address) -> Iterator[Mirror]:
    """The system, or a copy of its files, opened."""
    if address.kind == "pgvector":
        with open_mirror(address.full) as system:
            system.read_only = True
            yield system
        return
    if not address.folder.exists():
        raise StoreError(f"there is no {address.folder}", code="mirror-down")
    with tempfile.TemporaryDirectory(prefix="expunge-scan-") as folder:
        place = Path(folder) / "copy"
        if address.folder.is_dir():
            shutil.copytree(address.folder, place)
        else:
            for file in _files(address.folder):
                shutil.copy(file, Path(folder) / file.name.replace(address.folder.name, "copy", 1))
        with open_mirror(replace(address, url=f"{address.kind}://{place}").full) as system:
            yield system


def _files(place: Path) -> list[Path]:
    """The files of a folder; or a file with its log and journal."""
    if place.is_dir():
        return sorted(path for path in place.rglob("*") if path.is_file())
    beside = [place.with_name(place.name + ending) for ending in ("", "-wal", "-journal")]
    return [path for path in beside if path.exists()]


def _names(copy: Copy, subject: str) -> bool:
    """Whether the name stands in an entry, as a word of its own."""
    texts = [copy.id, copy.text or "", *(str(value) for value in copy.metadata.values())]
    return any(_has_word(text, subject) for text in texts)


def _has_word(text: str, word: str) -> bool:
    at = text.find(word)
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(word) : at + len(word) + 1]
        if not any(character.isalnum() for character in around):
            return True
        at = text.find(word, at + 1)
    return False


def _likenesses(
    copy: Copy, like: Sequence[Copy], grams: Sequence[tuple[frozenset[str], Vector | None]]
) -> Iterator[Likeness]:
    own_grams, own = _grams(copy.text or "") if copy.text else frozenset(), _unit(copy)
    for number, (given, (pieces, unit)) in enumerate(zip(like, grams, strict=True)):
        if given.id and given.id == copy.id:
            yield Likeness(number, copy.id, 1.0, "id")
            continue
        if unit is not None and own is not None and unit.shape == own.shape and float(unit @ own) >= NEAR_VECTOR:
            yield Likeness(number, copy.id, round(min(1.0, float(unit @ own)), 4), "vector")
            continue
        if pieces and own_grams:
            # A given text that is part of a longer one is as much there as one that is all of it.
            share = len(pieces & own_grams) / len(pieces)
            if share >= NEAR_TEXT:
                yield Likeness(number, copy.id, round(share, 4), "text")


def _grams(text: str) -> frozenset[str]:
    folded = " ".join(text.casefold().split())
    return frozenset(folded[at : at + 3] for at in range(len(folded) - 2))


def _unit(copy: Copy) -> Vector | None:
    if copy.vector is None:
        return None
    vector = np.asarray(copy.vector, dtype=np.float64)
    length = float(np.linalg.norm(vector))
    return vector / length if length else None


def _marks(subject: str | None, like: Iterable[Copy], found: Iterable[Copy]) -> dict[bytes, str]:
    """What to search the files for, and what each piece is of."""
    marks: dict[bytes, str] = {}
    for copy in found:
        marks |= dict.fromkeys(marks_of(replace(copy, metadata={})), "found")
    for copy in like:
        marks |= dict.fromkeys(marks_of(copy), "given")
    return marks | dict.fromkeys(text_marks(subject or ""), "subject")
