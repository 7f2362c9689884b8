"""The file format of an evidence bundle: a ZIP in its one form, a canonical manifest, arrays of known shapes.

`parse_bundle` returns the content or raises a VerificationError; it recomputes nothing. Format:
``docs/formats/evidence.md``.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from expunge.errors import VerificationError
from expunge.ledger.commitment import DIGEST_BYTES
from expunge.ledger.encoding import Json, decode_float, is_sha256_hex, parse_canonical
from expunge.types import AnyArray, Matrix, Vector

__all__ = ["FORMAT", "MAX_EVIDENCE_BYTES", "Bundle", "ColumnShown", "ColumnsShown", "PriorShown", "parse_bundle"]

FORMAT: Final = "expunge/evidence/v2"
COLUMNS_FORMAT: Final = "expunge/preprocessing/v1"
# Below it, a ZIP archive needs no extensions.
MAX_EVIDENCE_BYTES: Final = 2**31 - 1
_MAX_MANIFEST: Final = 64 * 1024
_MAX_COLUMNS: Final = 16 * 1024 * 1024
_MAX_ROWS: Final = 10**8
_LARGEST: Final = 1e150
_BLOCK: Final = 4_000_000

_MANIFEST: Final = "manifest.json"
_NEEDED: Final = frozenset(
    {"receipt.json", *(f"after/{n}.npy" for n in ("keys", "values", "coefficients", "blinds", "commitments"))}
)
_OPTIONAL: Final = frozenset(
    {"before/commitments.npy", "before/coefficients.npy", "preprocessing.json", "proof.json", "inclusion.tlog-proof"}
)
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
# The first representable day; owner may read and write; written on Unix by version 2.0.
_EPOCH, _MODE, _MADE_BY, _VERSION = 33, 0o600 << 16, 0x0314, 20

_Object: TypeAlias = Mapping[str, Json]


@dataclass(frozen=True, eq=False)
class Bundle:
    """A parsed bundle. Nothing in it is to be trusted before :func:`verify_evidence`."""

    receipt: bytes
    cap: float
    sigma: float
    offset: float
    keys: Matrix
    values: Matrix
    coefficients: Vector
    blinds: AnyArray
    commitments: AnyArray
    weights: bytes
    preprocessing: ColumnsShown | None
    prior: PriorShown | None
    proof: bytes | None
    inclusion: bytes | None


@dataclass(frozen=True, eq=False)
class PriorShown:
    """The state before the edit; offset and coefficients are there only if no entry was removed."""

    cap: float
    sigma: float
    commitments: AnyArray
    weights: bytes
    offset: float | None
    coefficients: Vector | None


@dataclass(frozen=True)
class ColumnShown:
    """A column: a measurement x becomes (x − centre)/scale; a missing one was replaced by the fill."""

    name: str
    unit: str | None
    centre: float
    scale: float
    fill: float | None


@dataclass(frozen=True)
class ColumnsShown:
    """The columns of keys and values, whether their numbers were chosen from entries, and their digest."""

    keys: tuple[ColumnShown, ...]
    values: tuple[ColumnShown, ...]
    learned: bool
    digest: bytes


def parse_bundle(data: bytes) -> Bundle:
    """Read a bundle, strictly; whatever the bytes, only a VerificationError comes out."""
    members = _members(data)
    manifest = parse_canonical(bytes(members.pop(_MANIFEST)), limit=_MAX_MANIFEST)
    if not isinstance(manifest, Mapping) or manifest.get("format") != FORMAT:
        raise VerificationError(f"the manifest is not one of {FORMAT}", code="evidence-format-unsupported")
    _object(manifest, "the manifest", {"format", "after", "before", "members"})
    _check_members(members, manifest["members"])
    after = _object(manifest["after"], "after", {"cap", "sigma", "offset", "entries", "dimension", "width", "weights"})
    size = _count(after["entries"], "entries", least=0)
    dimension, width = (_count(after[name], name) for name in ("dimension", "width"))
    return Bundle(
        receipt=bytes(members["receipt.json"]),
        cap=_positive(after["cap"], "cap"),
        sigma=_positive(after["sigma"], "sigma"),
        offset=_float(after["offset"], "offset"),
        keys=_floats(members, "after/keys.npy", (size, dimension)),
        values=_floats(members, "after/values.npy", (size, width)),
        coefficients=_floats(members, "after/coefficients.npy", (size,)),
        blinds=_digests(members, "after/blinds.npy", size),
        commitments=_digests(members, "after/commitments.npy", size),
        weights=_digest(after["weights"], "weights"),
        preprocessing=_preprocessing(members, dimension, width),
        prior=_prior(manifest["before"], members),
        proof=_bytes(members, "proof.json"),
        inclusion=_bytes(members, "inclusion.tlog-proof"),
    )


def _members(data: bytes) -> dict[str, memoryview]:
    """Files of the archive by name. The directory at its end must be the one that the files call for."""
    if len(data) > MAX_EVIDENCE_BYTES:
        raise VerificationError(
            f"{len(data)} bytes exceed the limit of {MAX_EVIDENCE_BYTES}", code="evidence-too-large"
        )
    view, at, directory = memoryview(data), 0, bytearray()
    members: dict[str, memoryview] = {}
    while data[at : at + 4] == b"PK\x03\x04":
        if len(data) - at < _LOCAL.size or len(members) > len(_NEEDED) + len(_OPTIONAL):
            raise VerificationError("the archive is cut off, or has too many files", code="evidence-container-invalid")
        _, *fixed, crc, packed, size, length, extra = _LOCAL.unpack_from(data, at)
        start = at + _LOCAL.size + length
        name, content = data[at + _LOCAL.size : start], view[start : start + size]
        if fixed != [_VERSION, 0, 0, 0, _EPOCH] or packed != size or extra or len(content) != size:
            raise VerificationError(
                f"file {len(members)} of the archive is not stored plainly", code="evidence-container-invalid"
            )
        if zlib.crc32(content) != crc:
            raise VerificationError(f"file {len(members)} of the archive is damaged", code="evidence-container-invalid")
        sizes = (crc, size, size, length)
        directory += _CENTRAL.pack(b"PK\x01\x02", _MADE_BY, _VERSION, 0, 0, 0, _EPOCH, *sizes, 0, 0, 0, 0, _MODE, at)
        directory += name
        members[_member_name(name, list(members))] = content
        at = start + size
    count = len(members)
    if data[at:] != bytes(directory) + _END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), at, 0):
        raise VerificationError("the archive's directory is not that of its files", code="evidence-container-invalid")
    if _MANIFEST not in members:
        raise VerificationError(f"there is no {_MANIFEST}", code="evidence-member-missing")
    return members


def _member_name(name: bytes, before: list[str]) -> str:
    text = name.decode("ascii", "replace")
    if text not in _NEEDED | _OPTIONAL | {_MANIFEST}:
        raise VerificationError(f"{text[:80]!r} does not belong in a bundle", code="evidence-member-unknown")
    if (text == _MANIFEST) != (not before) or (len(before) > 1 and text <= before[-1]):
        raise VerificationError(f"{text} is not in its place in the archive", code="evidence-container-invalid")
    return text


def _check_members(members: Mapping[str, memoryview], listed: Json) -> None:
    if not isinstance(listed, Mapping) or not all(is_sha256_hex(digest) for digest in listed.values()):
        raise VerificationError("members is not an object of digests", code="evidence-field-invalid")
    if missing := sorted((_NEEDED | listed.keys()) - members.keys()):
        raise VerificationError(f"there is no {missing[0][:80]}", code="evidence-member-missing")
    if unknown := sorted(members.keys() - listed.keys()):
        raise VerificationError(f"the manifest does not list {unknown[0]}", code="evidence-member-unknown")
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != listed[name]:
            raise VerificationError(
                f"{name} does not have the digest that the manifest lists", code="evidence-member-mismatch"
            )


def _prior(value: Json, members: Mapping[str, memoryview]) -> PriorShown | None:
    _check_presence(members, "before/commitments.npy", needed=value is not None)
    if value is None:
        _check_presence(members, "before/coefficients.npy", needed=False)
        return None
    item = _object(value, "before", {"cap", "sigma", "offset", "entries", "weights"})
    size, shown = _count(item["entries"], "entries", least=0), item["offset"] is not None
    _check_presence(members, "before/coefficients.npy", needed=shown)
    return PriorShown(
        cap=_positive(item["cap"], "cap"),
        sigma=_positive(item["sigma"], "sigma"),
        commitments=_digests(members, "before/commitments.npy", size),
        weights=_digest(item["weights"], "weights"),
        offset=_float(item["offset"], "offset") if shown else None,
        coefficients=_floats(members, "before/coefficients.npy", (size,)) if shown else None,
    )


def _preprocessing(members: Mapping[str, memoryview], dimension: int, width: int) -> ColumnsShown | None:
    content = _bytes(members, "preprocessing.json")
    if content is None:
        return None
    item = parse_canonical(content, limit=_MAX_COLUMNS)
    if not isinstance(item, Mapping) or item.get("format") != COLUMNS_FORMAT:
        raise VerificationError(f"the columns are not of {COLUMNS_FORMAT}", code="evidence-format-unsupported")
    _object(item, "preprocessing", {"format", "keys", "learned", "values"})
    if not isinstance(item["learned"], bool):
        raise VerificationError("learned is not true or false", code="evidence-field-invalid")
    return ColumnsShown(
        _columns(item["keys"], "keys", dimension),
        _columns(item["values"], "values", width),
        item["learned"],
        hashlib.sha256(content).digest(),
    )


def _columns(listed: Json, what: str, count: int) -> tuple[ColumnShown, ...]:
    if not isinstance(listed, Sequence) or isinstance(listed, str) or len(listed) != count:
        raise VerificationError(f"there is not one column per coordinate of the {what}", code="evidence-field-invalid")
    columns = []
    for place, value in enumerate(listed):
        at = f"column {place} of the {what}"
        item = _object(value, at, {"name", "unit", "centre", "scale", "fill"})
        name, unit = item["name"], item["unit"]
        if not isinstance(name, str) or not isinstance(unit, str | None):
            raise VerificationError(f"name or unit of {at} is not a text", code="evidence-field-invalid")
        fill = None if item["fill"] is None else _float(item["fill"], f"the fill of {at}")
        centre, scale = _float(item["centre"], f"the centre of {at}"), _positive(item["scale"], f"the scale of {at}")
        columns.append(ColumnShown(name, unit, centre, scale, fill))
    return tuple(columns)


def _check_presence(members: Mapping[str, memoryview], name: str, *, needed: bool) -> None:
    if needed and name not in members:
        raise VerificationError(f"there is no {name}", code="evidence-member-missing")
    if not needed and name in members:
        raise VerificationError(f"the manifest says nothing that calls for {name}", code="evidence-member-unknown")


def _floats(members: Mapping[str, memoryview], name: str, shape: tuple[int, ...]) -> Matrix:
    content = _array(members[name], name, "<f8", shape)
    numbers = np.frombuffer(content, dtype="<f8").astype(np.float64).reshape(shape)
    if not np.all(np.abs(numbers) <= _LARGEST):
        raise VerificationError(
            f"{name} holds a number that is not finite, or too large", code="evidence-array-invalid"
        )
    return numbers


def _digests(members: Mapping[str, memoryview], name: str, size: int) -> AnyArray:
    content = _array(members[name], name, "|u1", (size, DIGEST_BYTES))
    return np.frombuffer(content, dtype=np.uint8).reshape(size, DIGEST_BYTES)


def _array(content: memoryview, name: str, kind: str, shape: tuple[int, ...]) -> memoryview:
    """The data of a NPY 1.0 file, whose header must be the one for this type and shape."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape!r}}}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")
    if content[: len(header)] != header:
        raise VerificationError(f"{name} is not an array of {kind} with shape {shape}", code="evidence-array-malformed")
    data = content[len(header) :]
    if len(data) != math.prod(shape) * int(kind[-1]):
        raise VerificationError(
            f"{name} has {len(data)} bytes of data, which shape {shape} does not", code="evidence-array-malformed"
        )
    return data


def _bytes(members: Mapping[str, memoryview], name: str) -> bytes | None:
    return bytes(members[name]) if name in members else None


def _object(value: Json, what: str, names: set[str]) -> _Object:
    if not isinstance(value, Mapping):
        raise VerificationError(f"{what} is not an object", code="evidence-field-invalid")
    if missing := sorted(names - value.keys()):
        raise VerificationError(f"{what} has no {missing[0]}", code="evidence-field-missing")
    if unknown := sorted(value.keys() - names):
        raise VerificationError(f"{what} has an unknown field {unknown[0][:80]!r}", code="evidence-field-unknown")
    return value


def _count(value: Json, what: str, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_ROWS:
        raise VerificationError(f"{what} is not a number from {least} to {_MAX_ROWS}", code="evidence-field-invalid")
    return value


def _float(value: Json, what: str) -> float:
    try:
        number = decode_float(value) if isinstance(value, str) else math.inf
    except VerificationError:
        number = math.inf
    if not abs(number) <= _LARGEST:
        raise VerificationError(
            f"{what} is not the hexadecimal spelling of a finite number", code="evidence-field-invalid"
        )
    return number


def _positive(value: Json, what: str) -> float:
    number = _float(value, what)
    if not number >= 1.0 / _LARGEST:
        raise VerificationError(f"{what} is not a positive number", code="evidence-field-invalid")
    return number


def _digest(value: Json, what: str) -> bytes:
    if not is_sha256_hex(value):
        raise VerificationError(f"{what} is not a digest", code="evidence-field-invalid")
    return bytes.fromhex(value)
