"""Asking for a time stamp: from OpenSSL's authority, and from servers that answer something else."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from expunge.errors import InputError, StoreError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.signing import SigningKey
from expunge.verify.timestamp import read_roots, verify_timestamp
from expunge.witnessing.timestamp_request import request_timestamp
from witnessing.stamping_authority import make_authority, serve_answers, stamp, stamping_server

HEAD = sign_checkpoint(Checkpoint("log.example", 8, b"\x07" * 32), SigningKey.from_seed(b"\x01" * 32)).to_bytes()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_authority(tmp_path_factory.mktemp("tsa"))


def test_a_real_authority(authority: Path) -> None:
    roots = read_roots((authority / "root.pem").read_bytes())
    with stamping_server(authority) as url:
        answer = request_timestamp(HEAD, url, roots)
        assert request_timestamp(HEAD, url) != answer
    assert verify_timestamp(HEAD, answer, roots, now=datetime.now(UTC)).authority == "CN=tsa"


def test_answers_that_are_none(authority: Path, tmp_path: Path) -> None:
    kept: list[bytes] = []

    def repeated(query: bytes) -> tuple[int, str, bytes]:
        kept.append(stamp(authority, query))
        return 200, "application/timestamp-reply", kept[0]

    with serve_answers(repeated) as url:
        request_timestamp(HEAD, url)
        assert code_of(url) == "timestamp-nonce-mismatch"
    for status, kind, body, code in (
        (500, "application/timestamp-reply", b"", "timestamp-answer-unexpected"),
        (302, "application/timestamp-reply", b"", "timestamp-answer-unexpected"),
        (200, "text/html", b"<html>", "timestamp-answer-unexpected"),
        (200, "application/timestamp-reply", b"<html>", "timestamp-malformed"),
        (200, "application/timestamp-reply", b"\x30\x05\x30\x03\x02\x01\x02", "timestamp-not-granted"),
    ):
        with serve_answers(partial(told, (status, kind, body))) as url:
            assert code_of(url) == code
    strangers = read_roots((make_authority(tmp_path / "other") / "root.pem").read_bytes())
    with stamping_server(authority) as url, pytest.raises(VerificationError) as caught:
        request_timestamp(HEAD, url, strangers)
    assert caught.value.code == "timestamp-signer-untrusted"


def test_servers_that_do_not_answer() -> None:
    with serve_answers(lambda _: (200, "application/timestamp-reply", bytes(100_000))) as url:
        assert unreachable(url).startswith(f"{url} answered with more than")
    assert "cannot be reached" in unreachable("http://127.0.0.1:1/tsr")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert "cannot be reached" in unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - start < 5
    for bad in ("file:///etc/passwd", "ftp://tsa.example", "tsa.example", "http://", "http://a b", "http://x:y", ""):
        with pytest.raises(InputError, match="address"):
            request_timestamp(HEAD, bad)


def told(answer: tuple[int, str, bytes], _: bytes) -> tuple[int, str, bytes]:
    return answer


def unreachable(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        request_timestamp(HEAD, url, timeout=0.5)
    assert caught.value.code == "server-unreachable"
    return str(caught.value)


def code_of(url: str) -> str:
    with pytest.raises(VerificationError) as caught:
        request_timestamp(HEAD, url)
    return caught.value.code
