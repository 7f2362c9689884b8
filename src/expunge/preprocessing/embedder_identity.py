"""Which embedder made a memory's keys from texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from expunge.errors import InputError

__all__ = ["EmbedderIdentity"]


@dataclass(frozen=True)
class EmbedderIdentity:
    """Name and digest of an embedder: keys of two different ones cannot be compared.

    Parameters
    ----------
    name : str
        What it is called, such as ``minilm``.
    digest : str or None
        SHA-256 of its weights, or of what defines it, in hexadecimal; None where nobody knows it.

    """

    name: str
    digest: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise InputError(f"an embedder has a name of printable characters, not {self.name!r:.80}")
        if self.digest is not None and not (isinstance(self.digest, str) and re.fullmatch("[0-9a-f]{64}", self.digest)):
            raise InputError(f"an embedder's digest is 64 hexadecimal digits, not {self.digest!r:.80}")

    def __str__(self) -> str:
        return self.name if self.digest is None else f"{self.name} ({self.digest[:12]}…)"
