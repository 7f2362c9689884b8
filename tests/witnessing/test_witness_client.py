"""Submitting heads: to our witness, and to servers that answer otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from expunge.errors import ExpungeError
from expunge.ledger.checkpoint import Witness, verify_cosignatures
from expunge.ledger.note import NoteKey, NoteSignature, SignedNote
from expunge.ledger.signing import SigningKey
from expunge.witnessing.witness_client import request_cosignatures
from witnessing.stamping_authority import serve_answers
from witnessing.watched_log import LOG_KEY, WatchedLog, serving

WITNESS = Witness("witness.example/w1", SigningKey.from_seed(b"\x02" * 32))
LOG = WatchedLog()
SIZE = "text/x.tlog.size"


def submit(url: str, size: int, log: WatchedLog = LOG, keys: tuple[NoteKey, ...] = (WITNESS.verifier,)) -> SignedNote:
    asked: list[int] = []

    def prove(old: int) -> tuple[bytes, ...]:
        asked.append(old)
        return log.tree.consistency_path(old, size)

    lines = request_cosignatures(url, log.head(size), prove, keys, log_keys=[LOG_KEY], timeout=2)
    assert asked[0] == 0
    return SignedNote(log.head(size).text, lines)


def code_of(url: str, size: int = 8, log: WatchedLog = LOG) -> str:
    with pytest.raises(ExpungeError) as caught:
        submit(url, size, log)
    return caught.value.code


def test_a_real_witness(tmp_path: Path) -> None:
    with serving(tmp_path, WITNESS) as (url, _):
        for size in (1, 5, 8, 8, 64):
            verify_cosignatures(submit(f"{url}/", size), [WITNESS.verifier], 1, log_keys=[LOG_KEY])
        assert code_of(url, 63) == "consistency-sizes-reversed"
        assert code_of(url, 64, WatchedLog(fork=3)) == "witness-refused"
        assert code_of(url, 64, WatchedLog(origin="other.example")) == "witness-refused"
        stranger = NoteKey("witness.example/w2", SigningKey.from_seed(b"\x03" * 32).public, WITNESS.verifier.algorithm)
        with pytest.raises(ExpungeError) as caught:
            submit(url, 64, keys=(stranger,))
        assert caught.value.code == "witness-answer-invalid"


def line(change: Callable[[bytes], bytes] = lambda blob: blob, witness: Witness = WITNESS) -> bytes:
    made = witness.cosignature(LOG.head(8).text, 1_700_000_000)
    return NoteSignature(made.name, made.key_id, change(made.signature)).to_bytes()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, "text/plain", b""), "witness-answer-invalid"),
        ((200, "text/plain", b"thank you\n"), "witness-answer-invalid"),
        ((200, "text/plain", line(lambda blob: blob[:-1] + bytes([blob[-1] ^ 1]))), "cosignature-invalid"),
        ((200, "text/plain", line(lambda blob: blob[:-1])), "cosignature-malformed"),
        ((200, "text/plain", line(lambda blob: b"\x7f" + blob[1:])), "cosignature-from-future"),
        ((200, "text/plain", line(witness=Witness("w2", WITNESS.key))), "witness-answer-invalid"),
        ((409, SIZE, b"99\n"), "consistency-sizes-reversed"),
        ((409, SIZE, b"3\n"), "server-unreachable"),
        ((409, SIZE, b"03\n"), "witness-answer-invalid"),
        ((409, SIZE, b"\xff\n"), "witness-answer-invalid"),
        ((409, "text/plain", b"3\n"), "witness-answer-invalid"),
        ((403, "text/plain", b"who?\n"), "witness-refused"),
        ((422, "text/plain", b""), "witness-refused"),
        ((302, "text/plain", b""), "witness-refused"),
        ((503, "text/plain", b""), "server-unreachable"),
        ((429, "text/plain", b""), "server-unreachable"),
    ],
)
def test_answers_that_are_no_cosignature(answer: tuple[int, str, bytes], code: str) -> None:
    with serve_answers(lambda _: answer) as url:
        assert code_of(url) == code


def test_lines_of_others_are_dropped() -> None:
    other = Witness("witness.example/other", SigningKey.from_seed(b"\x04" * 32))
    with serve_answers(lambda _: (200, "text/plain", line(witness=other) + line())) as url:
        assert [found.name for found in submit(url, 8).signatures] == [WITNESS.name]
