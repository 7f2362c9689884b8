"""Ed25519 public keys that nobody should rely on, worked out from the equation of the curve: −x² + y² = 1 + dx²y²."""

from __future__ import annotations

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
I = pow(2, (P - 1) // 4, P)  # noqa: E741 — the square root of −1


def root(square: int) -> int | None:
    """A square root modulo P, if there is one."""
    for factor in (1, I):
        found = pow(square, (P + 3) // 8, P) * factor % P
        if found * found % P == square % P:
            return found
    return None


def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The sum of two points (RFC 8032 §5.1.4, in affine coordinates)."""
    (x, y), (u, v) = one, other
    product = D * x * u * y * v % P
    return (x * v + u * y) * pow(1 + product, -1, P) % P, (y * v + x * u) * pow(1 - product, -1, P) % P


def encode(y: int, sign: int) -> bytes:
    """32 bytes of any y below 2²⁵⁵."""
    return (y | sign << 255).to_bytes(32, "little")


def small_order() -> list[tuple[int, int]]:
    """The eight points whose order divides 8: the multiples of one of order 8, whose double has y = 0."""
    # y = 0 of the double means x² = −y², and with the equation dy⁴ + 2y² = 1.
    for sign in (1, -1):
        square = root(1 + D)
        assert square is not None
        y = root((sign * square - 1) * pow(D, -1, P) % P)
        if y is not None and (x := root(-y * y % P)) is not None:
            points = [(0, 1)]
            while len(points) < 8:
                points.append(add(points[-1], (x, y)))
            assert add(points[-1], (x, y)) == (0, 1)
            return points
    raise AssertionError


def weak_keys() -> dict[str, str]:
    """Hexadecimal of public keys that are refused, and why."""
    found = {encode(y, x & 1).hex(): "signing-key-small-order" for x, y in small_order()}
    # x = 0 has no sign.
    found |= {encode(y, 1).hex(): "signing-key-small-order" for y in (1, P - 1)}
    found |= {encode(P + y, sign).hex(): "signing-key-not-canonical" for y in range(19) for sign in (0, 1)}
    for y in range(2, 12):
        if root((y * y - 1) * pow(D * y * y + 1, -1, P) % P) is None:
            found |= {encode(y, sign).hex(): "signing-key-not-a-point" for sign in (0, 1)}
    return found
