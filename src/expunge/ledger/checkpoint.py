"""Signed log heads (c2sp.org/tlog-checkpoint) and witness cosignatures (c2sp.org/tlog-cosignature).

Format: ``docs/formats/checkpoint.md``. A checkpoint fixes the whole log at one size. Whoever keeps one can
later demand a consistency path to a newer one (:func:`verify_extension`): a log that was truncated,
rewritten or shown differently to different people cannot supply it. A witness's cosignature says that the
witness did so, at a stated time.

The messages that one Ed25519 key may sign here cannot be mistaken for each other: a checkpoint's second
line is a decimal, a cosignature's is ``time`` and a decimal, and what is signed for an envelope has no
newline at all. An ML-DSA-44 key signs nothing but cosignatures.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import decode_base64, decode_decimal, encode_base64
from expunge.ledger.merkle.hashing import HASH_SIZE, MAX_TREE_SIZE
from expunge.ledger.merkle.tree_proof import verify_consistency
from expunge.ledger.mldsa import SIGNATURE_SIZE as MLDSA_SIGNATURE_SIZE
from expunge.ledger.mldsa import MldsaSigningKey
from expunge.ledger.note import NoteAlgorithm, NoteKey, NoteSignature, SignedNote, sign_note, verify_note
from expunge.ledger.signing import SIGNATURE_SIZE, Signer
from expunge.ledger.witness_policy import WitnessPolicy

__all__ = [
    "Checkpoint",
    "Witness",
    "check_not_log",
    "cosignature_times",
    "count_witnesses",
    "parse_checkpoint",
    "sign_checkpoint",
    "verify_checkpoint",
    "verify_cosignatures",
    "verify_extension",
]

_MAX_EXTENSIONS = 16
_MAX_TIME = 2**63 - 1
_TIME_SIZE = 8
# What an ML-DSA-44 cosignature signs begins with this; names in it have one byte for their length.
_SUBTREE_LABEL = b"subtree/v1\n\0"
_MAX_NAME = 255
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


def sign_checkpoint(checkpoint: Checkpoint, key: Signer) -> SignedNote:
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


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness's name and key, Ed25519 or ML-DSA-44."""

    name: str
    key: Signer | MldsaSigningKey

    @property
    def verifier(self) -> NoteKey:
        """The verifier key of its cosignatures."""
        mldsa = isinstance(self.key, MldsaSigningKey)
        algorithm = NoteAlgorithm.COSIGNATURE_MLDSA_44 if mldsa else NoteAlgorithm.COSIGNATURE_V1
        return NoteKey(self.name, self.key.public, algorithm)

    def cosignature(self, text: bytes, time: int) -> NoteSignature:
        """Return the line over the text of a checkpoint, made at POSIX time ``time``.

        It says that this head extends every head that the witness cosigned before:
        :class:`expunge.ledger.witness_state.WitnessState` verifies that, and calls this.
        """
        parse_checkpoint(text)
        verifier = self.verifier
        # Time 0 says of an ML-DSA-44 cosignature that it is not about the largest head.
        earliest = 1 if verifier.algorithm is NoteAlgorithm.COSIGNATURE_MLDSA_44 else 0
        if not earliest <= time <= _MAX_TIME:
            raise InputError(f"{time} is not a POSIX time")
        blob = time.to_bytes(_TIME_SIZE, "big") + self.key.sign(_cosigned_message(verifier, time, text))
        return NoteSignature(self.name, verifier.key_id, blob)


def verify_cosignatures(
    note: SignedNote,
    witnesses: Iterable[NoteKey],
    quorum: int | WitnessPolicy,
    *,
    log_keys: Iterable[NoteKey],
    now: int | None = None,
    max_age: int | None = None,
) -> None:
    """Check that at least ``quorum`` of ``witnesses`` cosigned, and that no known witness's line is false.

    The log's own signature is checked by :func:`verify_checkpoint`. One public key counts as one witness under
    however many names it appears, because an Ed25519 cosignature does not cover the witness's name; and one name counts
    as one witness with however many keys, because a witness may have one of each type.

    Parameters
    ----------
    note
        The head, with its signature lines.
    witnesses
        The verifier keys of the witnesses that are trusted.
    quorum
        How many of them must have cosigned, at least 1; or a policy, which says whom of them it takes.
    log_keys
        The keys of the log, none of which may be a witness's.
    now
        POSIX time; a cosignature whose time is more than five minutes ahead of it is refused.
    max_age
        Seconds. A cosignature that is older than that at ``now`` does not count; a newer one by the same witness may.

    Raises
    ------
    VerificationError
        A line is malformed or false, or too few count: ``cosignature-too-old`` where older ones would be enough, else
        ``cosignature-quorum-missed``.
    InputError
        The policy cannot be met, or names the log as a witness (``witness-is-log``).

    """
    parse_checkpoint(note.text)
    trusted = list(witnesses)
    if isinstance(quorum, int) and not 1 <= quorum <= count_witnesses(trusted):
        raise InputError(f"a quorum of {quorum} cannot be met by {count_witnesses(trusted)} witnesses")
    if max_age is not None and (now is None or max_age < 0):
        raise InputError(
            "the maximum age of a cosignature is a number of seconds, 0 or more, before a time that is given"
        )
    check_not_log(trusted, log_keys)
    cosigned = set()
    old: dict[NoteKey, str] = {}
    for key, time, signature in _known_lines(note, trusted):
        if now is not None and time > now + _CLOCK_SKEW:
            raise VerificationError(
                f"{key.name} cosigned at {time}, which is after {now}", code="cosignature-from-future"
            )
        if not key.public.verifies(signature, _cosigned_message(key, time, note.text)):
            raise VerificationError(
                f"the cosignature by {key.name} is not over this head and time", code="cosignature-invalid"
            )
        if max_age is not None and now is not None and now - time > max_age:
            old[key] = f"{key.name} cosigned {now - time} seconds ago"
            continue
        cosigned.add(key)
    if _is_met(quorum, cosigned):
        return
    if _is_met(quorum, cosigned | old.keys()):
        told = ", ".join(text for key, text in old.items() if key not in cosigned)
        raise VerificationError(f"{told}; at most {max_age} are allowed", code="cosignature-too-old")
    named = ", ".join(sorted({line.name for line in note.signatures})) or "nobody"
    needed = f"{quorum} are needed" if isinstance(quorum, int) else f"the policy asks for {quorum.quorum}"
    raise VerificationError(
        f"{count_witnesses(cosigned | old.keys())} trusted witnesses cosigned; {needed} (signed by {named})",
        code="cosignature-quorum-missed",
    )


def check_not_log(witnesses: Iterable[NoteKey], log_keys: Iterable[NoteKey]) -> None:
    """Refuse a witness that has a key of the log, under whatever name: it would watch itself."""
    own = {key.public for key in log_keys}
    for witness in witnesses:
        if witness.public in own:
            raise InputError(
                f"{witness.name} has the key of the log: a witness cosigns with a key of its own",
                code="witness-is-log",
            )


def cosignature_times(note: SignedNote, witnesses: Iterable[NoteKey]) -> dict[str, int]:
    """Return when each of ``witnesses`` last cosigned, by name, as its lines claim; verify them first."""
    times: dict[str, int] = {}
    for key, time, _ in _known_lines(note, list(witnesses)):
        times[key.name] = max(time, times.get(key.name, 0))
    return times


def _known_lines(note: SignedNote, witnesses: list[NoteKey]) -> list[tuple[NoteKey, int, bytes]]:
    if not all(key.algorithm.cosigns for key in witnesses):
        raise InputError("a witness's verifier key has signature type 0x04 or 0x06")
    trusted = {(key.name, key.key_id): key for key in witnesses}
    found = []
    for line in note.signatures:
        key = trusted.get((line.name, line.key_id))
        if key is None:
            continue
        mldsa = key.algorithm is NoteAlgorithm.COSIGNATURE_MLDSA_44
        if len(line.signature) != _TIME_SIZE + (MLDSA_SIGNATURE_SIZE if mldsa else SIGNATURE_SIZE):
            raise VerificationError(
                f"the cosignature by {line.name} has {len(line.signature)} bytes", code="cosignature-malformed"
            )
        time = int.from_bytes(line.signature[:_TIME_SIZE], "big")
        if time > _MAX_TIME or (mldsa and time == 0):
            raise VerificationError(f"the cosignature by {line.name} has time {time}", code="cosignature-time-invalid")
        found.append((key, time, line.signature[_TIME_SIZE:]))
    return found


def _is_line(line: str) -> bool:
    # Clients may assume nothing about an origin beyond this, not even that it has no spaces.
    return bool(line) and not any(character < " " or "\ud800" <= character <= "\udfff" for character in line)


def _cosigned_message(witness: NoteKey, time: int, text: bytes) -> bytes:
    if witness.algorithm is NoteAlgorithm.COSIGNATURE_V1:
        return b"cosignature/v1\ntime %d\n" % time + text
    head = parse_checkpoint(text)
    name, origin = witness.name.encode("utf-8"), head.origin.encode("utf-8")
    if max(len(name), len(origin)) > _MAX_NAME:
        raise InputError(f"an ML-DSA-44 cosignature is by a name and of a log with at most {_MAX_NAME} bytes each")
    start = bytes(8)
    named = (_SUBTREE_LABEL, bytes([len(name)]), name, time.to_bytes(8, "big"), bytes([len(origin)]), origin)
    return b"".join((*named, start, head.size.to_bytes(8, "big"), head.root))


def count_witnesses(keys: Iterable[NoteKey]) -> int:
    """How many witnesses the keys belong to: keys that share a name or a public key are one witness's."""
    groups: list[set[object]] = []
    for key in keys:
        labels: set[object] = {key.name, key.public}
        touching = [group for group in groups if group & labels]
        groups = [group for group in groups if not group & labels] + [labels.union(*touching)]
    return len(groups)


def _is_met(quorum: int | WitnessPolicy, cosigned: Collection[NoteKey]) -> bool:
    return count_witnesses(cosigned) >= quorum if isinstance(quorum, int) else quorum.is_met(cosigned)
