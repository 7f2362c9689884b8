"""Delete entries from a mirror, have it let go of their bytes, and say what is left: by API, by count, by raw bytes.

What is left is found by marks that are read from the mirror before the deletion, while it still has the entry; nothing
of the entry is stored for it. A mark that was not in the files before cannot be missed afterwards: an entry none of
whose marks was there is *not checkable*. So is one that the mirror no longer answers with, as after a process that died
between deletion and check: its bytes are not known any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from expunge.mirrors.marks import count_marks, held_by, marks_of
from expunge.mirrors.mirror import Copy, Doomed, Mirror

__all__ = ["FINDINGS", "Checks", "Finding", "Removal", "remove_entries"]

Finding = Literal["absent", "in_files", "present", "not_checkable"]
FINDINGS: Final[tuple[Finding, ...]] = get_args(Finding)
Answer = Literal["absent", "found", "unavailable"]


@dataclass(frozen=True)
class Checks:
    """What each of three checks says of one entry.

    Attributes
    ----------
    api : the system answers with the entry (``found``), or does not.
    count : the system's own count fell by the number of entries that were deleted (``agrees``), or not.
    files : a mark of the entry is in the system's files (``found``); ``unavailable`` where they cannot be reached, or
        none of the marks was there before.

    """

    api: Literal["absent", "found"]
    count: Literal["agrees", "differs"]
    files: Answer

    @property
    def finding(self) -> Finding:
        """The three together; ``absent`` only where all of them agree."""
        if self.api == "found":
            return "present"
        if self.files == "found":
            return "in_files"
        return "absent" if self.files == "absent" and self.count == "agrees" else "not_checkable"


@dataclass(frozen=True)
class Removal:
    """What became of entries in one mirror.

    ``before`` and ``after`` count the marks in the mirror's files, by what they are pieces of; ``where`` names the
    files that still have some.
    """

    checks: dict[Doomed, Checks]
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    where: tuple[str, ...] = ()

    def entries(self, finding: Finding) -> list[Doomed]:
        """The entries with this finding."""
        return [entry for entry, checks in self.checks.items() if checks.finding == finding]


def remove_entries(mirror: Mirror, doomed: Sequence[Doomed], *, reclaim: bool = True) -> Removal:
    """Delete entries from a mirror and check what is left of them; repeating it is safe."""
    copies = mirror.copies_of(doomed)
    copies_by_entry = _by_entry(doomed, copies)
    marks: dict[bytes, str] = {}
    for copy in copies:
        marks |= marks_of(copy)
    for entry in doomed:
        marks |= dict.fromkeys(marks_of(Copy(entry.id)), "id")
    files = mirror.files()
    seen = {} if files is None else count_marks(files, marks)
    had = mirror.count()
    mirror.delete(sorted({copy.id for copy in copies}))
    agrees = had - mirror.count() == len({copy.id for copy in copies})
    if reclaim:
        mirror.reclaim()
    left = {copy.id for copy in mirror.copies_of(doomed)}
    files = mirror.files()
    still = {} if files is None else count_marks(files, marks)
    # What living entries have as well says nothing of the ones that went.
    shared = held_by(mirror.entries(), still) if still else set()
    still = {mark: places for mark, places in still.items() if mark not in shared}
    checks = {}
    for entry in doomed:
        own = {mark: what for copy in copies_by_entry[entry] for mark, what in marks_of(copy).items()}
        named = set(marks_of(Copy(entry.id)))
        checks[entry] = Checks(
            api="found" if any(copy.id in left for copy in copies_by_entry[entry]) or entry.id in left else "absent",
            count="agrees" if agrees else "differs",
            files=_in_files(files is not None, own, named, set(seen) - shared, set(still)),
        )
    where = sorted({place for places in still.values() for place in places})
    return Removal(checks, _by_part(marks, seen), _by_part(marks, still), tuple(where))


def _by_entry(doomed: Sequence[Doomed], copies: Sequence[Copy]) -> dict[Doomed, list[Copy]]:
    """Each erased entry with its copies; a copy of another id is one of every entry of its subject."""
    ids = {entry.id for entry in doomed}
    return {
        entry: [copy for copy in copies if copy.id == entry.id or (entry.subject is not None and copy.id not in ids)]
        for entry in doomed
    }


def _in_files(reached: bool, own: dict[bytes, str], named: set[bytes], seen: set[bytes], still: set[bytes]) -> Answer:
    if (own.keys() | named) & still:
        return "found"
    content = {mark for mark, what in own.items() if what != "id"}
    return "absent" if reached and content & seen else "unavailable"


def _by_part(marks: dict[bytes, str], found: dict[bytes, Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for mark, places in found.items():
        total[marks[mark]] += places.total()
    return total
