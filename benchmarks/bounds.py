"""Rigorous bounds beside the largest error that 100,000 queries find, all against the optimum to 50 digits.

States: solved ones (Memory), the same with noise on the coefficients, and LIBSVM's at three tolerances. Queries of
a state: draws of several spreads around and away from the keys, the keys themselves, ends of gradient ascent on
|s − s*|, and ends of a hill climb on the readout's error over its bound. The errors are of the numbers a user gets,
in fp64, against s* and o* in ball arithmetic. Prints a table, writes benchmarks/results/bounds.json; a violation, or
a key proved zero that is not, ends the run with status 1.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, ctx
from sklearn.svm import OneClassSVM

from expunge import Memory
from expunge.audit.experiments.trajectories import draw_trajectory
from expunge.certificates.bounds import Bounds, rigorous_bounds
from expunge.problem.kernel import kernel_block, squared_distances
from expunge.problem.problem import Problem, fewest_keys
from expunge.problem.solution import Solution
from record import describe, write_result

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from highprecision import Truth, exact_kernel, solve_exactly
from problems import PROBLEMS

Array = npt.NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
BITS = 200
CHUNK = 500


@dataclass(frozen=True)
class Subject:
    """One problem: keys (n, d), values (n, dv)."""

    name: str
    keys: Array
    values: Array
    cap: float
    sigma: float


@dataclass(frozen=True)
class State:
    """One state of a problem."""

    label: str
    coefficients: Array
    offset: float


def subjects() -> Iterator[Subject]:
    for regime in ("gaussian", "near-duplicate"):
        for size, dimension in ((64, 6), (128, 6), (64, 64)):
            drawn = draw_trajectory(regime, size, dimension, 41000, cycles=0)
            yield Subject(f"{regime} n={size} d={dimension}", drawn.keys, drawn.values, drawn.cap, drawn.sigma)
    rng = np.random.default_rng(25600000)
    keys, values = 1.5 * rng.standard_normal((256, 6)), rng.uniform(-1.0, 1.0, (256, 4))
    yield Subject("latency n=256 d=6", keys, values, 1.0 / (0.4 * 256), 2.0)
    names = (
        "duplicates-groups",
        "near-duplicates-1e-04",
        "near-duplicates-1e-12",
        "lattice-2d-5",
        "empty-margin-square",
    )
    for name in (*names, "collinear-uneven", "cap-one-spare", "embedding-384d"):
        hard = PROBLEMS[name]
        yield Subject(name, hard.keys, hard.values, hard.cap, hard.sigma)


def states(subject: Subject) -> Iterator[State]:
    memory = Memory.fit(subject.keys, subject.values, sigma=subject.sigma, cap=subject.cap)
    alpha, rho = memory.coefficients, memory.offset
    yield State("solved", alpha, rho)
    rng = np.random.default_rng(7)
    for noise in (1e-10, 1e-6, 1e-3):
        shaken = np.clip(alpha * (1.0 + noise * rng.standard_normal(alpha.size)), 0.0, subject.cap)
        yield State(f"noise {noise:.0e}", shaken, rho + noise * rng.standard_normal())
    nu = min(1.0, 1.0 / (subject.cap * alpha.size))
    gram = kernel_block(subject.keys, subject.keys, subject.sigma)
    for tolerance in (1e-3, 1e-6, 1e-9):
        model = OneClassSVM(kernel="precomputed", nu=nu, tol=tolerance).fit(gram)
        found = np.zeros(alpha.size)
        found[model.support_] = model.dual_coef_.ravel() / (nu * alpha.size)
        yield State(f"LIBSVM {tolerance:.0e}", found, 1.0 - 2.0 * float(model.offset_[0]) / (nu * alpha.size))


class Reference:
    """s* and o* to fifty digits, and the fp64 difference of coefficients that the search climbs on."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.truth: Truth = solve_exactly(subject.keys, cap=subject.cap, sigma=subject.sigma)
        with ctx.workprec(BITS):
            kernel = exact_kernel(subject.keys, subject.keys, subject.sigma)
            weights = arb_mat(len(subject.keys), 1, list(self.truth.exact))
            terms = [1 - 2 * x for x in (kernel * weights).entries()]
            ranked = sorted(terms, key=lambda t: float(t.mid()), reverse=True)
            self.offset = ranked[min(fewest_keys(subject.cap), len(ranked)) - 1]
        if abs(float(self.offset) - self.truth.offset) > 1e-13:
            raise AssertionError("the order statistic is not the optimal offset")
        self.active = np.flatnonzero(self.truth.coefficients)

    def errors(self, state: State) -> tuple[Array, float]:
        """α − α* (n,) and ρ − ρ*, each correct to fp64."""
        with ctx.workprec(BITS):
            deltas = [float(arb(a) - x) for a, x in zip(state.coefficients.tolist(), self.truth.exact, strict=True)]
            return np.array(deltas), float(arb(state.offset) - self.offset)

    def at(self, queries: Array) -> tuple[Array, Array]:
        """s* (m,) and o* (m, dv), computed to fifty digits and rounded once."""
        subject = self.subject
        scores, readouts = np.empty(len(queries)), np.empty((len(queries), subject.values.shape[1]))
        rows = self.active.tolist()
        with ctx.workprec(BITS):
            alpha = [self.truth.exact[i] for i in rows]
            columns = [[a] + [a * v for v in subject.values[i].tolist()] for i, a in zip(rows, alpha, strict=True)]
            weights = arb_mat(columns)
            for start in range(0, len(queries), CHUNK):
                part = queries[start : start + CHUNK]
                sums = (exact_kernel(part, subject.keys[rows], subject.sigma) * weights).tolist()
                for i, (total, *parts) in enumerate(sums, start):
                    scores[i] = float(2 * total - self.offset)
                    readouts[i] = [float(x / total) for x in parts]
        return scores, readouts


def read(subject: Subject, coefficients: Array, queries: Array) -> Array:
    """`Memory.read` for any coefficients: (m, d) → (m, dv)."""
    active = np.flatnonzero(coefficients)
    distances = squared_distances(queries, subject.keys[active])
    distances -= distances.min(axis=1, keepdims=True)
    weights = coefficients[active] * np.exp(-distances / subject.sigma**2)
    return np.asarray(weights @ subject.values[active] / weights.sum(axis=1, keepdims=True))


def ascend(subject: Subject, delta: Array, drift: float, starts: Array, steps: int = 60) -> Array:
    """Gradient ascent on |2Σδκ(x) − drift| with a step that grows on success and shrinks on failure."""
    moved = np.flatnonzero(delta)
    keys, weights = subject.keys[moved], delta[moved]
    points = starts.copy()
    step = np.full(len(points), 0.1 * subject.sigma)

    def height(x: Array) -> tuple[Array, Array]:
        kappa = kernel_block(x, keys, subject.sigma) * weights
        return 2.0 * kappa.sum(axis=1) - drift, kappa

    value, kappa = height(points)
    for _ in range(steps):
        gradient = (kappa @ keys - kappa.sum(axis=1, keepdims=True) * points) * np.sign(value)[:, None]
        norm = np.linalg.norm(gradient, axis=1, keepdims=True)
        tried = points + step[:, None] * gradient / np.where(norm > 0.0, norm, 1.0)
        new, new_kappa = height(tried)
        better = np.abs(new) > np.abs(value)
        points[better], value[better], kappa[better] = tried[better], new[better], new_kappa[better]
        step *= np.where(better, 1.5, 0.4)
    return points


def climb(
    subject: Subject, state: State, delta: Array, bounds: Bounds, starts: Array, rng: np.random.Generator
) -> Array:
    """Random hill climb on the readout's error over its bound; the error from δ, without cancellation."""
    truth = state.coefficients - delta

    def ratio(x: Array) -> Array:
        distances = squared_distances(x, subject.keys)
        distances -= distances.min(axis=1, keepdims=True)
        kappa = np.exp(-distances / subject.sigma**2)
        readout = read(subject, state.coefficients, x)
        total = kappa @ truth
        change = (kappa * delta) @ subject.values - (kappa @ delta)[:, None] * readout
        size = np.linalg.norm(change, axis=1) / np.where(total > 1e-250, total, np.inf)
        return np.asarray(size / np.maximum(bounds.readout_bound(x), 1e-300))

    points, best = starts.copy(), ratio(starts)
    scale = np.full(len(points), 0.5 * subject.sigma)
    for _ in range(25):
        tried = points + scale[:, None] * rng.standard_normal(points.shape) / math.sqrt(points.shape[1])
        new = ratio(tried)
        better = new > best
        points[better], best[better] = tried[better], new[better]
        scale *= np.where(better, 1.2, 0.8)
    return points


def draw_queries(subject: Subject, count: int, rng: np.random.Generator) -> Array:
    """Keys, near keys, between keys, the keys' own law, and far away."""
    size, dimension = subject.keys.shape
    spread = subject.keys.std(axis=0).max() + 1e-300
    middle = subject.keys.mean(axis=0)
    fifth = count // 5 + 1
    near = subject.keys[rng.integers(size, size=fifth)] + 0.1 * subject.sigma * rng.standard_normal((fifth, dimension))
    share = rng.uniform(size=(fifth, 1))
    between = (
        share * subject.keys[rng.integers(size, size=fifth)]
        + (1.0 - share) * subject.keys[rng.integers(size, size=fifth)]
    )
    cloud = middle + spread * rng.standard_normal((fifth, dimension))
    wide = middle + 2.0 * subject.sigma * rng.standard_normal((fifth, dimension))
    far = middle + 10.0 ** rng.uniform(0, 3, (fifth, 1)) * subject.sigma * rng.standard_normal((fifth, dimension))
    return np.vstack([subject.keys, near, between, cloud, wide, far])[:count]


def measure(subject: Subject, state: State, reference: Reference, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(11)
    started = time.perf_counter()
    bounds = rigorous_bounds(
        subject.keys, state.coefficients, state.offset, cap=subject.cap, sigma=subject.sigma, values=subject.values
    )
    seconds = time.perf_counter() - started
    delta, drift = reference.errors(state)
    drawn = draw_queries(subject, count // 2, rng)
    starts = draw_queries(subject, count - len(drawn), rng)
    half = len(starts) // 2
    queries = np.vstack(
        [
            drawn,
            ascend(subject, delta, drift, starts[:half]),
            climb(subject, state, delta, bounds, starts[half:], rng),
        ]
    )
    exact_scores, exact_readouts = reference.at(queries)
    solution = Solution(Problem(subject.keys, subject.cap, subject.sigma), state.coefficients, state.offset)
    score_error = np.abs(solution.score(queries) - exact_scores)
    readout_error = np.linalg.norm(read(subject, state.coefficients, queries) - exact_readouts, axis=1)
    allowed = bounds.readout_bound(queries)
    # The rounding of the reference itself, to fp64, is the only thing not in the bound.
    slop = 2.0**-52 * (2.0 + np.abs(exact_scores))
    readout_slop = 2.0**-52 * (1.0 + np.linalg.norm(exact_readouts, axis=1))
    denominators = solution.similarity(queries)
    threshold = float(np.median(denominators)) / 2.0
    everywhere = bounds.readout_bound_where(threshold)
    inside = denominators >= threshold * (1.0 + 1e-9)
    zeros = np.array([bool(x == 0) for x in reference.truth.exact])
    return {
        "problem": subject.name,
        "state": state.label,
        "queries": len(queries),
        "gap": bounds.gap,
        "centre": bounds.centre,
        "score": bounds.score,
        "score_seen": float(score_error.max()),
        "offset": bounds.offset,
        "offset_seen": abs(drift),
        "coefficient": bounds.coefficient,
        "coefficient_seen": float(np.linalg.norm(delta)),
        "readout_ratio": float((readout_error / allowed).max()),
        "readout_median_bound": float(np.median(allowed)),
        "readout_where": everywhere,
        "readout_where_seen": float(readout_error[inside].max(initial=0.0)),
        "proved_zero": int(bounds.zero.sum()),
        "truly_zero": int(zeros.sum()),
        "false_zero": int((bounds.zero & ~zeros).sum()),
        "violations": int((score_error > bounds.score + slop).sum())
        + int((readout_error > allowed + readout_slop).sum())
        + int((readout_error[inside] > everywhere + readout_slop[inside]).sum())
        + int(abs(drift) > bounds.offset)
        + int(np.linalg.norm(delta) > bounds.coefficient),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000, help="over all states together")
    parser.add_argument("--out", type=Path, default=RESULTS / "bounds.json")
    chosen = parser.parse_args()
    problems = list(subjects())
    count = math.ceil(chosen.queries / (7 * len(problems)))
    rows = []
    print(f"{'problem':<24} {'state':<13} {'score ≤':>8} {'seen':>8} {'x':>6}", end="  ")
    print(f"{'coeff ≤':>8} {'seen':>8}  readout ≤ and x  proved zero")
    for subject in problems:
        reference = Reference(subject)
        for state in states(subject):
            row = measure(subject, state, reference, count)
            rows.append(row)
            tightness = row["score"] / max(row["score_seen"], 1e-300)
            print(f"{row['problem']:<24} {row['state']:<13} {row['score']:8.1e} {row['score_seen']:8.1e}", end=" ")
            print(f"{tightness:6.1f}  {row['coefficient']:8.1e} {row['coefficient_seen']:8.1e}", end="  ")
            print(f"{row['readout_median_bound']:8.1e} {1 / max(row['readout_ratio'], 1e-300):<8.1f}", end=" ")
            print(f"{row['proved_zero']}/{row['truly_zero']}", end="")
            print(f"  {row['violations']} VIOLATIONS" if row["violations"] or row["false_zero"] else "", flush=True)
    total, broken = sum(r["queries"] for r in rows), sum(r["violations"] + r["false_zero"] for r in rows)
    print(f"{total} queries, {broken} violations")
    write_result(chosen.out, {"machine": describe(), "queries": total, "violations": broken, "rows": rows})
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
