"""Log heads and cosignatures, from published logs and from our own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosigning import cosign_checkpoint
from expunge.errors import InputError, VerificationError
from expunge.ledger.checkpoint import (
    Checkpoint,
    cosignature_times,
    parse_checkpoint,
    sign_checkpoint,
    verify_checkpoint,
    verify_cosignatures,
    verify_extension,
)
from expunge.ledger.encoding import encode_base64
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import MAX_SIGNATURES, NoteAlgorithm, NoteKey, SignedNote, parse_note, sign_note
from expunge.ledger.signing import SigningKey
from raising import raises_code

from .make_vectors import LOG_KEY, ORIGIN, TIME, WITNESS, WITNESS_KEY
from .tamper import flips

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "published-notes.json").read_text())
TREE = HashTree(leaf_hash(b"%d" % number) for number in range(20))
HEAD = Checkpoint(ORIGIN, 20, TREE.root())
KEY = NoteKey(ORIGIN, LOG_KEY.public)
WITNESS_VKEY = NoteKey(WITNESS, WITNESS_KEY.public, NoteAlgorithm.COSIGNATURE_V1)
SIGNED = sign_checkpoint(HEAD, LOG_KEY)
COSIGNED = cosign_checkpoint(SIGNED, WITNESS, WITNESS_KEY, TIME)
ROOT_LINE = encode_base64(TREE.root())


@pytest.mark.parametrize("case", PUBLISHED["checkpoints"])
def test_published_checkpoints_verify(case: dict[str, Any]) -> None:
    note = parse_note(case["note"].encode())
    verify_checkpoint(note, [NoteKey.from_text(case["vkey"])], case["origin"])
    head = parse_checkpoint(note.text)
    assert (head.origin, head.size) == (case["origin"], case["size"])
    assert head.to_text() == note.text
    assert note.to_bytes() == case["note"].encode()


@pytest.mark.parametrize("case", PUBLISHED["cosigned"])
def test_published_cosignatures_verify(case: dict[str, Any]) -> None:
    note = parse_note(case["note"].encode())
    witness = NoteKey.from_text(case["vkey"])
    verify_cosignatures(note, [witness], 1, now=case["time"], log_keys=[KEY])
    assert cosignature_times(note, [witness]) == {witness.name: case["time"]}
    assert parse_checkpoint(note.text).origin == case["origin"]
    assert note.to_bytes() == case["note"].encode()


HEADS = st.builds(
    Checkpoint,
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20),
    st.integers(0, 2**63 - 1),
    st.binary(min_size=32, max_size=32),
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9), max_size=3).map(tuple),
)


@given(HEADS)
def test_heads_round_trip(head: Checkpoint) -> None:
    assert parse_checkpoint(head.to_text()) == head
    note = sign_note(head.to_text(), "log.example", LOG_KEY)
    assert parse_note(note.to_bytes()) == note
    verify_checkpoint(note, [NoteKey("log.example", LOG_KEY.public)], head.origin)


@given(st.binary(max_size=120) | st.text("a1\n=A+/", max_size=80).map(str.encode))
def test_what_parses_serialises_to_the_same_bytes(text: bytes) -> None:
    try:
        head = parse_checkpoint(text)
    except VerificationError:
        return
    assert head.to_text() == text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "checkpoint-lines-missing"),
        ("a\n1\n", "checkpoint-lines-missing"),
        (f"a\n1\n{ROOT_LINE}", "checkpoint-lines-missing"),
        (f"\n1\n{ROOT_LINE}\n", "checkpoint-origin-invalid"),
        (f"a\x07\n1\n{ROOT_LINE}\n", "checkpoint-origin-invalid"),
        (f"a\n01\n{ROOT_LINE}\n", "checkpoint-size-invalid"),
        (f"a\n-1\n{ROOT_LINE}\n", "checkpoint-size-invalid"),
        (f"a\n\n{ROOT_LINE}\n", "checkpoint-size-invalid"),
        (f"a\n{2**63}\n{ROOT_LINE}\n", "checkpoint-size-invalid"),
        (f"a\n{'9' * 9999}\n{ROOT_LINE}\n", "checkpoint-size-invalid"),
        ("a\n1\n\n", "checkpoint-root-invalid"),
        ("a\n1\nAAAA\n", "checkpoint-root-invalid"),
        (f"a\n1\n{ROOT_LINE} \n", "checkpoint-root-invalid"),
        (f"a\n1\n{ROOT_LINE[:-1]}\n", "checkpoint-root-invalid"),
        (f"a\n1\n{ROOT_LINE}\n\n", "checkpoint-extension-invalid"),
        (f"a\n1\n{ROOT_LINE}\nx\n\ny\n", "checkpoint-extension-invalid"),
        (f"a\n1\n{ROOT_LINE}\n" + "x\n" * 17, "checkpoint-extension-invalid"),
    ],
)
def test_each_fault_has_its_name(text: str, error: str) -> None:
    with raises_code(error):
        parse_checkpoint(text.encode())


def test_limits_are_inclusive() -> None:
    head = Checkpoint("a", 2**63 - 1, TREE.root(), ("x",) * 16)
    assert parse_checkpoint(head.to_text()) == head
    for time in (0, 2**63 - 1):
        note = cosign_checkpoint(SIGNED, WITNESS, WITNESS_KEY, time)
        verify_cosignatures(note, [WITNESS_VKEY], 1, log_keys=[KEY])
        assert cosignature_times(note, [WITNESS_VKEY]) == {WITNESS: time}


def test_a_text_that_is_not_unicode() -> None:
    with raises_code("note-not-utf8"):
        parse_checkpoint(b"\xff\n1\n" + ROOT_LINE.encode() + b"\n")


@pytest.mark.parametrize(
    "alter",
    [
        lambda head: replace(head, origin="ledger.example/other"),
        lambda head: replace(head, size=head.size + 1),
        lambda head: replace(head, root=bytes(32)),
        lambda head: replace(head, extensions=("more",)),
    ],
)
def test_every_field_is_under_the_signatures(alter: Callable[[Checkpoint], Checkpoint]) -> None:
    altered = SignedNote(alter(HEAD).to_text(), COSIGNED.signatures)
    with raises_code("note-signature-invalid"):
        verify_checkpoint(altered, [KEY], ORIGIN)
    with raises_code("cosignature-invalid"):
        verify_cosignatures(altered, [WITNESS_VKEY], 1, log_keys=[KEY])


def test_a_true_head_of_another_log_is_refused() -> None:
    verify_checkpoint(SIGNED, [KEY], ORIGIN)
    other = sign_note(replace(HEAD, origin="ledger.example/other").to_text(), ORIGIN, LOG_KEY)
    with raises_code("checkpoint-origin-mismatch"):
        verify_checkpoint(other, [KEY], ORIGIN)


def test_a_head_by_an_unknown_key_is_refused() -> None:
    with raises_code("note-signer-unknown"):
        verify_checkpoint(sign_checkpoint(HEAD, SigningKey.generate()), [KEY], ORIGIN)


def test_a_signed_note_that_is_no_checkpoint() -> None:
    note = sign_note(b"just a text\n", ORIGIN, LOG_KEY)
    with raises_code("checkpoint-lines-missing"):
        verify_checkpoint(note, [KEY], ORIGIN)
    with raises_code("checkpoint-lines-missing"):
        cosign_checkpoint(note, WITNESS, WITNESS_KEY, TIME)


def test_extension() -> None:
    old = Checkpoint(ORIGIN, 13, TREE.root(13))
    path = TREE.consistency_path(13)
    verify_extension(old, HEAD, path)
    with raises_code("checkpoint-origin-mismatch"):
        verify_extension(replace(old, origin="ledger.example/other"), HEAD, path)
    with raises_code("consistency-sizes-reversed"):
        verify_extension(HEAD, old, path)
    with raises_code("consistency-new-root-mismatch"):
        verify_extension(old, replace(HEAD, root=bytes(32)), path)


def test_cosignatures_and_the_logs_signature_share_a_note() -> None:
    read = parse_note(COSIGNED.to_bytes())
    assert read == COSIGNED
    verify_checkpoint(read, [KEY], ORIGIN)
    verify_cosignatures(read, [WITNESS_VKEY], 1, now=TIME, log_keys=[KEY])
    assert cosignature_times(read, [WITNESS_VKEY]) == {WITNESS: TIME}


def test_the_latest_of_several_cosignatures_counts_once() -> None:
    again = cosign_checkpoint(COSIGNED, WITNESS, WITNESS_KEY, TIME + 60)
    assert cosignature_times(again, [WITNESS_VKEY]) == {WITNESS: TIME + 60}
    other = NoteKey("other.example", SigningKey.generate().public, NoteAlgorithm.COSIGNATURE_V1)
    with raises_code("cosignature-quorum-missed"):
        verify_cosignatures(again, [WITNESS_VKEY, other], 2, log_keys=[KEY])


def test_what_is_cosigned_can_still_be_read() -> None:
    note = SIGNED
    while len(note.signatures) < MAX_SIGNATURES:
        note = cosign_checkpoint(note, WITNESS, WITNESS_KEY, TIME + len(note.signatures))
    assert parse_note(note.to_bytes()) == note
    with pytest.raises(InputError, match="at most 64"):
        cosign_checkpoint(note, WITNESS, WITNESS_KEY, TIME)


def test_one_key_under_two_names_is_one_witness() -> None:
    alias = NoteKey("alias.example", WITNESS_KEY.public, NoteAlgorithm.COSIGNATURE_V1)
    third = NoteKey("third.example", SigningKey.generate().public, NoteAlgorithm.COSIGNATURE_V1)
    twice = cosign_checkpoint(COSIGNED, "alias.example", WITNESS_KEY, TIME)
    verify_cosignatures(twice, [WITNESS_VKEY, alias, third], 1, log_keys=[KEY])
    with raises_code("cosignature-quorum-missed"):
        verify_cosignatures(twice, [WITNESS_VKEY, alias, third], 2, log_keys=[KEY])


def test_no_bit_of_a_cosignature_can_change() -> None:
    log_line, line = COSIGNED.signatures
    for bit, changed in enumerate(flips(line.signature)):
        altered = replace(COSIGNED, signatures=(log_line, replace(line, signature=changed)))
        # The top bit of the time puts it beyond every POSIX time.
        with raises_code("cosignature-invalid" if bit else "cosignature-time-invalid"):
            verify_cosignatures(altered, [WITNESS_VKEY], 1, log_keys=[KEY])


@pytest.mark.parametrize("length", [1, 64, 71, 73])
def test_cosignatures_of_another_length(length: int) -> None:
    line = replace(COSIGNED.signatures[1], signature=bytes(length))
    with raises_code("cosignature-malformed"):
        verify_cosignatures(replace(COSIGNED, signatures=(line,)), [WITNESS_VKEY], 1, log_keys=[KEY])


def test_cosignatures_from_the_future() -> None:
    verify_cosignatures(COSIGNED, [WITNESS_VKEY], 1, now=TIME - 300, log_keys=[KEY])
    with raises_code("cosignature-from-future"):
        verify_cosignatures(COSIGNED, [WITNESS_VKEY], 1, now=TIME - 301, log_keys=[KEY])


def test_a_quorum_that_is_missed_or_impossible() -> None:
    with raises_code("cosignature-quorum-missed"):
        verify_cosignatures(SIGNED, [WITNESS_VKEY], 1, log_keys=[KEY])
    for quorum in (0, 2):
        with pytest.raises(InputError):
            verify_cosignatures(COSIGNED, [WITNESS_VKEY], quorum, log_keys=[KEY])
    with pytest.raises(InputError):
        verify_cosignatures(COSIGNED, [KEY], 1, log_keys=[KEY])


def test_a_cosignature_is_no_log_signature() -> None:
    note = SignedNote(SIGNED.text, (COSIGNED.signatures[1],))
    with raises_code("note-signer-unknown"):
        verify_checkpoint(note, [NoteKey(WITNESS, WITNESS_KEY.public)], ORIGIN)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Checkpoint("", 0, bytes(32)),
        lambda: Checkpoint("a\nb", 0, bytes(32)),
        lambda: Checkpoint("\ud800", 0, bytes(32)),
        lambda: Checkpoint("a", -1, bytes(32)),
        lambda: Checkpoint("a", 2**63, bytes(32)),
        lambda: Checkpoint("a", 0, bytes(31)),
        lambda: Checkpoint("a", 0, bytes(32), ("",)),
        lambda: sign_checkpoint(Checkpoint("two words", 0, bytes(32)), LOG_KEY),
        lambda: cosign_checkpoint(SIGNED, WITNESS, WITNESS_KEY, -1),
        lambda: cosign_checkpoint(SIGNED, WITNESS, WITNESS_KEY, 2**63),
        lambda: cosign_checkpoint(SIGNED, "two words", WITNESS_KEY, TIME),
    ],
)
def test_wrong_arguments_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        build()


def test_the_log_is_not_its_own_witness() -> None:
    """Under a name of its own, too: the quorum would be met by the log itself."""
    own = cosign_checkpoint(SIGNED, "sock.example", LOG_KEY, TIME)
    sock = NoteKey("sock.example", LOG_KEY.public, NoteAlgorithm.COSIGNATURE_V1)
    for witnesses in ([sock], [WITNESS_VKEY, sock]):
        with raises_code("witness-is-log"):
            verify_cosignatures(own, witnesses, 1, log_keys=[KEY])


def test_a_cosignature_grows_old() -> None:
    def verify(note: SignedNote, now: int | None, max_age: int) -> None:
        verify_cosignatures(note, [WITNESS_VKEY], 1, log_keys=[KEY], now=now, max_age=max_age)

    verify(COSIGNED, TIME + 60, 60)
    verify(COSIGNED, TIME - 60, 0)
    with raises_code("cosignature-too-old", match="61 seconds"):
        verify(COSIGNED, TIME + 61, 60)
    verify(cosign_checkpoint(COSIGNED, WITNESS, WITNESS_KEY, TIME + 30), TIME + 61, 60)
    with raises_code("cosignature-quorum-missed"):
        verify(SIGNED, TIME + 61, 60)
    for now, age in ((None, 60), (TIME, -1)):
        with pytest.raises(InputError):
            verify(COSIGNED, now, age)
