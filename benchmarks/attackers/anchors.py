"""The attack on warranties: what was kept for pruned entries gives the key of an erased one back.

The attacker has the database file (or a save file) of a memory that was pruned and from which an entry was erased
afterwards. Everything in it is read with the package's own code. Whatever the stored numbers tell of Σα κ over *all*
entries at the pruning, less the part of the entries that remain, is a κ(x, ·) of the erased key x:

- an older layout stores the similarity of every site: (similarity − Kα)/gone = κ(x, ·) at every remaining site;
- a *forget* record stores its similarity v_j and weights of the entries that stayed: with the forgotten keys in hand
  (the attacker holds all other entries), v_j − Σα_i κ_ij = a_x κ(x, x_j);
- the offset of the pruning gives Σα κ at every entry that was on the margin then: (1 − ρ)/2 less what remains.

Trilateration turns d + 1 or more such numbers into x.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from expunge.memory.version import Version

__all__ = [
    "closest_error",
    "keys_from_warranties",
    "neighbours_from_sketches",
    "trilaterate",
    "two_keys_from_warranties",
]

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


def trilaterate(points: Matrix, kernels: Vector, sigma: float) -> Vector | None:
    """The key x with κ(x, points) = kernels (m,), m > d; None where the numbers do not determine it."""
    usable = (kernels > 1e-12) & (kernels <= 1.0 + 1e-9)
    points, kernels = points[usable], np.minimum(kernels[usable], 1.0)
    if len(points) < points.shape[1] + 1:
        return None
    squared = -np.log(kernels) * sigma**2
    # |x − p|² − |x − p₀|² is linear in x. Near points are the exact ones, so they weigh more.
    first = int(np.argmax(kernels))
    others = np.delete(np.arange(len(points)), first)
    design = 2.0 * (points[others] - points[first])
    right = (points[others] ** 2).sum(axis=1) - (points[first] ** 2).sum() - squared[others] + squared[first]
    weight = kernels[others] / kernels.max()
    if np.linalg.matrix_rank(design) < points.shape[1]:
        return None
    start = np.linalg.lstsq(design * weight[:, None], right * weight, rcond=None)[0]

    def residuals(x: Vector) -> Vector:
        return np.asarray(np.exp(-((points - x) ** 2).sum(axis=1) / sigma**2) - kernels)

    refined = least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    return np.asarray(refined.x)


def keys_from_warranties(version: Version, forgotten_keys: Mapping[str, Vector]) -> list[Vector]:
    """Every key that the stored warranties give back, if one entry is missing; some may be wrong."""
    found = []
    for points, kernels in _equations(version, forgotten_keys):
        key = trilaterate(points, kernels, version.state.gram.sigma)
        if key is not None:
            found.append(key)
    return found


def two_keys_from_warranties(
    version: Version, forgotten_keys: Mapping[str, Vector], rng: np.random.Generator
) -> Matrix:
    """Two keys that went together, (2, d): a₁κ(x₁, ·) + a₂κ(x₂, ·) from many starts; empty if nothing is stored."""
    sigma, best, least = version.state.gram.sigma, np.zeros((0, 0)), np.inf
    for points, sums in _equations(version, forgotten_keys):
        dimension = points.shape[1]

        def residuals(unknown: Vector, points: Matrix = points, sums: Vector = sums) -> Vector:
            share, keys = unknown[0], unknown[1:].reshape(2, -1)
            return np.asarray(_kernel(points, keys, sigma) @ np.array([share, 1.0 - share]) - sums)

        for _ in range(24):
            start = np.concatenate([[rng.uniform(0.2, 0.8)], rng.standard_normal(2 * dimension)])
            solved = least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
            if solved.cost < least:
                best, least = solved.x[1:].reshape(2, -1), solved.cost
            if least < 1e-26:
                break
    return np.asarray(best)


def _equations(version: Version, forgotten_keys: Mapping[str, Vector]) -> Iterator[tuple[Matrix, Vector]]:
    warranties: Any = version.warranties
    sigma, state = version.state.gram.sigma, version.state
    if hasattr(warranties, "anchors"):
        for anchor in warranties.anchors.values():
            sites = np.flatnonzero((anchor.similarity != 0.0) & (state.multiplicity[: anchor.alpha.size] > 0))
            if anchor.gone > 0.0 and sites.size:
                keys = state.gram.keys[sites]
                known = _kernel(keys, keys, sigma) @ anchor.alpha[sites]
                yield keys, (anchor.similarity[sites] - known) / anchor.gone
        return
    anchors = {
        id(record.anchor): record.anchor for record in warranties.forgotten.values() if record.anchor is not None
    }
    key_of = dict(zip(version.slots.tolist(), version.keys, strict=True))
    for anchor in anchors.values():
        here = [row for row, slot in enumerate(anchor.slots.tolist()) if slot in key_of]
        keys = np.array([key_of[int(anchor.slots[row])] for row in here])
        alpha = anchor.alpha[here]
        gone = 1.0 - float(anchor.alpha.sum() if len(here) == anchor.slots.size else alpha.sum())
        if gone < 1e-9 or not here:
            continue
        margin = (alpha > 0.0) & (alpha < version.state.cap)
        points = [*keys[margin]]
        sums = [0.5 * (1.0 - anchor.offset)] * int(margin.sum())
        for name, record in warranties.forgotten.items():
            if record.anchor is anchor and name in forgotten_keys:
                points.append(forgotten_keys[name])
                sums.append(record.similarity)
        at = np.array(points)
        yield at, (np.array(sums) - _kernel(at, keys, sigma) @ alpha) / gone


def neighbours_from_sketches(version: Version, weight: float) -> list[tuple[str, float]]:
    """κ of a forgotten entry to an erased neighbour: v less `rest`, less the part of the neighbours that remain."""
    found = []
    warranties: Any = version.warranties
    for name, record in getattr(warranties, "records", {}).items():
        anchor = warranties.anchors[record.anchor]
        known = float(record.kernels @ anchor.alpha[record.neighbours]) if record.neighbours.size else 0.0
        missing = record.similarity - record.rest - known
        if record.rest != record.similarity and missing > 1e-12:
            found.append((name, missing / weight))
    for name, record in getattr(warranties, "forgotten", {}).items():
        if record.anchor is not None and record.neighbours.size:
            here = np.isin(record.neighbours, version.slots)
            found.extend((name, float(kernel)) for kernel in record.kernels[~here])
    return found


def closest_error(guesses: list[Vector], truth: Vector) -> float:
    """Largest coordinate error of the best guess; infinite where there is none."""
    return min((float(np.abs(guess - truth).max()) for guess in guesses), default=np.inf)


def _kernel(a: Matrix, b: Matrix, sigma: float) -> Matrix:
    return np.asarray(np.exp(-((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2) / sigma**2))
