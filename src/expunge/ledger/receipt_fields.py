"""The fields of a receipt, each in its one spelling; anything else is the named error that the caller gives."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeAlias

from expunge.ledger.canonical import MAX_INTEGER, Json
from expunge.ledger.encoding import decode_float, is_sha256_hex
from expunge.ledger.errors import (
    FloatHexInvalid,
    ReceiptError,
    ReceiptFieldMissing,
    ReceiptFieldUnknown,
    ReceiptStateInvalid,
    ReceiptTimeInvalid,
)

__all__ = [
    "UUID",
    "Error",
    "Object",
    "as_digest",
    "as_integer",
    "as_number",
    "as_object",
    "as_one_of",
    "as_text",
    "as_time",
]

Error: TypeAlias = type[ReceiptError]
Object: TypeAlias = Mapping[str, Json]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def as_object(value: Json, what: str, names: Collection[str], error: Error) -> Object:
    """An object with exactly these fields."""
    if not isinstance(value, Mapping):
        raise error(f"{what} is not an object")
    if missing := sorted(set(names) - value.keys()):
        raise ReceiptFieldMissing(f"{what} has no {missing[0]}")
    if unknown := sorted(value.keys() - set(names)):
        raise ReceiptFieldUnknown(f"{what} has an unknown field {unknown[0][:80]!r}")
    return value


def as_integer(value: Json, what: str, error: Error, least: int = 0) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_INTEGER:
        raise error(f"{what} is not a whole number of at least {least}")
    return value


def as_number(value: Json, what: str, error: Error, most: float = 1e300) -> float:
    """A nonnegative number, spelled in hexadecimal."""
    try:
        number = decode_float(value) if isinstance(value, str) else -1.0
    except FloatHexInvalid:
        number = -1.0
    # The sign of zero would give one number two spellings.
    if not 0.0 <= number <= most or math.copysign(1.0, number) < 0.0:
        raise error(f"{what} is not the hexadecimal spelling of a number of at least 0")
    return number


def as_text(value: Json, what: str, pattern: re.Pattern[str], error: Error) -> str:
    """Text of one pattern."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise error(f"{what} is not spelled as it should be")
    return value


def as_one_of(value: Json, what: str, allowed: Collection[str], error: Error) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise error(f"{repr(value)[:80]} is not a known {what}")
    return value


def as_digest(value: Json, what: str) -> str:
    """A SHA-256 in hexadecimal."""
    if not is_sha256_hex(value):
        raise ReceiptStateInvalid(f"{what} is not a digest")
    return value


def as_time(value: Json) -> str:
    """A UTC time to the second."""
    text = as_text(value, "time", _TIME, ReceiptTimeInvalid)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ReceiptTimeInvalid(f"{text} is not a time") from None
    return text
