"""Salts that follow from the id of an entry, so that two histories can be compared byte by byte.

Whoever compares must hold the salts of the entries that remain; the promise is about equal salts.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["FixedSalts", "fixed_salts"]

SALT_BYTES = 32


class FixedSalts:
    """In place of `secrets.token_bytes`: the salts of the ids announced by `of`, constants for everything else."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def of(self, names: Iterable[str]) -> None:
        """Announce the ids of the entries that are admitted next."""
        self._names = list(names)

    def __call__(self, count: int | None = None, /) -> bytes:
        """The announced salts, or a constant of this many bytes."""
        count = SALT_BYTES if count is None else count
        if self._names and count == SALT_BYTES * len(self._names):
            names, self._names = self._names, []
            return b"".join(hashlib.sha256(name.encode()).digest() for name in names)
        return b"\x07" * count


@contextmanager
def fixed_salts() -> Iterator[FixedSalts]:
    """Replace the source of salts of this process for a while."""
    drawn, before = FixedSalts(), secrets.token_bytes
    secrets.token_bytes = drawn  # type: ignore[assignment]
    try:
        yield drawn
    finally:
        secrets.token_bytes = before
