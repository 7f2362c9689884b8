"""An evidence bundle: every number of its receipt that can be recomputed, recomputed.

Format and steps: ``docs/formats/evidence.md``. The reader shares no code with the writer and hands nothing to a
parser that could be surprised: the container has one form, which is compared byte by byte, and an array's
header is the one that its shape calls for. What the manifest says is believed only as far as digests under
the receipt's signature bear it out.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from expunge.errors import InputError, StoreError, VerificationError
from expunge.ledger.canonical import Json, parse_canonical
from expunge.ledger.commitment import DIGEST_BYTES, combined, commit, state_digest, weights_digest
from expunge.ledger.encoding import decode_float, is_sha256_hex
from expunge.ledger.note import NoteKey
from expunge.ledger.receipt_format import Predicate, ReferenceStated, at_most
from expunge.ledger.signing import VerifyingKey
from expunge.problem.check import StateCheck, check_state
from expunge.problem.kernel import squared_distances
from expunge.types import AnyArray, Matrix, Vector
from expunge.verify.ledger import verify_inclusion
from expunge.verify.receipt import open_receipt

__all__ = ["FORMAT", "MAX_EVIDENCE_BYTES", "Bundle", "parse_bundle", "verify_evidence"]

FORMAT: Final = "expunge/evidence/v1"
# Below it, a ZIP archive needs no extensions.
MAX_EVIDENCE_BYTES: Final = 2**31 - 1
_MAX_MANIFEST: Final = 64 * 1024
_MAX_ROWS: Final = 10**8
_LARGEST: Final = 1e150
_BLOCK: Final = 4_000_000

_MANIFEST: Final = "manifest.json"
_NEEDED: Final = frozenset(
    {"receipt.json", *(f"after/{n}.npy" for n in ("keys", "values", "coefficients", "blinds", "commitments"))}
)
_OPTIONAL: Final = frozenset(
    (
        *("before/commitments.npy", "before/coefficients.npy", "reference/coefficients.npy"),
        *("proof.json", "inclusion.tlog-proof"),
    )
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
    prior: PriorShown | None
    reference: ReferenceShown | None
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


@dataclass(frozen=True, eq=False)
class ReferenceShown:
    """Another backend's answer to the problem after the edit."""

    backend: str
    offset: float
    coefficients: Vector


def verify_evidence(
    bundle: str | os.PathLike[str] | bytes,
    trusted: Iterable[VerifyingKey],
    *,
    threshold: int = 1,
    log_keys: Iterable[NoteKey] | None = None,
    origin: str | None = None,
    witnesses: Iterable[NoteKey] = (),
    quorum: int = 0,
    now: int | None = None,
    require_prior: bool = True,
) -> None:
    """Check the receipt in a bundle (a path, or its bytes) and recompute what it states.

    With ``log_keys`` and ``origin`` the receipt must also be in that log, and only then can ``witnesses`` be asked for.
    A bundle that was exported later may lack the state before the edit; ``require_prior=False`` leaves that state to
    the log.
    """
    if (log_keys is None) != (origin is None):
        raise InputError("the log's keys and its origin go together")
    known = tuple(witnesses)
    if log_keys is None and (known or quorum):
        raise InputError("witnesses cosign the head of the log; give the log's keys and its origin")
    found = parse_bundle(bundle if isinstance(bundle, bytes) else _read(Path(bundle)))
    receipt = open_receipt(found.receipt, trusted, threshold=threshold)
    if log_keys is not None and origin is not None:
        if found.inclusion is None:
            raise VerificationError(
                "the bundle does not show that its receipt is in the log", code="evidence-inclusion-missing"
            )
        verify_inclusion(found.receipt, found.inclusion, log_keys, origin, witnesses=known, quorum=quorum, now=now)
    _check_problem(found, receipt)
    _check_after(found, receipt)
    rows = [bytes(row) for row in found.commitments]
    # Numbers out of any sensible range end in errors that count as infinite.
    with np.errstate(all="ignore"):
        _check_prior(found, receipt, rows, required=require_prior)
        _check_applied(receipt, {row.hex() for row in rows})
        _check_optimal(found, receipt)
        _check_proof(found)
        _check_reference(found, receipt.reference)


def parse_bundle(data: bytes) -> Bundle:
    """Read a bundle, strictly; whatever the bytes, only a VerificationError comes out."""
    members = _members(data)
    manifest = parse_canonical(bytes(members.pop(_MANIFEST)), limit=_MAX_MANIFEST)
    if not isinstance(manifest, Mapping) or manifest.get("format") != FORMAT:
        raise VerificationError(f"the manifest is not one of {FORMAT}", code="evidence-format-unsupported")
    _object(manifest, "the manifest", {"format", "after", "before", "reference", "members"})
    _check_members(members, manifest["members"])
    after = _object(manifest["after"], "after", {"cap", "sigma", "offset", "entries", "dimension", "width", "weights"})
    size, dimension, width = (_count(after[name], name) for name in ("entries", "dimension", "width"))
    return Bundle(
        receipt=bytes(members["receipt.json"]),
        cap=_float(after["cap"], "cap"),
        sigma=_float(after["sigma"], "sigma"),
        offset=_float(after["offset"], "offset"),
        keys=_floats(members, "after/keys.npy", (size, dimension)),
        values=_floats(members, "after/values.npy", (size, width)),
        coefficients=_floats(members, "after/coefficients.npy", (size,)),
        blinds=_digests(members, "after/blinds.npy", size),
        commitments=_digests(members, "after/commitments.npy", size),
        weights=_digest(after["weights"], "weights"),
        prior=_prior(manifest["before"], members),
        reference=_reference(manifest["reference"], members, size),
        proof=_bytes(members, "proof.json"),
        inclusion=_bytes(members, "inclusion.tlog-proof"),
    )


def _check_problem(found: Bundle, receipt: Predicate) -> None:
    stated = receipt.problem
    if (found.cap, found.sigma, found.keys.shape[1]) != (stated.cap, stated.sigma, stated.dimension):
        raise VerificationError(
            "cap, width or dimension are not those of the receipt", code="evidence-problem-mismatch"
        )
    if found.keys.shape[0] != receipt.after.live:
        raise VerificationError(
            f"{found.keys.shape[0]} entries; the receipt states {receipt.after.live}", code="evidence-size-mismatch"
        )
    if found.prior is not None:
        same_cap = found.prior.cap == stated.cap or receipt.action in ("rebuild", "restoration")
        if found.prior.sigma != stated.sigma or not same_cap:
            raise VerificationError(
                "cap or width before the edit are not those of the receipt", code="evidence-problem-mismatch"
            )
        if found.prior.commitments.shape[0] != receipt.before.live:
            raise VerificationError(
                f"{found.prior.commitments.shape[0]} entries before the edit; the receipt states {receipt.before.live}",
                code="evidence-size-mismatch",
            )


def _check_after(found: Bundle, receipt: Predicate) -> None:
    for row in range(found.keys.shape[0]):
        opened = commit(found.blinds[row].tobytes(), found.keys[row].tobytes(), found.values[row].tobytes())
        if opened != found.commitments[row].tobytes():
            raise VerificationError(
                f"key, value and blind of row {row} do not open its commitment", code="evidence-commitment-mismatch"
            )
    if weights_digest(found.offset, found.coefficients, combined(found.blinds)) != found.weights:
        raise VerificationError(
            "offset and coefficients do not have the stated digest", code="evidence-weights-mismatch"
        )
    if state_digest(found.cap, found.sigma, found.commitments, found.weights) != receipt.state_after:
        raise VerificationError(f"this is not state {receipt.state_after}", code="evidence-state-mismatch")


def _check_prior(found: Bundle, receipt: Predicate, rows: list[bytes], *, required: bool) -> None:
    if len(set(rows)) != len(rows):
        raise VerificationError("two rows have the same commitment", code="evidence-commitment-repeated")
    prior = found.prior
    if receipt.state_before in (None, receipt.state_after):
        if prior is not None:
            raise VerificationError("the receipt knows no other state before the edit", code="evidence-prior-mismatch")
        return
    if prior is None:
        if required:
            raise VerificationError("the state before the edit is not shown", code="evidence-prior-missing")
        return
    if state_digest(prior.cap, prior.sigma, prior.commitments, prior.weights) != receipt.state_before:
        raise VerificationError(f"this is not state {receipt.state_before}", code="evidence-prior-mismatch")
    earlier = [bytes(row) for row in prior.commitments]
    if len(set(earlier)) != len(earlier):
        raise VerificationError(
            "two rows before the edit have the same commitment", code="evidence-commitment-repeated"
        )
    removed, added = set(earlier) - set(rows), set(rows) - set(earlier)
    if prior.coefficients is not None and prior.offset is not None:
        if removed:
            raise VerificationError(
                "older coefficients beside the remaining keys disclose what was removed",
                code="evidence-prior-disclosed",
            )
        _check_disclosed(found, prior.offset, prior.coefficients, prior, rows, earlier)
    if receipt.action != "restoration":
        _check_change(receipt, {row.hex() for row in removed}, {row.hex() for row in added})


def _check_disclosed(
    found: Bundle, offset: float, coefficients: Vector, prior: PriorShown, rows: list[bytes], earlier: list[bytes]
) -> None:
    """Recompute a state before the edit whose entries are all still there."""
    place = {row: index for index, row in enumerate(rows)}
    order = np.array([place[row] for row in earlier])
    if weights_digest(offset, coefficients, combined(found.blinds[order])) != prior.weights:
        raise VerificationError(
            "offset and coefficients before the edit do not have the stated digest", code="evidence-weights-mismatch"
        )
    keys = np.ascontiguousarray(found.keys[order])
    check = check_state(keys, coefficients, offset, cap=prior.cap, sigma=prior.sigma)
    if not check.passed:
        raise VerificationError(f"residual {check.worst:.3g} before the edit", code="evidence-check-failed")


def _check_change(receipt: Predicate, removed: set[str], added: set[str]) -> None:
    applied, back = receipt.applied, receipt.reactivated
    arrived = set(back.commitments) | (set(applied.commitments) if receipt.action == "admission" else set())
    expected = back.count + (applied.count if receipt.action == "admission" else 0)
    if not arrived <= added or len(added) != expected:
        raise VerificationError(
            f"{len(added)} entries were added; the receipt names others, or {expected}", code="evidence-added-mismatch"
        )
    if receipt.action == "pruning":
        complete = len(removed) == applied.count and set(applied.commitments) <= removed
    else:
        # A deletion may also name entries that were pruned before, and so were not live.
        complete = removed <= (set(applied.commitments) if receipt.action == "deletion" else set())
    if not complete:
        raise VerificationError(
            f"{len(removed)} entries were removed; the receipt names others", code="evidence-removed-mismatch"
        )


def _check_applied(receipt: Predicate, live: set[str]) -> None:
    """What holds of the state after the edit, whether or not the one before is shown."""
    applied = set(receipt.applied.commitments)
    if receipt.action in ("admission", "creation") and not applied <= live:
        raise VerificationError("an admitted entry is not among the live ones", code="evidence-added-mismatch")
    if receipt.action in ("deletion", "pruning") and applied & live:
        raise VerificationError("a removed entry is still among the live ones", code="evidence-removed-mismatch")


def _check_optimal(found: Bundle, receipt: Predicate) -> None:
    check = check_state(found.keys, found.coefficients, found.offset, cap=found.cap, sigma=found.sigma)
    if not check.passed:
        raise VerificationError(
            f"residual {check.worst:.3g}: the coefficients are not optimal", code="evidence-check-failed"
        )
    stated = receipt.check
    for name in ("mass", "box", "stationarity"):
        if not _agrees(getattr(stated, name), getattr(check, name)):
            raise VerificationError(
                f"{name} error {getattr(check, name):.3g}; the receipt states at most {getattr(stated, name):.3g}",
                code="evidence-check-mismatch",
            )


def _check_proof(found: Bundle) -> None:
    if found.proof is None:
        return
    # Ball arithmetic is loaded only where there is a proof.
    from expunge.verify.proof import Proof, verify_proof

    proof = Proof.from_bytes(found.proof)
    verify_proof(proof, found.keys, cap=found.cap, sigma=found.sigma)
    alpha = found.coefficients
    letters = np.where(alpha <= 0.0, "r", np.where(alpha >= found.cap, "b", "m"))
    if "".join(letters.tolist()) != proof.partition:
        raise VerificationError(
            "the proof is of another partition than that of the coefficients", code="evidence-partition-mismatch"
        )


def _check_reference(found: Bundle, stated: ReferenceStated | None) -> None:
    shown = found.reference
    if stated is None or shown is None:
        if (stated is None) != (shown is None):
            raise VerificationError(
                "receipt and bundle do not agree on whether there is a reference", code="evidence-reference-missing"
            )
        return
    if shown.backend != stated.backend:
        raise VerificationError(
            f"the reference is by {shown.backend[:40]!r}, not {stated.backend}", code="evidence-reference-mismatch"
        )
    check: StateCheck = check_state(found.keys, shown.coefficients, shown.offset, cap=found.cap, sigma=found.sigma)
    if not _agrees(stated.residual, check.worst):
        raise VerificationError(
            f"residual {check.worst:.3g} of the reference; stated {stated.residual:.3g}",
            code="evidence-reference-mismatch",
        )
    spread = float(np.max(np.ptp(found.values, axis=0)))
    if stated.probes != found.keys.shape[0] or stated.denominator != ("value_range" if spread > 0.0 else "one"):
        raise VerificationError(
            "the readouts were compared at other probes, or over another denominator", code="evidence-readout-mismatch"
        )
    difference = _largest_difference(found, shown.coefficients) / (spread or 1.0)
    if not _agrees(stated.readout_difference, difference):
        raise VerificationError(
            f"readouts differ by {difference:.3g}; the receipt states at most {stated.readout_difference:.3g}",
            code="evidence-readout-mismatch",
        )


def _largest_difference(found: Bundle, others: Vector) -> float:
    size = found.keys.shape[0]
    block, largest = max(1, _BLOCK // size), 0.0
    for start in range(0, size, block):
        distances = squared_distances(found.keys[start : start + block], found.keys)
        one, other = (_readout(distances, found, alpha) for alpha in (found.coefficients, others))
        apart = float(np.max(np.abs(one - other)))
        largest = math.inf if math.isnan(apart) else max(largest, apart)
    return largest


def _readout(distances: Matrix, found: Bundle, coefficients: Vector) -> Matrix:
    """Σακv / Σακ, with distances (m, n) taken from the nearest key that has weight, which cancels."""
    active = np.flatnonzero(coefficients)
    near = distances[:, active]
    near = near - near.min(axis=1, keepdims=True, initial=np.inf)
    weights = np.exp(-near / found.sigma**2) * coefficients[active]
    return np.asarray((weights @ found.values[active]) / weights.sum(axis=1, keepdims=True))


def _agrees(stated: float, measured: float) -> bool:
    """Whether a stated bound is the measured error rounded up, give or take one power of two for other machines."""
    expected = at_most(measured)
    return stated == expected or 0.49 * expected <= stated <= 2.1 * expected


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_EVIDENCE_BYTES:
            raise VerificationError(
                f"{path} exceeds the limit of {MAX_EVIDENCE_BYTES} bytes", code="evidence-too-large"
            )
        return path.read_bytes()
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem}") from None


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
    size, shown = _count(item["entries"], "entries"), item["offset"] is not None
    _check_presence(members, "before/coefficients.npy", needed=shown)
    return PriorShown(
        cap=_float(item["cap"], "cap"),
        sigma=_float(item["sigma"], "sigma"),
        commitments=_digests(members, "before/commitments.npy", size),
        weights=_digest(item["weights"], "weights"),
        offset=_float(item["offset"], "offset") if shown else None,
        coefficients=_floats(members, "before/coefficients.npy", (size,)) if shown else None,
    )


def _reference(value: Json, members: Mapping[str, memoryview], size: int) -> ReferenceShown | None:
    _check_presence(members, "reference/coefficients.npy", needed=value is not None)
    if value is None:
        return None
    item = _object(value, "reference", {"backend", "offset"})
    if not isinstance(item["backend"], str):
        raise VerificationError("backend is not a name", code="evidence-field-invalid")
    coefficients = _floats(members, "reference/coefficients.npy", (size,))
    return ReferenceShown(item["backend"], _float(item["offset"], "offset"), coefficients)


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


def _count(value: Json, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_ROWS:
        raise VerificationError(f"{what} is not a number from 1 to {_MAX_ROWS}", code="evidence-field-invalid")
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


def _digest(value: Json, what: str) -> bytes:
    if not is_sha256_hex(value):
        raise VerificationError(f"{what} is not a digest", code="evidence-field-invalid")
    return bytes.fromhex(value)
