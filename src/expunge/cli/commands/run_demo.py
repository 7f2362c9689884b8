"""``expunge demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, print_json_lines

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "demo",
        panel="Try",
        examples=["expunge demo", "expunge demo --fresh", "expunge demo --folder /tmp/tour --json"],
    )(demo)


def demo(
    context: CommandContext,
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where it all goes.")] = Path(
        "expunge-demo"
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier demo.")] = False,
) -> None:
    """Take a tour on real data.

    Fit, ask, prune, erase a patient, verify the receipt, tamper with it, watch certificates expire. Needs nothing but
    this package, takes a few seconds, and leaves a folder to explore.
    """
    from expunge.demo import run

    console = context.out
    console.quiet = context.as_json
    done = run(folder, fresh=fresh, console=console)
    if context.as_json:
        print_json_lines(
            [
                {
                    "folder": folder,
                    "seconds": done.total,
                    "steps": [vars(step) for step in done.steps],
                    "tampering": done.tampering,
                    **done.facts,
                    "next": done.next_commands,
                }
            ]
        )
