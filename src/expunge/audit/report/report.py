"""A report on an audit's results: each of the paper's tables beside both arms, with computed verdicts (paper, §4).

`write_report` leaves one HTML page that needs nothing else, the same in Markdown, the figures, and ``results.json``:
every number that the tables and claims use, with the machine, the versions and the command. The README's table is made
from that file alone (`expunge.audit.report.readme_table`).
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge.audit.experiments import OWN_ROWS
from expunge.audit.report.claims import PROMISES, Claim, decide
from expunge.audit.report.own_data import OWN_CAPTIONS, own_answers, own_warnings
from expunge.audit.report.paper_tables import TABLES
from expunge.audit.report.table_lines import Line, Source, Table
from expunge.audit.report.verdict import (
    MeasuredNumber,
    PrintedNumber,
    difference,
    factor,
    improvement,
    reproduction,
    shown,
)
from expunge.audit.results import AuditResults, open_results
from expunge.errors import StoreError

if TYPE_CHECKING:
    from expunge.audit.report.figures import Figure

__all__ = [
    "CHECKED",
    "QUICK_NOTE",
    "FilledTable",
    "Report",
    "Row",
    "as_markdown",
    "fill",
    "preface",
    "quick_note",
    "summarize_results",
    "write_report",
]

FORMAT = "expunge/audit-results/v1"
CHECKED = "expunge verify evidence"
QUICK_NOTE = "A quick look: fewer trials than the paper's, so that counts are compared as shares."
FEWER = "a quick look: fewer trials than the paper's"


@dataclass(frozen=True)
class Row:
    """One line of a table, filled: texts, and the two verdicts (empty where there is nothing to say)."""

    group: str
    label: str
    paper: str
    classic: str
    ours: str
    difference: str
    reproduction: str
    improvement: str
    why: str

    @property
    def verdict(self) -> str:
        """Both verdicts in words."""
        words = (
            self.reproduction,
            f"ours {self.improvement}" if self.improvement and self.classic else self.improvement,
        )
        return "; ".join(word for word in words if word)


@dataclass(frozen=True)
class FilledTable:
    """A table with its rows; those for which the results have no number are left out."""

    table: Table
    rows: tuple[Row, ...]

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the columns that hold anything: without a published number there is none for them."""
        published = any(row.paper for row in self.rows)
        return (*(self.table.heads if published else self.table.heads[1:]), "difference", "verdict")

    def cells(self, row: Row) -> tuple[str, ...]:
        """The numbers of a row, one per head but the verdict."""
        return (row.paper, row.classic, row.ours, row.difference)[-(len(self.heads) - 1) :]

    @property
    def reasons(self) -> dict[str, str]:
        """Why digits differ, each reason with the letter that marks its rows."""
        given = dict.fromkeys(row.why for row in self.rows if row.why)
        return dict(zip(given, "abcdefghijklmnopqrstuvwxyz", strict=False))


@dataclass(frozen=True)
class Report:
    """Tables, claims, and what they were made with."""

    tables: tuple[FilledTable, ...]
    claims: tuple[Claim, ...]
    experiments: dict[str, dict[str, Any]]
    answers: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def own(self) -> bool:
        """Whether it is about one's own keys, so that nothing in it has a published number."""
        return any(one["own_keys"] for one in self.experiments.values())

    @property
    def quick(self) -> bool:
        """Whether any experiment is a quick look, with fewer trials than the paper's."""
        return any(one["quick"] for one in self.experiments.values())

    @property
    def machine(self) -> str:
        """Where it ran."""
        machines = {
            f"{one['machine']['processor']}, {one['machine']['cores']} cores." for one in self.experiments.values()
        }
        return " ".join(sorted(machines))

    @property
    def versions(self) -> str:
        """What it ran with."""
        found = {name: version for one in self.experiments.values() for name, version in one["versions"].items()}
        return ", ".join(f"{name} {version}" for name, version in found.items()) + "."


def fill(summary: Mapping[str, Any]) -> Report:
    """Make a report from the contents of a ``results.json``."""
    numbers = {name: one["numbers"] for name, one in summary["experiments"].items()}
    tables = []
    for table in TABLES:
        if table.experiment not in numbers:
            continue
        one = summary["experiments"][table.experiment]
        lines = table.lines
        if one["own_keys"]:
            # One's own keys are another problem than the paper's: there only the two arms are compared.
            lines = tuple(replace(line, paper="", why="") for line in table.lines)
            _, _, title = table.title.rpartition(": ")
            table = replace(
                table, title=title[0].upper() + title[1:], caption=OWN_CAPTIONS.get(table.name, table.caption)
            )
        excuse = FEWER if one["quick"] and not one["own_keys"] else ""
        rows = (_row(line, numbers[table.experiment], excuse) for line in lines)
        told = tuple(row for row in rows if row.classic or row.ours)
        if told:
            tables.append(FilledTable(table, told))
    ordered = dict.fromkeys([*(table.experiment for table in TABLES), *numbers])
    about = {
        name: {key: value for key, value in summary["experiments"][name].items() if key != "numbers"}
        for name in ordered
        if name in numbers
    }
    answers, warnings = tuple(own_answers(summary)), tuple(own_warnings(summary))
    return Report(tuple(tables), decide(numbers), about, answers, warnings)


def summarize_results(results: AuditResults) -> dict[str, Any]:
    """What a report needs of the results, small enough to commit: the contents of ``results.json``."""
    experiments = {}
    for name in results.experiments:
        manifest = results.manifest(name)
        numbers = results.numbers(name)
        wanted = set(numbers) if name == OWN_ROWS else _names(name)
        settings = manifest["settings"]
        own = {"keys": settings["keys"], "warnings": settings["warnings"]} if name == OWN_ROWS else {}
        experiments[name] = {
            "quick": manifest["quick"],
            "own_keys": isinstance(manifest["settings"].get("keys"), dict),
            "seconds": manifest["run"]["seconds"],
            "jobs": manifest["run"]["jobs"],
            "backend": manifest["run"]["backend"],
            "machine": manifest["run"]["machine"],
            "versions": manifest["versions"],
            "commit": manifest["commit"],
            "digest": manifest["digest"],
            "scheduled": sum(manifest["scheduled"].values()),
            "command": _command(name, manifest),
            **own,
            "numbers": {key: numbers[key] for key in sorted(wanted & numbers.keys())},
        }
    return {"format": FORMAT, "experiments": experiments}


def write_report(results_dir: Path, out: Path) -> list[Path]:
    """Write report.html, report.md, results.json and figures/ for results; the paths written, the page first."""
    from expunge.audit.report.figures import draw_figures
    from expunge.audit.report.html_page import as_html

    results = open_results(results_dir)
    found = summarize_results(results)
    report = fill(found)
    folder = out / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        figures = draw_figures(results, folder)
        texts = {
            "report.html": as_html(report, figures),
            "report.md": as_markdown(report, figures),
            "results.json": json.dumps(found, indent=1, ensure_ascii=False) + "\n",
        }
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise StoreError(f"cannot write the report to {out}: {problem.strerror or problem}") from None
    drawn = [path for figure in figures for path in (figure.png, figure.svg)]
    return [*(out / name for name in texts), *drawn]


def as_markdown(report: Report, figures: Sequence[Figure] = ()) -> str:
    """Render the report as Markdown; figures are linked in the folder beside it."""
    lines = ["# Audit report", ""]
    if report.answers:
        lines += ["## Your rows", "", "| | |", "|---|---|"]
        lines += [f"| {question} | {answer} |" for question, answer in report.answers]
        lines += ["", *(f"**Look at this:** {warning}." for warning in report.warnings), ""]
    if report.answers and report.tables:
        lines += ["## How it was tested", ""]
    for paragraph in [*preface(report), *([f"**{quick_note(report)}**"] if report.quick else [])]:
        lines += [paragraph, ""]
    if report.claims:
        lines += ["## What must hold", "", "| claim | measured | allowed | |", "|---|---|---|---|"]
    for claim in report.claims:
        verdict = "holds" if claim.holds else "**does not hold**"
        lines.append(f"| {claim.text} ({claim.experiment}) | {claim.measured} | {claim.allowed} | {verdict} |")
    for filled in report.tables:
        lines += ["", f"## {filled.table.title}", "", filled.table.caption, "", *table_lines(filled)]
    if figures:
        lines += ["", "## Figures"]
        for figure in figures:
            link = f"figures/{figure.png.name}"
            lines += ["", f"![{figure.title}]({link})", "", f"*{figure.title}.* {figure.caption}"]
    return "\n".join([*lines, "", *_made_with(report)]) + "\n"


def table_lines(filled: FilledTable) -> list[str]:
    """One table in Markdown; a group is named on the first of its lines."""
    heads = ["", *filled.heads]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---|" * (len(heads) - 1)]
    group = ""
    for row in filled.rows:
        if row.group != group:
            group = row.group
            lines.append(f"| **{group}** |" + " |" * (len(heads) - 1))
        verdict = f"{row.verdict} [{filled.reasons[row.why]}]" if row.why else row.verdict
        cells = (row.label, *filled.cells(row), verdict)
        lines.append("| " + " | ".join(cells) + " |")
    reasons = [f"[{letter}] {reason}" for reason, letter in filled.reasons.items()]
    return [*lines, "", "; ".join(reasons) + "."] if reasons else lines


def preface(report: Report) -> list[str]:
    """Say how to read the tables of a report, in paragraphs of Markdown."""
    arms = (
        "**Classic** is the paper's update as the paper describes it, with the settings of its authors' public "
        "scripts; **ours** is `expunge.Memory`, judged by solvers that did not make its states."
    )
    if not report.tables:
        return []
    if report.own:
        return [
            "Small memories were drawn from your rows, edited, and compared with fits from nothing by other solvers. "
            + arms,
            "The difference is between ours and the classic arm's. Verdicts are computed from the numbers.",
        ]
    return [
        f"The tables of *What a Deletion Certificate Covers, and Where It Expires*, recomputed. {arms}",
        "*Reproduced*: the same digits as printed. *Consistent*: within a factor of ten, or within three standard "
        "deviations of a count. The difference is between ours and the paper's; where the paper has no number, or only "
        "times on another machine, between ours and the classic arm's. Verdicts are computed; where digits differ, a "
        "letter leads to the reason.",
    ]


def quick_note(report: Report) -> str:
    """What a quick look leaves out."""
    return "A quick look: few trials." if report.own else QUICK_NOTE


def _made_with(report: Report) -> list[str]:
    lines = [
        "## Made with",
        "",
        "| experiment | trials | workers | seconds | command | digest |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in report.experiments.items():
        lines.append(
            f"| {name} | {one['scheduled']:,} | {one['jobs']} ({one['backend']}) | {one['seconds']:.0f} | "
            f"`{one['command']}` | `{one['digest'][:16]}` |"
        )
    checked = f"Every state and every number can be checked without the solver: `{CHECKED} DIR`."
    return [*lines, "", f"{report.machine} {report.versions}", "", checked]


def _row(line: Line, numbers: Mapping[str, float], excuse: str) -> Row:
    printed = PrintedNumber(line.paper)
    classic = _measured(line.classic, line.classic_of, numbers)
    ours = _measured(line.ours, line.ours_of, numbers)
    # A correlation of rounding errors is shown and not judged. Times on two machines say nothing of each other, and
    # some lines the paper does not have: there the two arms, which ran on one, are compared.
    again = "" if line.unit == "milliseconds" else reproduction(printed, classic, line.unit)
    step = apart = ""
    if line.unit == "milliseconds" or not line.paper:
        if classic is not None and ours is not None and line.sense != "same":
            step, apart = _beside(classic, ours, line.sense, line.unit)
    elif line.unit != "correlation":
        step = improvement(printed, ours, line.sense, line.unit)
        apart = difference(printed, ours, line.sense, line.unit)
    differs = again in ("consistent", "differs") or step in ("consistent", "differs", "worse")
    return Row(
        line.group,
        line.label,
        line.paper,
        shown(classic, line.unit, printed),
        shown(ours, line.unit, printed),
        apart,
        again,
        step,
        (line.why or excuse) if differs else "",
    )


def _beside(classic: MeasuredNumber, ours: MeasuredNumber, sense: str, unit: str) -> tuple[str, str]:
    """Verdict and difference of the two arms."""
    if classic.value == ours.value:
        return "equal", "none"
    step = "better" if (ours.value < classic.value) == (sense == "lower") else "worse"
    if unit == "count":
        return step, f"{ours.value - classic.value:+,.0f}"
    if classic.value <= 0.0 or ours.value <= 0.0:
        return step, "none left" if ours.value == 0.0 else ""
    return step, factor(classic.value, ours.value)


def _measured(source: Source, of: Source, numbers: Mapping[str, float]) -> MeasuredNumber | None:
    value = _value(source, numbers)
    return None if value is None else MeasuredNumber(value, _value(of, numbers))


def _value(source: Source, numbers: Mapping[str, float]) -> float | None:
    """A number, or what is made of several; None where any of them is missing."""
    if source is None:
        return None
    if isinstance(source, str):
        return numbers.get(source)
    parts = [numbers[name] for name in source[1:] if name in numbers]
    if len(parts) < len(source) - 1:
        return None
    if source[0] == "sum":
        return math.fsum(parts)
    if source[0] in ("min", "max"):
        return min(parts) if source[0] == "min" else max(parts)
    first, second = parts
    return first - second if source[0] == "difference" else first / second


def _command(name: str, manifest: Mapping[str, Any]) -> str:
    """What gives these numbers again."""
    settings, words = manifest["settings"], ["expunge", "audit", name]
    if manifest["quick"]:
        words.append("--quick")
    if isinstance(keys := settings.get("keys"), dict):
        words += ["--keys", keys["source"]]
        columns = keys.get("columns", [])
        # Coordinates of a list, name[0], are no columns of the file; what has a comma cannot be listed.
        if columns and not any("[" in column or "," in column for column in columns):
            words += ["--key-columns", ",".join(columns)]
        words += ["--sigma", str(keys["sigma"]), "--nu", str(keys["nu"])]
    if isinstance(clinical := settings.get("clinical"), str):
        words += ["--clinical", clinical]
    return shlex.join(words)


def _names(experiment: str) -> set[str]:
    """Names of the numbers that tables and claims use."""
    used = {name for promise in PROMISES if promise.experiment == experiment for name in promise.names}
    for table in TABLES:
        for line in table.lines if table.experiment == experiment else ():
            for source in (line.classic, line.ours, line.classic_of, line.ours_of):
                used |= set(source[1:]) if isinstance(source, tuple) else {source or ""}
    return used
