"""What removing an entry now would be, and on what evidence (paper, Propositions 1 and 3).

- `ReserveCertificate`: the coefficient is zero, so removal changes no readout. Point in time: a later admission can
  make the key active again, which is what warranties are for.
- `DecrementCertificate`: the coefficient is positive, so removal re-solves, and the target is a fresh fit of the
  remaining entries at the same cap, or where they are too few for it at a larger one. That target is one point only if
  the optimum is unique: distinct keys make the kernel matrix positive definite, and its smallest eigenvalue over the
  margin says how firmly.

Neither speaks of copies, re-encodings, model weights or another cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from expunge.display.card import Card, Displayed, counted
from expunge.problem.kernel import kernel_block
from expunge.types import Matrix, Vector

__all__ = ["DOES_NOT_COVER", "Certificate", "DecrementCertificate", "ReserveCertificate", "certify"]

DOES_NOT_COVER = (
    "copies made before the edit",
    "re-encoding of the remaining entries",
    "the weights of any model that saw the entry",
    "a refit at another cap",
    "later admissions, unless a warranty says so",
)
RESERVE_ASSUMPTIONS = (
    "the stored keys are exact, and the state passed its check",
    "the query's denominator is not zero",
    "nothing is admitted or deleted in between",
)
DECREMENT_ASSUMPTIONS = (
    "the stored keys are exact, and the cap is not changed by anything else",
    "the optimum of the remaining entries is unique",
)


@dataclass(frozen=True)
class ReserveCertificate(Displayed):
    """Removing this entry changes no readout."""

    id: str
    slack: float
    proved: bool  # by rigorous bounds or ball arithmetic, not by a tolerance
    readout_change: float  # measured at every key of the memory, with and without the entry
    assumptions: tuple[str, ...] = RESERVE_ASSUMPTIONS
    does_not_cover: tuple[str, ...] = DOES_NOT_COVER

    def _card(self) -> Card:
        return Card(
            title=f"Certificate of entry {self.id}",
            sentence="the entry carries no weight: removing it now changes no readout",
            rows=(
                ("proved", "yes, by rigorous bounds" if self.proved else "no, within a tolerance only"),
                ("assumes", "; ".join(self.assumptions)),
                ("does not cover", "; ".join(self.does_not_cover)),
            ),
            details=(
                ("slack", f"{self.slack:.6g} (0 on the boundary)"),
                ("largest change of a readout", f"{self.readout_change:.1e}, measured at the memory's keys"),
            ),
        )


@dataclass(frozen=True)
class DecrementCertificate(Displayed):
    """Removing this entry gives what a fresh fit of the others at this cap would."""

    id: str
    coefficient: float
    cap: float  # of that fit: the memory's, or a larger one where too few entries remain for it
    duplicates: int  # remaining entries with exactly this key, or with each other's: their split is by convention
    nearest: float  # smallest distance between two distinct remaining keys, in widths
    smallest_eigenvalue: float  # of the kernel matrix over the margin keys; its last bits depend on the machine
    assumptions: tuple[str, ...] = DECREMENT_ASSUMPTIONS
    does_not_cover: tuple[str, ...] = DOES_NOT_COVER

    @property
    def unique(self) -> bool:
        """Whether the remaining keys are distinct, so that the target is one point in exact arithmetic."""
        return self.duplicates == 0

    def _card(self) -> Card:
        return Card(
            title=f"Certificate of entry {self.id}",
            sentence="the entry carries weight: removing it recomputes the rest, as a fresh fit of the others would",
            rows=(
                ("target", "one point: the other keys are distinct" if self.unique else _split(self.duplicates)),
                ("assumes", "; ".join(self.assumptions)),
                ("does not cover", "; ".join(self.does_not_cover)),
            ),
            details=(
                ("weight", f"{self.coefficient:.6g}"),
                ("cap of the fresh fit", f"{self.cap:.6g}"),
                ("nearest other keys", f"{self.nearest:.4g} widths apart"),
                ("smallest eigenvalue", f"{self.smallest_eigenvalue:.4g}, over the keys on the margin"),
            ),
        )


Certificate = ReserveCertificate | DecrementCertificate


def certify(
    row: int,
    name: str,
    keys: Matrix,
    values: Matrix,
    coefficients: Vector,
    *,
    offset: float,
    cap: float,
    cap_after: float,
    sigma: float,
    proved: bool,
) -> Certificate:
    """Certificate for removing one row of a checked state; `cap_after` is the cap of the entries that remain."""
    rest = np.delete(np.arange(keys.shape[0]), row)
    if coefficients[row] == 0.0:
        # Summed exactly, so that neither the order of the entries nor a library shows in the last bits.
        similarity = math.fsum((kernel_block(keys[[row]], keys, sigma)[0] * coefficients).tolist())
        return ReserveCertificate(
            id=name,
            slack=offset - 1.0 + 2.0 * similarity,
            proved=proved,
            readout_change=_readout_change(row, keys, values, coefficients, sigma),
        )
    remaining = keys[rest]
    distinct = np.unique(remaining, axis=0)
    margin = np.flatnonzero((coefficients > 0.0) & (coefficients < cap))
    block = kernel_block(keys[margin], keys[margin], sigma)
    return DecrementCertificate(
        id=name,
        coefficient=float(coefficients[row]),
        cap=cap_after,
        duplicates=int(remaining.shape[0] - distinct.shape[0]),
        nearest=_nearest(distinct) / sigma,
        smallest_eigenvalue=float(np.linalg.eigvalsh(block)[0]) if margin.size else float("nan"),
    )


def _split(duplicates: int) -> str:
    return f"{counted(duplicates, 'equal key')} among the others: the weight they share is split evenly"


def _nearest(points: Matrix) -> float:
    from scipy.spatial import cKDTree

    if points.shape[0] < 2:
        return float("inf")
    distances: Matrix = np.asarray(cKDTree(points).query(points, k=2)[0])
    return float(distances[:, 1].min())


def _readout_change(row: int, keys: Matrix, values: Matrix, coefficients: Vector, sigma: float) -> float:
    """Largest change of the readout at the memory's own keys when one row's terms are left out."""
    weights = kernel_block(keys, keys, sigma) * coefficients
    without = weights.copy()
    without[:, row] = 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        change = (weights @ values) / weights.sum(axis=1, keepdims=True)
        change -= (without @ values) / without.sum(axis=1, keepdims=True)
    return float(np.nanmax(np.abs(change), initial=0.0))
