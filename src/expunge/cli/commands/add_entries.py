"""Commands that put entries in: create, import, admit."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, read_file
from expunge.cli.options import (
    ActorOption,
    CaseOption,
    DryRunOption,
    EvidenceOption,
    ExpectedOption,
    IdempotencyOption,
    MemoryArgument,
    RayOption,
    parse_end,
)
from expunge.cli.ray_option import workers_of
from expunge.cli.table_options import (
    AlsoMissingOption,
    ColumnsFileOption,
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    ExpiresColumnOption,
    FileArgument,
    FormatOption,
    HeaderOption,
    IdColumnOption,
    KeyColumnsOption,
    LeaveOutOption,
    MissingOption,
    OptionalFileArgument,
    PayloadColumnOption,
    PreviewOption,
    ScaleOption,
    SkipLinesOption,
    SourcesColumnOption,
    SubjectColumnOption,
    ValueColumnsOption,
    table_options,
)
from expunge.cli.vector_arguments import VECTOR_HELP, parse_keys, parse_values
from expunge.errors import ExpungeError, InputError

if TYPE_CHECKING:
    from expunge.preprocessing import Column

__all__ = ["register"]

# What `admit_many` calls lists of what `admit` takes one of.
_PLURALS = {"expires": "expires", "derived_from": "derived_from"}
EMPTY = "none: the memory is empty"


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "create",
        panel="Set up",
        examples=[
            "expunge create icu-7 hours.csv",
            "expunge create icu-7 hours.csv --preview",
            "expunge create icu-7 hours.csv --missing drop --sigma 2 --nu 0.4 \\\n"
            "--key-columns hr,sbp,rr --value-columns spo2 --subject-column patient",
            "expunge create notes notes.jsonl --sigma 0.6 --nu 0.8 \\\n--key-columns embedding --value-columns topics",
            "expunge create points points.npy --sigma 1 --cap 0.05 \\\n--key-columns 0:6 --value-columns 6",
            "expunge create archive embeddings.npy --key-columns 0:384 \\\n--value-columns 384 --ray 10.0.0.5:6379",
            "expunge create later --sigma 2 --nu 0.4 --dimension 6 --value-dimension 2",
        ],
    )(create)
    command(
        app,
        "import",
        panel="Set up",
        examples=[
            "expunge import icu-7 next-day.csv --subject-column patient",
            "expunge import icu-7 next-day.csv --preview",
            "expunge import icu-7 next-day.csv --dry-run",
            "expunge import facts facts.jsonl --expires-column until \\\n--sources-column made_from",
            "zcat more.gz | expunge import notes - --format jsonl --skip-existing --each",
        ],
    )(import_)
    command(
        app,
        "admit",
        panel="Edit",
        examples=[
            "expunge admit icu-7 --at 0.1,-0.4,0.2,1.1,0.3,-0.2 --value 97,0 \\\n--id h073 --subject patient-17",
            "expunge admit notes --at @key.npy --value @topics.json --payload hello",
            "expunge admit icu-7 --at @keys.npy --value @values.npy --subject patient-17",
            "expunge admit icu-7 --at hr=80,sbp=120,rr=16 --subject patient-17",
            "expunge admit facts --at @key.npy --value @topics.json --expires 30d \\\n"
            '--derived-from \'["talks","t12"]\'',
            "expunge admit icu-7 --at 0,0,0,0,0,0 --value 97,0 --dry-run",
        ],
    )(admit)


def create(
    context: CommandContext,
    name: MemoryArgument,
    file: OptionalFileArgument = None,
    sigma: Annotated[
        str,
        typer.Option(
            "--sigma", metavar="S|auto", help="Width of the kernel exp(−‖a−b‖²/σ²); auto: the median distance."
        ),
    ] = "auto",
    nu: Annotated[
        float | None,
        typer.Option(
            "--nu", metavar="N", help="Sparsity in (0, 1]: sets the cap C = 1/(νn), now and for good. Else 0.1."
        ),
    ] = None,
    cap: Annotated[float | None, typer.Option("--cap", metavar="C", help="The cap itself, instead of --nu.")] = None,
    preview: PreviewOption = False,
    dry_run: DryRunOption = False,
    key_columns: KeyColumnsOption = None,
    value_columns: ValueColumnsOption = None,
    id_column: IdColumnOption = None,
    subject_column: SubjectColumnOption = None,
    expires_column: ExpiresColumnOption = None,
    sources_column: SourcesColumnOption = None,
    payload_column: PayloadColumnOption = None,
    leave_out: LeaveOutOption = None,
    missing: MissingOption = None,
    also_missing: AlsoMissingOption = None,
    scale: ScaleOption = None,
    columns_file: ColumnsFileOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    header: HeaderOption = None,
    skip_lines: SkipLinesOption = None,
    file_format: FormatOption = None,
    dimension: Annotated[
        int | None,
        typer.Option("--dimension", metavar="D", help="Coordinates of a key, for an empty memory instead of a FILE."),
    ] = None,
    value_dimension: Annotated[
        int, typer.Option("--value-dimension", metavar="D", help="Coordinates of a value, likewise.")
    ] = 1,
    ray: RayOption = None,
) -> None:
    """Fit a memory to entries from a file, or make an empty one.

    A table needs no options: format, delimiter, encoding and decimal mark are found; keys are the columns of numbers,
    centred and scaled; missing numbers are filled in with the median. Every guess is printed, with the option that
    changes it, and --preview shows all of them before anything is stored. --ray spreads the kernel rows of a very large
    fit over a cluster; the memory has the same bits.

    The store is made if it is not there yet, and a signing key beside it unless --signing-key names one; a new key is
    encrypted if $EXPUNGE_PASSPHRASE is set.
    """
    options = table_options(locals())
    from expunge.cli.output import duration_text, fields, group_sizes
    from expunge.preprocessing.width import DEFAULT_NU
    from expunge.problem.problem import Problem
    from expunge.store.store import check_name
    from expunge.tables import read_table

    check_name(name)
    if file not in (name, "-") and Path(name).is_file() and (file is None or not Path(file).exists()):
        raise InputError(
            f"{name} is a file, and the memory's name comes first: expunge create {Path(name).stem} {name}"
        )
    if (file is None) == (dimension is None):
        raise InputError("give a FILE with entries, or --dimension for a memory that is empty, and one of them")
    notices: tuple[str, ...] = ()
    if file is None:
        if sigma == "auto":
            raise InputError("an empty memory has no keys to choose a width from: give --sigma")
        arguments, key_names, value_names = _no_entries(dimension or 0, value_dimension)
    else:
        table = read_table(file, options)
        arguments, key_names, value_names = table.arguments, table.key_names, table.value_names
        notices = table.notices
    nu = DEFAULT_NU if nu is None and cap is None else nu
    width: float | Literal["auto"] = "auto" if sigma == "auto" else _number("--sigma", sigma)
    # What cannot be fitted should not leave an empty store behind.
    Problem.of(arguments["keys"], sigma=1.0 if width == "auto" else width, nu=nu, cap=cap, empty=file is None)
    if preview:
        if file is None:
            raise InputError("--preview shows a FILE")
        from expunge.cli.table_preview import show_preview

        show_preview(context, name, table, None if width == "auto" else width, nu)
        return
    started = time.perf_counter()
    if dry_run:
        from expunge.memory.memory import Memory

        if context.file is not None and context.file.exists():
            with context.store() as store:
                if name in store.names():
                    raise InputError(f"there is a memory {name!r} already; take another name")
        with workers_of(ray), context.stages(f"Fitting {name}") as progress:
            # Sources may be in memories that are looked up when entries are admitted.
            without_sources = arguments | {"derived_from": None}
            fitted = Memory.fit(**without_sources, sigma=width, nu=nu, cap=cap, progress=progress)
        groups, deletable = group_sizes(fitted.partition), fitted.deletable
        size, limit, check, index = len(fitted), fitted.cap, fitted.version.check, None
        report = fitted.report()
    else:
        with context.store(create=True) as store:
            with workers_of(ray), context.stages(f"Creating {name}") as progress:
                memory = store.create(name, **arguments, sigma=width, nu=nu, cap=cap, progress=progress)
            groups, deletable = group_sizes(memory.partition), memory.deletable
            size, limit, check = len(memory), memory.cap, memory.version.check
            report = memory.report()
            index = store.receipts(name, limit=1)[0].index
    elapsed = time.perf_counter() - started
    content = {
        "name": name,
        "dry_run": dry_run,
        "entries": size,
        **groups,
        "cap": limit,
        "sigma": report.sigma,
        "report": report.to_json(),
        "deletable": deletable,
        "worst_error": check.worst,
        "key_columns": key_names,
        "value_columns": value_names,
        "notices": notices,
        "index": index,
        "seconds": elapsed,
    }
    for notice in notices:
        context.note(notice)
    context.show(
        content,
        fields(
            [
                ("memory", f"{name}{' (dry run: nothing was stored)' if dry_run else ''}"),
                (
                    "entries",
                    f"{size}: {', '.join(f'{count} {group}' for group, count in groups.items())}" if size else EMPTY,
                ),
                ("keys", _column_names(key_names)),
                ("values", _column_names(value_names)),
                ("cap, width", f"{limit:.6g}, {report.sigma:.6g}"),
                *(("fit", line) for line in (report.lines() if size else ())),
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
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Pass over ids that are there already.")
    ] = False,
    each: Annotated[bool, typer.Option("--each", help="One edit and one receipt per entry, instead of one.")] = False,
    preview: PreviewOption = False,
    dry_run: DryRunOption = False,
    key_columns: KeyColumnsOption = None,
    value_columns: ValueColumnsOption = None,
    id_column: IdColumnOption = None,
    subject_column: SubjectColumnOption = None,
    expires_column: ExpiresColumnOption = None,
    sources_column: SourcesColumnOption = None,
    payload_column: PayloadColumnOption = None,
    leave_out: LeaveOutOption = None,
    missing: MissingOption = None,
    also_missing: AlsoMissingOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    header: HeaderOption = None,
    skip_lines: SkipLinesOption = None,
    file_format: FormatOption = None,
) -> None:
    """Admit the entries of a file to a memory, in one edit.

    The memory's columns are found by name, in any order, and filled and scaled as the memory's are. One receipt names
    all entries: all are admitted, or none. With --each every entry has its own; if something stops it on the way, what
    was admitted stays admitted: run it again with --skip-existing, if the file has ids. The whole file is read and
    checked before the first entry is admitted.
    """
    given = locals()
    from expunge.tables import read_table

    started = time.perf_counter()
    with context.store() as store:
        memory = store[name]
        columns = memory.preprocessing
        if columns is None:
            # A memory without columns holds coordinates: nothing is scaled, and there is no fill.
            given |= {"scale": "none", "missing": missing or "refuse"}
        table = read_table(file, table_options(given, columns))
        several = any(owner not in (None, entry) for entry, owner in zip(memory.ids, memory.subjects, strict=True))
        if id_column is None and table.named_by_subject and several:
            # One row per person is a coincidence of this file: tomorrow's would have the same ids.
            table = table.without_ids()
        if skip_existing and table.ids is None:
            raise InputError(
                f"{table.source} has no ids to tell what is there already; --skip-existing needs --id-column"
            )
        for what, found, needed in (
            ("keys", table.keys.shape[1], memory.dimension),
            ("values", table.values.shape[1], memory.values.shape[1]),
        ):
            if found != needed:
                raise InputError(f"{table.source}: {what} of {found} columns, but {name!r} has {needed}")
        if preview:
            from expunge.cli.table_preview import show_preview

            show_preview(context, name, table, memory.sigma)
            return
        taken = {*memory.ids, *(row.id for row in memory.warranties())}
        rows = list(zip(table.rows.tolist(), table.entries(), strict=True))
        known = [(number, row["id"]) for number, row in rows if row["id"] in taken]
        if known and not skip_existing:
            number, entry = known[0]
            raise InputError(
                f"{table.source}, row {number}: id {entry!r} is taken in {name!r} ({len(known)} in all); "
                "--skip-existing passes over them, --id-column none makes new ids"
            )
        rows = [(number, row) for number, row in rows if row["id"] not in taken]
        expired: list[str] = []
        reactivated: list[str] = []
        if not dry_run and not each and rows:
            receipt = memory.admit_many(**_columns(row for _, row in rows))
            expired += receipt.details.get("expired", ())
            reactivated += receipt.details.get("reactivated", ())
        elif not dry_run:
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
        "notices": table.notices,
        "entries": size,
        "expired": expired,
        "reactivated": reactivated,
        "seconds": elapsed,
    }
    entries = counted(len(rows), "entry")
    admitted = (
        f"would admit {entries}; nothing was done"
        if dry_run
        else f"{entries}, {'one receipt each' if each else 'one receipt'}"
    )
    for notice in table.notices:
        context.note(notice)
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
    value: Annotated[
        str | None,
        typer.Option(
            "--value", metavar="VECTOR", help="The value, likewise; not needed where values are the keys' measurements."
        ),
    ] = None,
    entry: Annotated[str | None, typer.Option("--id", metavar="ID", help="A new id; else a free number.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", metavar="NAME", help="Whose entry it is.")] = None,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON|TEXT|@FILE", help="The original, kept with the entry."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME|SPAN", help="When it ends, as in 2027-01-31 or 30d.")
    ] = None,
    derived_from: Annotated[
        list[str] | None,
        typer.Option("--derived-from", metavar="ID|JSON", help='What it was made from: an id, or ["MEMORY","ID"].'),
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
    case: CaseOption = None,
    actor: ActorOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Add an entry to a memory, or several in one edit.

    Where --at and --value name files with several rows, all are admitted with one receipt, or none; --subject and
    --payload are then those of each, and ids are random. The new state counts only once its check has passed; otherwise
    the admission is refused and nothing changes.
    """
    from expunge.cli.evidence_files import state_before
    from expunge.cli.output import show_edit

    if on_expiry not in ("report", "refuse"):
        raise InputError(f"--on-expiry is report or refuse, not {on_expiry!r}")
    original = _parse_payload(payload)
    with context.store() as store:
        memory = store[name]
        preprocessing = memory.preprocessing
        given = parse_keys([at], "--at", preprocessing, memory.dimension)
        keys = given.keys
        if value is not None:
            values = parse_values(value, "--value", preprocessing)
        elif preprocessing is not None and _names(preprocessing.values) == _names(preprocessing.keys):
            values = parse_values(at, "--at", preprocessing)
        else:
            raise InputError("--value is missing: the values of this memory are not the keys' own measurements")
        count = len(keys)
        if count != len(values):
            raise InputError(f"{count} keys, and {len(values)} values: each entry needs one of both")
        if entry is not None and count != 1:
            raise InputError(f"--id names one entry, and --at has {count}; use import for many with ids")
        if used := given.note(preprocessing):
            context.note(used)
        extra: dict[str, Any] = {
            "ids": None if entry is None else [entry],
            "subjects": [subject] * count,
            "payloads": [original] * count,
            "expires": None if expires is None else [parse_end("--expires", expires)] * count,
            "derived_from": [[_parse_source(text) for text in derived_from]] * count if derived_from else None,
            "on_expiry": on_expiry,
        }
        if dry_run:
            show_edit(context, memory.admit_many(keys, values, **extra, dry_run=True, expected=expected), name)
            return
        prior = None if evidence is None else state_before(memory, evidence)
        receipt = memory.admit_many(
            keys,
            values,
            **extra,
            expected=expected or (memory.digest if evidence else None),
            idempotency_key=idempotency_key,
            case=case,
            actor=actor,
        )
        show_edit(context, receipt, name, store=store, memory=memory, evidence=evidence, prior=prior)


def _names(columns: Iterable[Column]) -> set[str]:
    return {column.name for column in columns}


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} is a number or auto, not {text!r}") from None


def _no_entries(dimension: int, value_dimension: int) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """What `Store.create` takes for an empty memory, and names of the coordinates."""
    import numpy as np

    if dimension < 1 or value_dimension < 1:
        raise InputError("--dimension and --value-dimension are 1 at least")
    keys = tuple(f"k{place}" for place in range(dimension))
    values = tuple(f"v{place}" for place in range(value_dimension))
    return {"keys": np.empty((0, dimension)), "values": np.empty((0, value_dimension))}, keys, values


def _columns(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What `admit_many` takes, from rows as `admit` takes them; ids that are free where the file has none."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, cell in row.items():
            columns.setdefault(_PLURALS.get(name, f"{name}s"), []).append(cell)
    if any(one is None for one in columns["ids"]):
        columns["ids"] = [secrets.token_hex(8) if one is None else one for one in columns["ids"]]
    return columns


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


def _parse_source(text: str) -> Any:
    """An id, or in JSON a memory and an id."""
    if not text.lstrip().startswith("["):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return tuple(found) if isinstance(found, list) and len(found) == 2 else text


def _column_names(names: tuple[str, ...]) -> str:
    return f"{len(names)}: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"


def _warranty_changes(expired: list[str], reactivated: list[str]) -> str:
    parts = [f"{len(expired)} expired"] if expired else []
    return ", ".join(parts + ([f"{len(reactivated)} came back from the archive"] if reactivated else []))
