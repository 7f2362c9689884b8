"""Every way to change one bit, and every way to cut off the end."""

from __future__ import annotations

from collections.abc import Iterator


def flips(data: bytes) -> Iterator[bytes]:
    """Yield ``data`` once for each of its bits, with that bit flipped, most significant bits first."""
    for at, byte in enumerate(data):
        for mask in (128, 64, 32, 16, 8, 4, 2, 1):
            yield data[:at] + bytes([byte ^ mask]) + data[at + 1 :]


def cuts(data: bytes) -> Iterator[bytes]:
    """Yield every proper prefix of ``data``."""
    for end in range(len(data)):
        yield data[:end]
