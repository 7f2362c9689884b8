"""The README's table of audit results, from a committed ``results.json`` and nothing else.

`readme_block` is what stands between the markers, `insert_block` puts it there. A test compares README and file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from expunge.audit.report.paper_tables import REGIME_NAMES, TABLE_3
from expunge.audit.report.report import FilledTable, Report, Row, fill
from expunge.errors import InputError

__all__ = ["BEGIN", "END", "insert_block", "readme_block"]

BEGIN, END = "<!-- audit:begin -->", "<!-- audit:end -->"


def readme_block(results: Mapping[str, Any]) -> str:
    """Markdown of the README's audit tables."""
    report = fill(results)
    parts = [*_deletion(report), *_chained(report), *_others(report), *_footer(report)]
    if not parts:
        raise InputError("these results have none of the experiments that the README tells of")
    return "\n".join(parts)


def insert_block(readme: str, results: Mapping[str, Any]) -> str:
    """Put the block between the README's markers."""
    if BEGIN not in readme or END not in readme:
        raise InputError(f"there is no place for the audit's table: {BEGIN} … {END}")
    head, tail = readme.split(BEGIN)[0], readme.split(END)[1]
    return f"{head}{BEGIN}\n\n{readme_block(results)}\n\n{END}{tail}"


def _deletion(report: Report) -> Iterator[str]:
    rows = _rows(report, "table-3")
    if not rows:
        return
    yield "| deletion: worst gate-score difference from a refit; same partition | paper | classic arm | ours |"
    yield "|---|---|---|---|"
    for regime in TABLE_3:
        group = {row.label: row for row in rows if row.group == REGIME_NAMES[regime]}
        if group:
            worst, match = group["gate-score difference, worst"], group["partition as in the refit"]
            cells = (f"{getattr(worst, arm)}; {getattr(match, arm)}" for arm in ("paper", "classic", "ours"))
            yield f"| {REGIME_NAMES[regime]} | " + " | ".join(cells) + " |"
    yield ""


def _chained(report: Report) -> Iterator[str]:
    rows = _rows(report, "table-6")
    if not rows:
        return
    yield "| chained edits | paper | classic arm | ours |"
    yield "|---|---|---|---|"
    wanted = (
        ("first", "trajectories complete", "trajectories complete, nothing guarded"),
        (
            "first",
            "coefficients outside the box that a wrong-side event explains",
            "box violations traced to their cause",
        ),
        ("follow", "operations completed", "operations completed, guarded"),
        ("follow", "updates rescued", "updates rescued, guarded"),
        ("follow", "residual of a published state, worst", "worst residual of a published state"),
        ("follow", "readout difference, % of value range, worst", "worst readout difference, % of value range"),
    )
    for start, label, name in wanted:
        found = next(row for row in rows if row.group.startswith(start) and row.label == label)
        yield f"| {name} | {found.paper or '–'} | {found.classic or '–'} | {found.ours or '–'} |"
    yield ""


def _others(report: Report) -> Iterator[str]:
    claims = [claim for claim in report.claims if claim.experiment in ("projection", "streaming", "records", "expiry")]
    if not claims:
        return
    yield "| claim | measured | allowed |"
    yield "|---|---|---|"
    for claim in claims:
        yield f"| {claim.text} | {claim.measured}{'' if claim.holds else ' (**does not hold**)'} | {claim.allowed} |"
    yield ""


def _footer(report: Report) -> Iterator[str]:
    kept = sum(claim.holds for claim in report.claims)
    seconds = sum(one["seconds"] for one in report.experiments.values())
    workers = max(one["jobs"] for one in report.experiments.values())
    verdicts = [row.reproduction for filled in report.tables for row in filled.rows if row.reproduction]
    counted = ", ".join(
        f"{verdicts.count(word)} {name}"
        for word, name in (("reproduced", "to the printed digit"), ("consistent", "in order"), ("differs", "otherwise"))
    )
    quick = ", a quick look" if report.quick else ""
    if kept or verdicts:
        yield (
            f"`expunge audit all`: {seconds / 60:.0f} minutes on {workers} worker{'s' if workers > 1 else ''}{quick}. "
            f"{kept} of {len(report.claims)} promises hold. Of the paper's numbers the classic arm gives {counted}; "
            "`expunge audit report` says where and why."
        )


def _rows(report: Report, name: str) -> Sequence[Row]:
    found: FilledTable | None = next((filled for filled in report.tables if filled.table.name == name), None)
    return found.rows if found is not None else ()
