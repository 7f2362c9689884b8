"""Searching raw bytes for secrets: eight aligned bytes of one are enough, at any position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from expunge.store.encryption import SECRET_BYTES
from expunge.types import AnyArray

__all__ = ["CHUNK", "OVERLAP", "WINDOWS", "count_windows", "file_chunks", "windows_of"]

_WINDOW = 8
WINDOWS = SECRET_BYTES // _WINDOW
CHUNK = 8 << 20
# The beginning of the next part that a part has as well.
OVERLAP = 8192


def windows_of(secrets: Iterable[bytes]) -> AnyArray:
    """What to search for: secrets in pieces of eight bytes, which random bytes do not hold by chance."""
    return np.unique(np.frombuffer(b"".join(sorted(secrets)), dtype="<u8"))


def count_windows(data: bytes, windows: AnyArray, end: int | None = None) -> int:
    """How many pieces of secrets begin in the data, before ``end`` where it is given."""
    count = 0
    for shift in range(_WINDOW if windows.size else 0):
        places = (len(data) - shift) // _WINDOW
        if places > 0:
            found = np.isin(np.frombuffer(data, dtype="<u8", count=places, offset=shift), windows)
            count += int(
                np.count_nonzero(shift + _WINDOW * np.flatnonzero(found) < (len(data) if end is None else end))
            )
    return count


def file_chunks(path: Path) -> Iterator[bytes]:
    """The content of a file in parts that overlap, so that none cuts a secret; nothing where there is no file."""
    if path.exists():
        with path.open("rb") as file:
            for start in range(0, path.stat().st_size, CHUNK):
                file.seek(start)
                yield file.read(CHUNK + OVERLAP)
