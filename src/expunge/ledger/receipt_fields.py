"""The fields of a receipt, each in its one spelling; anything else is the named error that the caller gives."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeAlias

from expunge.errors import VerificationError
from expunge.ledger.canonical import MAX_INTEGER, Json
from expunge.ledger.encoding import decode_float, is_sha256_hex

__all__ = [
    "UUID",
    "Object",
    "as_digest",
    "as_integer",
    "as_number",
    "as_object",
    "as_one_of",
    "as_text",
    "as_time",
]

Object: TypeAlias = Mapping[str, Json]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def as_object(value: Json, what: str, names: Collection[str], code: str) -> Object:
    """An object with exactly these fields."""
    if not isinstance(value, Mapping):
        raise VerificationError(f"{what} is not an object", code=code)
    if missing := sorted(set(names) - value.keys()):
        raise VerificationError(f"{what} has no {missing[0]}", code="receipt-field-missing")
    if unknown := sorted(value.keys() - set(names)):
        raise VerificationError(f"{what} has an unknown field {unknown[0][:80]!r}", code="receipt-field-unknown")
    return value


def as_integer(value: Json, what: str, code: str, least: int = 0) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_INTEGER:
        raise VerificationError(f"{what} is not a whole number of at least {least}", code=code)
    return value


def as_number(value: Json, what: str, code: str, most: float = 1e300) -> float:
    """A nonnegative number, spelled in hexadecimal."""
    try:
        number = decode_float(value) if isinstance(value, str) else -1.0
    except VerificationError:
        number = -1.0
    # The sign of zero would give one number two spellings.
    if not 0.0 <= number <= most or math.copysign(1.0, number) < 0.0:
        raise VerificationError(f"{what} is not the hexadecimal spelling of a number of at least 0", code=code)
    return number


def as_text(value: Json, what: str, pattern: re.Pattern[str], code: str) -> str:
    """Text of one pattern."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise VerificationError(f"{what} is not spelled as it should be", code=code)
    return value


def as_one_of(value: Json, what: str, allowed: Collection[str], code: str) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise VerificationError(f"{repr(value)[:80]} is not a known {what}", code=code)
    return value


def as_digest(value: Json, what: str) -> str:
    """A SHA-256 in hexadecimal."""
    if not is_sha256_hex(value):
        raise VerificationError(f"{what} is not a digest", code="receipt-state-invalid")
    return value


def as_time(value: Json) -> str:
    """A UTC time to the second."""
    text = as_text(value, "time", _TIME, "receipt-time-invalid")
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise VerificationError(f"{text} is not a time", code="receipt-time-invalid") from None
    return text
