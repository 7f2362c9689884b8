"""``expunge export``: the ledger in formats of other software."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.commands.handle_requests import export_subject
from expunge.cli.context import CommandContext, read_file, write_file
from expunge.cli.head_files import head_content, parse_head
from expunge.cli.options import ForceOption
from expunge.errors import InputError

__all__ = ["register"]

_BATCH = 4096


def register(app: typer.Typer) -> None:
    """Register the commands."""
    export = group(
        "export",
        summary="Write a person's entries, or the ledger in other formats.",
        examples=[
            "expunge export subject patient-17 --out patient-17.json",
            "expunge export tiles --out public/",
            "expunge export cose 3 --out erasure.cose",
        ],
    )
    command(
        export,
        "subject",
        examples=[
            "expunge export subject patient-17 --out patient-17.json",
            "expunge export subject patient-17 --out patient-17 --format csv",
        ],
    )(export_subject)
    command(
        export,
        "tiles",
        examples=[
            "expunge export tiles --out public/",
            "expunge export tiles --out public/ --head cosigned.txt",
            "expunge verify tiles public/ --trust log.vkey",
        ],
    )(tiles)
    command(
        export,
        "cose",
        examples=["expunge export cose 3 --out erasure.cose", "expunge export cose 3 --head cosigned.txt --out e.cose"],
    )(cose)
    app.add_typer(export, rich_help_panel="Account")


def tiles(
    context: CommandContext,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder that is published.")],
    head: Annotated[
        Path | None, typer.Option("--head", metavar="FILE", help="End with this head, which witnesses cosigned.")
    ] = None,
) -> None:
    """Write the log as static files that any web server can publish (C2SP tlog-tiles).

    A folder that has an earlier head is continued: only new tiles are written, and the head last. It is refused if its
    head is of another log, or if the log was rewritten since.
    """
    from expunge.ledger.merkle.tiles import write_tiles
    from expunge.verify import verify_consistency

    with context.store() as store:
        note = store.checkpoint() if head is None else parse_head(read_file(head))[1]
        stated = parse_head(note.to_bytes())[0]
        published = out / "checkpoint"
        kept = parse_head(read_file(published))[1] if published.is_file() else None
        if kept is not None:
            old = parse_head(kept.to_bytes())[0]
            if old.size > stated.size:
                raise InputError(f"{out} has a head of {old.size} leaves, and this one has {stated.size}")
            extension = store.consistency(old.size, note).to_bytes()
            verify_consistency(kept.to_bytes(), extension, [store.log_key], store.origin)
        else:
            # A head that is not of this log would end in tiles that do not lead to it.
            store.consistency(0, note)

        def leaves(start: int) -> Iterator[bytes]:
            while batch := store.receipts(start=start, limit=_BATCH):
                for leaf in batch:
                    yield leaf.envelope
                start += len(batch)

        written = write_tiles(out, note, leaves, kept=kept)
    context.show(
        {**head_content(stated), "folder": out, "written": written},
        f"{out}: {stated.size} leaves of {stated.origin}, {written} files written",
    )


def cose(
    context: CommandContext,
    index: Annotated[int, typer.Argument(metavar="INDEX", help="The leaf.", min=0)],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Write it here.")],
    head: Annotated[
        Path | None, typer.Option("--head", metavar="FILE", help="Prove inclusion under this earlier head.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a leaf with its inclusion proof as one COSE message (RFC 9942 receipt; extra: cose).

    For verifiers that read COSE: the payload is the signed receipt as it stands in the log.
    """
    if out.exists() and not force:
        raise InputError(f"{out} exists; choose another name, or --force to replace it")
    kept = None if head is None else parse_head(read_file(head))[1]
    with context.store() as store:
        data, proof = store.cose(index, kept)
    write_file(out, data, force=force)
    stated = parse_head(proof.checkpoint.to_bytes())[0]
    context.show(
        {"index": index, "file": out, "bytes": len(data), "head": head_content(stated)},
        f"{out}: leaf {index} of {stated.origin} under its head at {stated.size} leaves, {len(data)} bytes",
    )
