"""What an audit says of the user's own rows, before any solver: weights, what can go, when certificates expire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["OWN_CAPTIONS", "own_answers", "own_warnings"]

# Captions of tables about one's own keys, where those of `paper_tables` speak of what the paper did.
OWN_CAPTIONS: Final = {
    "table-3": "Two entries are deleted. The classic arm is judged by its own refit, ours by another solver's.",
    "latency": "Medians. The classic update is unchecked; ours is the whole checked transaction.",
    "table-6": "64 edits, one after the other. The heading says what the classic arm does when an edit fails.",
    "table-1-streaming": "Both columns are ours. Without an archive, pruned entries do not come back when they should.",
}


def own_answers(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Questions and answers about the rows; empty for an audit of the paper's data, or without `expunge audit rows`."""
    one = summary["experiments"].get("rows")
    if one is None:
        return []
    keys, found = one["keys"], {name: int(value) for name, value in one["numbers"].items()}
    rows, weightless = found["rows"], found["reserve"]
    columns = ", ".join(keys.get("columns", ()))
    equal = rows - found["distinct"]
    copies = f"; {equal:,} of them repeat another row" if equal else ""
    active = (
        f"{rows - weightless:,} of {rows:,} rows: {found['margin']:,} on the boundary, and {found['bound']:,} with all "
    )
    answers = [
        ("your data", f"{keys['source']}: {rows:,} rows{copies}"),
        ("columns", f"{found['columns']:,}{f': {columns}' if columns else ''}"),
        ("fitted with", f"width σ = {keys['sigma']:.6g}, sparsity ν = {keys['nu']:g}"),
        ("carry weight", f"{active}the weight that the cap allows"),
        ("carry none", f"{weightless:,} rows: removing one of them changes no answer" if weightless else "no row"),
        (
            "can go",
            f"{found['deletable']:,} rows before the cap changes; after that the rest is fitted at a larger cap",
        ),
    ]
    none = [("certificates", "none: of the rows that were fitted first, none was proved to weigh nothing")]
    return [*answers, *(_expiry(found) if found["certificates"] else none)]


def own_warnings(summary: Mapping[str, Any]) -> list[str]:
    """What is wrong with the fit of the rows, each with what to try."""
    one = summary["experiments"].get("rows")
    return [] if one is None else list(one["warnings"])


def _expiry(found: Mapping[str, int]) -> list[tuple[str, str]]:
    """How long certificates hold while rows arrive in the order of the file."""
    arrivals, pruned = found["arrivals"], found["certificates"]
    after = [
        (count, found[f"holding/{count}"]) for count in (1, 10, 100) if count < arrivals and f"holding/{count}" in found
    ]
    held = [f"{holding:,} after {count} {'row' if count == 1 else 'rows'}" for count, holding in after]
    told = ", ".join([*held, f"{found['holding/last']:,} at the fewest, over {arrivals:,} rows"])
    lines = [
        ("certificates", f"{pruned:,} rows were pruned without their content, then others arrived; certified: {told}")
    ]
    if "first expiry/arrival" not in found:
        return [*lines, ("where they expire", "none expired")]
    most = (
        f"row {found['worst arrival/row']:,} of the file, which ended {found['worst arrival/lost']:,} when it arrived"
    )
    first = f"the first with arrival {found['first expiry/arrival']:,}"
    return [
        *lines,
        ("where they expire", f"{first}; the most with {most} as number {found['worst arrival/arrival']:,}"),
    ]
