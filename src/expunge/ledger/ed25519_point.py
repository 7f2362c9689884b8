"""Whether 32 bytes are an Ed25519 public key that a signature can depend on.

RFC 8032 §5.1.3 decodes bytes to a point; libraries do not all do it alike, and verify with whatever comes out. So three
kinds of bytes are refused before they are used. Under a key of *small order* one signature verifies over many messages:
it says nothing. A point that is *not canonical* has a second spelling, with another key id. Bytes that are *no point*
verify nothing.
"""

from __future__ import annotations

from expunge.errors import InputError

__all__ = ["check_point"]

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


def check_point(raw: bytes) -> None:
    """Refuse the 32 bytes of a public key that is not the one spelling of a point of large order.

    Parameters
    ----------
    raw
        y as 255 bits, little-endian, and the sign of x in the highest bit.

    Raises
    ------
    InputError
        ``signing-key-not-canonical``, ``signing-key-small-order`` or ``signing-key-not-a-point``.

    """
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= _P:
        raise InputError(
            f"the Ed25519 public key {raw.hex()} is not canonical: y is not below 2^255 - 19",
            code="signing-key-not-canonical",
        )
    square = y * y % _P
    # The points whose order divides 8: y = ±1 (order 1 and 2), y = 0 (4), and dy⁴ + 2y² = 1 (8), which is what doubling
    # to y = 0 means. Where y = ±1, x is 0, and a sign bit of 1 is a second spelling: it is refused here as well.
    if square in (0, 1) or (_D * square * square + 2 * square) % _P == 1:
        raise InputError(
            f"the Ed25519 public key {raw.hex()} is a point of small order: a signature under it proves nothing",
            code="signing-key-small-order",
        )
    # x² = (y² - 1)/(dy² + 1) has a root exactly if numerator · denominator is a square.
    if pow((square - 1) * (_D * square + 1), (_P - 1) // 2, _P) != 1:
        raise InputError(
            f"the Ed25519 public key {raw.hex()} is not a point of the curve", code="signing-key-not-a-point"
        )
