"""One HTTP POST with a deadline and a size limit. No redirect is followed and no proxy is used."""

from __future__ import annotations

import http.client
import socket
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from expunge.errors import InputError, StoreError

__all__ = ["Answer", "post"]

_CHUNK = 16 * 1024


@dataclass(frozen=True)
class Answer:
    """What a server answered: status, media type without parameters, body."""

    status: int
    media_type: str
    body: bytes


def post(url: str, body: bytes, media_type: str, *, timeout: float = 10.0, limit: int = 256 * 1024) -> Answer:
    """POST `body` to an http or https URL.

    Parameters
    ----------
    url
        Where to; http or https.
    body
        What is sent.
    media_type
        Its Content-Type.
    timeout
        Seconds from the call to the last byte of the answer.
    limit
        The largest body, in bytes, that is read.

    Raises
    ------
    InputError
        The URL is not http or https with a host.
    StoreError
        No connection, no whole answer in time, or one beyond the limit: ``server-unreachable``.

    """
    parts = _split(url)
    deadline = time.monotonic() + timeout
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(str(parts.hostname), parts.port, timeout=timeout)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, {"Content-Type": media_type, "User-Agent": "expunge"})
        with connection.getresponse() as response:
            found = bytearray()
            while chunk := response.read1(min(_CHUNK, limit + 1 - len(found))):
                found += chunk
                if len(found) > limit:
                    raise StoreError(f"{url} answered with more than {limit} bytes", code="server-unreachable")
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError(f"no whole answer in {timeout:g} s")
                if isinstance(connection.sock, socket.socket):
                    connection.sock.settimeout(remaining)
            kind_of_body = response.headers.get_content_type()
            return Answer(response.status, kind_of_body, bytes(found))
    except (OSError, http.client.HTTPException) as problem:
        raise StoreError(
            f"{url} cannot be reached, or did not answer: {problem or type(problem).__name__}",
            code="server-unreachable",
        ) from None
    finally:
        connection.close()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise InputError(f"{url[:120]!r} is not an address: give http://HOST... or https://HOST...")
    return parts
