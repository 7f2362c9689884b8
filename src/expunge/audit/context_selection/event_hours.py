"""Which hours of a stay survive: retention of event hours (paper, App. A; docs/results/protocols.md).

Each stay is a context of hourly vitals in standard units, σ = 3. The fit at ν = 0.3 decides the budget: every policy
keeps as many hours as are active in that stay. Retention is the share of the stay's event hours that are kept.

- *held out*: an event is SpO₂ below 90%, and SpO₂ is taken from every policy's keys, so that no policy can see what
  makes an hour an event. Stays without such an hour are not scored.
- *same channel*: an event is any vital sign outside its limits, and policies see all six. The advantage of atypicality
  is built in; it is shown because the paper shows it.

Sources: the twelve stays that ship with the package, the MIMIC-IV demo (or MIMIC-IV itself), and the PhysioNet
challenge of 2019. Every hour is judged after filling, as the paper does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from expunge.audit.context_selection.policy_arms import ArmResult, choices
from expunge.datasets import CHANNELS, Stay, icu_stays, mimic_iv, physionet2019
from expunge.selection import POLICIES, Context
from expunge.selection.support import support_fit
from expunge.types import IndexArray, Matrix

__all__ = ["SOURCES", "VERSIONS", "eligible", "load_stays", "measure_stay", "measure_stays", "stay_view"]

SIGMA, NU = 3.0, 0.3
VERSIONS = ("held out", "same channel")
SOURCES = ("shipped", "mimic", "physionet")

_SPO2 = CHANNELS.index("spo2")


@cache
def load_stays(source: str, path: str | None) -> tuple[tuple[Stay, ...], tuple[tuple[str, int], ...]]:
    """Stays of a source, and the flow of its cohort, step by step."""
    if source == "shipped" or path is None:
        stays = icu_stays()
        return stays, (("stays", len(stays)),)
    cohort = mimic_iv(path) if source == "mimic" else physionet2019(path)
    return cohort.stays, tuple(cohort.flow.items())


def stay_view(stay: Stay, version: str) -> tuple[Matrix, IndexArray]:
    """What policies see of a stay, (hours, 5 or 6), and its event hours."""
    if version == "held out":
        return np.ascontiguousarray(np.delete(stay.keys, _SPO2, axis=1)), np.flatnonzero(stay.alarms[:, _SPO2])
    return stay.keys, np.flatnonzero(stay.events)


def eligible(stays: Sequence[Stay], version: str) -> tuple[int, ...]:
    """Places of the stays with an event."""
    return tuple(place for place, stay in enumerate(stays) if stay_view(stay, version)[1].size)


def measure_stay(stay: Stay, version: str, regime: str, trial: int) -> list[ArmResult]:
    """Every policy on one stay. The uniform sample is that of ``RandomState(trial)``."""
    keys, events = stay_view(stay, version)
    context = Context.of(keys, sigma=SIGMA)
    coefficients, _ = support_fit(context, NU)
    budget = int(np.count_nonzero(coefficients))
    rows = []
    for arm, kept in choices(context, budget, np.random.RandomState(trial), POLICIES, nu=NU):
        retained = float(np.isin(events, kept).mean())
        rows.append(ArmResult(regime, arm, trial, len(context), kept.size, retained))
    return rows


def measure_stays(source: str, path: str | None, version: str, places: Sequence[int], regime: str) -> list[ArmResult]:
    """Every policy on the stays at these places; a trial is a stay, by its place."""
    stays, _ = load_stays(source, path)
    return [row for place in places for row in measure_stay(stays[place], version, regime, place)]
