"""A witness: an HTTP server that cosigns the heads of configured logs (c2sp.org/tlog-witness).

It needs no store: a key of its own, the logs' verifier keys, and one file for the heads that it cosigned last
(:class:`~expunge.ledger.witness_state.WitnessState`, which serialises requests). :class:`WitnessService` answers
requests; :func:`make_server` puts it behind the standard library's HTTP server, one thread per connection, with limits
on body, time and number of connections.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any

from expunge.errors import ExpungeError, StoreError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint
from expunge.ledger.merkle.proof_file import parse_extension_proof
from expunge.ledger.note import MAX_NOTE_BYTES, NoteKey, SignedNote
from expunge.ledger.witness_state import Cosigner, WitnessState
from expunge.witnessing.post import Answer
from expunge.witnessing.witness_client import SIZE_MEDIA_TYPE

__all__ = ["MAX_BODY_BYTES", "WitnessService", "make_server"]

MAX_BODY_BYTES = MAX_NOTE_BYTES + 8 * 1024
_MAX_CONNECTIONS = 64
_IDLE_SECONDS = 15
_TEXT = "text/plain"


@dataclass(frozen=True)
class WitnessService:
    """What a witness answers: `logs` are the keys of each log that it watches, by origin."""

    state: WitnessState
    cosigner: Cosigner
    logs: Mapping[str, Sequence[NoteKey]]
    clock: Callable[[], float] = time.time

    def add_checkpoint(self, body: bytes) -> Answer:
        """Cosign the head in a request, or say why not."""
        try:
            request = parse_extension_proof(body)
            head = parse_checkpoint(request.checkpoint.text)
        except VerificationError as problem:
            return _text(400, problem)
        keys = self.logs.get(head.origin)
        if keys is None:
            return _text(404, f"no log {head.origin} is watched here")
        try:
            verify_checkpoint(request.checkpoint, keys, head.origin)
        except VerificationError as problem:
            return _text(403, problem)
        if request.old_size > head.size:
            return _text(400, f"the old size {request.old_size} exceeds the size {head.size} of the head")
        try:
            line = self.state.cosign(request, keys, head.origin, self.cosigner, int(self.clock()))
        except VerificationError as problem:
            if problem.code == "log-proof-old-size-mismatch":
                kept = self.state.kept(head.origin)
                size = 0 if kept is None else parse_checkpoint(kept.text).size
                return Answer(409, SIZE_MEDIA_TYPE, b"%d\n" % size)
            return _text(422, problem)
        return Answer(200, _TEXT, line.to_bytes())

    def checkpoint(self, origin_hash: str) -> Answer:
        """The newest head that was cosigned, of the log whose origin has this SHA-256."""
        for origin in self.logs:
            if hashlib.sha256(origin.encode("utf-8")).hexdigest() == origin_hash:
                kept = self.state.kept(origin)
                return _text(404, "no head of this log was cosigned yet") if kept is None else _note(kept)
        return _text(404, "no such log is watched here")


def make_server(
    service: WitnessService, host: str, port: int, *, log: Callable[[str], None] = lambda line: None
) -> ThreadingHTTPServer:
    """A server that answers with `service`; call its ``serve_forever``. `log` gets one line per request."""
    return _Server((host, port), type("Handler", (_Handler,), {"service": service, "log": staticmethod(log)}))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = _MAX_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        if not self._places.acquire(timeout=_IDLE_SECONDS):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "expunge-witness"
    sys_version = ""
    timeout = _IDLE_SECONDS
    service: WitnessService
    log: Callable[[str], None]

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._refuse(411, "Content-Length is missing")
        elif int(length) > MAX_BODY_BYTES:
            self._refuse(413, f"a request has at most {MAX_BODY_BYTES} bytes")
        elif self.path.rstrip("/").endswith("/add-checkpoint"):
            body = self.rfile.read(int(length))
            self._answer(lambda: self.service.add_checkpoint(body))
        else:
            self._refuse(404, "a witness takes POST /add-checkpoint")

    def do_GET(self) -> None:
        *_, name, word = ("", *self.path.split("/"))
        if word == "checkpoint":
            self._answer(lambda: self.service.checkpoint(name))
        else:
            self._refuse(404, "a witness has GET /<sha256 of a log's origin>/checkpoint")

    def _answer(self, make: Callable[[], Answer]) -> None:
        try:
            answer = make()
        except ExpungeError as problem:
            # The client learns no path of this machine; the operator does.
            self.log(f"error {problem.code}: {problem}")
            answer = _text(503 if isinstance(problem, StoreError) else 500, "the witness has a fault of its own")
        self._send(answer)

    def _refuse(self, status: int, what: str) -> None:
        self.close_connection = True
        self._send(_text(status, what))

    def _send(self, answer: Answer) -> None:
        charset = "; charset=utf-8" if answer.media_type == _TEXT else ""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media_type + charset)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        line = format % args
        self.log("".join(character if character.isprintable() else "?" for character in line)[:300])


def _text(status: int, what: object) -> Answer:
    return Answer(status, _TEXT, f"{what}\n".encode("utf-8", "replace"))


def _note(note: SignedNote) -> Answer:
    return Answer(200, _TEXT, note.to_bytes())
