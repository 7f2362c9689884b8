"""Proof of a partition: that the rows said to have weight zero have weight exactly zero.

Keys, cap and width are taken as the exact binary numbers that they are (DESIGN §6). The partition fixes a linear
system for the margin coefficients α_S and the offset ρ,

    Σ_S α = 1 − Σ_E c,   ρ + 2 K_SS α_S = 1 − 2 K_SE c_E,   c_j = copies · C,

whose solution is enclosed rigorously. If 0 < α_S < c_S, ρ − t_j > 0 on the reserve and ρ − t_j < 0 on the bound, with
t = 1 − 2Kα, every KKT condition holds strictly; K is positive definite on distinct keys, so this is *the* optimum and
its partition the only one: `proved`. A sign that is certainly wrong means that the partition is not optimal:
`disproved`. With an empty margin, Σ_E c must be exactly 1 and every t on the reserve below every t on the bound.

Two tiers. (1) fp64 with bounded rounding (:mod:`expunge.bounds`): for an approximate inverse R of the system's matrix
M and β ≥ ‖I − RM‖∞, |x − x̃| ≤ |R||b − Mx̃| + β/(1−β) ‖|R||b − Mx̃|‖∞. It decides almost everything. (2) What it
leaves open goes to ball arithmetic, at a precision that doubles until nothing is open.

**When it ends.** All squared distances over σ² are integer multiples of one rational number h, so every κ is a power
of q = e^{−h}, which is transcendental (Lindemann). α_S, ρ and every slack are rational functions of q over the
rationals, regular at q = 0, where K = I, and a transcendental q is a zero of one only if it vanishes identically. At
q = 0: α_i = a with a = (1 − Σ_E c)/|S|, the slack of a reserve site is −2a and that of a bound site 2(c_j − a). So a
reserve key is never exactly on the boundary, and no α_i is exactly zero, unless Σ_E c = 1; nothing else is exactly
zero unless a equals some c_j. Only such a tie of caps can stay open at every precision; among distinct keys it takes
1/C to be exactly the number of active keys. All else is a matter of bits. `undecidable` therefore means: a tie
of caps, too few bits, or an empty margin whose caps miss a mass of 1 by the rounding of C.
"""

from __future__ import annotations

import hashlib
import math
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from expunge.bounds import SLIGHT, UNIT, Sites, as_state, gamma, kernel_enclosure, similarity_enclosure
from expunge.errors import InputError, MissingExtra
from expunge.tolerances import FEASIBILITY_SLIP
from expunge.types import IndexArray, Matrix, Vector
from expunge.verify.proof import FORMAT, Finding, Outcome, Proof, Quantity, Witness

__all__ = ["Finding", "Proof", "Witness", "prove_partition"]

Progress = Callable[[int, int], None]

# The bits of a double; the tier below ball arithmetic.
FLOATING: Final = 53
# A witness must satisfy what a verifier tests with this factor to spare.
SPARE: Final = 4.0
# At least this many fractional bits, so that rounding a witness costs less than its own error.
LEAST_SCALE: Final = 80
# Rows of the kernel held as balls at one time.
CHUNK: Final = 200


def prove_partition(
    keys: npt.ArrayLike,
    coefficients: npt.ArrayLike,
    *,
    cap: float,
    sigma: float,
    first_bits: int = FLOATING,
    most_bits: int = 2048,
    progress: Progress | None = None,
) -> Proof:
    """Prove that the groups of coefficients (n,) are the optimal partition of keys (n, d), or say why not.

    A coefficient of 0 or less is reserve, of C or more is bound, anything between is margin; copies of a key
    count as one site, on the margin if they differ. ``progress`` is called with (bits, open sites) before each
    precision. Raises InputError for unusable arguments and MissingExtra without python-flint.
    """
    started = time.perf_counter()
    _flint()
    points, alpha = as_state(keys, coefficients, cap, sigma)
    if not FLOATING <= first_bits <= most_bits:
        raise InputError(f"precisions must satisfy 53 <= first_bits <= most_bits, not {first_bits} and {most_bits}")
    sites = Sites.of(points)
    letters = np.full(sites.counts.size, "m")
    letters[sites.every(alpha <= 0.0)] = "r"
    letters[sites.every(alpha >= cap)] = "b"
    case = _Case(sites, letters, Fraction(cap), cap, sigma)
    partition = "".join(letters[sites.of_row].tolist())
    search = _Margin(case) if case.margin.size else _NoMargin(case)
    bits = first_bits
    if search.possible():
        while True:
            if progress is not None:
                progress(bits, search.open_sites().size)
            if bits == FLOATING:
                search.floating()
            else:
                with _flint().ctx.workprec(bits):
                    search.balls(bits)
            if search.finished() or bits >= most_bits:
                break
            bits = min(2 * bits, most_bits)
    outcome, reason = search.verdict(bits)
    return Proof(
        outcome=outcome,
        partition=partition,
        digest=_digest(points, cap, sigma, partition),
        bits=bits,
        undecided=search.findings(0) if outcome == "undecidable" else (),
        wrong=search.findings(-1) if outcome == "disproved" else (),
        reason=reason,
        witness=search.witness if outcome == "proved" else None,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, eq=False)
class _Case:
    """The sites and the group that each is said to be in."""

    sites: Sites
    letters: npt.NDArray[np.str_]
    cap: Fraction
    cap_rounded: float
    sigma: float

    def __post_init__(self) -> None:
        self.__dict__["margin"] = np.flatnonzero(self.letters == "m")
        self.__dict__["bound"] = np.flatnonzero(self.letters == "b")
        self.__dict__["reserve"] = np.flatnonzero(self.letters == "r")

    margin: IndexArray = None  # type: ignore[assignment]
