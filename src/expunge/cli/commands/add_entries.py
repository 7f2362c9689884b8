"""Commands that put entries in: create, import, admit."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, read_file
from expunge.cli.options import DryRunOption, EvidenceOption, ExpectedOption, IdempotencyOption, MemoryArgument
from expunge.cli.vector_arguments import VECTOR_HELP, parse_vectors
from expunge.errors import ExpungeError, InputError

if TYPE_CHECKING:
    from expunge.datasets.table_files import Table

__all__ = ["register"]

FORMATS = "csv|tsv|jsonl|parquet|npy|npz"

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help=f"{FORMATS.replace('|', ', ')}; - is standard input.")
]
KeyColumnsOption = Annotated[
    str, typer.Option("--key-columns", metavar="COLUMNS", help="Names, patterns or (arrays) ranges such as 0:6.")
]
ValueColumnsOption = Annotated[str, typer.Option("--value-columns", metavar="COLUMNS", help="Likewise.")]
IdColumnOption = Annotated[
    str | None, typer.Option("--id-column", metavar="COLUMN", help="Its id; else id, if there is one.")
]
SubjectColumnOption = Annotated[
    str | None,
    typer.Option("--subject-column", metavar="COLUMN", help="Whose entry it is; else subject."),
]
PayloadColumnOption = Annotated[
    str | None,
    typer.Option(
        "--payload-column",
        metavar="COLUMNS",
        help="The original, kept with the entry; several make one object. Else payload.",
    ),
]
FormatOption = Annotated[str | None, typer.Option("--format", metavar=FORMATS, help="Where the name does not tell.")]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "create",
        panel="Set up",
        examples=[
            "expunge create icu-7 hours.csv --sigma 2 --nu 0.4",
            "expunge create icu-7 hours.csv --sigma 2 --nu 0.4 \\\n"
            "--key-columns hr,sbp,rr --value-columns spo2 --subject-column patient",
            "expunge create notes notes.jsonl --sigma 0.6 --nu 0.8 \\\n--key-columns embedding --value-columns topics",
            "expunge create points points.npy --sigma 1 --cap 0.05 \\\n--key-columns 0:6 --value-columns 6",
        ],
    )(create)
    command(
        app,
        "import",
        panel="Set up",
        examples=[
            "expunge import icu-7 next-day.csv --subject-column patient",
            "expunge import icu-7 next-day.csv --dry-run",
            "zcat more.gz | expunge import notes - --format jsonl --skip-existing",
        ],
    )(import_)
    command(
        app,
        "admit",
        panel="Edit",
        examples=[
            "expunge admit icu-7 --at 0.1,-0.4,0.2,1.1,0.3,-0.2 --value 97,0 \\\n--id h073 --subject patient-17",
            "expunge admit notes --at @key.npy --value @topics.json --payload hello",
            "expunge admit icu-7 --at 0,0,0,0,0,0 --value 97,0 --dry-run",
        ],
    )(admit)


def create(
    context: CommandContext,
    name: MemoryArgument,
    file: FileArgument,
    sigma: Annotated[float, typer.Option("--sigma", metavar="S", help="Width of the kernel exp(−‖a−b‖²/σ²).")],
    nu: Annotated[
        float | None,
        typer.Option("--nu", metavar="N", help="Sparsity in (0, 1]: sets the cap C = 1/(νn), now and for good."),
    ] = None,
    cap: Annotated[float | None, typer.Option("--cap", metavar="C", help="The cap itself, instead of --nu.")] = None,
    key_columns: KeyColumnsOption = "k*",
    value_columns: ValueColumnsOption = "v*",
    id_column: IdColumnOption = None,
    subject_column: SubjectColumnOption = None,
    payload_column: PayloadColumnOption = None,
    file_format: FormatOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Fit a new memory to the entries of a file.

    The store is made if it is not there yet, and a signing key beside it unless --signing-key names one; a new key is
    encrypted if $EXPUNGE_PASSPHRASE is set.
    """
    from expunge.cli.output import duration_text, fields, group_sizes
    from expunge.problem.problem import Problem
    from expunge.store.store import check_name

    check_name(name)
    table = _read_table(file, key_columns, value_columns, id_column, subject_column, payload_column, file_format)
    # What cannot be fitted should not leave an empty store behind.
    Problem.of(table.keys, sigma=sigma, nu=nu, cap=cap)
    started = time.perf_counter()
    if dry_run:
        from expunge.memory.memory import Memory

        if context.file is not None and context.file.exists():
            with context.store() as store:
                if name in store.names():
                    raise InputError(f"there is a memory {name!r} already; take another name")
        fitted = Memory.fit(**table.arguments, sigma=sigma, nu=nu, cap=cap)
        groups, deletable = group_sizes(fitted.partition), fitted.deletable
        size, limit, check, index = len(fitted), fitted.cap, fitted.check(), None
    else:
        with context.store(create=True) as store:
            memory = store.create(name, **table.arguments, sigma=sigma, nu=nu, cap=cap)
            groups, deletable = group_sizes(memory.partition), memory.deletable
            size, limit, check = len(memory), memory.cap, memory.check()
            index = store.receipts(name, limit=1)[0].index
    elapsed = time.perf_counter() - started
    content = {
        "name": name,
        "dry_run": dry_run,
        "entries": size,
        **groups,
        "cap": limit,
        "sigma": sigma,
        "deletable": deletable,
        "worst_error": check.worst,
        "key_columns": table.key_names,
        "value_columns": table.value_names,
        "index": index,
        "seconds": elapsed,
    }
    context.show(
        content,
        fields(
            [
                ("memory", f"{name}{' (dry run: nothing was stored)' if dry_run else ''}"),
                ("entries", f"{size}: {', '.join(f'{count} {group}' for group, count in groups.items())}"),
                ("keys", _column_names(table.key_names)),
                ("values", _column_names(table.value_names)),
                ("cap, width", f"{limit:.6g}, {sigma:g}; {deletable} entries can be deleted at this cap"),
                ("check", f"worst error {check.worst:.0e}, allowed {check.tolerance:.0e}"),
                ("receipt", "" if index is None else f"leaf {index} of the ledger (expunge log {index})"),
                ("took", duration_text(elapsed)),
            ]
        ),
    )


def import_(
    context: CommandContext,
    name: MemoryArgument,
    file: FileArgument,
    key_columns: KeyColumnsOption = "k*",
    value_columns: ValueColumnsOption = "v*",
    id_column: IdColumnOption = None,
    subject_column: SubjectColumnOption = None,
    payload_column: PayloadColumnOption = None,
    file_format: FormatOption = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Pass over ids that are there already.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Admit the entries of a file to a memory, one by one.

    Each gets its own receipt. The whole file is read and checked before the first entry is admitted. If something stops
    it on the way, what was admitted stays admitted: run it again with --skip-existing, if the file has ids.
    """
    table = _read_table(file, key_columns, value_columns, id_column, subject_column, payload_column, file_format)
    if skip_existing and table.ids is None:
        raise InputError(f"{table.source} has no ids to tell what is there already; --skip-existing needs --id-column")
    started = time.perf_counter()
    with context.store() as store:
        memory = store[name]
        for what, found, needed in (
            ("keys", table.keys.shape[1], memory.dimension),
            ("values", table.values.shape[1], memory.values.shape[1]),
        ):
            if found != needed:
                raise InputError(f"{table.source}: {what} of {found} columns, but {name!r} has {needed}")
        taken = {*memory.ids, *(row.id for row in memory.warranties())}
        rows = list(enumerate(table.rows(), 1))
        known = [(number, row["id"]) for number, row in rows if row["id"] in taken]
        if known and not skip_existing:
            number, entry = known[0]
            raise InputError(
                f"{table.source}, row {number}: id {entry!r} is taken in {name!r} ({len(known)} in all); "
                "--skip-existing passes over them"
            )
        rows = [(number, row) for number, row in rows if row["id"] not in taken]
        expired: list[str] = []
        reactivated: list[str] = []
        if not dry_run:
            with context.progress(f"Importing into {name}", len(rows)) as step:
                for done, (number, row) in enumerate(rows):
                    try:
                        receipt = memory.admit(row.pop("key"), row.pop("value"), **row)
                    except (ExpungeError, KeyboardInterrupt):
                        context.note(
                            f"{done} of {len(rows)} entries were admitted before row {number} of {table.source}"
                        )
                        raise
                    expired += receipt.details.get("expired", ())
                    reactivated += receipt.details.get("reactivated", ())
                    step()
        size = len(memory)
    from expunge.cli.output import counted, duration_text, fields

    elapsed = time.perf_counter() - started
    content = {
        "name": name,
        "dry_run": dry_run,
        "admitted": 0 if dry_run else len(rows),
        "would_admit": len(rows),
        "skipped": len(known),
        "entries": size,
        "expired": expired,
        "reactivated": reactivated,
        "seconds": elapsed,
    }
    entries = counted(len(rows), "entry")
    admitted = f"would admit {entries}; nothing was done" if dry_run else f"{entries}, one receipt each"
    context.show(
        content,
        fields(
            [
                ("memory", f"{name}: {size} entries"),
                ("admitted", admitted),
                ("skipped", f"{len(known)} that were there already" if known else ""),
                ("warranties", _warranty_changes(expired, reactivated)),
                ("took", duration_text(elapsed)),
            ]
        ),
    )


def admit(
    context: CommandContext,
    name: MemoryArgument,
    at: Annotated[str, typer.Option("--at", metavar="VECTOR", help=f"The key: {VECTOR_HELP}")],
    value: Annotated[str, typer.Option("--value", metavar="VECTOR", help="The value, likewise.")],
    entry: Annotated[str | None, typer.Option("--id", metavar="ID", help="A new id; else a free number.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", metavar="NAME", help="Whose entry it is.")] = None,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON|TEXT|@FILE", help="The original, kept with the entry."),
    ] = None,
    on_expiry: Annotated[
        str,
        typer.Option(
            "--on-expiry", metavar="report|refuse", help="What to do if this ends certificates of pruned entries."
        ),
    ] = "report",
    evidence: EvidenceOption = None,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Add one entry to a memory.

    The new state counts only once its check has passed; otherwise the admission is refused and nothing changes.
    """
    from expunge.cli.evidence_files import state_before
    from expunge.cli.output import show_edit

    if on_expiry not in ("report", "refuse"):
        raise InputError(f"--on-expiry is report or refuse, not {on_expiry!r}")
    keys, values = parse_vectors(at, "--at"), parse_vectors(value, "--value")
    if len(keys) != 1 or len(values) != 1:
        raise InputError("admit takes one entry; use import for many")
    extra: dict[str, Any] = {
        "id": entry,
        "subject": subject,
        "payload": _parse_payload(payload),
        "on_expiry": on_expiry,
    }
    with context.store() as store:
        memory = store[name]
        if dry_run:
            show_edit(context, memory.admit(keys[0], values[0], **extra, dry_run=True, expected=expected), name)
            return
        prior = None if evidence is None else state_before(memory, evidence)
        receipt = memory.admit(
            keys[0],
            values[0],
            **extra,
            expected=expected or (memory.digest if evidence else None),
            idempotency_key=idempotency_key,
        )
        show_edit(context, receipt, name, store=store, memory=memory, evidence=evidence, prior=prior)


def _read_table(
    file: str,
    keys: str,
    values: str,
    entry: str | None,
    subject: str | None,
    payload: str | None,
    file_format: str | None,
) -> Table:
    from expunge.datasets.table_files import Columns, read_table

    return read_table(file, Columns(keys, values, entry, subject, payload), kind=file_format)


def _parse_payload(text: str | None) -> Any:
    """JSON where it is JSON, else the text itself; a file's content likewise, or its bytes."""
    if text is None:
        return None
    if text.startswith("@"):
        data = read_file(Path(text[1:]))
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return data
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _column_names(names: tuple[str, ...]) -> str:
    return f"{len(names)}: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"


def _warranty_changes(expired: list[str], reactivated: list[str]) -> str:
    parts = [f"{len(expired)} expired"] if expired else []
    return ", ".join(parts + ([f"{len(reactivated)} came back from the archive"] if reactivated else []))
