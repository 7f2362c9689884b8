"""One spelling a value: base64, decimals and floats that cannot be written in two ways.

Each decoder accepts exactly the bytes that its encoder writes, which is what makes bytes → object → identical
bytes hold for every format built on them. The text decoders return None for any other spelling, so that each
format can raise an error of its own.

Floats travel as the string of :meth:`float.hex`, which is exact, readable and the same in every language
with C99 ``%a``: ``1.0`` is ``0x1.0000000000000p+0``. An undefined residual is ``inf``; NaN has no place in
a receipt.
"""

from __future__ import annotations

import base64
import math
import re
from typing import TypeGuard

from expunge.errors import InputError, VerificationError

__all__ = [
    "decode_base64",
    "decode_decimal",
    "decode_float",
    "encode_base64",
    "encode_float",
    "is_sha256_hex",
]

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_FLOAT_HEX_MAX = len("-0x1.fffffffffffffp+1023")
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")


def encode_base64(data: bytes) -> str:
    """Return standard base64 with padding (RFC 4648 §4)."""
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str) -> bytes | None:
    """Return the bytes, or None unless ``text`` is exactly their :func:`encode_base64`."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    # The library tolerates nonzero bits in front of the padding, which would give one value many spellings.
    return data if encode_base64(data) == text else None


def decode_decimal(text: str) -> int | None:
    """Return the integer, or None unless ``text`` is ASCII digits without leading zeros, at most 2^63 - 1."""
    if not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if number < 2**63 else None


def is_sha256_hex(text: object) -> TypeGuard[str]:
    """Say whether ``text`` is a SHA-256 digest in lowercase hexadecimal."""
    return isinstance(text, str) and _SHA256_HEX.fullmatch(text) is not None


def encode_float(number: float) -> str:
    """Return the exact hexadecimal spelling of a float; infinities are ``inf`` and ``-inf``."""
    if math.isnan(number):
        raise InputError("NaN cannot be recorded; an undefined residual is inf")
    return float(number).hex()


def decode_float(text: str) -> float:
    """Read what :func:`encode_float` wrote; any other spelling raises :class:`float-hex-invalid`."""
    # The length guard comes first: fromhex accepts, and would work through, endless digits.
    if len(text) <= _FLOAT_HEX_MAX:
        try:
            number = float.fromhex(text)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isnan(number) and number.hex() == text:
            return number
    raise VerificationError(f"{text[:40]!r} is not the hexadecimal spelling of a float", code="float-hex-invalid")
