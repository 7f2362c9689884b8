"""Behind nginx, below a path of it: addresses, redirects, the page, compression, HEAD, and who the client is."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

import expunge
from expunge.service.tokens import SCOPES, Tokens
from service.service_client import fill_store, running_service

CONFIGURATION = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/a; uwsgi_temp_path {folder}/b; scgi_temp_path {folder}/c;
  server {{
    listen 127.0.0.1:{port};
    location /kept/ {{ proxy_pass {service}; proxy_set_header X-Forwarded-For $http_x_test_client; }}
    location /taken/ {{ proxy_pass {service}/; }}
  }}
}}
"""


@dataclass(frozen=True)
class Proxied:
    """The proxy's address, the service's own, a header with a token, and a patient client."""

    url: str
    direct: str
    headers: dict[str, str]
    web: httpx.Client


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
    assert nginx is not None, "make proxy installs it"
    folder = tmp_path_factory.mktemp("proxied")
    store = f"sqlite:///{folder / 'ward.db'}"
    fill_store(store)
    with expunge.open(store) as opened:
        text, _ = Tokens(opened).create(SCOPES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("--prefix", "/kept", "--trusted-proxy", "127.0.0.1", "--bad-tokens", "5", "--rate", "40")
    with running_service(store, *words) as (_, address, _):
        file = folder / "nginx.conf"
        file.write_text(CONFIGURATION.format(folder=folder, port=port, service=address.rstrip("/")))
        with subprocess.Popen([nginx, "-p", str(folder), "-c", str(file)]) as process:  # noqa: S603
            url = f"http://127.0.0.1:{port}"
            for _ in range(200):
                try:
                    httpx.get(f"{url}/kept/health")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            with httpx.Client(timeout=60) as web:
                yield Proxied(url, address.rstrip("/"), {"Authorization": f"Bearer {text}"}, web)
            process.terminate()


@pytest.mark.parametrize("path", ["kept", "taken"])
def test_it_works_below_a_path_that_the_proxy_keeps_or_takes_off(proxied: Proxied, path: str) -> None:
    base = f"{proxied.url}/{path}"
    page = proxied.web.get(f"{base}/")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert proxied.web.get(f"{base}/page/app.js").headers["content-type"].startswith("text/javascript")
    assert proxied.web.get(f"{base}/docs/style.css").status_code == proxied.web.get(f"{base}/docs").status_code == 200
    shown = proxied.web.get(f"{base}/v1/memories/icu", headers=proxied.headers)
    assert shown.json()["name"] == "icu"
    described = proxied.web.get(f"{base}/openapi.json", headers=proxied.headers).json()
    assert described["servers"][0]["url"] == "/kept"
    job = proxied.web.post(f"{base}/v1/memories/icu/prove", headers=proxied.headers | {"Prefer": "wait=30"})
    assert job.headers["location"] == f"/kept/v1/jobs/{job.json()['id']}"
    assert proxied.web.get(f"{proxied.url}{job.headers['location']}", headers=proxied.headers).json() == job.json()


def test_answers_are_compressed_and_have_heads(proxied: Proxied) -> None:
    path = f"{proxied.direct}/v1/memories/icu/entries"
    answer = proxied.web.get(path, headers=proxied.headers)
    plain = proxied.web.get(path, headers=proxied.headers | {"Accept-Encoding": "identity"})
    assert answer.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert int(answer.headers["content-length"]) < int(plain.headers["content-length"])
    assert answer.json() == plain.json()
    head = proxied.web.head(path, headers=proxied.headers | {"Accept-Encoding": "identity"})
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag"):
        assert head.headers[name] == plain.headers[name]
    assert proxied.web.head(f"{proxied.direct}/v1/memories/icu/delete", headers=proxied.headers).status_code == 405
    assert proxied.web.head(path).status_code == 401
    with httpx.Client(timeout=60) as client:
        # The connection goes on: nothing of a body was sent.
        for _ in range(3):
            assert client.head(f"{proxied.direct}/health").status_code == 200


def test_an_address_with_bad_tokens_is_locked_out_and_others_are_not(proxied: Proxied) -> None:
    base, bad = f"{proxied.url}/kept/v1", {"Authorization": f"Bearer expunge_{'0' * 12}_{'A' * 43}"}

    def ask(client: str, headers: dict[str, str]) -> httpx.Response:
        return proxied.web.get(base, headers=headers | {"X-Test-Client": client})

    statuses = [ask("203.0.113.9", bad).status_code for _ in range(7)]
    assert statuses == [401] * 5 + [429] * 2
    locked = ask("203.0.113.9", proxied.headers)
    assert (locked.status_code, locked.json()["code"]) == (429, "too-many-requests")
    assert 1 <= int(locked.headers["retry-after"]) <= 60
    assert ask("203.0.113.10", proxied.headers).status_code == 200
    # A network of IPv6 is one client; one that is no proxy of ours names nobody.
    assert [ask(f"2001:db8::{row}", bad).status_code for row in range(6)] == [401] * 5 + [429]
    assert ask("2001:db8:0:1::1", proxied.headers).status_code == 200
    assert proxied.web.get(f"{proxied.direct}/v1", headers=proxied.headers).status_code == 200


def test_a_token_has_a_rate(proxied: Proxied) -> None:
    with httpx.Client(headers=proxied.headers, timeout=60) as client:
        answers = [client.get(f"{proxied.direct}/v1") for _ in range(300)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert refused[0].headers["retry-after"] == "1"
        time.sleep(1.1)
        assert client.get(f"{proxied.direct}/v1").status_code == 200
