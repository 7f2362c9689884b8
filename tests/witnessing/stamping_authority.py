"""A time-stamping authority of OpenSSL's, on loopback."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["make_authority", "serve_answers", "stamp", "stamping_server"]

CONFIGURATION = """
[req]
distinguished_name = dn
prompt = no
[dn]
CN = unused
[root]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[tsa]
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
[web]
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, serverAuth
[both]
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping, serverAuth
[authority]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
tsa_name = yes
ess_cert_id_alg = sha256
"""


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)  # noqa: S603, S607


def make_authority(folder: Path, kinds: tuple[str, ...] = ("tsa",), days: int = 30) -> Path:
    """A root certificate (`root.pem`) and one certificate below it for each kind."""
    folder.mkdir(exist_ok=True)
    (folder / "ca.cnf").write_text(CONFIGURATION, encoding="utf-8")
    (folder / "serial").write_text("01\n", encoding="utf-8")
    for name in ("root", *kinds):
        openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")
    made = ("-config", "ca.cnf", "-subj", "/CN=root", "-days", str(days), "-out", "root.pem")
    openssl(folder, "req", "-x509", "-new", "-key", "root.key", "-extensions", "root", *made)
    for kind in kinds:
        openssl(
            folder, "req", "-new", "-key", f"{kind}.key", "-config", "ca.cnf", "-subj", f"/CN={kind}", "-out", "a.csr"
        )
        signed = ("-days", str(days), "-extfile", "ca.cnf", "-extensions", kind, "-out", f"{kind}.pem")
        openssl(
            folder, "x509", "-req", "-in", "a.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", *signed
        )
    return folder


def stamp(folder: Path, query: bytes, kind: str = "tsa") -> bytes:
    """What `openssl ts -reply` answers to a query."""
    (folder / "query.tsq").write_bytes(query)
    words = ("-queryfile", "query.tsq", "-signer", f"{kind}.pem", "-inkey", f"{kind}.key", "-out", "reply.tsr")
    openssl(folder, "ts", "-reply", "-config", "ca.cnf", "-section", "authority", *words)
    return (folder / "reply.tsr").read_bytes()


@contextmanager
def serve_answers(answer: Callable[[bytes], tuple[int, str, bytes]]) -> Iterator[str]:
    """A server on loopback that answers each POST by `answer(body)`: status, media type, body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, media_type, body = answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/tsr"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def stamping_server(folder: Path) -> Iterator[str]:
    """The authority in `folder`, over HTTP."""
    with serve_answers(lambda query: (200, "application/timestamp-reply", stamp(folder, query))) as url:
        yield url
