"""Bytes in, batches out.

A corpus is a file of bytes, plain or ``.xz``; nothing is downloaded. The first 5,000,000 bytes of enwik8 are the
paper's corpus, the last tenth of them its validation set (App. B); the full file loads the same way. Where a
batch starts depends on the seed and the step alone, so two arms with one seed see the same bytes in the same order,
and a resumed run continues as if it had never stopped.
"""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from expunge.errors import InputError

__all__ = ["Corpus", "draw_starts", "load", "read_bytes"]


# A test set need be no longer than the paper's validation set.
TEST_LIMIT = 500_000


@dataclass(frozen=True)
class Corpus:
    """Training, validation and (perhaps empty) test bytes, ``(n,)`` uint8 each."""

    name: str
    train: torch.Tensor
    valid: torch.Tensor
    test: torch.Tensor
    # Rows of this many bytes, each a sequence of its own; 0 for a text, where a block may start anywhere.
    row: int = 0

    def digest(self) -> str:
        """SHA-256 of all bytes, part by part."""
        parts = (hashlib.sha256(part.numpy().tobytes()).hexdigest() for part in (self.train, self.valid, self.test))
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def require(self, block: int) -> None:
        """Refuse a corpus with less than one block and its target."""
        if min(len(self.train), len(self.valid)) < block + 1:
            raise InputError(f"{self.name}: {len(self.train)} and {len(self.valid)} bytes; a block needs {block + 1}")


def read_bytes(path: Path, limit: int | None = None) -> torch.Tensor:
    """The file's first ``limit`` bytes (all of them by default), decompressed if it ends in ``.xz``."""
    opener = lzma.open if path.suffix == ".xz" else open
    try:
        with opener(path, "rb") as file:
            content = file.read() if limit is None else file.read(limit)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())


def load(path: Path, *, test: Path | None = None, limit: int | None = 5_000_000, held_out: float = 0.1) -> Corpus:
    """The file's first ``limit`` bytes, of which the last ``held_out`` validate; ``test`` is a file of its own."""
    content = read_bytes(path, limit)
    cut = len(content) - int(len(content) * held_out)
    rest = read_bytes(test, TEST_LIMIT) if test is not None else content[:0]
    if len(rest) and rest.numpy().tobytes() in content.numpy().tobytes():
        raise InputError(f"{test} is a part of the bytes to train on: a test on it would test nothing")
    return Corpus(path.stem, content[:cut], content[cut:], rest)


def draw_starts(seed: int, steps: int, batch: int, *, length: int, block: int, row: int = 0) -> torch.Tensor:
    """Where each sequence starts, ``(steps, batch)`` int64: anywhere, or at a row. More steps change no earlier one."""
    generator = np.random.Generator(np.random.Philox(key=seed))
    uniform = generator.random((steps, batch))
    if row:
        return torch.from_numpy((uniform * (length // row)).astype(np.int64) * row)
    return torch.from_numpy((uniform * (length - block)).astype(np.int64))
