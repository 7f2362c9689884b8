"""What the name of a column says: a person, an id, a time, a numbered coordinate; and names that an option lists."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

from expunge.errors import InputError
from expunge.tables.frame import Frame

__all__ = ["is_id", "is_row_number", "is_time", "listed", "matching", "named_id", "numbered", "person_rank"]

# In the order of preference, where a table has several.
_PERSONS = [
    "subject",
    "patient",
    "person",
    "user",
    "customer",
    "client",
    "member",
    "participant",
    "proband",
    "respondent",
    "employee",
    "student",
    "pupil",
    "owner",
    "author",
    "speaker",
    "household",
    "donor",
    "driver",
    "citizen",
    "applicant",
    "pseudonym",
    "email",
    "animal",
    "account",
    "stay",
]
# A number in such a column may be a measurement, if its name does not say that it is an id.
_ALSO_MEASURED = ("account", "stay")
_IDS = frozenset(["id", "uuid", "guid", "identifier", "rowid"])
_BESIDE = _IDS | frozenset(["no", "nr", "num", "number", "nummer", "name", "code", "key", "ref", "hash", "address"])
_ROW = frozenset(["record", "entry", "index", "row", "nr", "no", "number", "sample", "case"])
# What is numbered and then written in one word: itemid, orderid. Many other words end in "id": acid, fluid, lipid.
_THINGS = _ROW | frozenset(
    ["item", "order", "product", "event", "visit", "encounter", "session", "device", "sensor", "station", "site"]
)
# Names of a first column that counts the rows, in other languages; a point or an underscore in them does not matter.
_COUNTS = frozenset(
    [
        *("n", "nº", "n°", "№", "#", "seq", "sequence", "serial", "sno", "srno", "slno", "obs", "observation", "count"),
        *("nummer", "laufnummer", "lfdnr", "lfd", "laufendenummer", "zeile", "zeilennummer", "satz", "satznummer"),
        *("numero", "número", "numéro", "num", "ligne", "rang", "fila", "linea", "línea", "riga", "linha", "orden"),
        *(
            "ordem",
            "indice",
            "índice",
            "codigo",
            "código",
            "codice",
            "clave",
            "kennung",
            "kennziffer",
            "rij",
            "rad",
            "rivi",
        ),
        *(
            "номер",
            "nr",
            "ид",
            "п/п",
            "№п/п",
            "序号",
            "编号",
            "番号",
            "번호",
            "순번",
            "lp",
            "poradi",
            "pořadí",
            "sıra",
            "sirano",
        ),
    ]
)
_TIMES = frozenset(
    [
        "time",
        "timestamp",
        "date",
        "datetime",
        "charttime",
        "epoch",
        "unixtime",
        "ts",
        "created",
        "updated",
        "birthday",
        "dob",
    ]
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zß-ÿ]+|\d+")


def person_rank(name: str, *, number: bool) -> int | None:
    """How early a column comes as the one that says whose entry a row is; None where its name does not say so."""
    words = _words(name)
    for rank, person in enumerate(_PERSONS):
        found = [word for word in words if _means(word, person)]
        if not found or not all(word in found or word in _BESIDE for word in words):
            continue
        if number and person in _ALSO_MEASURED and words == [person]:
            return None
        return rank
    return None


def named_id(name: str) -> bool:
    """Whether a name ends in a word for an identifier: such a number is never a measurement."""
    words = _words(name)
    if not words:
        return False
    numbered_thing = words[-1].endswith("id") and (
        words[-1].removesuffix("id") in _THINGS or any(_means(words[-1], one) for one in _PERSONS)
    )
    return words[-1] in _IDS or numbered_thing


def is_id(name: str) -> bool:
    """Whether a column that has another cell in every row names the rows."""
    words = _words(name)
    return named_id(name) or (bool(words) and set(words) <= _ROW)


def is_row_number(name: str) -> bool:
    """Whether a name may be that of a first column which counts the rows, in one of several languages."""
    return re.sub(r"[\s._-]", "", name.casefold()) in _COUNTS


def is_time(name: str) -> bool:
    """Whether a name says that its numbers are points in time."""
    return not _TIMES.isdisjoint(_words(name))


def numbered(names: Iterable[str], letter: str) -> list[str]:
    """The names ``k0``, ``k1``, … of a letter, if they count from 0, or at least two from 1."""
    found = {int(name[1:]): name for name in names if re.fullmatch(rf"{letter}(0|[1-9]\d*)", name)}
    start = min(found, default=0)
    if start > 1 or sorted(found) != list(range(start, start + len(found))) or (start == 1 and len(found) == 1):
        return []
    return [found[place] for place in sorted(found)]


def listed(pattern: str) -> list[str]:
    """The names and patterns that an option lists."""
    return [part.strip() for part in pattern.split(",") if part.strip()]


def matching(frame: Frame, pattern: str, option: str, *, without: Sequence[str] = ()) -> list[str]:
    """Columns that an option names: in the order of the option, and of the file within a pattern or a range.

    A pattern does not match the columns in `without`. Raises InputError for a name that is not there.
    """
    if pattern in frame.columns:
        return [pattern]
    chosen: list[str] = []
    for part in listed(pattern):
        if part in frame.columns:
            found = [part]
        elif frame.units and part in (spelled := _with_units(frame)):
            found = [spelled[part]]
        elif frame.plain and ":" in part:
            found = _range(frame, part, option)
        elif any(sign in part for sign in "*?["):
            found = [column for column in frame.columns if fnmatch.fnmatchcase(column, part) and column not in without]
        else:
            raise InputError(f"{frame.source} has no column {part!r} ({option}); {frame.known()}")
        chosen += [column for column in found if column not in chosen]
    if not chosen:
        raise InputError(f"{frame.source} has no column that matches {pattern!r} ({option}); {frame.known()}")
    return chosen


def _with_units(frame: Frame) -> dict[str, str]:
    """Columns by their names as a header may spell them, with the unit."""
    return {
        f"{name}{blank}{left}{unit}{right}": name
        for name, unit in frame.units.items()
        for blank in ("", " ")
        for left, right in ("[]", "()")
    }


def _range(frame: Frame, part: str, option: str) -> list[str]:
    first, _, last = part.partition(":")
    try:
        rows = range(len(frame.columns))[slice(int(first) if first else None, int(last) if last else None)]
    except ValueError:
        raise InputError(f"{part!r} is not a range of columns ({option}); write 0:6") from None
    return [str(place) for place in rows]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _means(word: str, person: str) -> bool:
    """Whether a word is that for a person: patient, patientid, patientunitstayid, username, Patientennummer."""
    rest = word.removeprefix(person)
    return word.startswith(person) and (
        rest in ("", "en", "name", "no", "nr", "number", "nummer", "ennummer", "code") or rest.endswith("id")
    )
