"""ML-DSA-44 witnesses: what they sign, byte for byte; keys in files; how they count beside Ed25519."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

from expunge.errors import InputError, MissingExtra, VerificationError
from expunge.ledger.checkpoint import Checkpoint, Witness, sign_checkpoint, verify_cosignatures
from expunge.ledger.mldsa import MldsaSigningKey, MldsaVerifyingKey, load_witness_key
from expunge.ledger.note import NoteAlgorithm, NoteKey, NoteSignature, SignedNote, parse_note
from expunge.ledger.signing import SigningKey, save_signing_key, write_key_file

LOG = SigningKey.from_seed(b"\x01" * 32)
KEY = MldsaSigningKey.from_seed(b"\x02" * 32)
WITNESS = Witness("witness.example/w1", KEY)
HEAD = Checkpoint("ledger.example/icu-7", 8, b"\x07" * 32)
NOTE = sign_checkpoint(HEAD, LOG)
TIME = 1_700_000_000
LINE = WITNESS.cosignature(NOTE.text, TIME)
LOG_KEYS = [NoteKey(HEAD.origin, LOG.public)]


def code_of(note: SignedNote, *keys: NoteKey, quorum: int = 1) -> str:
    with pytest.raises(VerificationError) as caught:
        verify_cosignatures(note, keys, quorum, log_keys=LOG_KEYS)
    return caught.value.code


def test_what_is_signed() -> None:
    """The structure of c2sp.org/tlog-cosignature, written out here once more, and verified by the library alone."""
    message = b"subtree/v1\n\0" + bytes([len(WITNESS.name)]) + WITNESS.name.encode() + struct.pack(">Q", TIME)
    message += bytes([len(HEAD.origin)]) + HEAD.origin.encode() + struct.pack(">QQ", 0, 8) + HEAD.root
    assert LINE.signature[:8] == struct.pack(">Q", TIME)
    MLDSA44PublicKey.from_public_bytes(KEY.public.raw).verify(LINE.signature[8:], message)
    verify_cosignatures(NOTE.with_signature(LINE), [WITNESS.verifier], 1, log_keys=LOG_KEYS, now=TIME)


def test_a_note_and_a_verifier_key_round_trip() -> None:
    signed = NOTE.with_signature(LINE)
    assert parse_note(signed.to_bytes()) == signed
    text = WITNESS.verifier.to_text()
    assert NoteKey.from_text(text) == WITNESS.verifier
    with pytest.raises(InputError) as caught:
        NoteKey.from_text(text[:-8])
    assert caught.value.code == "verifier-key-malformed"
    for key, algorithm in (
        (KEY.public, NoteAlgorithm.COSIGNATURE_V1),
        (LOG.public, NoteAlgorithm.COSIGNATURE_MLDSA_44),
    ):
        with pytest.raises(InputError, match="signature type"):
            NoteKey("w", key, algorithm)


def test_every_field_is_covered() -> None:
    for head in (
        replace(HEAD, origin="ledger.example/icu-8"),
        replace(HEAD, size=9),
        replace(HEAD, root=b"\x08" * 32),
    ):
        assert code_of(sign_checkpoint(head, LOG).with_signature(LINE), WITNESS.verifier) == "cosignature-invalid"
    # The time is in the line, the name in the key: an Ed25519 witness could be renamed, this one cannot.
    later = NoteSignature(LINE.name, LINE.key_id, struct.pack(">Q", TIME + 1) + LINE.signature[8:])
    assert code_of(NOTE.with_signature(later), WITNESS.verifier) == "cosignature-invalid"
    renamed = NoteKey("witness.example/w2", KEY.public, NoteAlgorithm.COSIGNATURE_MLDSA_44)
    line = NoteSignature(renamed.name, renamed.key_id, LINE.signature)
    assert code_of(NOTE.with_signature(line), renamed) == "cosignature-invalid"


def test_lines_of_another_form() -> None:
    for blob, code in (
        (LINE.signature[:-1], "cosignature-malformed"),
        (LINE.signature[:72], "cosignature-malformed"),
        (bytes(8) + LINE.signature[8:], "cosignature-time-invalid"),
        (b"\xff" * 8 + LINE.signature[8:], "cosignature-time-invalid"),
    ):
        assert code_of(NOTE.with_signature(NoteSignature(LINE.name, LINE.key_id, blob)), WITNESS.verifier) == code
    for time in (0, -1, 2**63):
        with pytest.raises(InputError, match="POSIX"):
            WITNESS.cosignature(NOTE.text, time)
    with pytest.raises(InputError, match="255"):
        Witness("w" * 256, KEY).cosignature(NOTE.text, TIME)


def test_a_witness_with_a_key_of_each_type_is_one() -> None:
    old = Witness(WITNESS.name, SigningKey.from_seed(b"\x03" * 32))
    other = Witness("witness.example/w2", MldsaSigningKey.from_seed(b"\x04" * 32))
    note = NOTE.with_signature(LINE).with_signature(old.cosignature(NOTE.text, TIME))
    keys = (WITNESS.verifier, old.verifier, other.verifier)
    verify_cosignatures(note, keys, 1, log_keys=LOG_KEYS)
    assert code_of(note, *keys, quorum=2) == "cosignature-quorum-missed"
    verify_cosignatures(note.with_signature(other.cosignature(NOTE.text, TIME)), keys, 2, log_keys=LOG_KEYS)
    with pytest.raises(InputError, match="quorum of 2"):
        verify_cosignatures(note, keys[:2], 2, log_keys=LOG_KEYS)


def test_keys_in_files(tmp_path: Path) -> None:
    write_key_file(tmp_path / "plain.pem", KEY.to_pem(), 0o600)
    write_key_file(tmp_path / "locked.pem", KEY.to_pem("secret"), 0o600)
    save_signing_key(LOG, tmp_path / "ed25519.pem")
    for name, passphrase in (("plain", None), ("locked", "secret")):
        assert load_witness_key(tmp_path / f"{name}.pem", passphrase).public == KEY.public
    assert load_witness_key(tmp_path / "ed25519.pem").public == LOG.public
    with pytest.raises(InputError) as caught:
        load_witness_key(tmp_path / "locked.pem", "wrong")
    assert caught.value.code == "signing-key-passphrase-wrong"
    for seed in (b"", bytes(31)):
        with pytest.raises(InputError, match="seed"):
            MldsaSigningKey.from_seed(seed)
    with pytest.raises(InputError, match="1312"):
        MldsaVerifyingKey(bytes(1311))


def test_an_old_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.mldsa", None)
    with pytest.raises(MissingExtra, match="cryptography>=48"):
        verify_cosignatures(NOTE.with_signature(LINE), [WITNESS.verifier], 1, log_keys=LOG_KEYS)
