"""Contradictions that a ledger can have, one function each: it plants its lie in a model's ledger.

Every lie is well formed and signed: whoever writes it has the store's keys. What it contradicts is another leaf.
"""

from __future__ import annotations

from . import certificate_lies, entry_lies, erasure_lies, hold_lies, leaf_lies, memory_lies, mirror_lies
from .telling import LIES, NOW, Lie, tell

__all__ = ["LIES", "NOW", "Lie", "tell"]

# Importing them registered them.
_ = (certificate_lies, entry_lies, erasure_lies, hold_lies, leaf_lies, memory_lies, mirror_lies)
