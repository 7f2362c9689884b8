"""An OpenID Connect provider on this machine: discovery, keys, and the authorization code flow, with signed JWTs."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwk, jwt

__all__ = ["Issuer", "running_issuer"]


@dataclass
class Issuer:
    """What the provider knows: its keys by their ids, what it puts into tokens, and codes that it gave out."""

    url: str = ""
    keys: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    fetched: int = 0
    answers: bool = True

    def add_key(self, name: str, kind: str = "RSA") -> None:
        """Publish a new key."""
        made: Any = jwk.RSAKey.generate_key(2048) if kind == "RSA" else jwk.ECKey.generate_key("P-256")
        self.keys[name] = jwk.import_key(made.as_dict(private=True) | {"kid": name})

    def token(self, name: str = "one", algorithm: str = "RS256", /, **claims: Any) -> str:
        """A signed token; a claim that is None is left out."""
        now = int(time.time())
        stated = {"iss": self.url, "sub": "person-1", "aud": "expunge", "iat": now, "exp": now + 60}
        stated |= {"scope": "openid expunge:read expunge:audit"} | self.claims | claims
        stated = {claim: value for claim, value in stated.items() if value is not None}
        return jwt.encode({"alg": algorithm, "kid": name}, stated, self.keys[name], algorithms=[algorithm])


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """A provider that listens on loopback."""
    issuer = Issuer()
    issuer.add_key("one")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if not issuer.answers:
                self.send_error(500)
            elif parts.path == "/.well-known/openid-configuration":
                issuer.fetched += 1
                paths = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
                self._send({"issuer": issuer.url} | {name: issuer.url + path for name, path in paths.items()})
            elif parts.path == "/keys":
                self._send({"keys": [key.as_dict(private=False) for key in issuer.keys.values()]})
            elif parts.path == "/authorize":
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                code = f"code-{len(issuer.codes)}"
                issuer.codes[code] = asked
                self.send_response(302)
                answer = urlencode({"code": code, "state": asked["state"]})
                self.send_header("Location", f"{asked['redirect_uri']}?{answer}")
                self.end_headers()
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
            asked = issuer.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            same = asked is not None and asked["redirect_uri"] == form["redirect_uri"]
            if asked is None or not same or asked["code_challenge"] != challenge:
                self.send_error(400)
            else:
                self._send({"access_token": issuer.token(), "token_type": "Bearer"})

        def _send(self, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
