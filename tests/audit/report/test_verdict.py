"""Verdicts: what a number says beside a printed one."""

from __future__ import annotations

import pytest

from expunge.audit.report.verdict import (
    MeasuredNumber,
    PrintedNumber,
    Sense,
    Unit,
    difference,
    factor,
    improvement,
    reproduction,
    shown,
)


@pytest.mark.parametrize(
    ("text", "value", "of", "limits"),
    [
        ("2.4e-9", 2.4e-9, None, None),
        ("296/300", 296.0, 300.0, None),
        ("5,120/5,120", 5120.0, 5120.0, None),
        ("+0.03", 0.03, None, None),
        ("-0.08", -0.08, None, None),
        ("<1e-12", None, None, (float("-inf"), 1e-12)),
        (">70", None, None, (70.0, float("inf"))),
        ("0.30–1.04", None, None, (0.30, 1.04)),
        ("", None, None, None),
    ],
)
def test_what_was_printed_is_read(
    text: str, value: float | None, of: float | None, limits: tuple[float, float] | None
) -> None:
    printed = PrintedNumber(text)
    assert (printed.value, printed.of, printed.limits) == (value, of, limits)


@pytest.mark.parametrize(
    ("printed", "measured", "unit", "verdict"),
    [
        ("2.4e-9", MeasuredNumber(2.39e-9), "number", "reproduced"),
        ("2.4e-9", MeasuredNumber(2.46e-9), "number", "consistent"),
        ("2.4e-9", MeasuredNumber(2.3e-8), "number", "consistent"),
        ("2.4e-9", MeasuredNumber(2.5e-8), "number", "differs"),
        ("2.4e-9", MeasuredNumber(2.3e-10), "number", "differs"),
        ("0.5273", MeasuredNumber(0.52734), "percent", "reproduced"),
        ("0.5273", MeasuredNumber(0.5274), "percent", "consistent"),
        ("0.0", MeasuredNumber(0.04), "percent", "reproduced"),
        ("0.0", MeasuredNumber(0.3), "percent", "differs"),
        ("296/300", MeasuredNumber(296, 300), "count", "reproduced"),
        ("296/300", MeasuredNumber(295, 300), "count", "consistent"),
        ("296/300", MeasuredNumber(280, 300), "count", "differs"),
        ("156/300", MeasuredNumber(20, 40), "count", "consistent"),
        ("300/300", MeasuredNumber(40, 40), "count", "reproduced"),
        ("74/100", MeasuredNumber(222, 300), "count", "reproduced"),
        ("74/100", MeasuredNumber(156, 300), "count", "differs"),
        ("84/5,120", MeasuredNumber(81, 5120), "count", "consistent"),
        ("84/5,120", MeasuredNumber(140, 5120), "count", "differs"),
        ("+0.60", MeasuredNumber(0.55), "correlation", "consistent"),
        ("+0.60", MeasuredNumber(0.40), "correlation", "differs"),
        ("<1e-12", MeasuredNumber(0.0), "number", "reproduced"),
        (">70", MeasuredNumber(73.1), "percent", "reproduced"),
        (">70", MeasuredNumber(4.6), "percent", "differs"),
        ("24–223", MeasuredNumber(19.0), "times", "consistent"),
        ("", MeasuredNumber(1.0), "number", ""),
    ],
)
def test_reproduction(printed: str, measured: MeasuredNumber, unit: Unit, verdict: str) -> None:
    assert reproduction(PrintedNumber(printed), measured, unit) == verdict
    assert reproduction(PrintedNumber(printed), None, unit) == ""


@pytest.mark.parametrize(
    ("printed", "ours", "sense", "unit", "verdict", "apart"),
    [
        ("6.4e-3", MeasuredNumber(6.7e-16), "lower", "number", "better", "1e13× smaller"),
        ("6.4e-3", MeasuredNumber(6.38e-3), "lower", "number", "equal", "none"),
        ("6.4e-3", MeasuredNumber(0.0), "lower", "number", "better", "none left"),
        ("6.4e-3", MeasuredNumber(9e-3), "lower", "number", "worse", "1.4× larger"),
        ("296/300", MeasuredNumber(300, 300), "higher", "count", "better", "+4"),
        ("296/300", MeasuredNumber(40, 40), "higher", "count", "better", "+1.3 points"),
        ("300/300", MeasuredNumber(40, 40), "higher", "count", "equal", "none"),
        ("84/5,120", MeasuredNumber(0, 5120), "lower", "count", "better", "-84"),
        ("0/640", MeasuredNumber(3, 640), "lower", "count", "worse", "+3"),
        (">70", MeasuredNumber(1e-9), "lower", "percent", "better", ""),
        ("24–223", MeasuredNumber(300.0), "higher", "times", "better", ""),
        ("24–223", MeasuredNumber(100.0), "higher", "times", "within", ""),
        ("24–223", MeasuredNumber(10.0), "higher", "times", "worse", ""),
        ("0.033", MeasuredNumber(0.03327), "same", "number", "reproduced", "none"),
        ("0.033", MeasuredNumber(0.04), "same", "number", "consistent", "+0.007"),
    ],
)
def test_improvement(printed: str, ours: MeasuredNumber, sense: Sense, unit: Unit, verdict: str, apart: str) -> None:
    assert improvement(PrintedNumber(printed), ours, sense, unit) == verdict
    assert difference(PrintedNumber(printed), ours, sense, unit) == apart


@pytest.mark.parametrize(
    ("measured", "unit", "printed", "text"),
    [
        (MeasuredNumber(2.3897e-9), "number", "2.4e-9", "2.4e-9"),
        (MeasuredNumber(8.614e-6), "number", "8.61e-6", "8.61e-6"),
        (MeasuredNumber(0.0225), "number", "2.2e-2", "2.2e-2"),
        (MeasuredNumber(0.52734), "percent", "0.5273", "0.5273"),
        (MeasuredNumber(2.6e-10), "percent", "0.5273", "2.6e-10"),
        (MeasuredNumber(0.0333), "number", "0.033", "0.033"),
        (MeasuredNumber(296, 300), "count", "296/300", "296/300"),
        (MeasuredNumber(4424), "count", "", "4,424"),
        (MeasuredNumber(0.0), "number", "4.6e-9", "0"),
        (MeasuredNumber(0.00034), "milliseconds", "", "0.34"),
        (MeasuredNumber(36.4), "times", "24–223", "36×"),
        (MeasuredNumber(-0.076), "correlation", "-0.08", "-0.08"),
        (MeasuredNumber(1234567.0), "number", "", "1.2e6"),
    ],
)
def test_numbers_are_written_as_the_paper_writes_them(
    measured: MeasuredNumber, unit: Unit, printed: str, text: str
) -> None:
    assert shown(measured, unit, PrintedNumber(printed)) == text


def test_factors_are_readable() -> None:
    assert [factor(1.0, 2.0), factor(500.0, 10.0), factor(1.0, 1.0), factor(3.0, 1e-12)] == [
        "2× larger",
        "50× smaller",
        "none",
        "3e12× smaller",
    ]
