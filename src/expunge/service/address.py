"""Where a server listens, and who can reach it there. It needs no extra."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from expunge.errors import InputError, StoreError

__all__ = ["Address"]


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
        if not (self.tls or self.insecure or self.loopback):
            raise InputError(
                f"{self.host} can be reached from other machines, and tokens would travel in the clear: give "
                "--tls-cert and --tls-key, or say --insecure if something in front of it does TLS"
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

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
