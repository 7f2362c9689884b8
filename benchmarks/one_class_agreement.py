"""Our estimator beside `sklearn.svm.OneClassSVM` on random fits: scores, boundary, and where the margin is empty.

    python benchmarks/one_class_agreement.py

Differences are shares of Σα = νn. Where νn is a whole number, the margin can be empty, or have one weight that is at
the cap but for the rounding of the cap: then every boundary in an interval is right, and the two choose different ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.svm import OneClassSVM

from expunge.integrations.sklearn import SupportVectorMemory
from record import describe, write_result

ROUNDING = 1e-12


@dataclass
class Agreement:
    """Fits compared, and the largest differences as shares of Σα."""

    fits: int = 0
    score: float = 0.0
    boundary: float = 0.0
    empty_margins: int = 0
    boundary_of_empty_margins: float = 0.0
    predictions_of_empty_margins: int = 0
    predictions_that_differ: int = 0


def compare(seeds: Iterable[int], *, whole: bool) -> Agreement:
    """Fit both to random samples, one problem per seed; with ``whole``, νn is a whole number."""
    found = Agreement()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        size, dimension = int(rng.integers(4, 30 if whole else 200)), int(rng.integers(1, 4 if whole else 9))
        samples = rng.standard_normal((size, dimension)) * rng.uniform(0.3, 4)
        nu = int(rng.integers(1, size)) / size if whole else float(rng.uniform(1 / size, 0.95))
        gamma = float(rng.uniform(0.02, 2))
        ours = SupportVectorMemory(nu=nu, gamma=gamma).fit(samples)
        theirs = OneClassSVM(nu=nu, gamma=gamma, tol=1e-10).fit(samples)
        points = np.r_[samples, 2 * rng.standard_normal((50, dimension))]
        mass = nu * size
        score = float(np.abs(ours.score_samples(points) - theirs.score_samples(points)).max()) / mass
        boundary = abs(ours.offset_ - float(theirs.offset_[0])) / mass
        found.fits += 1
        found.score = max(found.score, score)
        weights = ours.memory_.coefficients / ours.memory_.cap
        if np.any((weights > ROUNDING) & (weights < 1.0 - ROUNDING)):
            found.boundary = max(found.boundary, boundary)
            continue
        found.empty_margins += 1
        found.boundary_of_empty_margins = max(found.boundary_of_empty_margins, boundary)
        found.predictions_of_empty_margins += size
        found.predictions_that_differ += int(np.sum(ours.predict(samples) != theirs.predict(samples)))
    return found


def main() -> None:
    """Compare, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "one_class_agreement.json")
    out = parser.parse_args().out
    report = {
        "machine": describe(),
        "any nu": asdict(compare(range(1000), whole=False)),
        "whole nu n": asdict(compare(range(1500), whole=True)),
    }
    write_result(out, report)
    for name in ("any nu", "whole nu n"):
        print(name, report[name])


if __name__ == "__main__":
    main()
