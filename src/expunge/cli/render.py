"""Receipts, entries and tables for people. Everything here returns something that rich prints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from expunge.receipt import Receipt

__all__ = ["OUTCOMES", "fields", "listing", "receipt_content", "receipt_panel", "seconds", "snippet"]

# What each outcome means, in one line.
OUTCOMES = {
    "admitted": "the entry was added, and the state passed its check",
    "certified_zero": "the removed weights were zero: nothing that the memory says has changed",
    "decrement": "the weights were solved again without the removed entries, and passed the check",
    "rescued": "the first path failed the check; a stricter solve passed it",
    "refused": "nothing was changed",
    "noop": "there was nothing to do",
    "pruned": "entries proved to weigh nothing were set aside, under warranty",
    "rebuilt": "solved afresh at a new cap, which is a different reference",
}
_COLOURS = {"refused": "red", "rescued": "yellow", "noop": "dim"}


def receipt_content(receipt: Receipt) -> dict[str, Any]:
    """A receipt as ``--json`` prints it."""
    return {
        "outcome": receipt.outcome,
        "applied": list(receipt.applied),
        "check": {
            "mass": receipt.check.mass,
            "box": receipt.check.box,
            "stationarity": receipt.check.stationarity,
            "worst": receipt.check.worst,
            "tolerance": receipt.check.tolerance,
            "passed": receipt.check.passed,
        },
        "attempts": [
            {
                "path": attempt.path,
                "worst": None if attempt.check is None else attempt.check.worst,
                "passed": attempt.passed,
                "error": attempt.error,
            }
            for attempt in receipt.attempts
        ],
        "covers": receipt.covers,
        "does_not_cover": list(receipt.does_not_cover),
        "state_before": receipt.state_before,
        "state_after": receipt.state_after,
        "seconds": receipt.seconds,
        "details": receipt.details,
    }


def receipt_panel(receipt: Receipt, *, title: str, extra: Iterable[tuple[str, str]] = ()) -> Panel:
    """A receipt as a person reads it."""
    check = receipt.check
    colour = _COLOURS.get(receipt.outcome, "green")
    rows: list[tuple[str, str | Text]] = [
        ("outcome", Text.assemble((receipt.outcome, f"bold {colour}"), f"  {OUTCOMES[receipt.outcome]}")),
        ("entries", _names(receipt.applied)),
        (
            "check",
            f"worst error {check.worst:.1e}, allowed {check.tolerance:.0e}  (mass {check.mass:.0e}, box {check.box:.0e}, stationarity {check.stationarity:.0e})",
        ),
        ("tried", ", ".join(f"{one.path} {'✓' if one.passed else '✗'}" for one in receipt.attempts) or "nothing"),
        ("state", f"{receipt.state_before[:16]}… → {receipt.state_after[:16]}…"),
        ("covers", receipt.covers),
        ("not covered", "; ".join(receipt.does_not_cover)),
    ]
    for word, text in (("reactivated", "came back from the archive"), ("renewed", "renewed"), ("expired", "expired")):
        if word in receipt.details:
            rows.insert(3, ("warranties", f"{len(receipt.details[word])} {text}"))
    rows += [(name, text) for name, text in extra]
    return Panel(fields(rows), title=title, title_align="left", border_style=colour, box=box.ROUNDED)


def fields(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Names and what they are, in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text if isinstance(text, Text) else Text(text))
    return table


def listing(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Sequence[str] = (), title: str | None = None
) -> Table:
    """Rows under a header; columns in `right` are numbers."""
    table = Table(
        box=box.SIMPLE_HEAD, header_style="bold", title=title, title_justify="left", title_style="", pad_edge=False
    )
    for place, column in enumerate(columns):
        last = place == len(columns) - 1
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="ellipsis" if last else "fold",
            no_wrap=not last or None,
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def snippet(payload: Any, length: int = 200) -> str:
    """The beginning of a payload, on one line."""
    if payload is None:
        return ""
    if isinstance(payload, bytes):
        return f"{len(payload)} bytes"
    if isinstance(payload, dict):
        text = "  ".join(f"{name} {_inline(item)}" for name, item in payload.items() if item not in (None, "", []))
    else:
        text = _inline(payload)
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def seconds(duration: float) -> str:
    """A duration with as many digits as it deserves."""
    if duration < 0.0995:
        return f"{1000 * duration:.{1 if duration < 0.00995 else 0}f} ms"
    return f"{duration:.{2 if duration < 9.995 else 1}f} s"


def _inline(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _names(names: Sequence[str]) -> str:
    if not names:
        return "none"
    shown = ", ".join(escape(name) for name in names[:3])
    return f"{len(names)}: {shown}{', …' if len(names) > 3 else ''}"
