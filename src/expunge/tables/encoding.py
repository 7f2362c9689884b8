"""Text from bytes: UTF-8 with or without a byte order mark, UTF-16, Windows-1252, or the encoding that is given."""

from __future__ import annotations

import re

from expunge.errors import InputError

__all__ = ["decoded"]

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_WORD = re.compile(r"\S*[^\x00-\x7f]\S*")


def decoded(source: str, data: bytes, given: str | None) -> tuple[str, str | None]:
    """The text of a file, and a notice where its encoding is a guess.

    Raises InputError for an encoding that is not known, and for bytes that are no text in it, with their line.
    """
    if given is not None:
        try:
            return data.decode(given).removeprefix("\ufeff"), None
        except LookupError:
            raise InputError(
                f"{given!r} is not an encoding; use utf-8, utf-16, cp1252 or another that Python knows"
            ) from None
        except UnicodeDecodeError as problem:
            raise InputError(f"{_place(source, data, problem.start)} is not {given} text") from None
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), _unmarked(data))
    try:
        return data.decode(encoding), None
    except UnicodeDecodeError as problem:
        if encoding != "utf-8":
            raise InputError(f"{_place(source, data, problem.start)} is not {encoding} text") from None
        return _western(source, data, problem)


def _unmarked(data: bytes) -> str:
    """UTF-8, or UTF-16 where every other byte is zero."""
    head = data[:512]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > 9 and not even:
        return "utf-16-le"
    return "utf-16-be" if even > 9 and not odd else "utf-8"


def _western(source: str, data: bytes, problem: UnicodeDecodeError) -> tuple[str, str]:
    """Windows-1252, unless parts of the file are UTF-8 beyond ASCII: then the file is damaged."""
    where = _place(source, data, problem.start)
    mixed = any("\x7f" < letter < "\udc80" for letter in data.decode("utf-8", errors="surrogateescape"))
    if mixed:
        raise InputError(f"{where} is not UTF-8, as other lines are; name the encoding with --encoding")
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        raise InputError(f"{where} is neither UTF-8 nor Windows-1252; name the encoding with --encoding") from None
    found = _WORD.search(text)
    example = "" if found is None else f" (it has {found.group()[:20]!r})"
    return text, f"encoding: Windows-1252, as the file is not UTF-8{example}; --encoding names another"


def _place(source: str, data: bytes, start: int) -> str:
    line = data.count(b"\n", 0, start) + 1
    return f"{source}, line {line}: byte {data[start]:#04x}"
