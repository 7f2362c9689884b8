"""What must hold of an audit's results: our own promises, each decided from its numbers.

A promise about a regime, or an experiment, that is not in the results is not made; one whose numbers are missing there
does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from expunge.audit.experiments.projection import TOLERANCES
from expunge.audit.experiments.regimes import REGIMES
from expunge.audit.own_keys import OWN_REGIME
from expunge.audit.report.verdict import MeasuredNumber, shown

__all__ = ["PROMISES", "Claim", "Promise", "decide"]

SCORE_BOUND = 1e-9
# Percent of readout range.
PROJECTION_BOUND = 0.1
FEASIBILITY_BOUND = 1e-12
EQUALITY_BOUND = 1e-9


@dataclass(frozen=True)
class Promise:
    """A statement about numbers of one experiment, by name.

    ``at-most``: the largest is within the bound. ``at-least``: the smallest reaches it. ``all``: the counts named at
    even places add up to those named at odd places.
    """

    text: str
    experiment: str
    kind: Literal["at-most", "at-least", "all"]
    names: tuple[str, ...]
    bound: float = 0.0


@dataclass(frozen=True)
class Claim:
    """A promise decided: the number, what was allowed, and whether it holds."""

    text: str
    experiment: str
    measured: str
    allowed: str
    holds: bool


def decide(numbers: Mapping[str, Mapping[str, float]]) -> tuple[Claim, ...]:
    """Decide every promise about what is there, given the numbers of each experiment."""
    return tuple(
        _decided(promise, numbers[promise.experiment])
        for promise in PROMISES
        if promise.experiment in numbers and any(name in numbers[promise.experiment] for name in promise.names)
    )


def _decided(promise: Promise, numbers: Mapping[str, float]) -> Claim:
    """Decide one. Names of regimes that the results do not have at all are left out; other gaps are failures."""
    here = {name.split("/")[0] for name in numbers}
    names = [name for name in promise.names if name.split("/")[0] in here]
    values = [numbers.get(name, math.nan) for name in names]
    if promise.kind == "all":
        count, of = math.fsum(values[::2]), math.fsum(values[1::2])
        measured, allowed, holds = shown(MeasuredNumber(count, of), "count"), "all", count == of
    else:
        most = promise.kind == "at-most"
        extreme = math.nan if any(map(math.isnan, values)) else (max if most else min)(values)
        holds = extreme <= promise.bound if most else extreme >= promise.bound
        measured = shown(MeasuredNumber(extreme), "number")
        allowed = f"{'≤' if most else '≥'} {shown(MeasuredNumber(promise.bound), 'number')}"
    return Claim(promise.text, promise.experiment, measured, allowed, holds)


def _promises() -> Iterator[Promise]:
    yield Promise(
        "removing a reserve key changes no readout", "expiry", "at-most", ("dropped/removal/readout_difference",)
    )
    yield Promise(
        "pruned into the archive, the memory equals the full history after the admission",
        "expiry",
        "at-most",
        ("archive/admission/score_difference",),
        EQUALITY_BOUND,
    )

    regimes = (*REGIMES, OWN_REGIME)
    pairs = [f"{regime}/ours/{backend}" for regime in regimes for backend in ("daqp", "clarabel")]
    yield Promise(
        "gate-score difference in every regime, by two references, worst",
        "deletion",
        "at-most",
        tuple(f"{pair}/score_difference/max" for pair in pairs),
        SCORE_BOUND,
    )
    degenerate = "partition as in the reference wherever the optimum is not degenerate"
    strict = tuple(f"{pair}/strict{part}" for pair in pairs for part in ("/partition_match", ""))
    yield Promise(degenerate, "deletion", "all", strict)
    returned = tuple(f"{regime}/ours/{word}" for regime in regimes for word in ("returned", "attempted"))
    yield Promise("every deletion returned", "deletion", "all", returned)
    rescues = tuple(f"{regime}/ours/rescued" for regime in regimes)
    yield Promise("deletions that needed a refit", "deletion", "at-most", rescues)

    levels = [f"{regime}/ours/{tolerance:.0e}" for regime in regimes for tolerance in TOLERANCES]
    yield Promise(
        "readout difference of projected pairs at every tolerance in every regime, % of range, worst",
        "projection",
        "at-most",
        tuple(f"{level}/readout_percent/max" for level in levels),
        PROJECTION_BOUND,
    )
    tried = tuple(f"{level}/projections{part}" for level in levels for part in ("", " attempted"))
    yield Promise("every projection returned", "projection", "all", tried)
    yield Promise(
        "mass, box and objective errors of every projection, worst",
        "projection",
        "at-most",
        tuple(f"{level}/{term}/max" for level in levels for term in ("mass", "box", "excess")),
        FEASIBILITY_BOUND,
    )

    for arm, label in (("ours", "ours"), ("guarded", "the classic arm under the wrapper")):
        edits = f"all/{arm}/operations returned", f"all/{arm}/operations scheduled"
        yield Promise(f"every operation completes: {label}", "sequential", "all", edits)
    rescues = "all/ours/initial rescues", "all/ours/update rescues"
    yield Promise("operations of ours that needed a rescue", "sequential", "at-most", rescues)
    arms = ("classic", "guarded")
    traced = tuple(f"all/{arm}/violations{part}" for arm in arms for part in (" explained", ""))
    yield Promise("box violations of the classic arm traced to a wrong-side event", "sequential", "all", traced)
    strict = "all/ours/strict/partition_match", "all/ours/strict"
    yield Promise(degenerate, "sequential", "all", strict)

    yield Promise(
        "pruned into the archive, equal to never pruned: coefficient difference, worst",
        "streaming",
        "at-most",
        ("all/archive/never/coefficient_difference/max",),
        EQUALITY_BOUND,
    )
    untrue = tuple(f"all/{arm}/wrong_claims" for arm in ("archive", "forget", "once", "once-sketched"))
    yield Promise("certificates claimed although untrue", "streaming", "at-most", untrue)
    drift = ("all/naive/states failing the check",)
    yield Promise("without warranties the memory drifts: states failing the check", "streaming", "at-least", drift, 1.0)

    others = "delete/answered", "delete/asked"
    yield Promise("every other fact is answered after a deletion", "records", "all", others)
    corrected = ("correct/secret/right",)
    yield Promise("share of corrected facts that are answered anew", "records", "at-least", corrected, 1.0)


PROMISES = tuple(_promises())
