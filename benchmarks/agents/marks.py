"""Marks: texts that nobody writes by chance, and that are looked for in bytes, however these are encoded.

A mark has a fixed beginning, so that one search finds every mark there is. It is looked for as UTF-8, UTF-16, base64 at
its three alignments, and hexadecimal.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil  # type: ignore[import-untyped]

__all__ = ["files_under", "marks_in", "marks_in_files", "marks_in_process", "new_mark", "processes_of"]

BEGINNING = b"qxzmark"
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
LENGTH = 16
# Bytes that are read at a time, and that the next part has as well.
_CHUNK, _OVERLAP = 64 << 20, 256

_MARK = re.compile(BEGINNING + rb"[a-z2-7]{%d}" % LENGTH)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{4,60}")


def new_mark(rng: Random) -> str:
    """A mark that no other is equal to."""
    return BEGINNING.decode() + "".join(rng.choices(LETTERS, k=LENGTH))


def marks_in(data: bytes) -> set[str]:
    """Every mark in some bytes."""
    found = {hit.decode() for hit in _MARK.findall(data)}
    for wide in ("utf-16-le", "utf-16-be"):
        for place in _places(data, BEGINNING.decode().encode(wide)):
            found |= _plain(data[place : place + 2 * (len(BEGINNING) + LENGTH)].replace(b"\0", b""))
    for text in (BEGINNING.hex().encode(), BEGINNING.hex().upper().encode()):
        for place in _places(data, text):
            with suppress(ValueError):
                found |= _plain(bytes.fromhex(data[place : place + 2 * (len(BEGINNING) + LENGTH)].decode()))
    for first, needle in _IN_BASE64:
        for place in _places(data, needle):
            run = _BASE64.match(data, max(0, place - first))
            if run is not None:
                whole = run.group()[: len(run.group()) // 4 * 4].translate(bytes.maketrans(b"-_", b"+/"))
                found |= _plain(base64.b64decode(whole))
    return found


def files_under(*places: Path) -> list[Path]:
    """Every file in some folders."""
    return [path for place in places for path in sorted(place.rglob("*")) if path.is_file() and not path.is_symlink()]


def marks_in_files(files: Iterable[Path]) -> dict[str, set[str]]:
    """Marks by the name of the file that has them; without files that have none."""
    found: dict[str, set[str]] = {}
    for file in files:
        # A server may take its files away meanwhile.
        with suppress(FileNotFoundError):
            for part in _parts_of(file):
                if marks := marks_in(part):
                    found.setdefault(file.name, set()).update(marks)
    return found


def marks_in_process(number: int) -> set[str]:
    """Marks in what a running process has in its memory: every page of its own that can be written."""
    found: set[str] = set()
    with Path(f"/proc/{number}/mem").open("rb", buffering=0) as memory:
        for start, end in _own_pages(number):
            for place in range(start, end, _CHUNK):
                # Pages may be let go between the two readings, and some are not to be read.
                with suppress(OSError, ValueError):
                    memory.seek(place)
                    found |= marks_in(memory.read(min(_CHUNK + _OVERLAP, end - place)))
    return found


def processes_of(number: int) -> list[int]:
    """A process, and those that it has started."""
    children = psutil.Process(number).children(recursive=True)
    return [number, *(child.pid for child in children)]


def _own_pages(number: int) -> Iterator[tuple[int, int]]:
    for line in Path(f"/proc/{number}/maps").read_text().splitlines():
        places, rights, _, device, *_ = line.split(maxsplit=5)
        if rights.startswith("rw") and (device == "00:00" or rights[3] == "p"):
            start, end = places.split("-")
            yield int(start, 16), int(end, 16)


def _parts_of(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        for start in range(0, file.stat().st_size, _CHUNK):
            opened.seek(start)
            yield opened.read(_CHUNK + _OVERLAP)


def _places(data: bytes, needle: bytes) -> Iterator[int]:
    place = data.find(needle)
    while place >= 0:
        yield place
        place = data.find(needle, place + 1)


def _plain(data: bytes) -> set[str]:
    return {hit.decode() for hit in _MARK.findall(data)}


def _in_base64() -> Iterator[tuple[int, bytes]]:
    """What the beginning is in base64: with the place of its first character in a group, at each alignment."""
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + BEGINNING)
        first, last = -(-shift * 8 // 6), (shift + len(BEGINNING)) * 8 // 6
        yield first, text[first:last]


_IN_BASE64 = tuple(_in_base64())
