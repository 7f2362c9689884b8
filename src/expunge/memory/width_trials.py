"""Trials of widths and sparsities: what fits of the same keys would be like, before one is chosen.

Each trial fits four fifths of a sample of the distinct keys and asks how many of the others are inside. The sample is a
function of the set of keys. Nothing is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from expunge.errors import InputError
from expunge.memory.memory import Memory
from expunge.preprocessing.grid import quarter_power
from expunge.preprocessing.width import DEFAULT_NU, choose_width, predict_margins, sample_keys
from expunge.problem.problem import as_points, cap_from, fewest_keys
from expunge.types import Matrix, Progress

__all__ = ["SPARSITIES", "WidthTrial", "try_widths"]

SPARSITIES = (0.05, 0.1, 0.2, 0.5)
# Quarter powers of 2 around the chosen width.
STEPS = range(-8, 5, 2)
SAMPLED = 2000
FEWEST = 10
# The present sparsity is that of a row this near to it.
NEAR = 0.02


@dataclass(frozen=True)
class WidthTrial:
    """What one fit would be like.

    Attributes
    ----------
    sigma, nu : float
        Width and sparsity.
    margin, bound, reserve : float
        Shares of the fitted entries on the margin, at the bound and in reserve.
    predicted_margin : int
        Keys on the margin of a fit of all entries, predicted: a chosen width has at most 3,000 where there are more.
    deletable : int
        How many of all entries could be deleted before the cap changes.
    effective_neighbours : float
        On how many entries an answer rests, as in `FitReport`.
    inside : float
        Share of the held-out keys that are inside the boundary; of a fit that holds, about 1 − ν.
    seconds : float
        How long the fit took.
    healthy : bool
        Whether the report on the fit has no complaint.
    default, present : bool
        Whether this is what a new memory would take, and what the memory has now.

    """

    sigma: float
    nu: float
    margin: float
    bound: float
    reserve: float
    predicted_margin: int
    deletable: int
    effective_neighbours: float
    inside: float
    seconds: float
    healthy: bool
    default: bool
    present: bool

    def to_json(self) -> dict[str, Any]:
        """The fields as a JSON object."""
        return asdict(self)


def try_widths(
    keys: Matrix,
    *,
    sparsities: Sequence[float] = SPARSITIES,
    present: tuple[float, float] | None = None,
    progress: Progress | None = None,
) -> list[WidthTrial]:
    """Try widths around the one that would be chosen, with several sparsities.

    Parameters
    ----------
    keys : array (n, d)
        Keys of all entries. Of more than 2,000 distinct ones a sample is fitted.
    sparsities : sequence of float
        Values of ν, each in (0, 1].
    present : (float, float), optional
        Width and sparsity that a memory has now; tried as well.
    progress : callable, optional
        Told after each fit what was tried, how many fits are done, and of how many.

    Returns
    -------
    list of WidthTrial
        By sparsity, then width.

    Raises
    ------
    InputError
        For fewer than 10 distinct keys, or a sparsity out of range.

    """
    points = as_points(keys, "keys")
    sample = sample_keys(points, SAMPLED)
    if len(sample) < FEWEST:
        raise InputError(f"trials need at least {FEWEST} distinct keys, and there are {len(sample)}")
    caps = {nu: cap_from(len(points), nu=nu) for nu in sparsities}
    if present is not None and not any(math.isclose(nu, present[1], rel_tol=NEAR) for nu in caps):
        caps[present[1]] = cap_from(len(points), nu=present[1])
    chosen = {nu: choose_width(points, nu=nu) for nu in caps}
    plan = [(nu, sigma) for nu in sorted(caps) for sigma in _widths(chosen[nu], present)]
    held = np.arange(len(sample)) % 5 == 2
    predicted = predict_margins(points)
    trials = []
    for done, (nu, sigma) in enumerate(plan, 1):
        trials.append(
            _trial(
                sample[~held],
                sample[held],
                sigma,
                nu,
                predicted_margin=round(predicted(sigma, nu)),
                deletable=len(points) - fewest_keys(caps[nu]),
                default=nu == DEFAULT_NU and sigma == chosen[nu],
                present=present is not None and sigma == present[0] and math.isclose(nu, present[1], rel_tol=NEAR),
            )
        )
        if progress is not None:
            progress(f"sigma {sigma:.4g}, nu {nu:g}", done, len(plan))
    return trials


def _widths(chosen: float, present: tuple[float, float] | None) -> list[float]:
    """Widths to try, ascending: on the grid, and the present one."""
    exponent = round(4.0 * math.log2(chosen))
    grid = {quarter_power(2.0 ** ((exponent + step) / 4.0)) for step in STEPS}
    return sorted(grid if present is None else {*grid, present[0]})


def _trial(fitted: Matrix, held: Matrix, sigma: float, nu: float, **known: Any) -> WidthTrial:
    started = time.perf_counter()
    memory = Memory.fit(fitted, np.zeros(len(fitted)), sigma=sigma, nu=nu)
    seconds = time.perf_counter() - started
    report = memory.report()
    return WidthTrial(
        sigma=sigma,
        nu=nu,
        margin=report.margin,
        bound=report.bound,
        reserve=report.reserve,
        effective_neighbours=report.effective_neighbours or 0.0,
        inside=float(np.mean([found.inside for found in memory.judge(held)])),
        seconds=seconds,
        healthy=report.healthy,
        **known,
    )
