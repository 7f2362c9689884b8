"""Every error that crosses the public border.

::

    ExpungeError
    ├── InputError (ValueError)      the arguments are wrong; nothing was touched
    ├── Refused                      the edit was understood and not applied; carries a receipt
    │   ├── AdmissionRefused
    │   └── DeletionRefused
    ├── SolveError                   no solver reached an acceptable state
    ├── VerificationError            an artifact does not check out
    ├── StoreError                   the database, or the file, could not do it
    │   ├── Busy                     another writer held the lock for too long
    │   └── Conflict                 the stored state, or an earlier request, is not the expected one
    │       └── Stale                another writer has edited the memory
    └── MissingExtra (ImportError)   an optional dependency is not installed

Each error has a stable ``code`` that says which case it is, such as ``inclusion-root-mismatch``;
:mod:`expunge.error_codes` lists them with their meanings.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from expunge.memory.receipt import EditRecord

__all__ = [
    "AdmissionRefused",
    "Busy",
    "Conflict",
    "DeletionRefused",
    "ExpungeError",
    "InputError",
    "MissingExtra",
    "Refused",
    "SolveError",
    "Stale",
    "StoreError",
    "VerificationError",
]


class ExpungeError(Exception):
    """Root of the taxonomy: catch this to catch everything that expunge raises on purpose."""

    default_code: ClassVar[str] = "expunge-error"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else code


class InputError(ExpungeError, ValueError):
    """The arguments are unusable. Raised before anything is touched."""

    default_code = "input-error"


class Refused(ExpungeError):
    """An edit that was not applied. The memory is bit for bit what it was before the call.

    ``measured`` and ``allowed`` are the two sides of the comparison that failed, as the receipt states them; ``nan``
    where it does not, as a stored memory's does not state residuals.
    """

    default_code = "refused"

    def __init__(self, reason: str, *, receipt: EditRecord) -> None:
        super().__init__(reason)
        self.reason = reason
        self.receipt = receipt

    @property
    def measured(self) -> float:
        """What the edit came to: entries asked for, certificates that would end, or a residual."""
        grounds = self.receipt.refusal
        return nan if grounds is None or grounds.measured is None else grounds.measured

    @property
    def allowed(self) -> float:
        """The largest value of `measured` that would have been applied."""
        grounds = self.receipt.refusal
        return nan if grounds is None or grounds.allowed is None else grounds.allowed


class AdmissionRefused(Refused):
    """An admission that was not applied."""

    default_code = "admission-refused"


class DeletionRefused(Refused):
    """A deletion that was not applied."""

    default_code = "deletion-refused"


class SolveError(ExpungeError):
    """A solver stopped without an acceptable state."""

    default_code = "solve-error"


class VerificationError(ExpungeError):
    """An artifact does not say what it should, or was altered."""

    default_code = "verification-error"


class StoreError(ExpungeError):
    """A file or a database could not be read or written."""

    default_code = "store-error"


class Conflict(StoreError):
    """The stored state, or an earlier request under the same idempotency key, is not the expected one."""

    default_code = "conflict"


class Stale(Conflict):
    """The stored state is not the expected one: another writer has edited the memory. Nothing was done."""

    default_code = "stale"


class Busy(StoreError):
    """Another writer held the lock for longer than the timeout. Nothing was done; try again."""

    default_code = "busy"


class MissingExtra(ExpungeError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""

    default_code = "missing-extra"
