"""Signed notes: the published ones verify, altered ones fail under their own name."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError, VerificationError
from expunge.ledger.note import (
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    NoteAlgorithm,
    NoteKey,
    NoteSignature,
    SignedNote,
    parse_note,
    sign_note,
    verify_note,
)
from expunge.ledger.signing import SigningKey
from raising import raises_code

from .make_vectors import LOG_KEY, WITNESS_KEY
from .tamper import cuts, flips

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "published-notes.json").read_text())
KEY = NoteKey("log.example", LOG_KEY.public)
NOTE = sign_note(b"first\n\nsecond\n", "log.example", LOG_KEY)
DATA = NOTE.to_bytes()
LINE = DATA.splitlines()[-1]


@pytest.mark.parametrize("case", PUBLISHED["notes"])
def test_published_notes_verify(case: dict[str, Any]) -> None:
    data = case["note"].encode()
    key = NoteKey.from_text(case["vkey"])
    note = parse_note(data)
    verify_note(note, [key])
    assert note.to_bytes() == data
    assert key.to_text() == case["vkey"]
    if "seed" in case:
        signer = SigningKey.from_seed(bytes.fromhex(case["seed"]))
        assert signer.public == key.public
        assert sign_note(note.text, key.name, signer).to_bytes() == data


def test_the_text_may_have_empty_lines() -> None:
    assert parse_note(DATA) == NOTE
    assert parse_note(DATA).text == b"first\n\nsecond\n"
    verify_note(parse_note(DATA), [KEY])


@given(st.binary(max_size=200) | st.text("ab \n\u2014+=A", max_size=60).map(str.encode))
def test_what_parses_serialises_to_the_same_bytes(data: bytes) -> None:
    try:
        note = parse_note(data)
    except VerificationError:
        return
    assert note.to_bytes() == data


def test_no_bit_of_a_note_can_change_or_be_missing() -> None:
    for changed in itertools.chain(flips(DATA), cuts(DATA)):
        with raises_code("note-*"):
            verify_note(parse_note(changed), [KEY])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"x" * (MAX_NOTE_BYTES + 1), "note-too-large"),
        (b"\xff" + DATA, "note-not-utf8"),
        (b"tab\there\n\n" + LINE + b"\n", "note-control-character"),
        (b"return\r\n\n" + LINE + b"\n", "note-control-character"),
        (DATA[:-1], "note-unterminated"),
        (b"", "note-unterminated"),
        (b"text\n" + LINE + b"\n", "note-separator-missing"),
        (b"\n" + LINE + b"\n", "note-separator-missing"),
        (b"text\n\n", "note-unsigned"),
        (b"text\n\n" + (LINE + b"\n") * (MAX_SIGNATURES + 1), "note-too-many-signatures"),
        (b"text\n\n- log.example AAAAAAA=\n", "note-signature-line-malformed"),
        ("text\n\n\u2014log.example AAAAAAA=\n".encode(), "note-signature-line-malformed"),
        ("text\n\n\u2014 log.example\n".encode(), "note-signature-line-malformed"),
        (b"text\n\n" + LINE + b"\ntrailing\n", "note-signature-line-malformed"),
        ("text\n\n\u2014  AAAAAAA=\n".encode(), "note-key-name-invalid"),
        ("text\n\n\u2014 a+b AAAAAAA=\n".encode(), "note-key-name-invalid"),
        ("text\n\n\u2014 a\u00a0b AAAAAAA=\n".encode(), "note-key-name-invalid"),
        ("text\n\n\u2014 a AAAA AAA=\n".encode(), "note-signature-encoding-invalid"),
        ("text\n\n\u2014 a !!!!\n".encode(), "note-signature-encoding-invalid"),
        ("text\n\n\u2014 a AAAAAA==\n".encode(), "note-signature-encoding-invalid"),
        ("text\n\n\u2014 a AAAAAAB=\n".encode(), "note-signature-encoding-invalid"),
    ],
)
def test_each_fault_has_its_name(data: bytes, error: str) -> None:
    with raises_code(error):
        parse_note(data)


def test_limits_are_inclusive() -> None:
    many = replace(NOTE, signatures=NOTE.signatures * MAX_SIGNATURES)
    assert parse_note(many.to_bytes()) == many
    long = b"x" * (MAX_NOTE_BYTES - len(LINE) - 3) + b"\n\n" + LINE + b"\n"
    assert len(long) == MAX_NOTE_BYTES
    assert parse_note(long).to_bytes() == long


def test_unknown_signers_are_ignored_and_do_not_suffice() -> None:
    stranger = NoteSignature("stranger.example", b"\x00" * 4, b"anything")
    verify_note(replace(NOTE, signatures=(stranger, *NOTE.signatures)), [KEY])
    with raises_code("note-signer-unknown"):
        verify_note(SignedNote(NOTE.text, (stranger,)), [KEY])
    with raises_code("note-signer-unknown"):
        verify_note(NOTE, [])
    # The same name with another key id, and the same id under another name, are both strangers.
    with raises_code("note-signer-unknown"):
        verify_note(NOTE, [NoteKey("log.example", WITNESS_KEY.public)])
    renamed = replace(NOTE.signatures[0], name="other.example")
    with raises_code("note-signer-unknown"):
        verify_note(SignedNote(NOTE.text, (renamed,)), [KEY])


def test_one_false_line_by_a_trusted_key_spoils_the_note() -> None:
    false = replace(NOTE.signatures[0], signature=bytes(64))
    for signatures in ((false,), (*NOTE.signatures, false), (false, *NOTE.signatures)):
        with raises_code("note-signature-invalid"):
            verify_note(SignedNote(NOTE.text, signatures), [KEY])
    short = replace(NOTE.signatures[0], signature=b"\x00")
    with raises_code("note-signature-invalid"):
        verify_note(SignedNote(NOTE.text, (short,)), [KEY])


def test_several_signers() -> None:
    other = NoteKey("other.example", WITNESS_KEY.public)
    both = NOTE.with_signature(sign_note(NOTE.text, "other.example", WITNESS_KEY).signatures[0])
    assert parse_note(both.to_bytes()) == both
    for keys in ([KEY], [other], [KEY, other]):
        verify_note(both, keys)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2003b", "a\x7f b", "\ud800", "a\x01"])
def test_bad_key_names_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        NoteKey(name, LOG_KEY.public)
    with pytest.raises(InputError):
        sign_note(b"text\n", name, LOG_KEY)


@pytest.mark.parametrize("text", [b"", b"no newline", b"tab\t\n", b"\xff\n"])
def test_bad_texts_are_not_signed(text: bytes) -> None:
    with pytest.raises(InputError):
        sign_note(text, "log.example", LOG_KEY)


def test_witness_keys_do_not_verify_notes() -> None:
    with pytest.raises(InputError):
        verify_note(NOTE, [NoteKey("log.example", LOG_KEY.public, NoteAlgorithm.COSIGNATURE_V1)])


VKEY = KEY.to_text()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "verifier-key-malformed"),
        ("log.example", "verifier-key-malformed"),
        (VKEY.replace("log.example", "log example"), "verifier-key-malformed"),
        (VKEY.replace("log.example", ""), "verifier-key-malformed"),
        (VKEY.upper(), "verifier-key-malformed"),
        (VKEY[:-1], "verifier-key-malformed"),
        (VKEY + "\n", "verifier-key-malformed"),
        ("a+00000000+", "verifier-key-malformed"),
        ("a+00000000+AQ==", "verifier-key-malformed"),
        ("a+00000000+BwAA", "verifier-key-unsupported"),
        (VKEY.replace("log.example", "other.example"), "verifier-key-id-mismatch"),
        (VKEY.replace(KEY.key_id.hex(), "00000000"), "verifier-key-id-mismatch"),
    ],
)
def test_bad_verifier_keys(text: str, error: str) -> None:
    with raises_code(error):
        NoteKey.from_text(text)


def test_a_key_has_another_id_as_a_witness() -> None:
    assert replace(KEY, algorithm=NoteAlgorithm.COSIGNATURE_V1).key_id != KEY.key_id
