"""The maintained margin system M = [[0, 1ᵀ], [1, 2K_SS]] (paper, Eq. 4), held as a factor.

The factor is the upper triangle U of K_SS + 11ᵀ = UᵀU. Adding 11ᵀ changes nothing on Σα = const except the
offset's origin, and makes the Cholesky pivot of an entering key measure its distance from the *affine* hull
of the margin, which is what decides whether M stays invertible (the pivot lies between ½ and 1 times half of M's
own Schur complement). Entering is a triangular solve, leaving a sequence of plane rotations: both backward
stable, O(s²), and free of the error growth of an updated inverse. M⁻¹ itself is derived on demand.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from expunge.compilation import njit
from expunge.errors import SolveError
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "MarginFactor",
    "append_row",
    "forward_pair",
    "pivot_floor",
    "remove_row",
    "solve_halfway",
    "solve_rows",
    "upper_factor",
]

_EPS = float(np.finfo(np.float64).eps)

# Factors larger than this go to the threaded library; below, its start-up costs more.
THREADED = 256


@njit(cache=True, nogil=True)
def pivot_floor(ceiling: float, slack_tolerance: float) -> float:
    """Pivot at or below which a key counts as dependent on the margin.

    Freeing a key that violates by v moves it v/(2·pivot). When that exceeds its ceiling for every v above the
    slack tolerance, a bound always comes first, and trading places with a member loses nothing.
    """
    return min(max(slack_tolerance / (4.0 * ceiling), 16.0 * _EPS), 1e-10)


# The triangular solves take four rows at a time: short loops over single rows would mostly wait for memory. Indices are
# unsigned, because a signed one may be negative for all that the compiler knows, and allowing for it costs the loops
# their vector instructions.
_ONE, _TWO, _THREE, _FOUR, _EIGHT = (np.uint64(n) for n in (1, 2, 3, 4, 8))


# Sums are written in the order in which they are to be taken: were the compiler free to choose it, the last bit of a
# state would depend on which functions a process has compiled itself and which it found in the cache.


@njit(cache=True, nogil=True)
def _inner(x: Vector, y: Vector, start: np.uint64, stop: np.uint64) -> float:
    """Σ x_j y_j for start ≤ j < stop, in eight sums."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    j = start
    while j + _EIGHT <= stop:
        a += x[j] * y[j]
        b += x[j + _ONE] * y[j + _ONE]
        c += x[j + _TWO] * y[j + _TWO]
        d += x[j + _THREE] * y[j + _THREE]
        k = j + _FOUR
        e += x[k] * y[k]
        f += x[k + _ONE] * y[k + _ONE]
        g += x[k + _TWO] * y[k + _TWO]
        h += x[k + _THREE] * y[k + _THREE]
        j += _EIGHT
    while j < stop:
        a += x[j] * y[j]
        j += _ONE
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@njit(cache=True, nogil=True)
def _corner(p: Vector, q: Vector, r: Vector, s: Vector, i: np.uint64, b: Vector) -> tuple[float, float, float, float]:
    """Solve the triangle of four rows whose first column is i for its part of b; return that part."""
    j, k, m = i + _ONE, i + _TWO, i + _THREE
    w = b[i] / p[i]
    x = (b[j] - w * p[j]) / q[j]
    y = (b[k] - w * p[k] - x * q[k]) / r[k]
    z = (b[m] - w * p[m] - x * q[m] - y * r[m]) / s[m]
    b[i], b[j], b[k], b[m] = w, x, y, z
    return w, x, y, z


@njit(cache=True, nogil=True)
def forward(factor: Matrix, size: int, b: Vector) -> None:
    """B ← U⁻ᵀ b."""
    n = np.uint64(size)
    i = np.uint64(0)
    while i + _FOUR <= n:
        p, q, r, s = factor[i], factor[i + _ONE], factor[i + _TWO], factor[i + _THREE]
        w, x, y, z = _corner(p, q, r, s, i, b)
        for j in range(i + _FOUR, n):
            b[j] -= (w * p[j] + x * q[j]) + (y * r[j] + z * s[j])
        i += _FOUR
    while i < n:
        p = factor[i]
        w = b[i] / p[i]
        b[i] = w
        for j in range(i + _ONE, n):
            b[j] -= w * p[j]
        i += _ONE


@njit(cache=True, nogil=True)
def forward_pair(factor: Matrix, size: int, pair: Matrix) -> None:
    """`forward` for both rows of `pair`, going through the factor once."""
    n = np.uint64(size)
    i = np.uint64(0)
    b, c = pair[0], pair[1]
    while i + _FOUR <= n:
        p, q, r, s = factor[i], factor[i + _ONE], factor[i + _TWO], factor[i + _THREE]
        bw, bx, by, bz = _corner(p, q, r, s, i, b)
        cw, cx, cy, cz = _corner(p, q, r, s, i, c)
        for j in range(i + _FOUR, n):
            b[j] -= (bw * p[j] + bx * q[j]) + (by * r[j] + bz * s[j])
            c[j] -= (cw * p[j] + cx * q[j]) + (cy * r[j] + cz * s[j])
        i += _FOUR
    while i < n:
        p = factor[i]
        b[i] /= p[i]
        c[i] /= p[i]
        for j in range(i + _ONE, n):
            b[j] -= b[i] * p[j]
            c[j] -= c[i] * p[j]
        i += _ONE


@njit(cache=True, nogil=True)
def backward(factor: Matrix, size: int, b: Vector) -> None:
    """B ← U⁻¹ b."""
    i = n = np.uint64(size)
    while i >= _FOUR:
        i -= _FOUR
        p, q, r, s = factor[i], factor[i + _ONE], factor[i + _TWO], factor[i + _THREE]
        pa, pb, pc, pd, qa, qb, qc, qd = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        ra, rb, rc, rd, sa, sb, sc, sd = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        j = i + _FOUR
        while j + _FOUR <= n:
            k, h, m = j + _ONE, j + _TWO, j + _THREE
            w, x, y, z = b[j], b[k], b[h], b[m]
            pa, pb, pc, pd = pa + p[j] * w, pb + p[k] * x, pc + p[h] * y, pd + p[m] * z
            qa, qb, qc, qd = qa + q[j] * w, qb + q[k] * x, qc + q[h] * y, qd + q[m] * z
            ra, rb, rc, rd = ra + r[j] * w, rb + r[k] * x, rc + r[h] * y, rd + r[m] * z
            sa, sb, sc, sd = sa + s[j] * w, sb + s[k] * x, sc + s[h] * y, sd + s[m] * z
            j += _FOUR
        while j < n:
            w = b[j]
            pa, qa, ra, sa = pa + p[j] * w, qa + q[j] * w, ra + r[j] * w, sa + s[j] * w
            j += _ONE
        k, h, m = i + _ONE, i + _TWO, i + _THREE
        z = (b[m] - ((sa + sb) + (sc + sd))) / s[m]
        y = (b[h] - ((ra + rb) + (rc + rd)) - z * r[m]) / r[h]
        x = (b[k] - ((qa + qb) + (qc + qd)) - z * q[m] - y * q[h]) / q[k]
        w = (b[i] - ((pa + pb) + (pc + pd)) - z * p[m] - y * p[h] - x * p[k]) / p[i]
        b[i], b[k], b[h], b[m] = w, x, y, z
    while i >= _ONE:
        i -= _ONE
        row = factor[i]
        b[i] = (b[i] - _inner(row, b, i + _ONE, n)) / row[i]


@njit(cache=True, nogil=True)
def solve_halfway(factor: Matrix, size: int, half: Matrix, mass: float, x: Vector) -> float:
    """X ← solution of K x + (y/2)·1 = r, Σx = mass; return y. half = (U⁻ᵀr, U⁻ᵀ1) as two rows.

    With u = (K + 11ᵀ)⁻¹1 the solution is (K + 11ᵀ)⁻¹r − η u, where 1ᵀ(K + 11ᵀ)⁻¹r and 1ᵀu are inner products
    of the halves: one triangular solve is left.
    """
    mixed = _inner(half[0], half[1], np.uint64(0), np.uint64(size))
    total = _inner(half[1], half[1], np.uint64(0), np.uint64(size))
    eta = (mixed - mass) / total
    for i in range(size):
        x[i] = half[0, i] - eta * half[1, i]
    backward(factor, size, x)
    return 2.0 * (eta + mass)


@njit(cache=True, nogil=True)
def copy_upper(source: Matrix, target: Matrix, size: int) -> None:
    """Copy the leading upper triangle."""
    n = np.uint64(size)
    for i in range(n):
        for j in range(i, n):
            target[i, j] = source[i, j]


@njit(cache=True, nogil=True)
def _factorise(matrix: Matrix, size: int) -> bool:
    """Matrix ← its upper Cholesky factor, in the leading block; False when a pivot is not positive."""
    n = np.uint64(size)
    for i in range(n):
        top = matrix[i]
        k = np.uint64(0)
        while k + _FOUR <= i:
            p, q, r, s = matrix[k], matrix[k + _ONE], matrix[k + _TWO], matrix[k + _THREE]
            w, x, y, z = p[i], q[i], r[i], s[i]
            for j in range(i, n):
                top[j] -= (w * p[j] + x * q[j]) + (y * r[j] + z * s[j])
            k += _FOUR
        while k < i:
            p = matrix[k]
            w = p[i]
            for j in range(i, n):
                top[j] -= w * p[j]
            k += _ONE
        if not top[i] > 0.0:
            return False
        root = np.sqrt(top[i])
        for j in range(i, n):
            top[j] /= root
    return True


def upper_factor(matrix: Matrix) -> Matrix | None:
    """The upper Cholesky factor; None if the matrix, which is overwritten, is not definite."""
    if matrix.shape[0] <= THREADED:
        # The lower triangle still has the kernel values, which must not outlive their keys.
        return np.triu(matrix) if _factorise(matrix, matrix.shape[0]) else None
    from scipy.linalg import LinAlgError, cholesky

    try:
        upper = cholesky(matrix, lower=False, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return np.ascontiguousarray(upper)


@njit(cache=True, nogil=True)
def append_row(factor: Matrix, size: int, column: Vector, floor: float, half: Matrix, right: float) -> float:
    """Border U by a kernel column and `half` by its new right-hand side; return the pivot.

    Nothing is written if the pivot is at or below `floor`. `column` is overwritten.
    """
    for i in range(size):
        column[i] += 1.0
    forward(factor, size, column)
    pivot, first, second = 2.0, right, 1.0
    for i in range(size):
        pivot -= column[i] * column[i]
        first -= column[i] * half[0, i]
        second -= column[i] * half[1, i]
    if pivot > floor:
        root = np.sqrt(pivot)
        for i in range(size):
            factor[i, size] = column[i]
        factor[size, size] = root
        half[0, size], half[1, size] = first / root, second / root
    return pivot


@njit(cache=True, nogil=True)
def remove_row(factor: Matrix, size: int, position: int, half: Matrix) -> None:
    """Drop a row and column of UᵀU: shift, then rotate the subdiagonal away, and `half` along with it."""
    first, last = np.uint64(position), np.uint64(size - 1)
    for i in range(first + _ONE):
        row = factor[i]
        for j in range(first, last):
            row[j] = row[j + _ONE]
    for i in range(first, last):
        # The lower row still lies one place to the right.
        top, bottom = factor[i], factor[i + _ONE]
        a, b = top[i], bottom[i + _ONE]
        # Pivots lie between 1e−8 and 2, so their squares need no scaling.
        radius = np.sqrt(a * a + b * b)
        cosine, sine = a / radius, b / radius
        top[i] = radius
        for j in range(i + _ONE, last):
            upper, lower = top[j], bottom[j + _ONE]
            top[j] = cosine * upper + sine * lower
            bottom[j] = cosine * lower - sine * upper
        for k in range(2):
            upper, lower = half[k, i], half[k, i + _ONE]
            half[k, i] = cosine * upper + sine * lower
            half[k, i + _ONE] = cosine * lower - sine * upper


@njit(cache=True, nogil=True)
def _leave(factor: Matrix, members: IndexArray, size: int, position: int) -> None:
    """Remove the member at a position from factor and list."""
    remove_row(factor, size, position, np.zeros((2, size)))
    for k in range(position, size - 1):
        members[k] = members[k + 1]


@njit(cache=True, nogil=True)
def _position(members: IndexArray, size: int, site: int) -> int:
    for position in range(size):
        if members[position] == site:
            return position
    return -1


@functools.cache
def _dtrsm() -> Callable[..., None]:
    """BLAS's triangular solve, as the library of SciPy has it."""
    from scipy.linalg import cython_blas

    address, named = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_GetName
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    capsule = cython_blas.__pyx_capi__["dtrsm"]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 11)(address(capsule, named(capsule)))


def solve_rows(factor: Matrix, rows: Matrix, transposed: bytes) -> Matrix:
    """U⁻ᵀ (b"N") or U⁻¹ (b"T") of each row, by the threaded library, from the leading part of a larger array."""
    solved = np.ascontiguousarray(rows, dtype=np.float64).copy()
    count, size = solved.shape
    if not count or not size:
        return solved
    integers = [ctypes.c_int(value) for value in (size, count, factor.shape[1], size)]
    one = ctypes.c_double(1.0)
    letters = [ctypes.c_char(value) for value in (b"L", b"L", transposed, b"N")]
    _dtrsm()(
        *map(ctypes.addressof, letters),
        *map(ctypes.addressof, integers[:2]),
        ctypes.addressof(one),
        factor.ctypes.data,
        ctypes.addressof(integers[2]),
        solved.ctypes.data,
        ctypes.addressof(integers[3]),
    )
    return solved


class MarginFactor:
    """Members of the margin, in order of entry, and the factor of their system."""

    def __init__(self, capacity: int = 16) -> None:
        self.size = 0
        # Members and U each lie in the leading part of a larger array.
        self.buffer: IndexArray = np.zeros(capacity, dtype=np.int64)
        self.factor: Matrix = np.zeros((capacity, capacity))

    @property
    def members(self) -> IndexArray:
        """Site numbers, in factor order."""
        return self.buffer[: self.size]

    def copy(self, into: MarginFactor | None = None) -> MarginFactor:
        """Independent copy; costs the square of the members. `into` lends its memory, which is already paged in."""
        twin = MarginFactor() if into is None else into
        twin.size = 0
        twin.reserve(self.size + 8)
        size = twin.size = self.size
        twin.buffer[:size] = self.buffer[:size]
        if size:
            copy_upper(self.factor, twin.factor, size)
        return twin

    def clear(self, after: int = 0) -> None:
        """Overwrite what the buffers hold of members from a position on, and forget them."""
        self.size = min(self.size, after)
        self.factor[after:] = 0.0
        self.factor[:after, after:] = 0.0
        self.buffer[after:] = 0

    def enter(self, site: int, column: Vector, floor: float) -> float:
        """Add a site whose kernel values with the members are `column`; return the pivot.

        Nothing changes when the pivot is at or below `floor`: the key is dependent on the margin.
        """
        self.reserve(self.size + 1)
        half = np.zeros((2, self.size + 1))
        pivot = float(append_row(self.factor, self.size, column.copy(), floor, half, 0.0))
        if pivot > floor:
            self.buffer[self.size] = site
            self.size += 1
        return pivot

    def leave(self, position: int) -> int:
        """Remove the member at a position; return its site."""
        site = int(self.buffer[position])
        _leave(self.factor, self.buffer, self.size, position)
        self.size -= 1
        return site

    def position(self, site: int) -> int:
        """Position of a member."""
        position = int(_position(self.buffer, self.size, site))
        if position < 0:
            raise SolveError(f"site {site} is not on the margin")
        return position

    def renumber(self, new_number: IndexArray) -> None:
        """Apply a renumbering of sites."""
        self.buffer[: self.size] = new_number[self.members]

    def solve(self, right: Vector, mass: float) -> tuple[Vector, float]:
        """Solve K x + (y/2)·1 = right, Σx = mass; return (x, y)."""
        half = np.ones((2, self.size))
        half[0] = right
        forward_pair(self.factor, self.size, half)
        x = np.empty(self.size)
        return x, float(solve_halfway(self.factor, self.size, half, mass, x))

    def refresh(self, members: IndexArray, gram: Matrix) -> bool:
        """Factor afresh from K_SS; False, and nothing changed, if it is not numerically definite."""
        size = members.size
        factor = upper_factor(gram + 1.0)
        if factor is None:
            return False
        self.buffer, self.factor, self.size = members.copy(), factor, size
        return True

    def smallest_pivot(self) -> float:
        """Smallest squared diagonal of the factor; infinity when empty."""
        return float(np.min(np.diagonal(self.factor)[: self.size] ** 2, initial=np.inf))

    def drift(self, gram: Matrix) -> float:
        """Largest entry of UᵀU − (K_SS + 11ᵀ): how far the factor is from the Gram entries it stands for."""
        upper = np.triu(self.factor[: self.size, : self.size])
        return float(np.abs(upper.T @ upper - (gram + 1.0)).max(initial=0.0))

    def reserve(self, needed: int) -> None:
        """Make room for this many members."""
        capacity = self.factor.shape[0]
        if needed <= capacity:
            return
        capacity = max(needed, capacity + capacity // 2)
        members = np.zeros(capacity, dtype=np.int64)
        members[: self.size] = self.members
        factor = np.zeros((capacity, capacity))
        factor[: self.size, : self.size] = self.factor[: self.size, : self.size]
        self.buffer, self.factor = members, factor
