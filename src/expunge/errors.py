"""Every error that crosses the public border.

::

    ExpungeError
    ├── InputError (ValueError)      what was passed in is wrong; nothing was touched
    ├── Refused                      the edit was understood and not applied; carries a receipt
    │   ├── AdmissionRefused
    │   └── DeletionRefused
    ├── SolveError                   no solver reached an acceptable state
    ├── VerificationError            an artifact does not check out
    ├── StoreError                   the database, or the file, could not do it
    └── MissingExtra (ImportError)   an optional dependency is not installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expunge.memory.receipt import Receipt

__all__ = [
    "AdmissionRefused",
    "DeletionRefused",
    "ExpungeError",
    "InputError",
    "MissingExtra",
    "Refused",
    "SolveError",
    "StoreError",
    "VerificationError",
]


class ExpungeError(Exception):
    """Root of the taxonomy: catch this to catch everything that expunge raises on purpose."""


class InputError(ExpungeError, ValueError):
    """The arguments are unusable. Raised before anything is touched."""


class Refused(ExpungeError):
    """An edit that was not applied. The memory is bit for bit what it was before the call.

    ``measured`` and ``allowed`` are the two sides of the comparison that failed.
    """

    def __init__(self, reason: str, *, receipt: Receipt, measured: float, allowed: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.receipt = receipt
        self.measured = measured
        self.allowed = allowed


class AdmissionRefused(Refused):
    """An admission that was not applied."""


class DeletionRefused(Refused):
    """A deletion that was not applied."""


class SolveError(ExpungeError):
    """A solver stopped without an acceptable state."""


class VerificationError(ExpungeError):
    """An artifact does not say what it should, or was altered."""


class StoreError(ExpungeError):
    """A file or a database could not be read or written."""


class MissingExtra(ExpungeError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""
