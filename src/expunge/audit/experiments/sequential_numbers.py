"""The reported numbers of the sequential audit (paper, §4.6, Table 6), as statistics of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expunge.audit.numbers import Number, spread_of
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD

if TYPE_CHECKING:
    import polars

__all__ = ["sequential_numbers"]


def sequential_numbers(tables: Mapping[str, polars.DataFrame], arms: Sequence[str]) -> list[Number]:
    """The numbers of Table 6 for each arm, over all conditions and in each of them."""
    conditions = list(tables["trials"]["regime"].unique(maintain_order=True))
    last = max(tables["trials"]["operation"])
    numbers: list[Number] = []
    for condition in ("all", *conditions):
        here = () if condition == "all" else (("regime", "==", condition),)
        for arm in arms:
            numbers += _arm_numbers(condition, here, arm, last)
    return numbers


def _arm_numbers(condition: str, here: tuple[Any, ...], arm: str, last: int) -> list[Number]:
    """Table 6 for one arm, in one condition or over all."""
    name, rescued = f"{condition}/{arm}", (("rescued", "==", True),)
    mine = (*here, ("arm", "==", arm))
    first, edits = (*mine, ("operation", "==", 0)), (*mine, ("operation", ">", 0))
    complete = (*mine, ("operation", "==", last), ("status", "==", "returned"))
    rejected = (*here, ("arm", "==", f"{arm} rejected"), ("operation", ">", 0))
    strict = (*edits, ("strictness", ">=", PARTITION_THRESHOLD))
    numbers = [
        Number(f"{name}/trajectories", "trials", first, "status", "count"),
        Number(f"{name}/trajectories complete", "trials", complete, "status", "count"),
        Number(f"{name}/operations scheduled", "trials", edits, "status", "count"),
        *(
            Number(f"{name}/operations {status}", "trials", (*edits, ("status", "==", status)), "status", "count")
            for status in ("returned", "failed", "refused", "not-run")
        ),
        Number(f"{name}/initial failures", "trials", (*first, ("status", "!=", "returned")), "status", "count"),
        Number(f"{name}/initial rescues", "trials", (*first, *rescued), "rescued", "count"),
        Number(f"{name}/update rescues", "trials", (*edits, *rescued), "rescued", "count"),
        Number(f"{name}/residual/max", "states", (*mine, ("role", "==", "published")), "worst", "max"),
        *spread_of(f"{name}/score_difference", "comparisons", edits, "score_difference"),
        *spread_of(f"{name}/value_percent", "comparisons", edits, "value_percent"),
        Number(f"{name}/readout_percent/max", "comparisons", edits, "readout_percent", "max"),
        Number(f"{name}/strict", "comparisons", strict, "strictness", "count"),
        Number(
            f"{name}/strict/partition_match",
            "comparisons",
            (*strict, ("partition_match", "==", True)),
            "strictness",
            "count",
        ),
    ]
    if arm == "ours":
        judged = (*here, ("arm", "in", ["daqp", "clarabel"]))
        return [
            *numbers,
            Number(f"{name}/reference residual/max", "states", judged, "worst", "max"),
            Number(f"{name}/references failed", "trials", (*judged, ("status", "!=", "returned")), "status", "count"),
            Number(f"{name}/pivots/mean", "trials", edits, "pivots", "mean"),
        ]
    against = "refit" if arm == "classic" else "strict"
    references = (*here, ("arm", "==", against), ("operation", ">", 0))
    tried = (*here, ("arm", "in", [arm, f"{arm} rejected"]), ("operation", ">", 0))
    return [
        *numbers,
        Number(f"{name}/fallbacks", "trials", (*edits, ("path", "==", "fallback")), "path", "count"),
        Number(f"{name}/candidates rejected", "states", rejected, "worst", "count"),
        *(
            Number(f"{name}/rejected by {term}", "states", (*rejected, (term, ">", ACCEPTANCE)), term, "count")
            for term in ("box", "stationarity", "mass")
        ),
        *(
            Number(f"{name}/{kind} rescues", "trials", (*edits, *rescued, ("kind", "==", kind)), "kind", "count")
            for kind in ("delete", "admit")
        ),
        Number(f"{name}/violations", "trials", edits, "violations", "sum"),
        Number(f"{name}/violations explained", "trials", edits, "explained", "sum"),
        Number(f"{name}/raw value_percent/max", "comparisons", tried, "value_percent", "max"),
        Number(f"{name}/references", "trials", references, "status", "count"),
        Number(f"{name}/references not passed", "states", (*references, ("passed", "==", False)), "worst", "count"),
        Number(f"{name}/reference residual/max", "states", references, "worst", "max"),
    ]
