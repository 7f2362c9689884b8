"""A memory you can delete from, and prove it.

This package exports the stable names and loads them on first use; `import expunge` loads no extra. Start with
`memory/memory.py`, or with ``docs/reading-the-code.md`` for the whole tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expunge.errors import (
    AdmissionRefused,
    Busy,
    Conflict,
    DeletionRefused,
    ExpungeError,
    InputError,
    MissingExtra,
    Refused,
    SolveError,
    Stale,
    StoreError,
    VerificationError,
)

if TYPE_CHECKING:
    from expunge.certificates.bounds import Bounds
    from expunge.certificates.certificate import DecrementCertificate, ReserveCertificate
    from expunge.certificates.proof import Proof
    from expunge.certificates.warranty import Warranty, WarrantyList
    from expunge.memory.memory import Hit, Memory
    from expunge.memory.queries import Neighbour
    from expunge.memory.receipt import Receipt
    from expunge.problem.check import StateCheck
    from expunge.problem.judgement import Judgement
    from expunge.problem.partition import Partition
    from expunge.problem.solution import Solution
    from expunge.solver.attempts import Attempt
    from expunge.store import Preview, SignedReceipt, Store, StoredMemory
    from expunge.store import open as open  # noqa: A004 — expunge.open is the public word

__version__ = "0.1.0"

__all__ = [
    "AdmissionRefused",
    "Attempt",
    "Bounds",
    "Busy",
    "Conflict",
    "DecrementCertificate",
    "DeletionRefused",
    "ExpungeError",
    "Hit",
    "InputError",
    "Judgement",
    "Memory",
    "MissingExtra",
    "Neighbour",
    "Partition",
    "Preview",
    "Proof",
    "Receipt",
    "Refused",
    "ReserveCertificate",
    "SignedReceipt",
    "Solution",
    "SolveError",
    "Stale",
    "StateCheck",
    "Store",
    "StoreError",
    "StoredMemory",
    "VerificationError",
    "Warranty",
    "WarrantyList",
    "__version__",
]

# Compiled loops and linear algebra load on first use, so that `import expunge` stays quick.
_HOME = {
    "Attempt": "expunge.solver.attempts",
    "Bounds": "expunge.certificates.bounds",
    "DecrementCertificate": "expunge.certificates.certificate",
    "Hit": "expunge.memory.memory",
    "Judgement": "expunge.problem.judgement",
    "Memory": "expunge.memory.memory",
    "Neighbour": "expunge.memory.queries",
    "Partition": "expunge.problem.partition",
    "Preview": "expunge.store",
    "Proof": "expunge.certificates.proof",
    "Receipt": "expunge.memory.receipt",
    "ReserveCertificate": "expunge.certificates.certificate",
    "SignedReceipt": "expunge.store",
    "Solution": "expunge.problem.solution",
    "StateCheck": "expunge.problem.check",
    "Store": "expunge.store",
    "StoredMemory": "expunge.store",
    "Warranty": "expunge.certificates.warranty",
    "WarrantyList": "expunge.certificates.warranty",
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
