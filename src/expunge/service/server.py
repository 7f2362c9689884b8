"""Run the service: one process, or several workers on one port, until a signal ends it.

On SIGTERM and SIGINT it takes no new connections, finishes the requests in flight, and stops jobs between two steps. A
worker that dies is replaced; what it was doing is either committed or has no effect.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from expunge.errors import InputError, StoreError
from expunge.service.log_format import configure_logging
from expunge.service.metrics import MULTIPROCESS
from expunge.service.settings import VARIABLE, Settings
from expunge.store import Store

__all__ = ["Address", "add_demo_memory", "serve"]

# Seconds that requests in flight have to finish when the service stops.
_SHUTDOWN_SECONDS = 30


@dataclass(frozen=True)
class Address:
    """Where to listen: other machines need TLS, or ``insecure`` where a proxy does TLS."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    private_key: Path | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise InputError("TLS takes a certificate and its private key, both")
        for file in (self.certificate, self.private_key):
            if file is not None and not file.is_file():
                raise StoreError(f"there is no file {file}")
        if not (self.tls or self.insecure or _is_loopback(self.host)):
            raise InputError(
                f"{self.host} can be reached from other machines, and tokens would travel in the clear: give "
                "--tls-cert and --tls-key, or say --insecure if something in front of it does TLS"
            )

    @property
    def tls(self) -> bool:
        """Whether the service itself encrypts."""
        return self.certificate is not None

    @property
    def url(self) -> str:
        """What to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"

    def resolved(self) -> Address:
        """The same with a free port in place of 0. Raises InputError if the port is taken or TLS cannot be set up."""
        if self.certificate is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.private_key)
            except OSError as problem:
                raise InputError(
                    f"{self.certificate} and {self.private_key} are no certificate and private key of one another "
                    f"in PEM ({problem})"
                ) from None
        try:
            family, *_, target = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
                port = int(probe.getsockname()[1])
        except (OSError, OverflowError, UnicodeError) as problem:
            raise InputError(f"cannot listen at {self.host} port {self.port}: {problem}") from None
        return Address(self.host, port, self.certificate, self.private_key, self.insecure)


def serve(settings: Settings, address: Address, workers: int = 1) -> None:
    """Serve until a signal comes."""
    import uvicorn

    configure_logging()
    os.environ[VARIABLE] = settings.to_text()
    with ExitStack() as stack:
        if workers > 1 and MULTIPROCESS not in os.environ:
            os.environ[MULTIPROCESS] = stack.enter_context(tempfile.TemporaryDirectory(prefix="expunge-metrics-"))
        uvicorn.run(
            "expunge.service.app:from_environment",
            factory=True,
            host=address.host,
            port=address.port,
            workers=workers,
            ssl_certfile=None if address.certificate is None else str(address.certificate),
            ssl_keyfile=None if address.private_key is None else str(address.private_key),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )


def add_demo_memory(store: Store) -> None:
    """Add ``icu-plane`` to the demo's store: two coordinates per key, so that the map can draw the boundary itself."""
    if "icu-plane" in store:
        return
    from expunge.datasets import icu_hours

    hours = icu_hours()
    columns = [hours.key_names.index(channel) for channel in ("hr", "rr")]
    store.create("icu-plane", **hours.arguments | {"keys": hours.keys[:, columns], "sigma": 1.5, "nu": 0.1})


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
