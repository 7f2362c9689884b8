"""Proofs that travel: one text file that carries a path and the signed head that it leads to.

Formats: ``docs/formats/log-proof.md``. :class:`InclusionProof` is c2sp.org/tlog-proof@v1: beside a receipt
it is all that an offline verifier needs besides the log's public key. :class:`ExtensionProof` is the body
of ``add-checkpoint`` in c2sp.org/tlog-witness: what a log sends to a witness, or to anyone who kept an
older head. Both parse and serialise to identical bytes, and both ``verify_*`` functions check the head's
signature before they look at the path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Checkpoint, parse_checkpoint, verify_checkpoint, verify_extension
from expunge.ledger.encoding import decode_base64, decode_decimal, encode_base64
from expunge.ledger.merkle.hashing import HASH_SIZE, leaf_hash
from expunge.ledger.merkle.tree_proof import verify_inclusion
from expunge.ledger.note import MAX_NOTE_BYTES, NoteKey, SignedNote, parse_note

__all__ = [
    "ExtensionProof",
    "InclusionProof",
    "parse_extension_proof",
    "parse_inclusion_proof",
    "verify_extension_proof",
    "verify_inclusion_proof",
]

_HEADER = "c2sp.org/tlog-proof@v1"
_MAX_HASHES = 63
_MAX_PROOF_BYTES = MAX_NOTE_BYTES + 64 * 1024


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """Leaf ``index``, its path, and the head that the path leads to; ``extra`` is not authenticated."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: SignedNote
    extra: bytes | None = None

    def to_bytes(self) -> bytes:
        """Return the text of a ``.tlog-proof`` file."""
        head = [_HEADER]
        if self.extra is not None:
            head.append(f"extra {encode_base64(self.extra)}")
        head.append(f"index {self.index}")
        return _carry(head, self.path, self.checkpoint)


@dataclass(frozen=True, slots=True)
class ExtensionProof:
    """A path from the log at ``old_size`` to a newer head."""

    old_size: int
    path: tuple[bytes, ...]
    checkpoint: SignedNote

    def to_bytes(self) -> bytes:
        """Return the text that is sent to a witness."""
        return _carry([f"old {self.old_size}"], self.path, self.checkpoint)


def parse_inclusion_proof(data: bytes) -> InclusionProof:
    """Read a ``.tlog-proof`` file. Nothing in it is to be trusted before it is verified."""
    lines, checkpoint = _open(data)
    if not lines or lines.pop(0) != _HEADER:
        raise VerificationError(f"an inclusion proof begins with {_HEADER}", code="log-proof-header-invalid")
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = decode_base64(lines.pop(0).removeprefix("extra "))
        if extra is None:
            raise VerificationError("the extra data are not base64", code="log-proof-extra-invalid")
    index = _numbered(lines, "index ")
    if index is None:
        raise VerificationError(
            "the line with the leaf's index is missing or not a decimal", code="log-proof-index-invalid"
        )
    return InclusionProof(index, _hashes(lines), checkpoint, extra)


def parse_extension_proof(data: bytes) -> ExtensionProof:
    """Read an extension proof. Nothing in it is to be trusted before it is verified."""
    lines, checkpoint = _open(data)
    old_size = _numbered(lines, "old ")
    if old_size is None:
        raise VerificationError(
            "the line with the older size is missing or not a decimal", code="log-proof-old-size-invalid"
        )
    return ExtensionProof(old_size, _hashes(lines), checkpoint)


def verify_inclusion_proof(proof: InclusionProof, entry: bytes, keys: Iterable[NoteKey], origin: str) -> None:
    """Check that ``entry`` is leaf ``proof.index`` under a head that the log ``origin`` signed."""
    verify_checkpoint(proof.checkpoint, keys, origin)
    head = parse_checkpoint(proof.checkpoint.text)
    verify_inclusion(leaf_hash(entry), proof.index, head.size, proof.path, head.root)


def verify_extension_proof(proof: ExtensionProof, old: Checkpoint, keys: Iterable[NoteKey]) -> None:
    """Check that the log of ``old``, a head kept earlier, signed the carried head and only added to it."""
    verify_checkpoint(proof.checkpoint, keys, old.origin)
    if proof.old_size != old.size:
        raise VerificationError(
            f"the proof starts from size {proof.old_size}, the kept head is {old.size}",
            code="log-proof-old-size-mismatch",
        )
    verify_extension(old, parse_checkpoint(proof.checkpoint.text), proof.path)


def _carry(head: list[str], path: tuple[bytes, ...], checkpoint: SignedNote) -> bytes:
    lines = [*head, *(encode_base64(digest) for digest in path), ""]
    return "".join(f"{line}\n" for line in lines).encode("utf-8") + checkpoint.to_bytes()


def _open(data: bytes) -> tuple[list[str], SignedNote]:
    """Split a proof at its first empty line; return the lines before it and the note after it."""
    if len(data) > _MAX_PROOF_BYTES:
        raise VerificationError(
            f"a proof of {len(data)} bytes exceeds the limit of {_MAX_PROOF_BYTES}", code="log-proof-too-large"
        )
    head, separator, note = data.partition(b"\n\n")
    if not separator:
        raise VerificationError("no empty line separates the path from the checkpoint", code="log-proof-unterminated")
    try:
        lines = head.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise VerificationError(f"byte {error.start} of the proof is not UTF-8", code="log-proof-not-utf8") from None
    return lines, parse_note(note)


def _numbered(lines: list[str], label: str) -> int | None:
    if not lines or not lines[0].startswith(label):
        return None
    return decode_decimal(lines.pop(0).removeprefix(label))


def _hashes(lines: list[str]) -> tuple[bytes, ...]:
    if len(lines) > _MAX_HASHES:
        raise VerificationError(f"{len(lines)} hashes are more than any tree needs", code="log-proof-too-many-hashes")
    path = []
    for line in lines:
        digest = decode_base64(line)
        if digest is None or len(digest) != HASH_SIZE:
            raise VerificationError(f"{line[:60]!r} is not a hash", code="log-proof-hash-invalid")
        path.append(digest)
    return tuple(path)
