"""Commands that put entries in: create, import, admit."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import Session, read_file
from expunge.cli.edit_options import EvidenceOption, ExpectedOption, IdempotencyOption, finish, prior_of
from expunge.cli.vector_arguments import VECTOR_HELP, parse_vectors
from expunge.errors import ExpungeError, InputError

if TYPE_CHECKING:
    from expunge.datasets.table_files import Table

__all__ = ["add"]

FORMATS = "csv|tsv|jsonl|parquet|npy|npz"

File = Annotated[str, typer.Argument(metavar="FILE", help=f"{FORMATS.replace('|', ', ')}; - is standard input.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The memory.")]
KeyColumns = Annotated[
    str, typer.Option("--key-columns", metavar="COLUMNS", help="Names, patterns or (arrays) ranges such as 0:6.")
]
ValueColumns = Annotated[str, typer.Option("--value-columns", metavar="COLUMNS", help="Likewise.")]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", metavar="COLUMN", help="[default: id, if there is one]", show_default=False)
]
SubjectColumn = Annotated[
    str | None,
    typer.Option(
        "--subject-column", metavar="COLUMN", help="Whose entry it is. [default: subject]", show_default=False
    ),
]
PayloadColumn = Annotated[
    str | None,
    typer.Option(
        "--payload-column",
        metavar="COLUMNS",
        help="The original, kept with the entry; several make one object. [default: payload]",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar=FORMATS, help="Where the name does not tell.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.", show_default=False)]


def add(app: typer.Typer) -> None:
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
    session: Session,
    name: Name,
    file: File,
    sigma: Annotated[
        float, typer.Option("--sigma", metavar="S", help="Width of the kernel exp(−‖a−b‖²/σ²).", show_default=False)
    ],
    nu: Annotated[
        float | None,
        typer.Option(
            "--nu",
            metavar="N",
            help="Sparsity in (0, 1]: sets the cap C = 1/(νn), now and for good.",
            show_default=False,
        ),
    ] = None,
    cap: Annotated[
        float | None, typer.Option("--cap", metavar="C", help="The cap itself, instead of --nu.", show_default=False)
    ] = None,
    key_columns: KeyColumns = "k*",
    value_columns: ValueColumns = "v*",
    id_column: IdColumn = None,
    subject_column: SubjectColumn = None,
    payload_column: PayloadColumn = None,
    kind: Format = None,
    dry_run: DryRun = False,
) -> None:
    """Fit a new memory to the entries of a file.

    The store is made if it is not there yet, and a signing key beside it unless --key names one; a new key is encrypted
    if $EXPUNGE_PASSPHRASE is set.
    """
    from expunge.problem.problem import Problem
    from expunge.store.store import check_name

    check_name(name)
    table = _table(file, key_columns, value_columns, id_column, subject_column, payload_column, kind)
    # What cannot be fitted should not leave an empty store behind.
    Problem.of(table.keys, sigma=sigma, nu=nu, cap=cap)
    started = time.perf_counter()
    if dry_run:
        from expunge.memory.memory import Memory

        if session.file is not None and session.file.exists():
            with session.store() as store:
                if name in store.names():
                    raise InputError(f"there is a memory {name!r} already; take another name")
        fitted = Memory.fit(**table.arguments, sigma=sigma, nu=nu, cap=cap)
        groups, deletable = fitted.partition, fitted.deletable
        size, limit, check, index = len(fitted), fitted.cap, fitted.check(), None
    else:
        with session.store(create=True) as store:
            memory = store.create(name, **table.arguments, sigma=sigma, nu=nu, cap=cap)
            groups, deletable = memory.partition, memory.deletable
            size, limit, check = len(memory), memory.cap, memory.check()
            index = store.receipts(name, limit=1)[0].index
    took = time.perf_counter() - started
    from expunge.cli.output import fields, seconds

    content = {
        "name": name,
        "dry_run": dry_run,
        "entries": size,
        "margin": int(groups.margin.size),
        "bound": int(groups.bound.size),
        "reserve": int(groups.reserve.size),
        "cap": limit,
        "sigma": sigma,
        "deletable": deletable,
        "worst_error": check.worst,
        "key_columns": table.key_names,
        "value_columns": table.value_names,
        "index": index,
        "seconds": took,
    }
    session.show(
        content,
        fields(
            [
                ("memory", f"{name}{' (dry run: nothing was stored)' if dry_run else ''}"),
                (
                    "entries",
                    f"{size}: {groups.margin.size} margin, {groups.bound.size} bound, {groups.reserve.size} reserve",
                ),
                ("keys", _columns(table.key_names)),
                ("values", _columns(table.value_names)),
                ("cap, width", f"{limit:.6g}, {sigma:g}; {deletable} entries can be deleted at this cap"),
                ("check", f"worst error {check.worst:.0e}, allowed {check.tolerance:.0e}"),
                ("receipt", "" if index is None else f"leaf {index} of the ledger (expunge log {index})"),
                ("took", seconds(took)),
            ]
        ),
    )


def import_(
    session: Session,
    name: Name,
    file: File,
    key_columns: KeyColumns = "k*",
    value_columns: ValueColumns = "v*",
    id_column: IdColumn = None,
    subject_column: SubjectColumn = None,
    payload_column: PayloadColumn = None,
    kind: Format = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Pass over ids that are there already.", show_default=False)
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Admit the entries of a file to a memory, one by one.

    Each gets its own receipt. The whole file is read and checked before the first entry is admitted. If something stops
    it on the way, what was admitted stays admitted: run it again with --skip-existing, if the file has ids.
    """
    table = _table(file, key_columns, value_columns, id_column, subject_column, payload_column, kind)
    if skip_existing and table.ids is None:
        raise InputError(f"{table.source} has no ids to tell what is there already; --skip-existing needs --id-column")
    started = time.perf_counter()
    with session.store() as store:
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
            with session.progress(f"Importing into {name}", len(rows)) as step:
                for done, (number, row) in enumerate(rows):
                    try:
                        receipt = memory.admit(row.pop("key"), row.pop("value"), **row)
                    except (ExpungeError, KeyboardInterrupt):
                        session.note(
                            f"{done} of {len(rows)} entries were admitted before row {number} of {table.source}"
                        )
                        raise
                    expired += receipt.details.get("expired", ())
                    reactivated += receipt.details.get("reactivated", ())
                    step()
        size = len(memory)
    from expunge.cli.output import counted, fields, seconds

    took = time.perf_counter() - started
    content = {
        "name": name,
        "dry_run": dry_run,
        "admitted": 0 if dry_run else len(rows),
        "would_admit": len(rows),
        "skipped": len(known),
        "entries": size,
        "expired": expired,
        "reactivated": reactivated,
        "seconds": took,
    }
    entries = counted(len(rows), "entry")
    admitted = f"would admit {entries}; nothing was done" if dry_run else f"{entries}, one receipt each"
    session.show(
        content,
        fields(
            [
                ("memory", f"{name}: {size} entries"),
                ("admitted", admitted),
                ("skipped", f"{len(known)} that were there already" if known else ""),
                ("warranties", _ended(expired, reactivated)),
                ("took", seconds(took)),
            ]
        ),
    )


def admit(
    session: Session,
    name: Name,
    at: Annotated[str, typer.Option("--at", metavar="VECTOR", help=f"The key: {VECTOR_HELP}", show_default=False)],
    value: Annotated[str, typer.Option("--value", metavar="VECTOR", help="The value, likewise.", show_default=False)],
    entry: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="A new id; else a free number.", show_default=False)
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Whose entry it is.", show_default=False)
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload", metavar="JSON|TEXT|@FILE", help="The original, kept with the entry.", show_default=False
        ),
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
    dry_run: DryRun = False,
) -> None:
    """Add one entry to a memory.

    The new state counts only once its check has passed; otherwise the admission is refused and nothing changes.
    """
    if on_expiry not in ("report", "refuse"):
        raise InputError(f"--on-expiry is report or refuse, not {on_expiry!r}")
    keys, values = parse_vectors(at, "--at"), parse_vectors(value, "--value")
    if len(keys) != 1 or len(values) != 1:
        raise InputError("admit takes one entry; use import for many")
    extra: dict[str, Any] = {"id": entry, "subject": subject, "payload": _payload(payload), "on_expiry": on_expiry}
    with session.store() as store:
        memory = store[name]
        if dry_run:
            finish(session, memory.admit(keys[0], values[0], **extra, dry_run=True, expected=expected), name)
            return
        prior = prior_of(memory, evidence)
        receipt = memory.admit(
            keys[0],
            values[0],
            **extra,
            expected=expected or (memory.digest if evidence else None),
            idempotency_key=idempotency_key,
        )
        finish(session, receipt, name, store=store, memory=memory, evidence=evidence, prior=prior)


def _table(
    file: str,
    keys: str,
    values: str,
    entry: str | None,
    subject: str | None,
    payload: str | None,
    kind: str | None,
) -> Table:
    from expunge.datasets.table_files import Columns, read_table

    return read_table(file, Columns(keys, values, entry, subject, payload), kind=kind)


def _payload(text: str | None) -> Any:
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


def _columns(names: tuple[str, ...]) -> str:
    return f"{len(names)}: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"


def _ended(expired: list[str], reactivated: list[str]) -> str:
    parts = [f"{len(expired)} expired"] if expired else []
    return ", ".join(parts + ([f"{len(reactivated)} came back from the archive"] if reactivated else []))
