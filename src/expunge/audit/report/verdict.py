"""What a measured number says beside a published one; every verdict in a report is computed here.

A published number is kept as it was printed, so that "reproduced" means: rounds to the same digits, or the same count
of the same number of trials. Short of that a number is

- *consistent*: a count within three standard deviations of counting noise of the published one (scaled where the number
  of trials differs), a correlation within 3/√300 = 0.17, any other number within a factor of ten;
- *differs* otherwise.

Against a published number, ours is *better*, *equal*, *within* its range or *worse* in the stated sense; where neither
direction is better, it is reproduced, consistent or different like any other.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "MeasuredNumber",
    "PrintedNumber",
    "Sense",
    "Unit",
    "difference",
    "factor",
    "improvement",
    "reproduction",
    "shown",
]

Sense = Literal["lower", "higher", "same"]
Unit = Literal["number", "count", "percent", "correlation", "milliseconds", "times"]
NOISE = 3.0
CORRELATION_NOISE = 0.17
FACTOR = 10.0


@dataclass(frozen=True)
class MeasuredNumber:
    """A number of this run, and out of how many where it is a count of them."""

    value: float
    of: float | None = None


@dataclass(frozen=True)
class PrintedNumber:
    """A published number as printed: ``2.4e-9``, ``0.5273``, ``296/300``, ``<1e-12``, ``>70``, a range ``24–223``."""

    text: str

    @property
    def value(self) -> float | None:
        """The number; None for a bound, a range, or where nothing was printed."""
        found = re.fullmatch(r"([+-]?[\d,.]+(?:e[+-]?\d+)?)(?:/[\d,]+)?", self.text)
        return float(found[1].replace(",", "")) if found else None

    @property
    def of(self) -> float | None:
        """Out of how many."""
        found = re.search(r"/([\d,]+)$", self.text)
        return float(found[1].replace(",", "")) if found else None

    @property
    def limits(self) -> tuple[float, float] | None:
        """The ends of a range; a bound has one end."""
        if self.text.startswith("<"):
            return -math.inf, float(self.text[1:])
        if self.text.startswith(">"):
            return float(self.text[1:]), math.inf
        ends = self.text.split("–")
        return (float(ends[0]), float(ends[1])) if len(ends) == 2 else None

    def same_digits(self, value: float) -> bool:
        """Whether a number rounds to what was printed."""
        text = self.text.split("/")[0].replace(",", "")
        if "e" in text:
            digits = len(text.split("e")[0].lstrip("+-").replace(".", ""))
            return float(f"{value:.{digits - 1}e}") == float(text)
        decimals = len(text.partition(".")[2])
        return float(f"{value:.{decimals}f}") == float(text)


def reproduction(printed: PrintedNumber, measured: MeasuredNumber | None, unit: Unit) -> str:
    """Whether the same method gave the published number again: reproduced, consistent, differs, or nothing to say."""
    if measured is None or not printed.text:
        return ""
    if printed.limits is not None:
        low, high = printed.limits
        if low <= measured.value <= high:
            return "reproduced"
        near = measured.value * FACTOR >= low and measured.value <= high * FACTOR
        return "consistent" if near else "differs"
    if printed.value is None:
        return ""
    if unit == "count":
        scale = measured.of / printed.of if measured.of and printed.of else 1.0
        expected = printed.value * scale
        if measured.value == expected or _same_percentage(printed, measured):
            return "reproduced"
        noise = NOISE * math.sqrt(max(1.0, measured.value + expected))
        # Counts near all of the trials are judged by what is missing from them.
        if measured.of and expected > measured.of / 2:
            noise = NOISE * math.sqrt(max(1.0, 2.0 * measured.of - measured.value - expected))
        return "consistent" if abs(measured.value - expected) <= noise else "differs"
    if printed.same_digits(measured.value):
        return "reproduced"
    if unit == "correlation":
        return "consistent" if abs(measured.value - printed.value) <= CORRELATION_NOISE else "differs"
    if printed.value <= 0.0 or measured.value <= 0.0:
        return "differs"
    return "consistent" if abs(math.log10(measured.value / printed.value)) <= math.log10(FACTOR) else "differs"


def improvement(printed: PrintedNumber, ours: MeasuredNumber | None, sense: Sense, unit: Unit) -> str:
    """How ours compares with the published number: better, equal, worse, or as in `reproduction`."""
    if ours is None or not printed.text:
        return ""
    if sense == "same":
        return reproduction(printed, ours, unit)
    if printed.limits is not None:
        low, high = printed.limits
        if low <= ours.value <= high:
            return "within"
        return "better" if (ours.value < low) == (sense == "lower") else "worse"
    if printed.value is None:
        return ""
    if unit != "count" and printed.same_digits(ours.value):
        return "equal"
    value, target = _comparable(printed.value, printed, ours)
    if value == target or (unit == "count" and _same_percentage(printed, ours)):
        return "equal"
    return "better" if (value < target) == (sense == "lower") else "worse"


def difference(printed: PrintedNumber, ours: MeasuredNumber | None, sense: Sense, unit: Unit) -> str:
    """How far ours is from the published number, in words."""
    if ours is None or printed.value is None:
        return ""
    if unit == "count":
        if printed.of and ours.of and printed.of != ours.of:
            value, target = _comparable(printed.value, printed, ours)
            return "none" if value == target else f"{100.0 * (value - target):+.1f} points"
        return f"{ours.value - printed.value:+,.0f}" if ours.value != printed.value else "none"
    if unit == "correlation" or sense == "same":
        return "none" if printed.same_digits(ours.value) else f"{ours.value - printed.value:+.2g}"
    if ours.value == 0.0:
        return "none left" if printed.value > 0.0 else "none"
    if printed.value <= 0.0 or printed.same_digits(ours.value):
        return "none" if printed.same_digits(ours.value) else f"{ours.value - printed.value:+.1e}"
    return factor(printed.value, ours.value)


def factor(before: float, after: float) -> str:
    """How many times smaller or larger a positive number has become."""
    ratio = max(before / after, after / before)
    if ratio < 1.005:
        return "none"
    text = f"{ratio:.2g}" if ratio < 10.0 else f"{ratio:,.0f}" if ratio < 1e4 else _short(f"{ratio:.0e}")
    return f"{text}× {'smaller' if after < before else 'larger'}"


def shown(measured: MeasuredNumber | None, unit: Unit, printed: PrintedNumber | None = None) -> str:
    """One measured number, written as the published one is where that can show it."""
    if measured is None:
        return ""
    value = measured.value
    if unit == "count":
        return f"{value:,.0f}/{measured.of:,.0f}" if measured.of is not None else f"{value:,.0f}"
    if unit == "correlation":
        return f"{value:+.2f}"
    if unit == "milliseconds":
        return f"{1e3 * value:.2f}"
    if unit == "times":
        return f"{value:.0f}×" if value >= 10 else f"{value:.1f}×"
    if value == 0.0:
        return "0"
    text = printed.text if printed is not None and printed.value is not None else ""
    decimals = len(text.partition(".")[2])
    if text and "e" not in text and abs(value) >= 10.0**-decimals / 2:
        return f"{value:.{decimals}f}"
    if not text and 1e-2 <= abs(value) < 1e4:
        return f"{value:.3g}"
    digits = len(text.split("e")[0].lstrip("+-").replace(".", "")) if "e" in text else 2
    return _short(f"{value:.{max(digits, 2) - 1}e}")


def _short(text: str) -> str:
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", text).replace("e+", "e")


def _same_percentage(printed: PrintedNumber, measured: MeasuredNumber) -> bool:
    """Whether a count gives the percentage that was printed as a count out of 100."""
    if printed.of != 100.0 or not measured.of:
        return False
    return round(100.0 * measured.value / measured.of) == printed.value


def _comparable(target: float, printed: PrintedNumber, ours: MeasuredNumber) -> tuple[float, float]:
    """Ours and the published number, as shares where both say out of how many."""
    if printed.of and ours.of:
        return ours.value / ours.of, target / printed.of
    return ours.value, target
