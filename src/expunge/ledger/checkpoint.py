"""Signed log heads (c2sp.org/tlog-checkpoint) and witness cosignatures (c2sp.org/tlog-cosignature, v1).

Format: ``docs/formats/checkpoint.md``. A checkpoint fixes the whole log at one size. Whoever keeps one can
later demand a consistency path to a newer one (:func:`verify_extension`): a log that was truncated,
rewritten or shown differently to different people cannot supply it. A witness's cosignature says that the
witness did so, at a stated time.

The messages that one Ed25519 key may sign here cannot be mistaken for each other: a checkpoint's second
line is a decimal, a cosignature's is ``time`` and a decimal, and what is signed for an envelope has no
newline at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import decode_base64, decode_decimal, encode_base64
from expunge.ledger.merkle.hashing import HASH_SIZE, MAX_TREE_SIZE
from expunge.ledger.merkle.tree_proof import verify_consistency
from expunge.ledger.note import NoteAlgorithm, NoteKey, NoteSignature, SignedNote, sign_note, verify_note
from expunge.ledger.signing import SIGNATURE_SIZE, SigningKey

__all__ = [
    "Checkpoint",
    "cosign_checkpoint",
    "cosignature_times",
    "parse_checkpoint",
    "sign_checkpoint",
    "verify_checkpoint",
    "verify_cosignatures",
    "verify_extension",
]

_MAX_EXTENSIONS = 16
_MAX_TIME = 2**63 - 1
_TIME_SIZE = 8
# How far a witness's clock may run ahead of ours.
_CLOCK_SKEW = 300


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log: ``root`` over its first ``size`` leaves."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for line in (self.origin, *self.extensions):
            if not _is_line(line):
                raise InputError(f"{line[:80]!r} cannot be a line of a checkpoint")
        if not 0 <= self.size <= MAX_TREE_SIZE:
            raise InputError(f"a log has 0 to 2^63 - 1 leaves, not {self.size}")
        if len(self.root) != HASH_SIZE:
            raise InputError(f"a root hash has {HASH_SIZE} bytes, not {len(self.root)}")

    def to_text(self) -> bytes:
        """Return the note text that is signed."""
        lines = (self.origin, str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines).encode("utf-8")


def parse_checkpoint(text: bytes) -> Checkpoint:
    """Read the text of a parsed note. Verify the note before believing the result."""
    try:
        lines = text.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise VerificationError(f"byte {error.start} of the checkpoint is not UTF-8", code="note-not-utf8") from None
    if len(lines) < 4 or lines[-1]:
        raise VerificationError(
            "a checkpoint has an origin, a size and a root, each on a line", code="checkpoint-lines-missing"
        )
    origin, size_line, root_line, *extensions = lines[:-1]
    if not _is_line(origin):
        raise VerificationError(
            "the origin of the checkpoint is empty or has a control character", code="checkpoint-origin-invalid"
        )
    size = decode_decimal(size_line)
    if size is None:
        raise VerificationError(f"{size_line[:40]!r} is not a tree size", code="checkpoint-size-invalid")
    root = decode_base64(root_line)
    if root is None or len(root) != HASH_SIZE:
        raise VerificationError(f"{root_line[:60]!r} is not a root hash", code="checkpoint-root-invalid")
    if len(extensions) > _MAX_EXTENSIONS or not all(_is_line(line) for line in extensions):
        raise VerificationError(
            "an extension line is empty or has a control character, or there are too many",
            code="checkpoint-extension-invalid",
        )
    return Checkpoint(origin, size, root, tuple(extensions))


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> SignedNote:
    """Sign a head with the log's key, whose name is the log's origin."""
    return sign_note(checkpoint.to_text(), checkpoint.origin, key)


def verify_checkpoint(note: SignedNote, keys: Iterable[NoteKey], origin: str) -> None:
    """Check that the log ``origin`` signed this head with one of ``keys``."""
    verify_note(note, keys)
    checkpoint = parse_checkpoint(note.text)
    if checkpoint.origin != origin:
        raise VerificationError(
            f"this is a head of {checkpoint.origin!r}, not of {origin!r}", code="checkpoint-origin-mismatch"
        )


def verify_extension(old: Checkpoint, new: Checkpoint, path: Sequence[bytes]) -> None:
    """Check that ``new`` only adds leaves to ``old``; both must come from verified notes."""
    if old.origin != new.origin:
        raise VerificationError(
            f"heads of two logs, {old.origin!r} and {new.origin!r}", code="checkpoint-origin-mismatch"
        )
    verify_consistency(old.size, old.root, new.size, new.root, path)


def cosign_checkpoint(note: SignedNote, name: str, key: SigningKey, time: int) -> SignedNote:
    """Add a witness's line, made at POSIX time ``time``.

    A witness first verifies the log's signature, and that the head extends the last one it cosigned
    (:func:`verify_checkpoint`, :func:`verify_extension`); a cosignature says that it did.
    """
    parse_checkpoint(note.text)
    if not 0 <= time <= _MAX_TIME:
        raise InputError(f"{time} is not a POSIX time")
    witness = NoteKey(name, key.public, NoteAlgorithm.COSIGNATURE_V1)
    blob = time.to_bytes(_TIME_SIZE, "big") + key.sign(_cosigned_message(time, note.text))
    return note.with_signature(NoteSignature(name, witness.key_id, blob))


def verify_cosignatures(note: SignedNote, witnesses: Iterable[NoteKey], quorum: int, *, now: int | None = None) -> None:
    """Check that at least ``quorum`` of ``witnesses`` cosigned, and that no known witness's line is false.

    A public key counts once, under however many names it appears, because a cosignature does not cover the
    witness's name. With ``now``, a time more than five minutes ahead is refused.
    """
    parse_checkpoint(note.text)
    trusted = list(witnesses)
    if quorum < 1 or quorum > len({key.public for key in trusted}):
        raise InputError(f"a quorum of {quorum} cannot be met by {len(trusted)} witnesses")
    cosigned = set()
    for key, time, signature in _known_lines(note, trusted):
        if now is not None and time > now + _CLOCK_SKEW:
            raise VerificationError(
                f"{key.name} cosigned at {time}, which is after {now}", code="cosignature-from-future"
            )
        if not key.public.verifies(signature, _cosigned_message(time, note.text)):
            raise VerificationError(
                f"the cosignature by {key.name} is not over this head and time", code="cosignature-invalid"
            )
        cosigned.add(key.public)
    if len(cosigned) < quorum:
        named = ", ".join(sorted({line.name for line in note.signatures})) or "nobody"
        raise VerificationError(
            f"{len(cosigned)} trusted witnesses cosigned; {quorum} are needed (signed by {named})",
            code="cosignature-quorum-missed",
        )


def cosignature_times(note: SignedNote, witnesses: Iterable[NoteKey]) -> dict[str, int]:
    """Return when each of ``witnesses`` last cosigned, by name, as its lines claim; verify them first."""
    times: dict[str, int] = {}
    for key, time, _ in _known_lines(note, list(witnesses)):
        times[key.name] = max(time, times.get(key.name, 0))
    return times


def _known_lines(note: SignedNote, witnesses: list[NoteKey]) -> list[tuple[NoteKey, int, bytes]]:
    if any(key.algorithm is not NoteAlgorithm.COSIGNATURE_V1 for key in witnesses):
        raise InputError("a witness's verifier key has signature type 0x04")
    trusted = {(key.name, key.key_id): key for key in witnesses}
    found = []
    for line in note.signatures:
        key = trusted.get((line.name, line.key_id))
        if key is None:
            continue
        if len(line.signature) != _TIME_SIZE + SIGNATURE_SIZE:
            raise VerificationError(
                f"the cosignature by {line.name} has {len(line.signature)} bytes", code="cosignature-malformed"
            )
        time = int.from_bytes(line.signature[:_TIME_SIZE], "big")
        if time > _MAX_TIME:
            raise VerificationError(f"the cosignature by {line.name} has time {time}", code="cosignature-time-invalid")
        found.append((key, time, line.signature[_TIME_SIZE:]))
    return found


def _is_line(line: str) -> bool:
    # Clients may assume nothing about an origin beyond this, not even that it has no spaces.
    return bool(line) and not any(character < " " or "\ud800" <= character <= "\udfff" for character in line)


def _cosigned_message(time: int, text: bytes) -> bytes:
    return b"cosignature/v1\ntime %d\n" % time + text
