"""How many requests a token may send, and how many bad tokens an address.

Both are counted in this process: with several workers a client reaches each of them, so the limits are multiplied. An
address of this machine is never locked out: it may be a proxy that has not been named with ``--trusted-proxy``, and
then one client with bad tokens would lock out all others.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from expunge.errors import InputError

__all__ = ["RequestLimits", "TooMany"]

LOCK_SECONDS = 60.0
# Addresses and tokens that are remembered at once. The oldest is forgotten first.
_MOST = 10_000


class TooMany(InputError):
    """Too many requests, or too many bad tokens; ``seconds`` is when to try again."""

    default_code = "too-many-requests"

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = max(1, round(seconds))


@dataclass
class _Bucket:
    """So many requests are left, as of a time."""

    left: float
    at: float


class RequestLimits:
    """Counts requests by token, and bad tokens by address. A limit of 0 is none."""

    def __init__(self, rate: float, bad_tokens: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._bad_tokens, self._clock = rate, bad_tokens, clock
        self._lock = threading.Lock()
        self._buckets: dict[str, _Bucket] = {}
        # Of each address: bad tokens since a time.
        self._bad: dict[str, tuple[int, float]] = {}

    def check_address(self, address: str | None) -> None:
        """Raise TooMany where an address has sent too many bad tokens, whatever it sends now."""
        count, since = self._bad.get(_network(address), (0, 0.0))
        left = since + LOCK_SECONDS - self._clock()
        if self._bad_tokens and count >= self._bad_tokens and left > 0:
            raise TooMany("too many bad tokens came from this address; wait, and send a good one", left)

    def count_bad_token(self, address: str | None) -> None:
        """Take note of a bad token. Where they become too many, the time that the lock takes begins now."""
        network = _network(address)
        if not (self._bad_tokens and network):
            return
        with self._lock:
            now, (count, since) = self._clock(), self._bad.pop(network, (0, 0.0))
            fresh = now - since > LOCK_SECONDS
            count = 1 if fresh else count + 1
            self._bad[network] = count, now if fresh or count == self._bad_tokens else since
            _forget(self._bad)

    def count_request(self, token: str) -> None:
        """Count a request of a token. Raises TooMany above the rate; a second's worth may come at once."""
        if not self._rate:
            return
        burst = max(1.0, self._rate)
        with self._lock:
            now, bucket = self._clock(), self._buckets.pop(token, None)
            bucket = bucket or _Bucket(burst, now)
            bucket.left, bucket.at = min(burst, bucket.left + (now - bucket.at) * self._rate), now
            self._buckets[token] = bucket
            _forget(self._buckets)
            if bucket.left < 1.0:
                raise TooMany(f"a token may send {self._rate:g} requests a second", (1.0 - bucket.left) / self._rate)
            bucket.left -= 1.0


def _network(address: str | None) -> str:
    """What an address counts as: IPv6 by its network of 64 bits. Empty for what is not locked out."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return ""
    return str(ipaddress.ip_network(f"{found}/64", strict=False)) if found.version == 6 else str(found)


def _forget(found: dict[str, object] | dict[str, _Bucket] | dict[str, tuple[int, float]]) -> None:
    while len(found) > _MOST:
        found.pop(next(iter(found)))
