"""How far an edit can move a readout, at every query inside the boundary, in fp64 with the rounding bounded.

Let α and α′ be the coefficients before and after, Δ = α′ − α, S = Σακ(q,·) and o, o′ the readouts at q. Then
o′ − o = ΣΔκ(v − o)/S′. Take any m, and one coordinate at a time. The function ΣΔ(v−m)κ(·,x) has the norm
A = √(Σ ΔᵢΔⱼκᵢⱼ(vᵢ−m)(vⱼ−m)) in the kernel's space, ΣΔκ(·,x) has B = √(ΔᵀKΔ), and κ(q,q) = 1, so neither is larger than
its norm at any q (Cauchy–Schwarz). No coefficient is negative, so |o − m| ≤ r, the largest |v − m| of an active entry,
and S′ ≥ S − B. Hence, wherever S ≥ s > B,

    |o′ − o| ≤ (A + rB)/(s − B),

and nowhere more than the range of the values of entries that are active before or after. Outside the boundary nothing
better than that range holds: far from all keys the nearest active entry alone decides the answer, and it may be gone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from expunge.certificates.intervals import SLIGHT, UNIT, gamma, kernel_enclosure
from expunge.types import Matrix, Vector

__all__ = ["readout_change_bound"]

# Beyond this many coefficients that change, their kernel matrix is not worth a preview.
MOST_CHANGED: Final = 6000
# What the fp64 readouts themselves may be off by, of the range of the values; a thousand times what is measured.
_EVALUATION: Final = 1e-9
_BLOCK: Final = 256


def readout_change_bound(
    keys: Matrix, values: Matrix, before: Vector, after: Vector, *, sigma: float, denominator: float
) -> float | None:
    """Bound the change of every coordinate of a readout, wherever Σακ(q, ·) before is at least `denominator`.

    Parameters
    ----------
    keys : (n, d) float64
        Keys of the entries that are there before or after.
    values : (n, dv) float64
        Their values.
    before, after : (n,) float64
        Their coefficients, none negative, 0 where an entry is not there.
    sigma : float
        Kernel width.
    denominator : float
        The least similarity of the queries: (1 − ρ)/2 inside the boundary of an offset ρ.

    Returns
    -------
    float or None
        The bound, in units of the values; 0 where no coefficient changes, for every query whatever. None where more
        coefficients change than are worth the work.

    """
    changed = np.flatnonzero(before != after)
    if not changed.size:
        return 0.0
    if changed.size > MOST_CHANGED:
        return None
    active = values[(before > 0.0) | (after > 0.0)]
    span = float(np.ptp(active, axis=0).max())
    middle = 0.5 * (active.min(axis=0) + active.max(axis=0))
    reach = np.abs(values[before > 0.0] - middle).max(axis=0) * SLIGHT
    delta = after[changed] - before[changed]
    # The last column is that of ΣΔκ itself.
    terms = np.column_stack([delta[:, None] * (values[changed] - middle), delta])
    norms = _norms(keys[changed], terms, sigma)
    remaining = denominator * (1.0 - 8.0 * UNIT) - norms[-1]
    if not remaining > 0.0:
        return span * (1.0 + _EVALUATION)
    moved = float((SLIGHT * (norms[:-1] + reach * norms[-1]) / remaining).max())
    return min(moved, span) + _EVALUATION * span


def _norms(keys: Matrix, terms: Matrix, sigma: float) -> Vector:
    """Upper bounds for √(wᵀKw) of each column w of terms (m, c)."""
    size = np.abs(terms)
    squares = np.zeros(terms.shape[1])
    rounding = gamma(2 * keys.shape[0] + 32)
    for start in range(0, keys.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        kernel, radius = kernel_enclosure(keys[rows], keys, sigma)
        squares += (terms[rows] * (kernel @ terms)).sum(axis=0)
        squares += (size[rows] * (radius @ size + rounding * (kernel @ size))).sum(axis=0) * SLIGHT
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)) * SLIGHT)
