"""Commands about the ledger: log, checkpoint export, cosign and check, export-evidence."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command import command, group
from expunge.cli.editing import save_evidence
from expunge.cli.failure import PASSPHRASE
from expunge.cli.session import Session, read_file, write_file
from expunge.cli.trust import OriginOption, TrustOption, trusted
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.ledger.checkpoint import Checkpoint
    from expunge.ledger.note import SignedNote
    from expunge.store import Leaf, Store

__all__ = ["add", "head_content", "head_of"]

PANEL = "Account"

Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.", show_default=False)]


def add(app: typer.Typer) -> None:
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
            "expunge log --out log.jsonl",
        ],
    )(log)
    checkpoint = group(
        "checkpoint",
        summary="Signed heads of the log: export one, cosign one, hold the log to one.",
        examples=[
            "expunge checkpoint export --out head.txt",
            "expunge checkpoint check head.txt",
            "expunge checkpoint cosign head.txt --name witness.example/w1 --key w1.pem --trust log.vkey --out cosigned.txt",
        ],
    )
    command(
        checkpoint,
        "export",
        examples=[
            "expunge checkpoint export",
            "expunge checkpoint export --out head.txt",
            "expunge checkpoint export --since kept.txt --out extension.txt",
        ],
    )(export)
    command(
        checkpoint,
        "cosign",
        examples=[
            "expunge checkpoint cosign head.txt --name witness.example/w1 --key w1.pem --trust log.vkey --out cosigned.txt",
            "expunge checkpoint cosign extension.txt --older kept.txt --name witness.example/w1 --key w1.pem --trust log.vkey",
        ],
    )(cosign)
    command(
        checkpoint,
        "check",
        examples=["expunge checkpoint check kept.txt", "expunge checkpoint check kept.txt --trust log.vkey --json"],
    )(check)
    app.add_typer(checkpoint, rich_help_panel=PANEL)
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
    session: Session,
    index: Annotated[
        int | None,
        typer.Argument(metavar="[INDEX]", help="One leaf; else the latest are listed.", min=0, show_default=False),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="NAME", help="Only of this memory.", show_default=False)
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="How many to list.", min=1)] = 20,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="With INDEX: write the signed receipt, and its inclusion proof beside it (.tlog-proof). "
            "Without: write every leaf, one a line, and the head beside it (.checkpoint).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """List the log of receipts, show one of them, or write it out for somebody else to verify.

    Receipts hold no content and no ids: entries appear as salted commitments.
    """
    with session.store() as store:
        if index is not None:
            _one(session, store, index, out)
        elif out is not None:
            _whole(session, store, out)
        else:
            _latest(session, store, memory, count)


def export(
    session: Session,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it here.", show_default=False)
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since",
            metavar="FILE",
            help="Export the proof that the log only grew since this head.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Export the signed head of the log, or the proof that it extends an older one.

    Give heads away, often: whoever keeps one can later show that the log was truncated or rewritten, if it was.
    """
    with session.store() as store:
        if since is None:
            data = store.checkpoint().to_bytes()
        else:
            data = store.consistency(_within(store, head_of(read_file(since))[0])).to_bytes()
    head, _ = head_of(data)
    if out is not None:
        write_file(out, data, force=force)
    if session.as_json:
        session.lines([{**head_content(head), "file": out, "text": data.decode()}])
    elif out is None:
        print(data.decode(), end="")
    else:
        session.out.print(f"{out}: head of {head.origin} at {head.size} leaves", markup=False)


def cosign(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head, or with --older an extension proof.")],
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="The witness's name.", show_default=False)],
    trust: TrustOption = None,
    origin: OriginOption = None,
    older: Annotated[
        Path | None,
        typer.Option(
            "--older", metavar="FILE", help="The head cosigned last; the new one must extend it.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it here.", show_default=False)
    ] = None,
    force: Force = False,
) -> None:
    """Cosign a head as a witness, with --key.

    Verifies the log's signature first and, with --older, that nothing was cut off or rewritten since the head that was
    cosigned last. Without --older the cosignature only says that this head was seen.
    """
    from expunge.ledger.checkpoint import cosign_checkpoint, verify_checkpoint
    from expunge.ledger.note import NoteAlgorithm, NoteKey
    from expunge.ledger.signing import load_signing_key
    from expunge.verify import verify_consistency

    if session.signing_key is None:
        raise InputError("a witness signs with its own key: give --key (expunge keygen makes one)")
    log_keys, log = trusted(trust, origin).log
    data = read_file(file)
    head, note = head_of(data)
    if older is not None:
        verify_consistency(read_file(older), data, log_keys, log)
    else:
        verify_checkpoint(note, log_keys, log)
    key = load_signing_key(session.signing_key, _passphrase())
    signed = cosign_checkpoint(note, name, key, int(time.time())).to_bytes()
    witness = NoteKey(name, key.public, NoteAlgorithm.COSIGNATURE_V1).to_text()
    if out is not None:
        write_file(out, signed, force=force)
    if session.as_json:
        session.lines(
            [
                {
                    **head_content(head),
                    "witness": witness,
                    "extends": older is not None,
                    "file": out,
                    "text": signed.decode(),
                }
            ]
        )
        return
    if out is None:
        print(signed.decode(), end="")
    else:
        session.out.print(f"{out}: head of {head.origin} at {head.size} leaves, cosigned by {name}", markup=False)
    session.note(f"witness key: {witness}")


def check(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head that was kept.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
) -> None:
    """Check the store's log against a head that was kept: it must only have grown since.

    Exits with 1 if the log was truncated, rewritten or replaced.
    """
    from expunge.verify import verify_consistency

    kept = read_file(file)
    head, _ = head_of(kept)
    with session.store() as store:
        keys = trusted(trust or [store.log_key.to_text()], origin)
        proof = store.consistency(_within(store, head))
    verify_consistency(kept, proof.to_bytes(), *keys.log)
    new, _ = head_of(proof.to_bytes())
    session.show(
        {"verified": True, "kept": head_content(head), "now": head_content(new)},
        f"[bold green]verified[/]  {new.size} leaves now extend the {head.size} of {file}",
    )


def export_evidence(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The memory.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the bundle goes.", show_default=False)],
    proof: Annotated[
        bool, typer.Option("--proof", help="Prove the partition too (extra: proof).", show_default=False)
    ] = False,
    force: Force = False,
) -> None:
    """Write an evidence bundle of a memory's latest edit, from which a stranger recomputes the numbers.

    The bundle holds the keys and values of every remaining entry, but no id, subject or payload: handle it like them.
    The state before the edit is only known while the edit is made: for that, use --evidence of delete, prune,
    admit or erase-subject.
    """
    from expunge.cli.render import fields

    if out.exists() and not force:
        raise InputError(f"{out} exists; choose another name, or --force to replace it")
    with session.store() as store:
        memory = store[name]
        edits = [leaf for leaf in store.receipts(name) if leaf.edit is not None and leaf.kind != "expired"]
        index = edits[-1].index
        with session.progress(f"Exporting {name}", None):
            save_evidence(out, store, memory, None, index, prove=proof)
        size = len(memory)
    session.show(
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


def head_of(data: bytes) -> tuple[Checkpoint, SignedNote]:
    """The head in a checkpoint or in an extension proof; not verified."""
    from expunge.ledger.checkpoint import parse_checkpoint
    from expunge.ledger.log_proof import parse_extension_proof
    from expunge.ledger.note import parse_note

    note = parse_extension_proof(data).checkpoint if data.startswith(b"old ") else parse_note(data)
    return parse_checkpoint(note.text), note


def head_content(head: Checkpoint) -> dict[str, Any]:
    """A checkpoint as ``--json`` prints it."""
    return {"origin": head.origin, "size": head.size, "root": head.root.hex()}


def _within(store: Store, head: Checkpoint) -> int:
    """The size of a kept head, which the log must have reached."""
    from expunge.ledger.errors import ConsistencySizesReversed

    if head.size > store.size:
        raise ConsistencySizesReversed(f"the kept head has {head.size} leaves, the log {store.size}: it was truncated")
    return head.size


def _passphrase() -> str | None:
    return os.environ.get(PASSPHRASE) or None


def _one(session: Session, store: Store, index: int, out: Path | None) -> None:
    from expunge.cli.render import fields, stated_panel
    from expunge.ledger.predicate import PREDICATE_TYPE, parse_predicate
    from expunge.store import parse_event

    leaf = store.leaf(index)
    if out is not None:
        proof = out.with_suffix(".tlog-proof")
        if proof == out:
            raise InputError(f"{out} is the name of the inclusion proof that goes beside it; use another ending")
        write_file(out, leaf.envelope)
        write_file(proof, store.inclusion(index).to_bytes())
        session.show(
            {"index": index, "receipt": out, "inclusion": proof},
            f"{out}: the signed receipt\n{proof}: its place in the log",
        )
        return
    name = _names(store).get(leaf.memory or "")
    statement = leaf.statement
    if session.as_json:
        predicate = dict(statement.predicate)
        session.lines(
            [{"index": index, "kind": leaf.kind, "name": name, "type": statement.predicate_type, "receipt": predicate}]
        )
    elif statement.predicate_type == PREDICATE_TYPE:
        stated = parse_predicate(statement)
        session.out.print(stated_panel(stated, title=f"receipt {index}: {name or 'a dropped memory'}"))
    else:
        event = parse_event(statement)
        facts = [(word, str(_plain(fact))) for word, fact in event.facts.items()]
        session.out.print(
            fields([("leaf", str(index)), ("event", event.kind), ("memory", name or ""), ("when", event.time), *facts])
        )


def _whole(session: Session, store: Store, out: Path) -> None:
    head_file = Path(f"{out}.checkpoint")
    if head_file.exists():
        raise InputError(f"{head_file} exists; choose another name")
    note = store.export_ledger(out)
    write_file(head_file, note.to_bytes())
    head, _ = head_of(note.to_bytes())
    session.show(
        {**head_content(head), "log": out, "checkpoint": head_file},
        f"{out}: {head.size} leaves\n{head_file}: the head that they lead to",
    )


def _latest(session: Session, store: Store, memory: str | None, count: int) -> None:
    from expunge.cli.render import listing

    leaves = store.receipts(start=max(0, store.size - count)) if memory is None else store.receipts(memory)[-count:]
    names = _names(store)
    rows = [{"index": leaf.index, "name": names.get(leaf.memory or ""), **_summary(leaf)} for leaf in leaves]
    if session.as_json:
        session.lines(rows)
        return
    cells = [
        [str(row["index"]), row["time"].replace("T", " ").rstrip("Z"), row["kind"], row["name"] or "", row["what"]]
        for row in rows
    ]
    session.out.print(listing(["leaf", "time (UTC)", "outcome", "memory", "what"], cells, right=["leaf"]))
    if store.size > len(rows):
        session.note(f"{store.size} leaves in all")


def _names(store: Store) -> dict[str, str]:
    return {store[name].uuid: name for name in store.names()}


def _summary(leaf: Leaf) -> dict[str, Any]:
    """Time and gist of a leaf."""
    from expunge.ledger.predicate import PREDICATE_TYPE, parse_predicate
    from expunge.store import parse_event

    if leaf.statement.predicate_type != PREDICATE_TYPE:
        event = parse_event(leaf.statement)
        facts = _plain(event.facts)
        if event.kind == "subject_erased":
            erased = sum(part["entries"] for part in facts["memories"])
            what = f"summary: {erased} entries in {len(facts['memories'])} memories"
        else:
            what = ", ".join(f"{word} {fact}" for word, fact in facts.items())
        return {"kind": leaf.kind, "edit": None, "time": event.time, "what": what}
    stated = parse_predicate(leaf.statement)
    parts = [f"{stated.applied.count} entries" if stated.applied.count else ""]
    parts += [
        f"{getattr(stated, word).count} {word}"
        for word in ("reactivated", "renewed", "expired")
        if getattr(stated, word).count
    ]
    parts.append("" if stated.refusal is None else stated.refusal.reason.replace("_", " "))
    what = ", ".join(part for part in [*parts, f"{stated.after.live} live"] if part)
    return {"kind": leaf.kind, "edit": stated.edit, "time": stated.time, "what": what}


def _plain(value: Any) -> Any:
    """Frozen JSON as ordinary dicts and lists."""
    if hasattr(value, "items"):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
