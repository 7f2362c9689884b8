"""`expunge serve` as processes: where it listens, how it stops, and what several workers see of each other."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

import expunge
import expunge.service
from expunge.errors import InputError, MissingExtra
from expunge.service.address import Address
from expunge.service.settings import Settings
from expunge.service.tokens import SCOPES, Tokens
from service.service_client import ServiceClient, fill_store, running_service
from store.postgres_server import Server
from store.sample_memory import appearance


def token_of(url: str, key: Path | None = None) -> dict[str, str]:
    with expunge.open(url, key) as store:
        return {"Authorization": f"Bearer {Tokens(store).create(SCOPES)[0]}"}


class Editors:
    """Threads that admit entries until they are told to stop, and remember which were acknowledged."""

    def __init__(self, address: str, headers: dict[str, str], names: list[str], each: int = 2) -> None:
        self.acknowledged: dict[str, set[str]] = {name: set() for name in names}
        self.unanswered: dict[str, set[str]] = {name: set() for name in names}
        self.refused: list[str] = []
        self._address, self._headers, self._over = address, headers, threading.Event()
        self._threads = [
            threading.Thread(target=self._edit, args=(name, number)) for name in names for number in range(each)
        ]
        for thread in self._threads:
            thread.start()

    def _edit(self, name: str, number: int) -> None:
        rng, count = np.random.default_rng(number), 0
        with httpx.Client(base_url=self._address, headers=self._headers, timeout=30) as client:
            while not self._over.is_set():
                count += 1
                item = f"{name}-{number}-{count}"
                body = {"key": rng.standard_normal(4).tolist(), "value": [0.0, 1.0], "id": item}
                try:
                    response = client.post(f"v1/memories/{name}/admit", json=body)
                except httpx.TransportError:
                    self.unanswered[name].add(item)
                    time.sleep(0.05)
                    continue
                if response.status_code == 201:
                    self.acknowledged[name].add(item)
                else:
                    self.refused.append(response.text)

    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def check(self, url: str, key: Path | None = None) -> None:
        """Everything that was acknowledged is there; nothing is there that was not asked for; the ledger agrees."""
        with expunge.open(url, key) as store:
            for name, items in self.acknowledged.items():
                there = {one for one in store[name].ids if one.startswith(f"{name}-")}
                assert items <= there
                assert there - items <= self.unanswered[name]
            store.verify()


def wait_for(what: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_sigterm_finishes_what_is_in_flight(folder: Path) -> None:
    url = f"sqlite:///{folder / 'ward.db'}"
    headers = token_of(url)
    with running_service(url) as (process, address, log):
        editors = Editors(address, headers, ["icu"], each=4)
        wait_for(lambda: editors.count() >= 8)
        process.send_signal(signal.SIGTERM)
        process.wait(40)
        editors.stop()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    # Ended by the signal that it was sent, as servers do, after finishing.
    assert process.returncode in (0, -signal.SIGTERM)
    assert any(line["event"] == "Application shutdown complete." for line in lines)
    assert not any(line["level"] == "error" for line in lines)
    statuses = [line["status"] for line in lines if line["event"] == "request" and line["method"] == "POST"]
    # Whatever the service answered, the client heard: an edit in flight was finished, not cut off.
    assert statuses.count(201) == editors.count()
    assert editors.refused == []
    editors.check(url)


@pytest.fixture
def shared(server: Server, folder: Path) -> tuple[str, Path]:
    """A filled store on PostgreSQL, and its key."""
    url, key = server.new_schema(), folder / "shared.pem"
    fill_store(url, key)
    return url, key


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(shared: tuple[str, Path]) -> None:
    url, key = shared
    headers = token_of(url, key)
    with running_service(url, "--workers", "2", key=key) as (process, address, _):
        editors = Editors(address, headers, ["icu", "other"])
        wait_for(lambda: editors.count() >= 8)
        workers = [
            child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())
        ]
        assert len(workers) == 2
        workers[0].kill()
        seen = editors.count()
        wait_for(lambda: editors.count() >= seen + 8)
        editors.stop()
        metrics = httpx.get(f"{address}metrics", headers=headers, timeout=30).text
        process.send_signal(signal.SIGTERM)
        process.wait(40)
    assert process.returncode == 0
    assert editors.refused == []
    editors.check(url, key)
    # Counters are added up over the workers, the killed one included; what it had not yet written down is lost.
    (counted,) = re.findall(r'^expunge_edits_total\{action="admission",outcome="admitted"\} ([0-9.]+)$', metrics, re.M)
    assert editors.count() <= float(counted) <= editors.count() + sum(map(len, editors.unanswered.values()))
    (size,) = re.findall(r"^expunge_log_size ([0-9.]+)$", metrics, re.M)
    with expunge.open(url, key) as store:
        assert float(size) == store.size


def test_workers_see_each_others_edits_at_once(shared: tuple[str, Path]) -> None:
    url, key = shared
    settings = Settings(url=url, signing_key=key, timeout=5.0)
    one, other = ServiceClient(settings), ServiceClient(settings)
    with one.client, other.client:
        for number in range(6):
            here, there = (one, other) if number % 2 else (other, one)
            body = {"key": [float(number)] * 4, "value": [0.0, 0.0], "id": f"n{number}"}
            receipt = here.request("POST", "/v1/memories/icu/admit", body, status=201)
            assert there.request("GET", "/v1/memories/icu", status=200)["digest"] == receipt["state_after"]
            assert there.request("GET", f"/v1/memories/icu/entries/n{number}", status=200)["key"] == body["key"]
            there.request("POST", "/v1/memories/icu/delete", {"id": f"n{number}"}, status=200)
            assert here.request("GET", f"/v1/memories/icu/entries/n{number}").status_code == 404
        assert appearance(one.store["icu"]) == appearance(other.store["icu"])
        # A token, a hold and a job of one are known to the other.
        text, token = one.context.tokens.create(["read"])
        header = {"Authorization": f"Bearer {text}"}
        assert other.client.get("/v1", headers=header).status_code == 200
        one.context.tokens.revoke(token.name)
        assert other.client.get("/v1", headers=header).status_code == 401
        job = one.request("POST", "/v1/verify", status=200, Prefer="wait=30")
        assert other.request("GET", f"/v1/jobs/{job['id']}", status=200) == job
        one.store.verify()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_this_machine_needs_no_tls(host: str) -> None:
    assert Address(host, 80).url.startswith("http://")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])  # noqa: S104
def test_other_machines_need_tls_or_a_word(host: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in the clear"):
        Address(host)
    assert Address(host, insecure=True).tls is False
    for name in ("c", "k"):
        (tmp_path / name).touch()
    assert Address(host, 443, tmp_path / "c", tmp_path / "k").url.startswith("https://")
    with pytest.raises(InputError, match="both"):
        Address(host, certificate=tmp_path / "c")


def test_a_port_that_is_taken_is_an_error_and_not_a_traceback() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="cannot listen"):
            Address(port=taken.getsockname()[1]).resolved()
    assert Address(port=0).resolved().port > 0


@pytest.mark.slow
def test_the_demo_is_ready_with_a_token(folder: Path) -> None:
    """On a folder that an earlier demo has left; the demo itself is tested with the command line."""
    for name in ("ward.db", "ward.db.key"):
        (folder / name).rename(folder / name.replace("ward", "expunge"))
    command = [sys.executable, "-m", "expunge", "serve", "--demo", "--folder", str(folder), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            started = json.loads(process.stdout.readline())
            headers = {"Authorization": f"Bearer {started['token']}"}
            wait_for(lambda: _ready(started["url"]))
            about = httpx.get(f"{started['url']}v1", headers=headers).json()
            chart = httpx.get(f"{started['url']}v1/memories/icu-plane/map", headers=headers).json()
        finally:
            process.terminate()
            process.wait(40)
    assert about["token"]["scopes"] == sorted(SCOPES)
    assert about["token"]["expires"] is not None
    assert {point["group"] for point in chart["entries"]} == {"margin", "bound", "reserve"}
    assert len(chart["boundary"]["polylines"][0]) > 50


def test_tls_from_end_to_end(tmp_path: Path) -> None:
    """A certificate for this machine: who trusts it gets in, who does not, or speaks plain HTTP, does not."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ward")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(private, hashes.SHA256())
    )
    public_file, private_file = tmp_path / "ward.crt", tmp_path / "ward.key"
    public_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    private_file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    url = f"sqlite:///{tmp_path / 'ward.db'}"
    fill_store(url)
    headers = token_of(url)
    trusted = ssl.create_default_context(cafile=str(public_file))
    words = ("--tls-cert", str(public_file), "--tls-key", str(private_file))
    with running_service(url, *words, trusted=trusted) as (_, address, _):
        assert address.startswith("https://127.0.0.1:")
        with httpx.Client(base_url=address, headers=headers, verify=trusted, timeout=30) as client:
            answer = client.post("v1/memories/icu/delete", json={"ids": ["e3"]})
        assert answer.status_code == 200, answer.text
        assert "max-age" in answer.headers["strict-transport-security"]
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(address)
        with pytest.raises(httpx.TransportError):
            httpx.get(address.replace("https", "http"))


def test_without_its_extra_the_service_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(expunge.service, "find_spec", lambda name: None if name == "uvicorn" else real(name))
    with pytest.raises(MissingExtra, match=r"expunge\[service\]"):
        expunge.service.require()
    program = "import sys; sys.modules['fastapi'] = None; import expunge.service.app"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert "MissingExtra: the service needs the extra: pip install 'expunge[service]'" in done.stderr


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
