"""One spelling per value: base64, decimals, floats and canonical JSON that cannot be written in two ways.

Each decoder accepts exactly the bytes that its encoder writes, which is what makes bytes → object → identical bytes
hold for every format built on them. The text decoders return None for any other spelling, so that each format can raise
an error of its own.

Floats travel as the string of :meth:`float.hex`, which is exact, readable and the same in every language with C99
``%a``: ``1.0`` is ``0x1.0000000000000p+0``. An undefined residual is ``inf``; NaN has no place in a receipt.

JSON is strict RFC 8785: :func:`parse_canonical` returns a value only if the bytes are the canonical form of that value,
within limits on size and nesting, with no key twice and no floating-point number anywhere. So a signature over the
bytes is a signature over the value, and no two readers can disagree about what was signed. Whatever the bytes, it
raises nothing but VerificationError. :func:`parse_json` is for what others wrote down, in any spelling.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias, TypeGuard

import rfc8785

from expunge.errors import InputError, VerificationError

__all__ = [
    "MAX_DEPTH",
    "MAX_INTEGER",
    "MAX_VALUES",
    "Json",
    "decode_base64",
    "decode_decimal",
    "decode_float",
    "dump_canonical",
    "encode_base64",
    "encode_float",
    "freeze",
    "is_sha256_hex",
    "parse_canonical",
    "parse_json",
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


Json: TypeAlias = "bool | int | str | Sequence[Json] | Mapping[str, Json] | None"
"""What a payload may hold: no floats."""

_Plain: TypeAlias = "bool | int | str | list[_Plain] | dict[str, _Plain] | None"

MAX_DEPTH = 32
MAX_INTEGER = 2**53 - 1
MAX_VALUES = 200_000

# Possessive quantifiers and the optional closing quote keep this linear on unterminated strings.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False)


def dump_canonical(value: Json) -> bytes:
    """Return the RFC 8785 bytes of ``value``; what :func:`parse_canonical` would refuse raises InputError."""
    try:
        data = _canonical(_plain(value, MAX_DEPTH))
        _check_shape(data, MAX_VALUES)
    except VerificationError as error:
        raise InputError(str(error)) from None
    # The library lets the codec's own error through for a lone surrogate in an object key.
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InputError(f"a text in this value is not Unicode: {error}") from None
    return data


def parse_canonical(data: bytes, *, limit: int, max_values: int = MAX_VALUES) -> Json:
    """Return the value, read-only all the way down, whose canonical form is exactly ``data``.

    ``limit`` is in bytes; ``max_values`` bounds the time and memory that hostile bytes can take.
    """
    value: _Plain = _parse(
        data, limit, max_values, parse_int=_safe_integer, parse_float=_no_float, parse_constant=_no_float
    )
    try:
        canonical = _canonical(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        raise VerificationError("a text in this value is not Unicode", code="json-not-canonical") from None
    if canonical != data:
        at = next((i for i, (a, b) in enumerate(zip(canonical, data, strict=False)) if a != b), len(canonical))
        raise VerificationError(f"not the RFC 8785 form of its value, from byte {at}", code="json-not-canonical")
    return freeze(value)


def parse_json(data: bytes, *, limit: int) -> Any:
    """Return the value of JSON in any spelling, within the same limits; numbers are floats.

    Two fields of one name are refused: some readers take the first, some the last.
    """
    return _parse(data, limit, MAX_VALUES, parse_int=float)


def _parse(data: bytes, limit: int, max_values: int, **numbers: Any) -> Any:
    if len(data) > limit:
        raise VerificationError(f"{len(data)} bytes of JSON exceed the limit of {limit}", code="json-too-large")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise VerificationError(f"byte {error.start} is not UTF-8", code="json-not-utf8") from None
    _check_shape(data, max_values)
    try:
        return json.loads(text, object_pairs_hook=_unique, **numbers)
    except json.JSONDecodeError as error:
        raise VerificationError(f"not JSON at character {error.pos}: {error.msg}", code="json-syntax-invalid") from None


def freeze(value: Json) -> Json:
    """Return a read-only deep copy: objects become mapping proxies, arrays tuples."""
    # Plain types first: to ask of an abstract one is slow.
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict) or (not isinstance(value, list | tuple) and isinstance(value, Mapping)):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    if isinstance(value, Sequence):
        return tuple(freeze(item) for item in value)
    return value


def _canonical(value: _Plain) -> bytes:
    """The RFC 8785 bytes of a value without floats whose integers are in range.

    The standard library's compiled encoder writes the same bytes where every text is ASCII, ten times as fast. Beyond
    ASCII it would sort keys by code points instead of UTF-16 units.
    """
    text = _ENCODER.encode(value)
    return text.encode("ascii") if text.isascii() else rfc8785.dumps(value)


def _plain(value: Json, depth: int) -> _Plain:
    """Return a copy in dicts and lists; refuse what a payload may not hold."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise InputError(f"integer {value} is outside ±(2^53 - 1)")
        return value
    if depth == 0:
        raise InputError(f"arrays and objects nest deeper than {MAX_DEPTH}")
    # Most values are texts: a call for each would take most of the time.
    if isinstance(value, list | tuple):
        return [item if type(item) is str else _plain(item, depth - 1) for item in value]
    # The abstract type last: to ask of it is slow.
    if isinstance(value, dict | MappingProxyType | Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InputError("an object key is not a string")
        return {key: item if type(item) is str else _plain(item, depth - 1) for key, item in value.items()}
    raise InputError(f"a payload cannot hold a {type(value).__name__}; floats travel as hex strings")


def _check_shape(data: bytes, max_values: int) -> None:
    """Refuse too many values and deep nesting before the recursive parser sees them."""
    structure = _STRING.sub(b"", data)
    if structure.count(b",") + structure.count(b"[") + structure.count(b"{") >= max_values:
        raise VerificationError(f"more than {max_values} values", code="json-too-many-values")
    depth = 0
    for bracket in _BRACKET.findall(structure):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise VerificationError(f"arrays and objects nest deeper than {MAX_DEPTH}", code="json-too-deep")


def _unique(pairs: list[tuple[str, _Plain]]) -> dict[str, _Plain]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise VerificationError(f"an object has the key {key[:80]!r} twice", code="json-duplicate-key")
            seen.add(key)
    return result


def _safe_integer(digits: str) -> int:
    # Lengths first: converting endless digits is slow, and Python refuses it with an error of its own.
    if len(digits) > 17 or abs(number := int(digits)) > MAX_INTEGER:
        raise VerificationError(f"integer {digits[:20]} is outside ±(2^53 - 1)", code="json-integer-out-of-range")
    return number


def _no_float(spelling: str) -> NoReturn:
    raise VerificationError(
        f"{spelling[:40]} is a floating-point number; floats travel as hex strings", code="json-float-forbidden"
    )
