"""``expunge warm``: compile everything now."""

from __future__ import annotations

import time

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Register the command."""
    examples = ["expunge warm", "NUMBA_CACHE_DIR=/srv/expunge-code expunge warm"]
    command(app, "warm", panel="Keep", examples=examples)(warm)


def warm(context: CommandContext) -> None:
    """Compile everything now, so that no later command has to.

    A fresh install compiles when something is first computed, which takes 10 to 30 seconds, once. Do it while an image
    is built, and what runs from the image starts at once. The machine code is for this kind of processor.
    """
    from expunge.compilation import compilations
    from expunge.memory.warm_up import warm_up

    started = time.perf_counter()
    with context.progress("Compiling", None):
        warm_up()
    made, folder, seconds = compilations.count, compilations.folder, time.perf_counter() - started
    if not made:
        told = "Nothing to compile: the machine code is there."
    elif folder is None:
        told = f"Compiled {made} functions in {seconds:.0f} s, and kept none: no directory can be written to."
    else:
        told = f"Compiled {made} functions in {seconds:.0f} s; the machine code is in {folder} and beside it."
    context.show({"compiled": made, "folder": folder, "seconds": seconds}, told)
    if made and folder is None:
        context.note("Name a directory with $NUMBA_CACHE_DIR.")
