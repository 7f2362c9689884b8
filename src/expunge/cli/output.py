"""How results look to people: the outcome of an edit, receipts, tables, snippets of payloads."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from expunge.cli.context import CommandContext, escape_controls, print_json_lines
from expunge.problem.tolerances import PUBLISHED

if TYPE_CHECKING:
    from expunge.attestation.evidence import Prior
    from expunge.ledger.receipt_format import Predicate, Sizes
    from expunge.store import Preview, SignedReceipt, Store, StoredMemory

__all__ = [
    "NOT_COVERED",
    "OUTCOMES",
    "SafeConsole",
    "counted",
    "duration_text",
    "erasure_complete",
    "event_rows",
    "fields",
    "group_sizes",
    "listing",
    "preview_content",
    "preview_rows",
    "receipt_panel",
    "show_edit",
    "show_verified",
    "signed_receipt_panel",
    "snippet",
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
_WARRANTIES = (
    ("reactivated", "came back from the archive"),
    ("renewed", "renewed"),
    ("expired", "expired"),
    ("ended", "ended for good"),
)
# Only a state that passes is published.
_CHECKED = f"passed: every error is within {PUBLISHED:.0e}"

Field = tuple[str, str | Text]


class SafeConsole(Console):
    """A console whose text is only text: rich itself lets escape sequences through."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments, those of text with every control character spelled out."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escape_controls(text), style, control)


def show_edit(
    context: CommandContext,
    result: SignedReceipt | Preview,
    name: str,
    *,
    store: Store | None = None,
    memory: StoredMemory | None = None,
    evidence: Path | None = None,
    prior: Prior | None = None,
) -> None:
    """Print what an edit did, or would do; evidence comes last, when no failure can hide the receipt."""
    from expunge.store import SignedReceipt

    if not isinstance(result, SignedReceipt):
        context.show(preview_content(name, result), fields(preview_rows(name, result)))
        if result.outcome == "refused":
            raise typer.Exit(3)
        return
    content = result.to_json() | {"name": name, "evidence": evidence}
    extra = [("ledger", f"leaf {result.index} (expunge log {result.index})")]
    if evidence is not None:
        extra.append(("evidence", f"{evidence} (holds the remaining content)"))
    try:
        if context.as_json:
            print_json_lines([content])
        else:
            context.show(content, receipt_panel(result, title=f"receipt {result.index}: {name}", extra=extra))
        sys.stdout.flush()
    finally:
        if evidence is not None and store is not None and memory is not None:
            from expunge.cli.evidence_files import save_bundle, write_bundles

            write_bundles([(evidence, partial(save_bundle, evidence, store, memory, prior, result.index))])


def preview_content(name: str, preview: Preview) -> dict[str, Any]:
    """A dry run as ``--json`` prints it."""
    return {"name": name, "dry_run": True, **vars(preview)}


def preview_rows(name: str, preview: Preview) -> list[tuple[str, str]]:
    """A dry run as a person reads it."""
    rows = [("dry run", f"{name}: nothing was changed"), ("outcome", preview.outcome)]
    if preview.reason is not None:
        return [*rows, ("because", preview.reason)]
    changed = [
        (preview.ended, "would end for good"),
        (preview.expired, "would expire"),
        (preview.reactivated, "would come back from the archive"),
    ]
    return [
        *rows,
        ("entries", _names(preview.applied)),
        ("left", f"{preview.size} live; {preview.deletable} more could be deleted"),
        ("weights", f"{preview.changed_coefficients} would change"),
        ("readout", f"changes by at most {preview.readout_change:.2%} of the value range at {preview.probes} keys"),
        ("warranties", ", ".join(f"{len(names)} {text}" for names, text in changed if names)),
        ("note", preview.notice or ""),
    ]


def receipt_panel(receipt: SignedReceipt, *, title: str, extra: Iterable[Field] = ()) -> Panel:
    """A fresh receipt, which still knows its entries by id."""
    # A rescue is shown to whoever runs the command, and is in no record of the edit.
    outcome = receipt.outcome if receipt.measured is None else receipt.measured.outcome
    counts = {word: len(receipt.details.get(word, ())) for word, _ in _WARRANTIES}
    rows: list[Field] = [
        ("outcome", _outcome(outcome)),
        ("entries", _names(receipt.applied)),
        ("warranties", _warranties(counts)),
        ("check", _CHECKED),
        ("state", f"{receipt.state_before[:16]}… → {receipt.state_after[:16]}…"),
        ("covers", receipt.covers),
        ("not covered", "; ".join(receipt.does_not_cover)),
        *extra,
    ]
    return _panel(rows, outcome, title)


def signed_receipt_panel(stated: Predicate, *, title: str, extra: Iterable[Field] = ()) -> Panel:
    """What a signed receipt states: it names entries by commitment only."""
    listed = stated.applied
    shown = ", ".join(digest[:12] + "…" for digest in listed.commitments[:3])
    counts = {word: getattr(stated, word).count for word, _ in _WARRANTIES}
    rows: list[Field] = [
        ("outcome", _outcome(stated.outcome)),
        ("when", f"{stated.time}, edit {stated.edit} of memory {stated.memory}"),
        (
            "entries",
            f"{listed.count} by commitment: {shown}{', …' if listed.count > 3 else ''}" if listed.count else "none",
        ),
        ("left", f"{_sizes(stated.after)} (before: {_sizes(stated.before)})"),
        ("warranties", _warranties(counts)),
        ("refused for", "" if stated.refusal is None else stated.refusal.reason.replace("_", " ")),
        ("check", _CHECKED),
        ("state", f"{_short(stated.state_before)} → {_short(stated.state_after)}"),
        ("covers", COVERAGE[stated.covers]),
        ("not covered", "; ".join(NOT_COVERED)),
        *extra,
    ]
    return _panel(rows, stated.outcome, title)


def event_rows(event: dict[str, Any]) -> list[Field]:
    """What a signed event of a store states: a hold, a release, a memory dropped, a subject erased."""
    facts = dict(event["facts"])
    memories = facts.pop("memories", None)
    rows: list[Field] = [
        ("event", f"{event['event'].replace('_', ' ')}{'' if erasure_complete(event) else ', NOT COMPLETE'}"),
        ("when", event["time"]),
        ("memory", event["memory"] or ""),
    ]
    rows += [(name, str(fact)) for name, fact in facts.items()]
    for part in memories or []:
        erased = f"{counted(part['entries'], 'entry')} of memory {part['memory']}"
        rows.append(("erased", f"{erased}: {part['outcome']}, leaf {part['leaf']}"))
    return rows


def erasure_complete(event: dict[str, Any]) -> bool:
    """Whether no memory of a subject's erasure refused or failed; true of every other event."""
    return not any(part["outcome"] in ("refused", "failed") for part in event["facts"].get("memories", ()))


def verified_line(what: str) -> Text:
    """The last word of a verification that held."""
    return Text.assemble(("verified", "bold green"), "  ", what)


def group_sizes(groups: Any) -> dict[str, int]:
    """How many entries each group of a partition, or of a proof of one, has."""
    return {name: int(getattr(groups, name).size) for name in ("margin", "bound", "reserve")}


def show_verified(context: CommandContext, checked: Iterable[str]) -> None:
    """Print what a verification checked; with ``--json`` it is part of the result."""
    if not context.as_json:
        context.out.print(verified_line("  ".join(f"{word} ✓" for word in checked)))


def fields(rows: Iterable[Field]) -> Table:
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
        texts = [item for item in payload.values() if isinstance(item, str) and " " in item.strip()]
        named = (f"{name} {_inline(item)}" for name, item in payload.items() if item not in (None, "", []))
        text = " / ".join(texts) or ", ".join(named)
    else:
        text = _inline(payload)
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def duration_text(seconds: float) -> str:
    """A duration with as many digits as it deserves."""
    if seconds < 0.0995:
        return f"{1000 * seconds:.{1 if seconds < 0.00995 else 0}f} ms"
    return f"{seconds:.{2 if seconds < 9.995 else 1}f} s"


def _sizes(sizes: Sizes) -> str:
    return f"{sizes.live} live, {sizes.pruned} pruned"


def _panel(rows: list[Field], outcome: str, title: str) -> Panel:
    colour = _COLOURS.get(outcome, "green")
    return Panel(fields(rows), title=Text(title), title_align="left", border_style=colour, box=box.ROUNDED)


def _outcome(outcome: str) -> Text:
    colour = _COLOURS.get(outcome, "green")
    return Text.assemble((outcome, f"bold {colour}"), "  ", OUTCOMES[outcome])


def _warranties(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[word]} {text}" for word, text in _WARRANTIES if counts[word])


def _inline(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _names(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return f"{len(names)}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
