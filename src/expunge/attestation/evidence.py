"""Evidence bundles, the writer's half: one file from which a stranger recomputes what a receipt states.

Format: ``docs/formats/evidence.md``; :mod:`expunge.verify.evidence` reads it and shares no code with this. A bundle
**holds content**: keys and values of every entry that remains. It holds no id, subject or payload, and of a
removed entry nothing but its commitment. In particular it does not hold the older coefficients once an entry has
gone, because together with the remaining keys they give the removed key away; their digest stands for them.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import Json, dump_canonical, encode_float
from expunge.ledger.envelope import Envelope
from expunge.ledger.file_writing import new_file
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.memory.version import Version
from expunge.types import AnyArray, Matrix, Vector

__all__ = ["FORMAT", "Evidence", "Prior", "StateShown", "evidence_of", "write_evidence"]

FORMAT = "expunge/evidence/v2"
_MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class StateShown:
    """A state that can be recomputed: arrays in ascending order of the commitments, and the digest of its weights."""

    cap: float
    sigma: float
    offset: float
    keys: Matrix
    values: Matrix
    coefficients: Vector
    blinds: AnyArray
    commitments: AnyArray
    weights: bytes
    preprocessing: bytes = b""

    @classmethod
    def of(cls, version: Version) -> StateShown:
        """All of a version but ids, subjects, payloads and salts."""
        state, order = version.state, version.commitment_order
        slots = version.slots[order]
        return cls(
            state.cap,
            state.gram.sigma,
            state.offset,
            version.keys[order],
            version.values[order],
            version.coefficients[order],
            version.entries.blinds[slots],
            version.entries.commitments[slots],
            version.weights,
            version.preprocessing.to_bytes(),
        )


@dataclass(frozen=True, eq=False)
class Prior:
    """The state before an edit: its commitments (n, 32), ascending, and its weights, in digest or in full.

    A store that exports evidence later keeps this from the journal: 32 bytes an entry, and no content.
    """

    cap: float
    sigma: float
    commitments: AnyArray
    weights: bytes
    offset: float | None = None
    coefficients: Vector | None = None

    @classmethod
    def of(cls, before: Version, after: Version | None = None) -> Prior:
        """Of the version before an edit; coefficients only if nothing was removed on the way to ``after``."""
        order = before.commitment_order
        commitments = before.entries.commitments[before.slots[order]]
        state = before.state
        hidden = cls(state.cap, state.gram.sigma, commitments, before.weights)
        if after is None or not _rows(commitments) <= _rows(after.entries.commitments[after.slots]):
            return hidden
        shown = before.coefficients[order]
        return cls(state.cap, state.gram.sigma, commitments, before.weights, state.offset, shown)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The contents of a bundle; ``to_bytes`` is deterministic."""

    receipt: bytes
    after: StateShown
    prior: Prior | None = None
    proof: bytes | None = None
    inclusion: bytes | None = None

    def to_bytes(self) -> bytes:
        """Return the file: an uncompressed ZIP, the manifest first, then the members by name."""
        members = self._members()
        manifest = {
            "format": FORMAT,
            "after": self._after(),
            "before": self._before(),
            "members": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for name, content in ((_MANIFEST, dump_canonical(manifest)), *sorted(members.items())):
                entry = zipfile.ZipInfo(name, _EPOCH)
                # The same bytes on every system.
                entry.create_system, entry.external_attr = 3, 0o600 << 16
                archive.writestr(entry, content)
        return buffer.getvalue()

    def _members(self) -> dict[str, bytes]:
        members = {
            "receipt.json": self.receipt,
            "after/keys.npy": _npy(self.after.keys, "<f8"),
            "after/values.npy": _npy(self.after.values, "<f8"),
            "after/coefficients.npy": _npy(self.after.coefficients, "<f8"),
            "after/blinds.npy": _npy(self.after.blinds, "|u1"),
            "after/commitments.npy": _npy(self.after.commitments, "|u1"),
        }
        if self.after.preprocessing:
            members["preprocessing.json"] = self.after.preprocessing
        if self.prior is not None:
            members["before/commitments.npy"] = _npy(self.prior.commitments, "|u1")
            if self.prior.coefficients is not None:
                members["before/coefficients.npy"] = _npy(self.prior.coefficients, "<f8")
        if self.proof is not None:
            members["proof.json"] = self.proof
        if self.inclusion is not None:
            members["inclusion.tlog-proof"] = self.inclusion
        return members

    def _after(self) -> dict[str, Json]:
        after = self.after
        return {
            "cap": encode_float(after.cap),
            "sigma": encode_float(after.sigma),
            "offset": encode_float(after.offset),
            "entries": int(after.keys.shape[0]),
            "dimension": int(after.keys.shape[1]),
            "width": int(after.values.shape[1]),
            "weights": after.weights.hex(),
        }

    def _before(self) -> dict[str, Json] | None:
        prior = self.prior
        if prior is None:
            return None
        return {
            "cap": encode_float(prior.cap),
            "sigma": encode_float(prior.sigma),
            "offset": None if prior.offset is None else encode_float(prior.offset),
            "entries": int(prior.commitments.shape[0]),
            "weights": prior.weights.hex(),
        }


def evidence_of(
    before: Version | Prior | None,
    after: Version,
    receipt: Envelope | bytes,
    *,
    prove: bool = False,
    inclusion: InclusionProof | None = None,
) -> Evidence:
    """The bundle of one edit; arguments and errors are those of `write_evidence`."""
    shown = StateShown.of(after)
    if isinstance(before, Version):
        before = None if before.digest == after.digest else Prior.of(before, after)
    return Evidence(
        receipt=receipt if isinstance(receipt, bytes) else receipt.to_bytes(),
        after=shown,
        prior=before,
        proof=_proof(shown) if prove and after.size else None,
        inclusion=None if inclusion is None else inclusion.to_bytes(),
    )


def write_evidence(
    path: str | os.PathLike[str],
    before: Version | Prior | None,
    after: Version,
    receipt: Envelope | bytes,
    *,
    prove: bool = False,
    inclusion: InclusionProof | None = None,
) -> None:
    """Write the bundle of one edit, whole or not at all, readable by its owner only.

    ``before`` must be read while the edit's journal runs; later, a :class:`Prior` kept from it serves, or None.
    A bundle holds the keys and values of all remaining entries: handle it as you handle them. ``prove`` adds a proof of
    the state; where it proves nothing, proof-not-proved is raised, since no verifier would accept the bundle. A state
    without entries has no weights, and its bundle no proof.
    """
    bundle = evidence_of(before, after, receipt, prove=prove, inclusion=inclusion)
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder; name a file")
    with new_file(Path(path), replace=True, mode=0o600) as file:
        file.write(bundle.to_bytes())


def _proof(state: StateShown) -> bytes:
    """A proof of the state, in the order of the bundle."""
    from expunge.certificates.proof import prove_state

    proof = prove_state(state.keys, state.coefficients, state.offset, cap=state.cap, sigma=state.sigma)
    if proof.outcome != "proved":
        raise VerificationError(
            f"the proof is {proof.outcome}: {proof.reason}; a bundle has a proof that holds, or none",
            code="proof-not-proved",
        )
    return proof.to_bytes()


def _npy(array: AnyArray, kind: str) -> bytes:
    """NPY 1.0, padded to 64 bytes as the specification asks; ``numpy.save`` pads by more, and not always alike."""
    shape = tuple(int(length) for length in array.shape)
    header = repr({"descr": kind, "fortran_order": False, "shape": shape})
    start = len(np.lib.format.MAGIC_PREFIX) + 4
    padded = header + " " * (-(start + len(header) + 1) % 64) + "\n"
    content = array.astype(kind, order="C", copy=False).tobytes()
    return np.lib.format.magic(1, 0) + len(padded).to_bytes(2, "little") + padded.encode("ascii") + content


def _rows(commitments: AnyArray) -> set[bytes]:
    return {bytes(row) for row in commitments}
