"""``expunge audit``: the paper's experiments, recomputed, on its data or on one's own keys.

Every experiment has a command; what they have in common is said once here. A new experiment is a line in
`expunge.audit.experiments` and one in `AUDITS`; other commands of the group are added in `add`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.context import CommandContext
from expunge.cli.table_options import (
    AlsoMissingOption,
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    FormatOption,
    HeaderOption,
    IdColumnOption,
    KeyColumnsOption,
    LeaveOutOption,
    MissingOption,
    ScaleOption,
    SkipLinesOption,
    SubjectColumnOption,
    ValueColumnsOption,
    table_options,
)
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.audit.engine import FinishedRun, Plan
    from expunge.audit.task_record import TaskRecord
    from expunge.tables import TableOptions

__all__ = ["AUDITS", "register"]

# What the help says of each; those that take one's own keys say so in an example.
AUDITS = {
    "rows": """Look at your own rows: weights, what can go, when certificates expire.

    All rows are fitted; then rows arrive one by one, and certificates that still hold are counted. Needs --keys.""",
    "expiry": """Follow a certificate until it expires (Example 1).

    Three keys, one of which weighs nothing and is dropped, and a fourth that would make it weigh something: what that
    costs, and what a warranty and an archive make of it.""",
    "deletion": """Delete, and compare with a refit at the same cap (Tables 3 and 4).

    Ours beside two independent solvers; the paper's update beside its own refit; coefficient decay.""",
    "projection": """Project both sides to the smallest coefficients (Tables 5 and 7).

    At every tolerance, each projection held to its optimality conditions.""",
    "latency": """Time a deletion beside the refits that could replace it.

    Active and reserve entries apart; LIBSVM and the paper's solver beside ours. Runs in one process.""",
    "sequential": """Chain deletions and admissions (Table 6).

    Our memory; the paper's first run, every box violation traced to a wrong-side event; the paper's guarded run.""",
    "streaming": """Prune while entries arrive (Table 1, third row).

    With warranties and an archive, without content, and naively, each beside a memory that never prunes.""",
    "records": """Edit single records on learned keys.

    Delete one fact and ask for all; correct one; and see what coefficient decay still tells.""",
    "selection": """Choose what stays when a context must shrink (Appendix A).

    Every policy at the same budget: rare groups, a control, event hours, a text memory; then a person goes.""",
    "all": """Run every audit, one after the other.

    With --keys, those that take one's own keys.""",
}
OWN_KEYS = ("rows", "deletion", "projection", "latency", "sequential", "streaming", "all")

OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the results go, one folder per audit.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", metavar="N", help="Workers; else one per core.", min=1)]
QuickOption = Annotated[bool, typer.Option("--quick", help="A small part of it, in minutes.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue what is in DIR.")]
KeysOption = Annotated[
    Path | None,
    typer.Option("--keys", metavar="FILE", help="Audit these keys (CSV, JSONL, Parquet, NPY)."),
]
SigmaOption = Annotated[
    float | None, typer.Option("--sigma", metavar="S", help="Width, with --keys; else the median distance.")
]
NuOption = Annotated[float | None, typer.Option("--nu", metavar="NU", help="Sparsity, with --keys; else 0.4.")]
ClinicalOption = Annotated[
    Path | None,
    typer.Option("--clinical", metavar="PATH", help="MIMIC-IV or PhysioNet 2019, not the open sample."),
]
BackendOption = Annotated[str, typer.Option("--backend", metavar="NAME", help="local, or ray for a cluster.")]
AddressOption = Annotated[
    str | None, typer.Option("--address", metavar="ADDRESS", help="Of a Ray cluster; else one is started.")
]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    audit = group(
        "audit",
        summary="Recompute the paper's tables, on its data or on your keys.",
        examples=[
            "expunge audit all --quick --out quick",
            "expunge audit deletion --keys mine.csv --out mine",
            "expunge verify evidence quick",
            "expunge audit report quick --out report",
        ],
    )
    for name, text in AUDITS.items():
        folder = f"--out {name}-audit" if name != "all" else "--out audit"
        examples = [f"expunge audit {name} --quick {folder}", f"expunge audit {name} {folder} --resume"]
        if name == "rows":
            examples = []
        if name in OWN_KEYS:
            examples.append(f"expunge audit {name} {folder} --keys mine.npy --sigma 2")
        command(audit, name, examples=examples)(_command(name, text))
    command(audit, "report", examples=["expunge audit report audit", "expunge audit report audit --out report"])(report)
    app.add_typer(audit, rich_help_panel="Account")


def report(
    context: CommandContext,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What expunge audit wrote.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where it goes; else DIR/report.")] = None,
) -> None:
    """Write the paper's tables beside both arms, with verdicts and figures.

    One HTML page that needs nothing else, and the same in Markdown. Say `expunge verify evidence DIR` first: a report
    is only as good as those results.
    """
    from expunge.audit.report.report import write_report

    with context.progress("Reporting", None):
        written = write_report(folder, out or folder / "report")
    context.show({"written": written}, *(str(path) for path in written))


def _command(name: str, text: str) -> Callable[..., None]:
    def run(
        context: CommandContext,
        out: OutOption = Path("expunge-audit"),
        jobs: JobsOption = None,
        quick: QuickOption = False,
        resume: ResumeOption = False,
        keys: KeysOption = None,
        sigma: SigmaOption = None,
        nu: NuOption = None,
        clinical: ClinicalOption = None,
        backend: BackendOption = "local",
        address: AddressOption = None,
        key_columns: KeyColumnsOption = None,
        value_columns: ValueColumnsOption = None,
        id_column: IdColumnOption = None,
        subject_column: SubjectColumnOption = None,
        leave_out: LeaveOutOption = None,
        missing: MissingOption = None,
        also_missing: AlsoMissingOption = None,
        scale: ScaleOption = None,
        delimiter: DelimiterOption = None,
        decimal: DecimalOption = None,
        encoding: EncodingOption = None,
        header: HeaderOption = None,
        skip_lines: SkipLinesOption = None,
        file_format: FormatOption = None,
    ) -> None:
        given = locals()
        from expunge.audit.experiments import EXPERIMENTS, OWN_ROWS, load_experiment

        plan = _plan(context, keys, table_options(given), sigma, nu, clinical, quick)
        if plan.clinical is not None and name != "all" and not load_experiment(name).clinical:
            able = ", ".join(one for one in EXPERIMENTS if load_experiment(one).clinical)
            raise InputError(f"{name} takes no stays of one's own; --clinical goes with {able}, or all")
        names = [name] if name != "all" else list(EXPERIMENTS)
        if name == "all" and plan.keys is not None:
            names = [OWN_ROWS, *(one for one in names if load_experiment(one).own_keys)]
        _run(context, names, out, plan, jobs, resume, backend, address)

    run.__doc__ = text
    return run


def _plan(
    context: CommandContext,
    keys: Path | None,
    options: TableOptions,
    sigma: float | None,
    nu: float | None,
    clinical: Path | None,
    quick: bool,
) -> Plan:
    from expunge.audit.engine import Plan
    from expunge.tables import OWN_VALUES, TableOptions, read_table

    if keys is None:
        for option, value in (("--key-columns", options.keys), ("--sigma", sigma), ("--nu", nu)):
            if value is not None:
                raise InputError(f"{option} goes with --keys; the paper's settings are fixed")
        if options != TableOptions():
            raise InputError("options that say how a table is read go with --keys")
        if clinical is not None and not clinical.exists():
            raise InputError(f"there is no {clinical} to read the clinical regime from")
        return Plan(quick=quick, clinical=None if clinical is None else str(clinical.resolve()))
    if clinical is not None:
        raise InputError("--clinical is for the paper's clinical regime, and --keys does without it")
    from expunge.audit.own_keys import own_plan

    table = read_table(keys, options)
    names = tuple(column.name for column in table.preprocessing.keys) if table.named else None
    plan = own_plan(table.keys, source=keys.name, sigma=sigma, nu=nu, quick=quick, names=names)
    for notice in table.notices:
        # An audit has values of its own.
        if notice != OWN_VALUES:
            context.note(notice)
    return plan


def _run(
    context: CommandContext,
    names: list[str],
    out: Path,
    plan: Plan,
    jobs: int | None,
    resume: bool,
    backend: str,
    address: str | None,
) -> None:
    from expunge.audit.engine import run_experiment

    if backend not in ("local", "ray"):
        raise InputError(f"--backend is local or ray, not {backend!r}")
    workers = jobs or os.cpu_count() or 1
    for name in names:
        with _progress_bar(context, name) as watch:
            done = run_experiment(
                name,
                out,
                plan,
                jobs=workers,
                backend=backend,  # type: ignore[arg-type]
                address=address,
                resume=resume,
                watch=watch,
            )
        _show_result(context, done)
    context.note(f"Verify it without the solver: expunge verify evidence {out}")


@contextmanager
def _progress_bar(context: CommandContext, name: str) -> Iterator[Callable[[int, int, TaskRecord | None], None]]:
    """A bar on standard error: tasks, operations per second, and what failed, by arm."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
    )
    shown = not context.as_json and context.err.is_terminal
    started, rows, failures = time.monotonic(), 0, Counter[str]()
    with Progress(*columns, console=context.err, transient=True, disable=not shown) as bar:
        task = bar.add_task(name, total=None, status="")

        def watch(done: int, total: int, record: TaskRecord | None) -> None:
            nonlocal rows
            if record is not None:
                trials = record.tables.get("trials", [])
                rows += len(trials)
                failures.update(row["arm"] for row in trials if row["status"] in ("failed", "refused"))
            rate = rows / max(1e-9, time.monotonic() - started)
            failed = ", ".join(f"{arm} {count}" for arm, count in sorted(failures.items())) or "none"
            bar.update(task, completed=done, total=total, status=f"{rate:,.0f} operations/s; failed: {failed}")

        yield watch


def _show_result(context: CommandContext, done: FinishedRun) -> None:
    """One line per result, or one object."""
    from expunge.audit.experiments import load_experiment

    content: dict[str, Any] = {
        "experiment": done.experiment,
        "path": done.path,
        "digest": done.digest,
        "tasks": done.tasks,
        "resumed": done.resumed,
        "seconds": done.seconds,
        "numbers": done.numbers,
    }
    experiment = load_experiment(done.experiment)
    heading = f"{experiment.title} ({experiment.section}): {done.seconds:.1f} s"
    context.show(content, heading, *(f"  {line}" for line in experiment.headlines(done.numbers)))
