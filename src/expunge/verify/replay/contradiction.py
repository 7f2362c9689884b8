"""A leaf that contradicts the leaves before it, as an error."""

from __future__ import annotations

from dataclasses import dataclass

from expunge.errors import VerificationError

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a ledger a statement is: its leaf, the memory that it is about, and when it is dated."""

    leaf: int
    memory: str | None
    seconds: int = 0

    def __str__(self) -> str:
        return f"leaf {self.leaf}" if self.memory is None else f"leaf {self.leaf}, memory {self.memory}"

    def contradiction(self, code: str, text: str) -> VerificationError:
        """The error that this leaf says what cannot be, for a reason."""
        return VerificationError(f"{self}: {text}", code=code)
