"""How results look to people: the outcome of an edit, receipts, tables, snippets of payloads."""

from __future__ import annotations

import json
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
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
from expunge.display.card import counted
from expunge.display.outcomes import OUTCOMES
from expunge.problem.tolerances import NEARBY, PUBLISHED

if TYPE_CHECKING:
    from expunge.attestation.evidence import Prior
    from expunge.ledger.receipt_format import Predicate, Sizes
    from expunge.preprocessing import Preprocessing
    from expunge.problem.judgement import Judgement
    from expunge.store import JointErasure, Preview, SignedReceipt, Store, StoredMemory, SubjectErasure, SubjectSearch

__all__ = [
    "NARROWEST",
    "NOT_COVERED",
    "OUTCOMES",
    "SafeConsole",
    "column_listing",
    "counted",
    "duration_text",
    "erasure_complete",
    "event_rows",
    "fields",
    "group_sizes",
    "judgement_line",
    "judgement_text",
    "listing",
    "preview_content",
    "preview_rows",
    "receipt_panel",
    "search_content",
    "search_rows",
    "shell_word",
    "show_edit",
    "show_verified",
    "signed_receipt_panel",
    "similarity_text",
    "snippet",
    "value_lines",
    "value_text",
    "verified_line",
]

COVERAGE = {
    "fresh_fit": "the memory equals a fresh fit of its entries at the same cap",
    "fresh_fit_at_new_cap": "the memory equals a fresh fit at the new cap; nothing is said about the old one",
    "no_readout_change": "the removed coefficients were exactly zero: no readout changes",
    "no_readout_change_under_warranty": "the pruned coefficients are proved zero: no readout changes under warranty",
    "no_entry_left": "no entry is left, live or archived",
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
# Characters of a name that are shown at least.
NARROWEST = 12
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
    return {"name": name, "dry_run": True, **preview.to_json()}


def preview_rows(name: str, preview: Preview) -> list[tuple[str, str]]:
    """A dry run as a person reads it."""
    from expunge.preprocessing.outdated import outdated_text

    rows = [("dry run", f"{name}: nothing was changed"), ("outcome", preview.outcome)]
    if preview.reason is not None:
        return [*rows, ("because", preview.reason)]
    changed = [
        (preview.ended, "would end for good"),
        (preview.expired, "would expire"),
        (preview.reactivated, "would come back from the archive"),
    ]
    caps = preview.cap_before, preview.cap
    more = (
        f"; {preview.deletable} more, archived ones too, could be deleted before the cap changes"
        if preview.size
        else ""
    )
    return [
        *rows,
        ("entries", _names(preview.applied)),
        ("made from others", _names([str(one) for one in preview.derived]) if preview.derived else ""),
        *((f"in {other}", _elsewhere(one)) for other, one in preview.elsewhere.items()),
        ("left", f"{preview.size} live{more}"),
        ("cap", _refit(preview.outcome, len(preview.applied), preview.size, *caps, "would be")),
        ("weights", f"{preview.changed_coefficients} would change"),
        ("readout", preview.readout_text),
        ("warranties", ", ".join(f"{len(names)} {text}" for names, text in changed if names)),
        ("note", preview.notice or ""),
        ("outdated", outdated_text(preview.outdated)),
    ]


def _elsewhere(preview: Preview) -> str:
    """What would be done in another memory."""
    return preview.reason or f"{_names([str(one) for one in preview.derived])} would go, too"


def joint_rows(erasure: JointErasure) -> list[Field]:
    """What an erasure did in several memories, as a person reads it."""
    held = [f"{name}: {_names(ids)}" for name, ids in erasure.held.items()]
    return [
        *(
            (f"in {part.memory}", part.reason or f"{_names(part.applied)} removed")
            for part in erasure.memories
            if part.applied or part.reason
        ),
        ("kept by holds", "\n".join(held)),
        ("not read", ", ".join(erasure.not_read)),
        ("summary", "" if erasure.index is None else f"leaf {erasure.index} (expunge log {erasure.index})"),
    ]


def search_content(search: SubjectSearch | SubjectErasure) -> dict[str, Any]:
    """What a search for a subject did not reach and what looks alike, as ``--json`` prints it."""
    return {
        "not_searched": [vars(one) for one in search.not_searched],
        "look_alikes": [one.to_json() for one in search.look_alikes],
    }


def search_rows(search: SubjectSearch | SubjectErasure) -> list[tuple[str, str]]:
    """The same as a person reads it."""
    alike = [
        f"{shell_word(one.subject)} ({counted(one.entries, 'entry')} in {counted(len(one.memories), 'memory')})?"
        for one in search.look_alikes
    ]
    rows = [("did you mean" if number == 0 else "or", text) for number, text in enumerate(alike)]
    return [*rows, ("not searched", "; ".join(map(str, search.not_searched)))]


def shell_word(text: str) -> str:
    """A text in quotes, to be typed again: what cannot be seen or told apart is spelled as bash and zsh read it."""
    # Marks that belong to their letters are seen; those of a decomposed text look like letters of another one.
    hidden = "CZ" if unicodedata.is_normalized("NFC", text) else "CZM"
    spelled = [
        _spelled(character) if character != " " and unicodedata.category(character)[0] in hidden else None
        for character in text
    ]
    if not any(spelled):
        return shlex.quote(text) if "'" in text else f"'{text}'"
    escaped = {"'": "\\'", "\\": "\\\\"}
    parts = (code or escaped.get(character, character) for code, character in zip(spelled, text, strict=True))
    return f"$'{''.join(parts)}'"


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def receipt_panel(receipt: SignedReceipt, *, title: str, extra: Iterable[Field] = ()) -> Panel:
    """A fresh receipt, which still knows its entries by id."""
    from expunge.preprocessing.outdated import outdated_text

    # A rescue is shown to whoever runs the command, and is in no record of the edit.
    outcome = receipt.outcome if receipt.measured is None else receipt.measured.outcome
    counts = {word: len(receipt.details.get(word, ())) for word, _ in _WARRANTIES}
    rows: list[Field] = [
        ("outcome", _outcome(outcome)),
        ("entries", _names(receipt.applied)),
        *(() if receipt.elsewhere is None else joint_rows(receipt.elsewhere)),
        ("cap", _refit_of(receipt)),
        ("width", _new_width(receipt.details)),
        ("warranties", _warranties(counts)),
        ("outdated", outdated_text(receipt.outdated)),
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
        *_new_problem(stated),
        ("warranties", _warranties(counts)),
        ("refused for", "" if stated.refusal is None else stated.refusal.reason.replace("_", " ")),
        ("check", _CHECKED),
        ("state", f"{_short(stated.state_before)} → {_short(stated.state_after)}"),
        ("covers", COVERAGE[stated.covers]),
        ("not covered", "; ".join(NOT_COVERED)),
        *extra,
    ]
    return _panel(rows, stated.outcome, title)


def _new_problem(stated: Predicate) -> list[Field]:
    """Cap and width, of an edit that may change them."""
    if stated.covers != "fresh_fit_at_new_cap":
        return []
    return [("cap", f"{stated.problem.cap:.6g}"), ("width", f"{stated.problem.sigma:g}")]


def event_rows(event: dict[str, Any]) -> list[Field]:
    """What a signed event of a store states: a hold, a release, a memory dropped, a subject erased."""
    facts = dict(event["facts"])
    memories, findings = facts.pop("memories", None), facts.pop("findings", None)
    rows: list[Field] = [
        ("event", f"{event['event'].replace('_', ' ')}{'' if erasure_complete(event) else ', NOT COMPLETE'}"),
        ("when", event["time"]),
        ("memory", event["memory"] or ""),
    ]
    for name, fact in facts.items():
        if fact is None:
            continue
        if isinstance(fact, bool):
            fact = "yes" if fact else "no"
        many = fact.get("count") if isinstance(fact, dict) else len(fact) if isinstance(fact, list | tuple) else None
        rows.append((name, str(fact) if many is None else f"{many} by commitment"))
    for part in memories or []:
        erased = f"{counted(part['entries'], 'entry')} of memory {part['memory']}"
        rows.append(("erased", f"{erased}: {part['outcome']}, leaf {part['leaf']}"))
    for part in findings or []:
        found = ", ".join(f"{part[word]} {word.replace('_', ' ')}" for word in part if word not in ("leaf", "entries"))
        rows.append(("copies", f"{counted(part['entries'], 'entry')} of leaf {part['leaf']}: {found}"))
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


def listing(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Sequence[str] = (),
    yields: int = -1,
    whole: bool = False,
) -> Table:
    """Rows under a header; columns in `right` are numbers.

    Where space is short the column `yields` gives way, the last one by default: it is cut, or, where it is to be seen
    `whole`, wrapped.
    """
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    last = range(len(columns))[yields]
    for place, column in enumerate(columns):
        # Rich takes space from columns that may wrap before it touches the others.
        narrowest = NARROWEST if yields == place else None
        table.add_column(
            column, justify="right" if column in right else "left", no_wrap=place != last, min_width=narrowest
        )
    for row in rows:
        cells = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        if not whole:
            cells[last].no_wrap, cells[last].overflow = True, "ellipsis"
        table.add_row(*cells)
    return table


def judgement_text(judgement: Judgement) -> str:
    """Where a point lies, in words."""
    return ("inside" if judgement.inside else "outside") + ("" if judgement.nearby else ", no entry nearby")


def judgement_line(judgement: Judgement) -> str:
    """Where a point lies, and how far from the boundary."""
    return f"{judgement_text(judgement)}, {judgement.distance:+.4g} from the boundary"


def value_lines(numbers: Iterable[float], preprocessing: Preprocessing | None) -> str:
    """A value or a readout, one line per column where the memory has columns, else one line."""
    if preprocessing is None:
        return value_text(numbers, None)
    widest = max(len(column.name) for column in preprocessing.values)
    return "\n".join(
        f"{column.name:{widest}}  {number:.6g}" + (f" {column.unit}" if column.unit else "")
        for column, number in zip(preprocessing.values, numbers, strict=True)
    )


def column_listing(preprocessing: Preprocessing) -> Table:
    """The columns of a memory: what each is for, its unit, and what makes a coordinate of a measurement."""
    roles: dict[str, list[str]] = {}
    for role, columns in (("key", preprocessing.keys), ("value", preprocessing.values)):
        for column in columns:
            roles.setdefault(column.name, []).append(role)
    # Only keys are scaled: the entry of a column that is both is that of the key.
    every = {column.name: column for column in (*preprocessing.values, *preprocessing.keys)}
    numbers = ("centre", "scale", "fill")
    rows = [
        [
            name + ("" if every[name].unit is None else f" [{every[name].unit}]"),
            "+".join(roles[name]),
            *("" if getattr(every[name], what) is None else f"{getattr(every[name], what):.6g}" for what in numbers),
        ]
        for name in roles
    ]
    return listing(["column", "role", *numbers], rows, right=numbers, yields=0)


def value_text(numbers: Iterable[float], preprocessing: Preprocessing | None) -> str:
    """A value or a readout, with the names and units of its columns where the memory has them."""
    shown = [f"{number:.6g}" for number in numbers]
    if preprocessing is not None:
        columns = zip(preprocessing.values, shown, strict=True)
        shown = [f"{column.name} {text}{f' {column.unit}' if column.unit else ''}" for column, text in columns]
    return ", ".join(shown)


def similarity_text(similarity: float) -> str:
    """A similarity to three digits; below that, that it is."""
    return f"{similarity:.3f}" if similarity >= NEARBY else "< 0.001"


def _refit_of(receipt: SignedReceipt) -> str:
    """What became of the cap, where fewer entries were left than it needs; the sizes are those that were signed."""
    if receipt.outcome != "refitted":
        return ""
    from expunge.ledger.envelope import parse_envelope
    from expunge.ledger.receipt_parsing import parse_predicate
    from expunge.ledger.statement import parse_statement

    left = parse_predicate(parse_statement(parse_envelope(receipt.envelope).payload)).after.live
    caps = receipt.details["cap_before"], receipt.details["cap"]
    return _refit(receipt.outcome, len(receipt.applied), left, *caps, "were")


def _new_width(details: Mapping[str, Any]) -> str:
    """The width, where an edit has changed it."""
    return f"{details['sigma_before']:g} → {details['sigma']:g}" if "sigma_before" in details else ""


def _refit(outcome: str, removed: int, left: int, before: float, after: float, were: str) -> str:
    """A refit at a larger cap, in a sentence; of other outcomes nothing."""
    if outcome != "refitted":
        return ""
    return (
        f"{removed} of {counted(removed + left, 'entry')} {were} removed. Too few {were} left for the old cap, "
        f"so the remaining {left} {were} fitted again at cap {after:.6g} (was {before:.6g})."
    )


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
