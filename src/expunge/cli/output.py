"""Receipts, tables and snippets for people. Everything here returns something that rich prints, or text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from expunge.cli.errors import visible

if TYPE_CHECKING:
    from expunge.ledger.receipt_format import Predicate, Sizes
    from expunge.memory.receipt import Receipt

__all__ = [
    "NOT_COVERED",
    "OUTCOMES",
    "Shown",
    "counted",
    "fields",
    "listing",
    "receipt_panel",
    "seconds",
    "snippet",
    "stated_panel",
    "verified_line",
]

# What each outcome means, in one line.
OUTCOMES = {
    "created": "fitted, checked and stored",
    "admitted": "the entry was added, and the new state passed its check",
    "certified_zero": "the removed weights were zero: nothing that the memory says has changed",
    "decrement": "solved again without the removed entries, and checked",
    "rescued": "the first path failed the check; a stricter solve passed it",
    "refused": "nothing was changed",
    "noop": "there was nothing to do",
    "pruned": "entries proved to weigh nothing were set aside, under warranty",
    "rebuilt": "solved afresh at a new cap, which is a different reference",
    "expired": "certificates of pruned entries have ended",
    "restored": "the memory went back to an older state",
}
COVERAGE = {
    "fresh_fit": "the memory equals a fresh fit of its entries at the same cap",
    "fresh_fit_at_new_cap": "the memory equals a fresh fit at the new cap; nothing is said about the old one",
    "no_readout_change": "the removed coefficients were exactly zero: no readout changes",
    "no_readout_change_under_warranty": "the pruned coefficients are proved zero: no readout changes under warranty",
    "nothing": "nothing",
}
# The words of `expunge.memory.receipt.DOES_NOT_COVER`, which a verifier does not load.
NOT_COVERED = (
    "copies made before the edit",
    "re-encoding of the remaining entries",
    "the weights of any model that saw the entry",
    "a refit at another cap",
    "later admissions, unless a warranty says so",
)
_COLOURS = {"refused": "red", "rescued": "yellow", "expired": "yellow", "noop": "bright_black"}
_WARRANTIES = (("reactivated", "came back from the archive"), ("renewed", "renewed"), ("expired", "expired"))

Row = tuple[str, str | Text]


class Shown(Console):
    """A console whose text is only text: rich itself lets escape sequences through."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments, those of text with every control character spelled out."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def receipt_panel(receipt: Receipt, *, title: str, extra: Iterable[Row] = ()) -> Panel:
    """A fresh receipt, which still knows its entries by id."""
    check = receipt.check
    counts = {word: len(receipt.details.get(word, ())) for word, _ in _WARRANTIES}
    rows: list[Row] = [
        ("outcome", _outcome(receipt.outcome)),
        ("entries", _names(receipt.applied)),
        ("warranties", _warranties(counts)),
        ("check", f"worst error {check.worst:.0e}, allowed {check.tolerance:.0e}"),
        ("tried", _tried((one.path, one.passed) for one in receipt.attempts)),
        ("state", f"{receipt.state_before[:16]}… → {receipt.state_after[:16]}…"),
        ("covers", receipt.covers),
        ("not covered", "; ".join(receipt.does_not_cover)),
        *extra,
    ]
    return _panel(rows, receipt.outcome, title)


def stated_panel(stated: Predicate, *, title: str, extra: Iterable[Row] = ()) -> Panel:
    """What a signed receipt states: it names entries by commitment only."""
    listed = stated.applied
    shown = ", ".join(digest[:12] + "…" for digest in listed.commitments[:3])
    counts = {word: getattr(stated, word).count for word, _ in _WARRANTIES}
    rows: list[Row] = [
        ("outcome", _outcome(stated.outcome)),
        ("when", f"{stated.time}, edit {stated.edit} of memory {stated.memory}"),
        (
            "entries",
            f"{listed.count} by commitment: {shown}{', …' if listed.count > 3 else ''}" if listed.count else "none",
        ),
        ("left", f"{_sizes(stated.after)} (before: {_sizes(stated.before)})"),
        ("warranties", _warranties(counts)),
        ("refused for", "" if stated.refusal is None else stated.refusal.reason.replace("_", " ")),
        ("check", f"worst error at most {stated.check.worst:.0e}, allowed 1e-09"),
        ("tried", _tried((one.path, one.passed) for one in stated.attempts)),
        ("state", f"{_short(stated.state_before)} → {_short(stated.state_after)}"),
        ("covers", COVERAGE[stated.covers]),
        ("not covered", "; ".join(NOT_COVERED)),
        *extra,
    ]
    return _panel(rows, stated.outcome, title)


def event_rows(event: dict[str, Any]) -> list[Row]:
    """What a signed event of a store states: a hold, a release, a memory dropped, a subject erased."""
    facts = dict(event["facts"])
    memories = facts.pop("memories", None)
    rows: list[Row] = [
        ("event", f"{event['event'].replace('_', ' ')}{'' if erased_whole(event) else ', NOT COMPLETE'}"),
        ("when", event["time"]),
        ("memory", event["memory"] or ""),
    ]
    rows += [(name, str(fact)) for name, fact in facts.items()]
    for part in memories or []:
        erased = f"{counted(part['entries'], 'entry')} of memory {part['memory']}"
        rows.append(("erased", f"{erased}: {part['outcome']}, leaf {part['leaf']}"))
    return rows


def erased_whole(event: dict[str, Any]) -> bool:
    """Whether no memory of a subject's erasure refused or failed; true of every other event."""
    return not any(part["outcome"] in ("refused", "failed") for part in event["facts"].get("memories", ()))


def verified_line(what: str) -> Text:
    """The last word of a verification that held."""
    return Text.assemble(("verified", "bold green"), "  ", what)


def fields(rows: Iterable[Row]) -> Table:
    """Names and what they are, in two columns; a row without text is left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(name, text if isinstance(text, Text) else Text(text))
    return table


def listing(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Sequence[str] = ()) -> Table:
    """Rows under a header; columns in `right` are numbers; the last column gives way where space is short."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    last = len(columns) - 1
    for place, column in enumerate(columns):
        # Rich takes space from columns that may wrap before it touches the others.
        table.add_column(column, justify="right" if column in right else "left", no_wrap=place != last)
    for row in rows:
        cells = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        cells[last].no_wrap, cells[last].overflow = True, "ellipsis"
        table.add_row(*cells)
    return table


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number and its noun: 1 entry, 2 entries."""
    if many is None:
        many = one[:-1] + "ies" if one.endswith("y") else one + "s"
    return f"{count} {one if count == 1 else many}"


def _short(digest: str | None) -> str:
    return "nothing" if digest is None else f"{digest[:16]}…"


def snippet(payload: Any, length: int = 200) -> str:
    """The beginning of a payload, on one line; of an object that has text in it, of the text."""
    if payload is None:
        return ""
    if isinstance(payload, bytes):
        return f"{len(payload)} bytes"
    if isinstance(payload, dict):
        told = [item for item in payload.values() if isinstance(item, str) and " " in item.strip()]
        named = (f"{name} {_inline(item)}" for name, item in payload.items() if item not in (None, "", []))
        text = " / ".join(told) or ", ".join(named)
    else:
        text = _inline(payload)
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def seconds(duration: float) -> str:
    """A duration with as many digits as it deserves."""
    if duration < 0.0995:
        return f"{1000 * duration:.{1 if duration < 0.00995 else 0}f} ms"
    return f"{duration:.{2 if duration < 9.995 else 1}f} s"


def _sizes(sizes: Sizes) -> str:
    return f"{sizes.live} live, {sizes.pruned} pruned"


def _panel(rows: list[Row], outcome: str, title: str) -> Panel:
    colour = _COLOURS.get(outcome, "green")
    return Panel(fields(rows), title=Text(title), title_align="left", border_style=colour, box=box.ROUNDED)


def _outcome(outcome: str) -> Text:
    colour = _COLOURS.get(outcome, "green")
    return Text.assemble((outcome, f"bold {colour}"), "  ", OUTCOMES[outcome])


def _warranties(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[word]} {text}" for word, text in _WARRANTIES if counts[word])


def _tried(paths: Iterable[tuple[str, bool]]) -> str:
    runs = ((path, passed, len(list(same))) for (path, passed), same in groupby(paths))
    return ", ".join(
        f"{path} {'✓' if passed else '✗'}" + (f" ×{times}" if times > 1 else "") for path, passed, times in runs
    )


def _inline(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _names(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return f"{len(names)}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
