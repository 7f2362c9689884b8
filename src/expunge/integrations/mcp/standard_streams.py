"""Standard input and output as lines, without a buffer that would keep what was read and written.

Python's own streams read into one buffer and write from another, over and over: behind a short message there is what is
left of longer ones, notes that were erased among them. Here every message has memory of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Lines", "standard_streams"]

_AT_A_TIME = 1 << 16


class Lines:
    """A file descriptor with the methods of a text file that the protocol's package uses."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # What was read of the line after the last one.
        self._rest = b""

    def readline(self) -> str:
        """Read the next line with its end; empty after the last."""
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            part = os.read(self._descriptor, _AT_A_TIME)
            if not part:
                self._rest = b""
                return b"".join(parts).decode("utf-8", "replace")
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line.decode("utf-8", "replace") + "\n"

    def write(self, text: str) -> int:
        """Write all of a text, and return its length."""
        left = memoryview(text.encode("utf-8", "surrogatepass"))
        while left:
            left = left[os.write(self._descriptor, left) :]
        return len(text)

    def flush(self) -> None:
        """Do nothing: what is written is out."""


@contextmanager
def standard_streams() -> Iterator[tuple[Lines, Lines]]:
    """Standard input and output, for one user alone: meanwhile others read nothing, and write to standard error."""
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield Lines(kept[0]), Lines(kept[1])
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        os.close(nothing)
