"""A memory you can delete from, and prove it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expunge.errors import (
    AdmissionRefused,
    DeletionRefused,
    ExpungeError,
    InputError,
    MissingExtra,
    Refused,
    SolveError,
    StoreError,
    VerificationError,
)

if TYPE_CHECKING:
    from expunge.bounds import Bounds
    from expunge.certificate import DecrementCertificate, ReserveCertificate
    from expunge.check import StateCheck
    from expunge.memory import Hit, Memory
    from expunge.partition import Partition
    from expunge.proof import Proof
    from expunge.receipt import Receipt
    from expunge.solution import Solution
    from expunge.store import open as open  # noqa: A004 — expunge.open is the public word
    from expunge.warranty import Warranty

__version__ = "0.1.0"

__all__ = [
    "AdmissionRefused",
    "Bounds",
    "DecrementCertificate",
    "DeletionRefused",
    "ExpungeError",
    "Hit",
    "InputError",
    "Memory",
    "MissingExtra",
    "Partition",
    "Proof",
    "Receipt",
    "Refused",
    "ReserveCertificate",
    "Solution",
    "SolveError",
    "StateCheck",
    "StoreError",
    "VerificationError",
    "Warranty",
    "__version__",
]

# Compiled loops and linear algebra load on first use, so that `import expunge` stays quick.
_HOME = {
    "Bounds": "expunge.bounds",
    "DecrementCertificate": "expunge.certificate",
    "Hit": "expunge.memory",
    "Memory": "expunge.memory",
    "Partition": "expunge.partition",
    "Proof": "expunge.proof",
    "Receipt": "expunge.receipt",
    "ReserveCertificate": "expunge.certificate",
    "Solution": "expunge.solution",
    "StateCheck": "expunge.check",
    "Warranty": "expunge.warranty",
    # Not in __all__: a star import must not replace the builtin.
    "open": "expunge.store",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'expunge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
