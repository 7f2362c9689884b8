"""The demo from start to finish: the folder, the steps in order, and what to try next."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import expunge
from expunge.cli.output import duration_text
from expunge.demo import steps
from expunge.demo.demo_run import DemoRun, text_grid
from expunge.errors import ExpungeError, InputError, StoreError

__all__ = ["FOLDER", "MAX_WIDTH", "run"]

FOLDER = Path("expunge-demo")
MAX_WIDTH = 100
README_NAME = "README.txt"
README = """\
What `expunge demo` left here. Everything can be deleted.

expunge.db           the store: two memories of real data, two of three entries, one ledger
expunge.db.key       its signing key, made by the demo
log.vkey             the public key that receipts and the log verify under
head-kept.txt        a signed head of the log, kept before the erasure
receipts/            the receipt of the erasure, and the proof of its place in the log
evidence/            what a stranger needs to recompute the receipt's numbers
tampered/            copies that were changed, and do not verify
questions/           two queries as vectors
NOTICE-*.txt         where the data come from, and under which licence

Run commands from inside this folder: `expunge.db` is where they look by default.
"""


def run(folder: Path = FOLDER, *, fresh: bool = False, console: Console | None = None) -> DemoRun:
    """Run the demo in a new folder. Raises InputError if it exists; `fresh` replaces one that a demo has made."""
    console = Console(highlight=False) if console is None else console
    if console.width > MAX_WIDTH:
        console.width = MAX_WIDTH
    _make_folder(folder, fresh)
    demo = DemoRun(folder, console)
    _print_heading(demo)
    _compile_solver(demo)
    from expunge import datasets
    from expunge.store import open as open_store

    with open_store(f"sqlite:///{folder / 'expunge.db'}", origin="expunge-demo") as store:
        (folder / "log.vkey").write_text(store.log_key.to_text() + "\n", encoding="utf-8")
        hours, chats = datasets.icu_hours(), datasets.conversations()
        for name, sample in (("icu", hours), ("conversations", chats)):
            (folder / f"NOTICE-{name}.txt").write_text(sample.notice, encoding="utf-8")
        with demo.step("fit", "Fit", "Each entry gets a weight: its part in the memory's shape. Many weigh nothing."):
            steps.fit(demo, store, {"icu": hours, "conversations": chats})
        with demo.step("ask", "Ask", "The answer is a weighted mean of values near the query; shares say whose."):
            steps.ask(demo, store, hours, chats)
        with demo.step(
            "prune", "Prune", "Entries proved to weigh nothing leave the live memory, each under a warranty."
        ):
            steps.prune(demo, store, hours)
        with demo.step(
            "erase", "Erase a patient", "Solved again without them, checked, signed, logged; their content destroyed."
        ):
            receipt, prior = steps.erase(demo, store, hours)
        with demo.step(
            "verify", "Verify it offline", "From a few files and the public key: no store, no solver, no network."
        ):
            steps.verify(demo, store, receipt, prior)
        with demo.step("tamper", "Tamper with it", "Copies of the same files, each with one thing changed."):
            steps.tamper(demo, store, receipt, prior)
        with demo.step(
            "expire",
            "Watch certificates expire",
            "A zero weight is true today. Later entries can end it, and the warranty knows.",
        ):
            steps.expire(demo, store, chats)
    demo.total = time.perf_counter() - demo.started
    _print_summary(demo)
    return demo


def _make_folder(folder: Path, fresh: bool) -> None:
    try:
        if folder.exists():
            readme = folder / README_NAME
            if not (readme.is_file() and readme.read_text("utf-8") == README):
                raise InputError(f"{folder} exists and was not made by the demo; choose another with --folder")
            if not fresh:
                raise InputError(f"{folder} has an earlier demo in it; --fresh replaces it, --folder goes elsewhere")
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / README_NAME).write_text(README, encoding="utf-8")
        for part in ("receipts", "evidence", "tampered", "questions"):
            (folder / part).mkdir()
    except (OSError, ValueError) as problem:
        if isinstance(problem, ExpungeError):
            raise
        raise StoreError(f"cannot make {folder}: {problem}") from None


def _print_heading(demo: DemoRun) -> None:
    demo.console.print()
    demo.console.print(
        Text.assemble(
            ("expunge ", "bold"), (expunge.__version__, "dim"), "  A memory you can delete from, and prove it."
        )
    )
    demo.console.print(Text(f"A tour on real data, kept in {demo.folder}/.", style="dim"))


def _compile_solver(demo: DemoRun) -> None:
    """Have every loop compiled, so that the times below are those of the work."""
    from expunge.memory.memory import Memory

    started = time.perf_counter()
    with demo.console.status("Compiling the solver (the first time only) …"):
        grid = np.random.default_rng(0).standard_normal((200, 2))
        memory = Memory.fit(grid, grid, sigma=1.0, nu=0.4)
        memory.prune("archive")
        memory.admit([3.0, 3.0], [0.0, 0.0])
        memory.delete(memory.ids[:4])
        memory.prune("forget", sketch=1)
        memory.admit([-3.0, 3.0], [0.0, 0.0])
    elapsed = time.perf_counter() - started
    if elapsed > 3.0:
        demo.console.print(
            Text(f"The solver was compiled in {duration_text(elapsed)}; that is kept for the next time.", style="dim")
        )


def _print_summary(demo: DemoRun) -> None:
    console = demo.console
    console.print()
    console.print(Rule(style="cyan"))
    times = [*((step.name, step.seconds) for step in demo.steps), ("in all", demo.total)]
    rows = [[Text(name, style="dim") for name, _ in times], [Text(duration_text(elapsed)) for _, elapsed in times]]
    demo.show(text_grid(rows), "")
    demo.show(Text.assemble(("Next", "bold"), f"  {demo.folder}/ is yours to explore (see {README_NAME}):"), "")
    # Unbroken, so that a narrow terminal does not put line ends into what is copied.
    others = [name for name in ("EXPUNGE_STORE", "EXPUNGE_SIGNING_KEY") if os.environ.get(name)]
    unset = [f"unset {' '.join(others)}"] if others else []
    for line in (f"cd {shlex.quote(str(demo.folder))}", *unset, *demo.next_commands):
        console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)
    console.print()
