"""Commands about the ledger: log, export-evidence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, jsonable, print_json_lines, read_file, write_file
from expunge.cli.evidence_files import save_bundle
from expunge.cli.head_files import head_content, parse_head
from expunge.cli.options import ForceOption
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.ledger.note import SignedNote
    from expunge.store import Leaf, Store

__all__ = ["register"]

PANEL = "Account"

HeadOption = Annotated[
    Path | None,
    typer.Option(
        "--head",
        metavar="FILE",
        help="Lead the inclusion proof to this head, which witnesses cosigned, instead of to a new one.",
    ),
]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "log",
        panel=PANEL,
        examples=[
            "expunge log",
            "expunge log --memory icu-7 -n 50",
            "expunge log 12",
            "expunge log 12 --out erasure.json",
            "expunge log 12 --out erasure.json --head cosigned.txt",
            "expunge log --out log.jsonl",
        ],
    )(log)
    command(
        app,
        "export-evidence",
        panel=PANEL,
        examples=[
            "expunge export-evidence icu-7 --out icu-7.zip",
            "expunge export-evidence icu-7 --out icu-7.zip --proof",
            "expunge verify evidence icu-7.zip --trust log.vkey --no-prior",
        ],
    )(export_evidence)


def log(
    context: CommandContext,
    index: Annotated[
        int | None, typer.Argument(metavar="INDEX", help="One leaf; else the latest are listed.", min=0)
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="NAME", help="Only of this memory.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="How many to list.", min=1)] = 20,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="With INDEX: write the signed receipt, and its inclusion proof beside it (.tlog-proof). "
            "Without: write every leaf, one per line, the head beside it (.checkpoint), and which cases a restore may "
            "bring back (.cases).",
        ),
    ] = None,
    head: HeadOption = None,
) -> None:
    """List the log of receipts, show one, or write it out.

    Receipts hold no content and no ids: entries appear as salted commitments.
    """
    if memory is not None and (index is not None or out is not None):
        raise InputError("--memory goes with the list; a leaf has its number, and the log is written whole")
    if head is not None and (index is None or out is None):
        raise InputError("--head goes with INDEX and --out: it is the head that an inclusion proof leads to")
    with context.store() as store:
        if index is not None:
            _show_leaf(context, store, index, out, head)
        elif out is not None:
            _write_log(context, store, out)
        else:
            _list_leaves(context, store, memory, count)


def export_evidence(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The memory.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the bundle goes.")],
    proof: Annotated[bool, typer.Option("--proof", help="Prove the partition too (extra: proof).")] = False,
    head: HeadOption = None,
    force: ForceOption = False,
) -> None:
    """Write what a stranger needs to recompute a receipt.

    The receipt is that of the memory's latest edit. The bundle holds the keys and values of every remaining entry, but
    no id, subject or payload: handle it like them. The state before the edit is only known while the edit is made: for
    that, use --evidence of delete, prune, admit or erase-subject.
    """
    from expunge.cli.output import fields

    if out.exists() and not force:
        raise InputError(f"{out} exists; choose another name, or --force to replace it")
    kept = _read_head(head)
    with context.store() as store:
        memory = store[name]
        edits = [leaf for leaf in store.receipts(name) if leaf.edit is not None and leaf.kind != "expired"]
        index = edits[-1].index
        with context.progress(f"Exporting {name}", None):
            save_bundle(out, store, memory, None, index, prove=proof, head=kept)
        size = len(memory)
    context.show(
        {"file": out, "name": name, "index": index, "outcome": edits[-1].kind, "entries": size},
        fields(
            [
                ("evidence", str(out)),
                ("of", f"leaf {index}: {edits[-1].kind}"),
                ("holds", f"keys and values of {size} entries"),
                ("verify", f"expunge verify evidence {out} --trust KEY --no-prior"),
            ]
        ),
    )


def _read_head(head: Path | None) -> SignedNote | None:
    """The signed head in a file, also one that an extension proof leads to."""
    return None if head is None else parse_head(read_file(head))[1]


def _show_leaf(context: CommandContext, store: Store, index: int, out: Path | None, head: Path | None) -> None:
    from expunge.cli.output import event_rows, fields, signed_receipt_panel
    from expunge.ledger.receipt_format import PREDICATE_TYPE
    from expunge.ledger.receipt_parsing import parse_predicate

    leaf = store.leaf(index)
    if out is not None:
        _require_new(out)
        proof = out.with_suffix(".tlog-proof")
        if proof == out:
            raise InputError(f"{out} is the name of the inclusion proof that goes beside it; use another ending")
        _require_new(proof)
        inclusion = store.inclusion(index, _read_head(head)).to_bytes()
        write_file(out, leaf.envelope)
        write_file(proof, inclusion)
        context.show(
            {"index": index, "receipt": out, "inclusion": proof},
            f"{out}: the signed receipt\n{proof}: its place in the log",
        )
        return
    name = _names_by_uuid(store).get(leaf.memory or "")
    statement = leaf.statement
    predicate = jsonable(statement.predicate)
    if context.as_json:
        about = {"index": index, "kind": leaf.kind, "name": name, "type": statement.predicate_type}
        print_json_lines([{**about, "receipt": predicate}])
    elif statement.predicate_type == PREDICATE_TYPE:
        stated = parse_predicate(statement)
        context.out.print(signed_receipt_panel(stated, title=f"receipt {index}: {name or 'a memory that is gone'}"))
    else:
        context.out.print(fields([("leaf", str(index)), *event_rows(predicate)]))


def _write_log(context: CommandContext, store: Store, out: Path) -> None:
    head_file, cases_file = Path(f"{out}.checkpoint"), Path(f"{out}.cases")
    for file in (head_file, cases_file):
        _require_new(file)
    note = store.export_ledger(out)
    write_file(head_file, note.to_bytes())
    write_file(cases_file, "".join(f"{number}\n" for number in store.case_numbers()).encode())
    head, _ = parse_head(note.to_bytes())
    context.show(
        {**head_content(head), "log": out, "checkpoint": head_file, "cases": cases_file},
        f"{out}: {head.size} leaves\n{head_file}: the head that they lead to\n"
        f"{cases_file}: the cases that are not erased, by number, for a restore",
    )


def _require_new(path: Path) -> None:
    """Receipts and heads come in pairs of files, and one without the other should not be left."""
    if os.path.lexists(path):
        raise InputError(f"{path} exists; choose another name")


def _list_leaves(context: CommandContext, store: Store, memory: str | None, count: int) -> None:
    from expunge.cli.output import listing

    leaves = store.receipts(start=max(0, store.size - count)) if memory is None else store.receipts(memory)[-count:]
    names = _names_by_uuid(store)
    rows = [{"index": leaf.index, "name": names.get(leaf.memory or ""), **_summary(leaf)} for leaf in leaves]
    if context.as_json:
        print_json_lines(rows)
        return
    cells = [
        [str(row["index"]), row["time"].replace("T", " ").rstrip("Z"), row["kind"], row["name"] or "", row["what"]]
        for row in rows
    ]
    context.out.print(listing(["leaf", "time (UTC)", "outcome", "memory", "what"], cells, right=["leaf"], whole=True))
    if store.size > len(rows):
        context.note(f"{store.size} leaves in all")


def _names_by_uuid(store: Store) -> dict[str, str]:
    return {store[name].uuid: name for name in store.names()}


def _summary(leaf: Leaf) -> dict[str, Any]:
    """Time and gist of a leaf."""
    from expunge.cli.output import counted, erasure_complete
    from expunge.ledger.event import FOUND
    from expunge.ledger.receipt_format import PREDICATE_TYPE
    from expunge.ledger.receipt_parsing import parse_predicate
    from expunge.store import parse_event

    if leaf.statement.predicate_type != PREDICATE_TYPE:
        event = parse_event(leaf.statement)
        facts = jsonable(event.facts)
        if event.kind in ("subject_erased", "erased"):
            erased = sum(part["entries"] for part in facts["memories"])
            what = f"summary: {counted(erased, 'entry')} in {counted(len(facts['memories']), 'memory')}"
            what += f", ended by {facts['due']}" if facts.get("due") else ""
            what += f", {facts['held']} kept by holds" if facts.get("held") else ""
            what += "" if erasure_complete({"facts": facts}) else ", NOT COMPLETE"
        elif event.kind == "mirror_checked":
            sums = {word: sum(part[word] for part in facts["findings"]) for word in FOUND}
            leaves = ", ".join(str(part["leaf"]) for part in facts["findings"])
            what = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in sums.items() if count)
            what += f", of leaf {leaves}" if len(facts["findings"]) < 4 else f", of {len(facts['findings'])} leaves"
        else:
            what = ", ".join(f"{word} {fact}" for word, fact in facts.items() if fact is not None)
        return {"kind": leaf.kind, "edit": None, "time": event.time, "what": what}
    stated = parse_predicate(leaf.statement)
    parts = [counted(stated.applied.count, "entry") if stated.applied.count else ""]
    parts += [
        f"{getattr(stated, word).count} {word}"
        for word in ("reactivated", "renewed", "expired", "ended")
        if getattr(stated, word).count
    ]
    parts.append("" if stated.refusal is None else stated.refusal.reason.replace("_", " "))
    what = ", ".join(part for part in [*parts, f"{stated.after.live} live"] if part)
    return {"kind": leaf.kind, "edit": stated.edit, "time": stated.time, "what": what}
