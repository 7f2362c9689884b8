"""The page of a certificate document: every text on it, as a function of what the document embeds.

The words are in ``words.json``; ``page.js`` does the same in a browser, and a test compares the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from expunge.ledger.certificate.contents import OpenContents, OpenLeaf, What, summary_parts
from expunge.ledger.event import ERASED

__all__ = ["Page", "Tone", "Words", "page_of", "qr_text", "tone_of", "words"]

Tone = Literal["erased", "incomplete", "refused", "nothing", "edit"]
Row = tuple[str, ...]
Pair = tuple[str, str]
Words = dict[str, Any]
# Memories that one page has room for; the others are counted.
_MOST_ROWS: Final = 5
_MOST_WITNESSES: Final = 3
_KEPT: Final = ("refused", "failed")
_RECOMPUTED: Final = ("certified_zero", "decrement", "refitted")
_WORDS: Final = Path(__file__).parent / "words.json"


@dataclass(frozen=True)
class Page:
    """The texts, in the order of the page."""

    tone: Tone
    title: str
    lead: str
    facts: tuple[Pair, ...]
    columns: Row
    memories: tuple[Row, ...]
    more: str | None
    names: str | None
    covers: Row
    excludes: Row
    record: tuple[Pair, ...]
    check: Row
    identity: tuple[Pair, ...]


@cache
def words() -> Words:
    """The words of the page."""
    found: Words = json.loads(_WORDS.read_text(encoding="utf-8"))
    return found


def tone_of(opened: OpenContents) -> Tone:
    """What the document is: only ``erased`` is a certificate of erasure."""
    receipt = opened.leaf.receipt
    if receipt is None:
        if opened.summary is None:
            return "erased"
        if not opened.summary.facts["complete"]:
            return "incomplete"
        return "erased" if _entries(opened) else "nothing"
    if receipt.outcome in ("refused", "noop"):
        return "refused" if receipt.outcome == "refused" else "nothing"
    return "erased" if receipt.outcome in ERASED else "edit"


def page_of(opened: OpenContents) -> Page:
    """The page about what a document embeds."""
    said, tone = words(), tone_of(opened)
    count, origin = _entries(opened), opened.head.origin
    rows = _memory_rows(opened)
    values = {"entries": str(count), "kept": _count(said["kept"], _kept(opened))}
    hidden = len(rows) - _MOST_ROWS
    return Page(
        tone,
        said["title"][tone],
        _fill(_count(said["lead"][tone], count), values),
        _facts(opened, tone),
        tuple(said["column"].values()),
        tuple(rows[:_MOST_ROWS]),
        _count(said["more"], hidden) if hidden > 0 else None,
        said["names"] if opened.contents.names else None,
        _covers(opened, tone),
        _excludes(opened),
        _record(opened, tone),
        tuple(_fill(text, {"origin": origin}) for text in said["check"]),
        _identity(opened),
    )


def qr_text(opened: OpenContents) -> str:
    """What the QR code holds."""
    keys = " ".join(_signers(opened))
    return (
        f"expunge certificate v1\nkey {keys}\nleaf {opened.leaf.hash.hex()}\n"
        f"number {opened.leaf.index}\nledger {opened.head.origin}"
    )


def _facts(opened: OpenContents, tone: Tone) -> tuple[Pair, ...]:
    said, event = words()["fact"], opened.leaf.event
    dropped = event is not None and opened.summary is None
    return (
        (said["subject"], _subject(opened)),
        (said["what"], _what(opened, tone)),
        (said["store"], opened.head.origin),
        (said["time"], _time(opened.leaf.stated.time)),
        (said["actor"], _stated(opened, "actor", opened.leaf.stated.request.actor)),
        (said["case"], _stated(opened, "case", opened.leaf.stated.request.case)),
        (said["how"], _how(opened, "dropped" if dropped else tone)),
    )


def _subject(opened: OpenContents) -> str:
    said, shown = words()["subject"], opened.revealed("subject")
    if shown is not None:
        return _fill(said["revealed"], {"text": shown.text})
    return str(said["unnamed" if opened.summary is None else "hidden"])


def _what(opened: OpenContents, tone: Tone) -> str:
    said, receipt = words(), opened.leaf.receipt
    word: str
    if receipt is None:
        word = "dropped" if opened.summary is None else tone
    else:
        word = {"refused": "nothing", "edit": receipt.outcome}.get(tone, tone)
    done = sum(part["outcome"] in ERASED for part in summary_parts(opened.summary)) or 1
    values = {
        "entries": str(_entries(opened)),
        "memories": _count(said["memories"], done),
        "kept": _count(said["kept"], _kept(opened)),
    }
    return _fill(_count(said["what"][word], _entries(opened)), values)


def _how(opened: OpenContents, word: str) -> str:
    receipt = opened.leaf.receipt
    refusal = None if receipt is None else receipt.refusal
    reason = "" if refusal is None else words()["reason"][refusal.reason]
    return _fill(words()["how"][word], {"reason": reason})


def _stated(opened: OpenContents, what: What, digest: str | None) -> str:
    said, shown = words()["stated"], opened.revealed(what)
    if shown is not None:
        return _fill(said["revealed"], {"text": shown.text})
    return str(said["none" if digest is None else "hidden"][what])


def _time(text: str) -> str:
    said = words()
    year, month, day = text[:10].split("-")
    values = {"day": str(int(day)), "month": said["months"][int(month) - 1], "year": year, "clock": text[11:19]}
    return _fill(said["time"], values)


def _memory_rows(opened: OpenContents) -> list[Row]:
    """One row for each memory, those that kept something first."""
    said, leaf = words()["outcome"], opened.leaf
    if opened.summary is None:
        outcome = "dropped" if leaf.receipt is None else leaf.receipt.outcome
        return [_memory_row(opened, leaf.stated.memory, said[outcome], _entries(opened), leaf)]
    by_index = {counted.index: counted for counted in opened.counted}
    parts = sorted(
        summary_parts(opened.summary), key=lambda part: (0 if part["outcome"] in _KEPT else 1, part["memory"])
    )
    return [
        _memory_row(opened, part["memory"], said[part["outcome"]], part["entries"], by_index.get(part["leaf"]))
        for part in parts
    ]


def _memory_row(
    opened: OpenContents, uuid: str | None, outcome: str, entries: int, leaf: OpenLeaf | None
) -> tuple[str, ...]:
    name = opened.name(uuid or "")
    memory = str(uuid) if name is None else f"{name} ({uuid})"
    refusal = None if leaf is None or leaf.receipt is None else leaf.receipt.refusal
    reason = words()["reason"]["unknown" if refusal is None else refusal.reason]
    time, index = ("–", "–") if leaf is None else (leaf.stated.time[:19].replace("T", " "), str(leaf.index))
    return (memory, _fill(outcome, {"reason": reason}), str(entries), time, index)


def _covers(opened: OpenContents, tone: Tone) -> Row:
    said = words()["covers"]
    found: list[str]
    if opened.summary is None:
        found = ["dropped" if opened.leaf.receipt is None else opened.leaf.receipt.covers]
    else:
        found = ["incomplete" if tone == "incomplete" else "subject_erased"]
        found += [leaf.receipt.covers for leaf in opened.counted if leaf.receipt is not None]
    kept = [word for word in dict.fromkeys(found) if word != "nothing" or opened.summary is None]
    absent = opened.copies_by_finding["absent"]
    copies = [_count(words()["copies"]["covered"], absent)] if absent else []
    return (*(said[word] for word in kept), *copies, said["lasting"])


def _excludes(opened: OpenContents) -> Row:
    """What the document does not cover; copies in mirrors are named by what was found of them."""
    marked, copies, *rest = words()["excludes"]
    if not opened.copies:
        return (marked, copies, *rest)
    said, found = words()["copies"], opened.copies_by_finding
    left = [_count(said[word], found[word]) for word in ("in_files", "not_checkable", "pending") if found[word]]
    return (marked, said["excludes"], *left, *rest)


def _record(opened: OpenContents, tone: Tone) -> tuple[Pair, ...]:
    said, stated, count = words(), opened.leaf.stated, _entries(opened)
    label = said["record"]
    receipts = [leaf.receipt for leaf in (opened.leaf, *opened.counted) if leaf.receipt is not None]
    outcomes = {receipt.outcome for receipt in receipts}
    if tone in ("refused", "nothing"):
        verification = "unchanged"
    else:
        verification = "recomputed" if tone == "edit" or outcomes & set(_RECOMPUTED) else "none"
    requested = None if opened.summary is None else opened.summary.facts["requested"]
    rule = "edit" if tone == "edit" else "request" if requested is None else "due"
    values = {"request": stated.request.id, "leaf": str(requested)}
    tool = f"{receipts[0].solver.name} {receipts[0].solver.version}" if receipts else "expunge"
    erased = count > 0 and tone in ("erased", "incomplete")
    return (
        (label["target"], _count(said["target"], count)),
        (label["method"], said["method"]),
        (label["technique"], said["technique"]["erased" if erased else "none"]),
        (label["tool"], tool),
        (label["verification"], said["verification"][verification]),
        (label["rule"], _fill(said["rule"][rule], values)),
        (label["responsible"], _stated(opened, "actor", stated.request.actor)),
        (label["by_hand"], ""),
    )


def _identity(opened: OpenContents) -> tuple[Pair, ...]:
    said, head, stamps = words(), opened.head, len(opened.contents.timestamps)
    label = said["identity"]
    note = opened.leaf.proof.checkpoint
    witnesses = list(dict.fromkeys(line.name for line in note.signatures if line.name != head.origin))
    shown = ", ".join([*witnesses[:_MOST_WITNESSES], *(["…"] if len(witnesses) > _MOST_WITNESSES else [])])
    return (
        (label["key"], " ".join(_signers(opened))),
        (label["leaf"], opened.leaf.hash.hex()),
        (label["number"], _fill(said["number"], {"index": str(opened.leaf.index), "origin": head.origin})),
        (label["head"], _fill(said["head"], {"size": str(head.size), "root": head.root.hex()})),
        (label["witnesses"], shown or said["nobody"]),
        (label["timestamps"], _count(said["timestamps"], stamps) if stamps else said["no_timestamps"]),
    )


def _signers(opened: OpenContents) -> list[str]:
    return [signature.key_id for signature in opened.leaf.envelope.signatures]


def _entries(opened: OpenContents) -> int:
    """How many entries the leaf is about."""
    receipt, event = opened.leaf.receipt, opened.leaf.event
    if receipt is not None:
        return receipt.applied.count
    if opened.summary is not None:
        return sum(part["entries"] for part in summary_parts(opened.summary))
    facts: Mapping[str, Any] = {} if event is None else event.facts
    return int(facts["live"]) + int(facts["pruned"])


def _kept(opened: OpenContents) -> int:
    return sum(part["outcome"] in _KEPT for part in summary_parts(opened.summary))


def _count(forms: Mapping[str, str], count: int) -> str:
    return _fill(forms["one" if count == 1 else "other"], {"count": str(count)})


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in their places, in one pass: a value may look like a place."""
    return re.sub(r"\{([a-z]+)\}", lambda found: values.get(found[1], found[0]), text)
