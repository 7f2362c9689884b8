"""Commands that keep a store safe: backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, print_json_lines, read_file
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
        "backups",
        panel=PANEL,
        examples=["expunge backups monday.db tuesday.db", "expunge backups *.backup --subject patient-17"],
    )(backups)
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


def backups(
    context: CommandContext,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Backups of this store.")],
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Count the entries of this person, too.")
    ] = None,
) -> None:
    """Say which backups still hold what was erased.

    An erasure does not reach backups. Counts, in each, the entries that the ledger says were erased since, and those
    of a person by name. Destroy a backup that holds any when its time has come.
    """
    from expunge.cli.output import listing

    with context.store() as store, context.progress("Scanning", None):
        found = store.scan_backups(*files, subject=subject)
    if context.as_json:
        print_json_lines(vars(scan) for scan in found)
    else:
        columns = ["file", "newest leaf", "leaves", "entries", "erased since"]
        columns += [] if subject is None else [f"of {subject}", "requests"]
        rows = [
            [
                scan.file,
                (scan.time or "").replace("T", " ").rstrip("Z"),
                f"0-{scan.leaves - 1}" if scan.leaves else "",
                str(scan.entries),
                "not known" if scan.erased is None else str(scan.erased),
                *([] if subject is None else [str(scan.of_subject), str(scan.requested)]),
            ]
            for scan in found
        ]
        context.out.print(listing(columns, rows, right=columns[3:]))


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
    from expunge.cli.head_files import parse_head
    from expunge.cli.output import counted, fields, joint_rows
    from expunge.ledger.signer_uri import file_of

    if context.signing_key is None:
        raise InputError("the restored store continues its ledger: give --signing-key with the key of the old store")
    key = file_of(context.signing_key)
    if key is not None and not key.exists():
        raise InputError(f"there is no key file at {key}; restoring needs the key of the old store")
    beside = None if ledger is None else Path(f"{ledger}.checkpoint")
    if checkpoint is None and beside is not None and beside.is_file():
        # What expunge log --out writes beside it: a ledger that was cut would bring back what was erased.
        checkpoint = beside
    listed = None if ledger is None else Path(f"{ledger}.cases")
    cases = _case_numbers(listed) if listed is not None and listed.is_file() else None
    kept = None if checkpoint is None else parse_head(read_file(checkpoint))[1]
    new = context.file is not None and not context.file.exists()
    done = False
    try:
        with context.store(create=True) as store, context.progress("Restoring", None):
            result = store.restore(file, ledger=ledger, checkpoint=kept, cases=cases)
            size = store.size
            done = True
    finally:
        # An empty store that this command made is in nobody's way.
        if new and not done and context.file is not None:
            for end in ("", "-wal", "-shm"):
                Path(f"{context.file}{end}").unlink(missing_ok=True)
    erased = sum(len(names) for names in result.erased_again.values())
    ended = sum(len(names) for names in result.retained.applied.values())
    context.show(
        {**vars(result), "retained": result.retained.to_json(), "leaves": size},
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
                (
                    "REQUESTS LOST",
                    f"{counted(result.requests_lost, 'erasure')} requested after the backup, with a delay: request "
                    "them again"
                    if result.requests_lost
                    else "",
                ),
                ("ended since", f"{counted(ended, 'entry')} erased" if ended else ""),
                *joint_rows(result.retained),
                ("cases", f"{counted(result.cases_lost, 'case')} did not come back" if result.cases_lost else ""),
                ("ledger", f"{size} leaves"),
                ("checked", f"erasures re-applied: {result.erasures} of {result.erasures}"),
            ]
        ),
    )
    if ledger is None:
        context.note("No --ledger: erasures made after the backup are not known here.")
    elif checkpoint is None:
        context.note(f"No {beside} and no --checkpoint: a ledger that was cut short would not be noticed.")


def _case_numbers(path: Path) -> list[int]:
    """The numbers of the cases that were not erased when a ledger was written."""
    try:
        return [int(line) for line in read_file(path).decode("ascii").split()]
    except ValueError:
        raise InputError(f"{path} does not list the numbers of cases") from None
