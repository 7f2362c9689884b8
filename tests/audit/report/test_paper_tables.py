"""The paper's tables as data: every line is readable, and every name it asks for is one that an audit reports."""

from __future__ import annotations

import pytest

from expunge.audit.report.claims import PROMISES, decide
from expunge.audit.report.paper_tables import CONDITIONS, TABLE_3, TABLE_4, TABLES
from expunge.audit.report.table_lines import Line, Table
from expunge.audit.report.verdict import PrintedNumber
from expunge.audit.results import AuditResults

# What the cut-down results have fewer of: sizes of the latency audit, conditions of the chained one, and own keys.
ABSENT = ("n=", "own/", *(condition for condition in CONDITIONS if "n=128" in condition or "d=64" in condition))


def names_of(line: Line) -> set[str]:
    found: set[str] = set()
    for source in (line.classic, line.ours, line.classic_of, line.ours_of):
        if isinstance(source, tuple):
            assert source[0] in ("sum", "difference", "ratio", "min", "max")
            found |= set(source[1:])
        elif source is not None:
            found.add(source)
    return found


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_line_asks_for_numbers_that_are_reported(table: Table, small_results: AuditResults) -> None:
    summary = small_results.table(table.experiment, "summary")
    reported = set(summary["number"])
    if "speeds" in small_results.tables(table.experiment):
        reported |= set(small_results.table(table.experiment, "speeds")["number"])
    asked = {name for line in table.lines for name in names_of(line)}
    assert asked
    assert {name for name in asked if not name.startswith(ABSENT)} <= reported


def test_every_promise_asks_for_numbers_that_are_reported(small_results: AuditResults) -> None:
    for promise in PROMISES:
        reported = set(small_results.table(promise.experiment, "summary")["number"])
        assert {name for name in promise.names if not name.startswith(ABSENT)} <= reported, promise.text


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_printed_number_is_readable(table: Table) -> None:
    for line in table.lines:
        printed = PrintedNumber(line.paper)
        assert not line.paper or printed.value is not None or printed.limits is not None, line
        # A count is told out of how many, on both sides or on neither.
        if line.unit == "count" and line.paper and line.classic is not None:
            assert (printed.of is None) == (line.classic_of is None), line


def test_the_papers_tables_agree_with_each_other() -> None:
    for regime, cells in TABLE_4.items():
        same, differing = PrintedNumber(TABLE_3[regime][1]), PrintedNumber(cells[1])
        assert same.value is not None
        assert differing.value is not None
        assert same.value + differing.value == same.of == differing.of


def test_promises_hold_on_the_small_results(small_results: AuditResults) -> None:
    numbers = {name: small_results.numbers(name) for name in small_results.experiments}
    claims = decide(numbers)
    assert len(claims) == len(PROMISES)
    assert [claim.text for claim in claims if not claim.holds] == []


def test_a_broken_promise_is_told() -> None:
    numbers = {
        "deletion": {
            "gaussian/ours/daqp/score_difference/max": 1e-6,
            "gaussian/ours/clarabel/score_difference/max": 1e-12,
            "gaussian/ours/returned": 39.0,
            "gaussian/ours/attempted": 40.0,
        }
    }
    claims = {claim.text: claim for claim in decide(numbers)}
    worst = claims["gate-score difference in every regime, by two references, worst"]
    assert (worst.holds, worst.measured, worst.allowed) == (False, "1.0e-6", "≤ 1.0e-9")
    returned = claims["every deletion returned"]
    assert (returned.holds, returned.measured) == (False, "39/40")


def test_a_promise_without_its_numbers_does_not_hold() -> None:
    """A reference that is missing altogether must not look like agreement."""
    numbers = {"deletion": {"gaussian/ours/daqp/score_difference/max": 1e-15}}
    (claim,) = decide(numbers)
    assert not claim.holds
