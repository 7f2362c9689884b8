"""C2SP signed notes and verifier keys (c2sp.org/signed-note), Ed25519.

Format: ``docs/formats/checkpoint.md``. :func:`parse_note` and :meth:`SignedNote.to_bytes` are inverse to each
other: bytes that parse serialise to themselves. A note's text means nothing before :func:`verify_note` has
returned. Following the specification, lines from unknown keys are ignored, every line from a trusted key must
verify, and at least one such line must be there.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import decode_base64, encode_base64
from expunge.ledger.mldsa import PUBLIC_KEY_SIZE as MLDSA_KEY_SIZE
from expunge.ledger.mldsa import MldsaVerifyingKey
from expunge.ledger.signing import PUBLIC_KEY_SIZE, Signer, VerifyingKey
from expunge.ledger.verifying_key import KeyAlgorithm

__all__ = [
    "MAX_NOTE_BYTES",
    "MAX_SIGNATURES",
    "NoteAlgorithm",
    "NoteKey",
    "NoteSignature",
    "SignedNote",
    "parse_note",
    "parse_signature_lines",
    "sign_note",
    "verify_note",
]

# Room for 64 signatures, some of them post-quantum (about 5 kB each) from witnesses that we do not know.
MAX_NOTE_BYTES = 256 * 1024
MAX_SIGNATURES = 64
_KEY_ID_SIZE = 4
_SIGNATURE_MARK = "\N{EM DASH} "
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_KEY_ID_HEX = re.compile(r"[0-9a-f]{8}")


class NoteAlgorithm(enum.IntEnum):
    """The signature types of signed-note that are spoken here."""

    ED25519 = 0x01
    COSIGNATURE_V1 = 0x04
    COSIGNATURE_MLDSA_44 = 0x06

    @property
    def cosigns(self) -> bool:
        """Whether keys of this type make cosignatures, and no others."""
        return self is not NoteAlgorithm.ED25519


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A named public key for notes: what C2SP writes as a *vkey*."""

    name: str
    public: VerifyingKey | MldsaVerifyingKey
    algorithm: NoteAlgorithm = NoteAlgorithm.ED25519

    def __post_init__(self) -> None:
        if not _is_key_name(self.name):
            raise InputError(f"{self.name!r} is not a key name: it is empty or has a space, a plus or a control")
        if (self.algorithm is NoteAlgorithm.COSIGNATURE_MLDSA_44) != isinstance(self.public, MldsaVerifyingKey):
            raise InputError(f"the key of {self.name} is not one of signature type 0x{self.algorithm:02x}")
        if isinstance(self.public, VerifyingKey) and self.public.algorithm is not KeyAlgorithm.ED25519:
            raise InputError(
                f"{self.name} has a key of {self.public.algorithm.value}; heads are signed and cosigned with Ed25519",
                code="signing-key-wrong-type",
            )

    @property
    def key_id(self) -> bytes:
        """Four bytes that, with the name, tell whose line it is: SHA-256(name ‖ 0x0A ‖ type ‖ key)[:4]."""
        material = self.name.encode("utf-8") + b"\n" + bytes([self.algorithm]) + self.public.raw
        return hashlib.sha256(material).digest()[:_KEY_ID_SIZE]

    def to_text(self) -> str:
        """Return ``name+hex(key id)+base64(type ‖ public key)``."""
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(bytes([self.algorithm]) + self.public.raw)}"

    @classmethod
    def from_text(cls, text: str) -> NoteKey:
        """Read what :meth:`to_text` wrote, and check that the id follows from the rest."""
        # Base64 may have a plus of its own, so only the first two separate.
        name, _, rest = text.partition("+")
        key_id, _, encoded = rest.partition("+")
        material = decode_base64(encoded)
        if not (_is_key_name(name) and _KEY_ID_HEX.fullmatch(key_id) and material):
            raise InputError(f"{text[:120]!r} is not name+key id+base64", code="verifier-key-malformed")
        if material[0] not in list(NoteAlgorithm):
            raise InputError(
                f"the verifier key of {name} has signature type 0x{material[0]:02x}", code="verifier-key-unsupported"
            )
        algorithm = NoteAlgorithm(material[0])
        mldsa = algorithm is NoteAlgorithm.COSIGNATURE_MLDSA_44
        if len(material) != 1 + (MLDSA_KEY_SIZE if mldsa else PUBLIC_KEY_SIZE):
            raise InputError(f"the verifier key of {name} has {len(material) - 1} bytes", code="verifier-key-malformed")
        key = cls(name, MldsaVerifyingKey(material[1:]) if mldsa else VerifyingKey(material[1:]), algorithm)
        if key.key_id.hex() != key_id:
            raise InputError(
                f"the verifier key of {name} has id {key.key_id.hex()}, not {key_id}", code="verifier-key-id-mismatch"
            )
        return key


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line."""

    name: str
    key_id: bytes
    signature: bytes

    def to_bytes(self) -> bytes:
        """Return the line with its newline."""
        return f"{_SIGNATURE_MARK}{self.name} {encode_base64(self.key_id + self.signature)}\n".encode()


@dataclass(frozen=True, slots=True)
class SignedNote:
    """A text, with its final newline, and the signatures under it, in file order."""

    text: bytes
    signatures: tuple[NoteSignature, ...]

    def to_bytes(self) -> bytes:
        """Return the note as stored and sent."""
        return self.text + b"\n" + b"".join(line.to_bytes() for line in self.signatures)

    def with_signature(self, signature: NoteSignature) -> SignedNote:
        """Return the note with one more line at its end; where no reader would take it, InputError."""
        if len(self.signatures) >= MAX_SIGNATURES:
            raise InputError(f"a note has at most {MAX_SIGNATURES} signature lines")
        return replace(self, signatures=(*self.signatures, signature))


def parse_note(data: bytes) -> SignedNote:
    """Read a signed note. Nothing in it is to be trusted before :func:`verify_note`."""
    if len(data) > MAX_NOTE_BYTES:
        raise VerificationError(
            f"a note of {len(data)} bytes exceeds the limit of {MAX_NOTE_BYTES}", code="note-too-large"
        )
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise VerificationError(f"byte {error.start} of the note is not UTF-8", code="note-not-utf8") from None
    if found := _CONTROL.search(content):
        raise VerificationError(
            f"the note has control character U+{ord(found.group()):04X}", code="note-control-character"
        )
    if not content.endswith("\n"):
        raise VerificationError("the note does not end in a newline", code="note-unterminated")
    at = content.rfind("\n\n")
    if at < 0:
        raise VerificationError(
            "no empty line separates the note's text from its signatures", code="note-separator-missing"
        )
    lines = content[at + 2 :].split("\n")[:-1]
    if not lines:
        raise VerificationError("the note has no signature line", code="note-unsigned")
    if len(lines) > MAX_SIGNATURES:
        raise VerificationError(
            f"{len(lines)} signature lines exceed the limit of {MAX_SIGNATURES}", code="note-too-many-signatures"
        )
    return SignedNote(content[: at + 1].encode("utf-8"), tuple(_parse_line(line) for line in lines))


def parse_signature_lines(data: bytes) -> tuple[NoteSignature, ...]:
    """Read bare signature lines, which a witness returns, to be put under the note that they are over."""
    # The parser of notes reads them under a text that no line is over.
    note = parse_note(b"\n\n" + data)
    if note.text != b"\n":
        raise VerificationError("an empty line stands among signature lines", code="note-signature-line-malformed")
    return note.signatures


def sign_note(text: bytes, name: str, key: Signer) -> SignedNote:
    """Sign a text that ends in a newline as the key called ``name``."""
    try:
        content = text.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("the text of a note is UTF-8") from None
    if not content.endswith("\n") or _CONTROL.search(content):
        raise InputError("the text of a note ends in a newline and has no other control character")
    signer = NoteKey(name, key.public)
    return SignedNote(text, (NoteSignature(name, signer.key_id, key.sign(text)),))


def verify_note(note: SignedNote, keys: Iterable[NoteKey]) -> None:
    """Check that a trusted key signed the note's text, and that no trusted key's line is false."""
    trusted = {(key.name, key.key_id): key for key in keys}
    if any(key.algorithm is not NoteAlgorithm.ED25519 for key in trusted.values()):
        raise InputError("a witness's key verifies cosignatures, not notes")
    found = False
    for line in note.signatures:
        key = trusted.get((line.name, line.key_id))
        if key is None:
            continue
        if not key.public.verifies(line.signature, note.text):
            raise VerificationError(
                f"the signature by {line.name} is not over this text", code="note-signature-invalid"
            )
        found = True
    if not found:
        raise VerificationError("no signature on the note is by a trusted key", code="note-signer-unknown")


def _parse_line(line: str) -> NoteSignature:
    name, space, encoded = line.removeprefix(_SIGNATURE_MARK).partition(" ")
    if not line.startswith(_SIGNATURE_MARK) or not space:
        raise VerificationError(f"{line[:80]!r} is not a signature line", code="note-signature-line-malformed")
    if not _is_key_name(name):
        raise VerificationError(f"{name[:80]!r} is not a key name", code="note-key-name-invalid")
    blob = decode_base64(encoded)
    if blob is None or len(blob) <= _KEY_ID_SIZE:
        raise VerificationError(
            f"the signature by {name[:80]} is not base64 of key id and signature",
            code="note-signature-encoding-invalid",
        )
    return NoteSignature(name, blob[:_KEY_ID_SIZE], blob[_KEY_ID_SIZE:])


def _is_key_name(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    has_space = any(character.isspace() for character in name)
    return bool(name) and "+" not in name and not has_space and not _CONTROL.search(name)
