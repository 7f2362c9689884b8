"""A witness answers as c2sp.org/tlog-witness says, one history per log, whatever arrives at once."""

from __future__ import annotations

import hashlib
import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Witness, parse_checkpoint, verify_checkpoint, verify_cosignatures
from expunge.ledger.mldsa import MldsaSigningKey
from expunge.ledger.note import NoteKey, SignedNote, parse_note, parse_signature_lines
from expunge.ledger.signing import SigningKey
from expunge.ledger.witness_state import WitnessState
from expunge.witnessing.post import Answer, post
from expunge.witnessing.witness_server import MAX_BODY_BYTES, WitnessService
from witnessing.watched_log import LOG_KEY, ORIGIN, WatchedLog, serving

WITNESS = Witness("witness.example/w1", SigningKey.from_seed(b"\x02" * 32))
LOG = WatchedLog()


@pytest.fixture
def service(tmp_path: Path) -> WitnessService:
    return WitnessService(WitnessState(tmp_path / "w.heads"), WITNESS, {ORIGIN: [LOG_KEY]})


def told(answer: Answer) -> tuple[int, bytes]:
    return answer.status, answer.body if answer.media_type == "text/x.tlog.size" else b""


@pytest.mark.parametrize("key", [WITNESS.key, MldsaSigningKey.from_seed(b"\x02" * 32)], ids=["ed25519", "ml-dsa"])
def test_it_cosigns_what_extends(tmp_path: Path, key: SigningKey | MldsaSigningKey) -> None:
    witness = Witness("witness.example/w1", key)
    service = WitnessService(WitnessState(tmp_path / "w.heads"), witness, {ORIGIN: [LOG_KEY]})
    for old, size in ((0, 0), (0, 5), (5, 5), (5, 8), (8, 64)):
        answer = service.add_checkpoint(LOG.request(old, size))
        assert answer.status == 200, answer.body
        signed = SignedNote(LOG.head(size).text, parse_signature_lines(answer.body))
        verify_cosignatures(signed, [witness.verifier], 1, log_keys=[LOG_KEY])


def test_every_other_answer(service: WitnessService) -> None:
    stranger = WatchedLog(key=SigningKey.from_seed(b"\x09" * 32))
    elsewhere = WatchedLog(origin="ledger.example/other")
    first = LOG.request(0, 6)
    assert told(service.add_checkpoint(LOG.request(3, 6))) == (409, b"0\n")
    assert service.add_checkpoint(first).status == 200
    assert told(service.add_checkpoint(first)) == (409, b"6\n")
    assert told(service.add_checkpoint(LOG.request(5, 8))) == (409, b"6\n")
    # Older than what was cosigned: a proof from there would run backwards.
    assert service.add_checkpoint(LOG.request(6, 4)).status == 400
    assert told(service.add_checkpoint(LOG.request(4, 4))) == (409, b"6\n")
    for broken in (b"", b"old 6\n", b"old 06\n\n" + LOG.head(8).to_bytes(), b"old 6\nx\n\n" + LOG.head(8).to_bytes()):
        assert service.add_checkpoint(broken).status == 400
    assert service.add_checkpoint(b"old 6\n" + b"A" * 43 + b"=\n" + b"\n" + LOG.head(8).to_bytes()).status == 422
    assert service.add_checkpoint(b"old 6\n" + b"A" * 43 + b"=\n" * 64 + b"\n" + LOG.head(8).to_bytes()).status == 400
    assert service.add_checkpoint(elsewhere.request(6, 8)).status == 404
    assert service.add_checkpoint(stranger.request(6, 8)).status == 403
    forged = LOG.request(6, 8).replace(b"\n8\n", b"\n9\n")
    assert service.add_checkpoint(forged).status == 403
    # Another history, of the same size and of a larger one.
    fork = WatchedLog(fork=3)
    assert service.add_checkpoint(fork.request(6, 6)).status == 422
    assert service.add_checkpoint(fork.request(6, 8)).status == 422
    assert service.add_checkpoint(LOG.request(6, 8)).status == 200


def test_from_nothing_there_is_no_path(tmp_path: Path) -> None:
    service = WitnessService(WitnessState(tmp_path / "w.heads"), WITNESS, {ORIGIN: [LOG_KEY]})
    body = LOG.request(0, 6).replace(b"old 0\n", b"old 0\n" + b"A" * 43 + b"=\n")
    assert service.add_checkpoint(body).status == 422
    empty = parse_checkpoint(LOG.head(0).text)
    assert empty.root == hashlib.sha256().digest()


def test_requests_at_once_make_one_history(tmp_path: Path) -> None:
    """Two histories race, from eight threads over HTTP: the heads that were cosigned all extend each other."""
    logs = {name: WatchedLog(fork=fork) for name, fork in (("a", 1 << 30), ("b", 2))}
    with serving(tmp_path, WITNESS) as (url, service), ThreadPoolExecutor(8) as pool:

        def submit(number: int) -> tuple[str, int] | None:
            name, size = "ab"[number % 2], 2 + number // 2
            old = 0
            for _ in range(4):
                answer = post(f"{url}/add-checkpoint", logs[name].request(old, size), "text/plain")
                if answer.status == 200:
                    return name, size
                if answer.status != 409 or (old := int(answer.body)) > size:
                    return None
            return None

        cosigned = [found for found in pool.map(submit, range(2, 42)) if found is not None]
        kept = service.state.kept(ORIGIN)
    assert cosigned
    assert len({name for name, size in cosigned if size > 2}) == 1
    assert kept is not None
    assert parse_checkpoint(kept.text).size == max(size for _, size in cosigned)


def test_over_http(tmp_path: Path) -> None:
    name = hashlib.sha256(ORIGIN.encode()).hexdigest()
    with serving(tmp_path, WITNESS) as (url, _):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)

        def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str, bytes]:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read()

        assert ask("GET", f"/{name}/checkpoint")[0] == 404
        status, kind, line = ask("POST", "/add-checkpoint", LOG.request(0, 6))
        assert (status, kind) == (200, "text/plain; charset=utf-8")
        # The same connection is used again.
        assert ask("POST", "/add-checkpoint", LOG.request(0, 6)) == (409, "text/x.tlog.size", b"6\n")
        status, _, kept = ask("GET", f"/{name}/checkpoint")
        assert status == 200
        assert kept.endswith(line)
        verify_checkpoint(parse_note(kept), [LOG_KEY], ORIGIN)
        assert ask("GET", "/")[0] == 404
        assert ask("GET", f"/{'0' * 64}/checkpoint")[0] == 404
        assert ask("POST", "/other", b"x")[0] == 404
        assert ask("POST", "/add-checkpoint", b"x" * (MAX_BODY_BYTES + 1))[0] == 413
        connection.close()
        host, port = connection.host, connection.port
        with socket.create_connection((host, port), timeout=5) as raw:
            raw.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\n\r\n")
            assert b" 411 " in raw.recv(4096)


def test_a_state_that_is_lost_cosigns_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    with serving(tmp_path, WITNESS) as (url, service):
        (tmp_path / "w.heads").write_bytes(b"{}")
        answer = post(f"{url}/add-checkpoint", LOG.request(0, 6), "text/plain")
        assert (answer.status, b"w.heads" in answer.body) == (503, False)
        assert service.state.path == tmp_path / "w.heads"
    assert lines == []


def test_a_log_may_have_several_keys(tmp_path: Path) -> None:
    new = SigningKey.from_seed(b"\x05" * 32)
    keys = [LOG_KEY, NoteKey(ORIGIN, new.public)]
    service = WitnessService(WitnessState(tmp_path / "w.heads"), WITNESS, {ORIGIN: keys})
    assert service.add_checkpoint(LOG.request(0, 6)).status == 200
    assert service.add_checkpoint(WatchedLog(key=new).request(6, 8)).status == 200


def test_it_never_cosigns_with_the_log_key(tmp_path: Path) -> None:
    service = WitnessService(WitnessState(tmp_path / "w.heads"), Witness("w", LOG.key), {ORIGIN: [LOG_KEY]})
    with pytest.raises(Exception, match="own") as caught:
        service.add_checkpoint(LOG.request(0, 6))
    assert not isinstance(caught.value, VerificationError)
