"""Commands that keep a store safe: backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, read_file
from expunge.errors import InputError

__all__ = ["register"]

PANEL = "Keep"


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "backup",
        panel=PANEL,
        examples=["expunge backup monday.db", "expunge backup monday.db --store sqlite:///ward.db"],
    )(backup)
    command(
        app,
        "restore",
        panel=PANEL,
        examples=[
            "expunge restore monday.db --store sqlite:///new.db \\\n--signing-key expunge.db.key",
            "expunge restore monday.db --store sqlite:///new.db \\\n"
            "--signing-key expunge.db.key --ledger log.jsonl --checkpoint kept.txt",
        ],
    )(restore)


def backup(
    context: CommandContext, file: Annotated[Path, typer.Argument(metavar="FILE", help="A new SQLite file.")]
) -> None:
    """Write a copy of the whole store.

    It is consistent, and without the signing key. A backup holds content. Whatever is erased from the store later is
    still in it: restore it only with the newest ledger, and destroy backups when their time has come.
    """
    from expunge.cli.output import counted

    with context.store() as store, context.progress("Copying", None):
        store.backup(file)
        size, names = store.size, store.names()
    context.show(
        {"file": file, "memories": names, "leaves": size},
        f"{file}: {counted(len(names), 'memory')}, {counted(size, 'leaf', 'leaves')} of the ledger",
    )


def restore(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    ledger: Annotated[
        Path | None, typer.Option("--ledger", metavar="FILE", help="The newest ledger there is (expunge log --out).")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="A kept head that the ledger must reach; else LEDGER.checkpoint, if it is there.",
        ),
    ] = None,
) -> None:
    """Fill a new store from a backup; the erased stays erased.

    Every erasure that the ledger records is applied again. Needs --signing-key: the restored store continues the ledger
    that this key signs. Content that was erased after the backup never reaches the new database. Without --ledger,
    erasures made after the backup are not known and not applied.
    """
    from expunge.cli.commands.sign_heads import parse_head
    from expunge.cli.output import counted, fields

    if context.signing_key is None:
        raise InputError("the restored store continues its ledger: give --signing-key with the key of the old store")
    if not context.signing_key.exists():
        raise InputError(f"there is no key file at {context.signing_key}; restoring needs the key of the old store")
    beside = None if ledger is None else Path(f"{ledger}.checkpoint")
    if checkpoint is None and beside is not None and beside.is_file():
        # What expunge log --out writes beside it: a ledger that was cut would bring back what was erased.
        checkpoint = beside
    kept = None if checkpoint is None else parse_head(read_file(checkpoint))[1]
    new = context.file is not None and not context.file.exists()
    done = False
    try:
        with context.store(create=True) as store, context.progress("Restoring", None):
            result = store.restore(file, ledger=ledger, checkpoint=kept)
            size = store.size
            done = True
    finally:
        # An empty store that this command made is in nobody's way.
        if new and not done and context.file is not None:
            for end in ("", "-wal", "-shm"):
                Path(f"{context.file}{end}").unlink(missing_ok=True)
    erased = sum(len(names) for names in result.erased_again.values())
    context.show(
        {**vars(result), "leaves": size},
        fields(
            [
                ("restored", ", ".join(result.memories) or "nothing"),
                ("erased again", f"{erased} entries" if erased else "none needed"),
                ("stay dropped", ", ".join(result.dropped)),
                ("lost", "; ".join(f"{name}: {reason}" for name, reason in result.lost.items())),
                ("edits lost", str(result.edits_lost) if result.edits_lost else ""),
                (
                    "HOLDS LOST",
                    f"{counted(result.holds_lost, 'hold')} placed after the backup: place them again before anything "
                    "is erased"
                    if result.holds_lost
                    else "",
                ),
                ("ledger", f"{size} leaves"),
            ]
        ),
    )
    if ledger is None:
        context.note("No --ledger: erasures made after the backup are not known here.")
    elif checkpoint is None:
        context.note(f"No {beside} and no --checkpoint: a ledger that was cut short would not be noticed.")
