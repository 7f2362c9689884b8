"""``expunge demo``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import Session

__all__ = ["add"]


def add(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "demo",
        panel="Try",
        examples=["expunge demo", "expunge demo --fresh", "expunge demo --folder /tmp/tour --json"],
    )(demo)


def demo(
    session: Session,
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where it all goes.")] = Path(
        "expunge-demo"
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier demo.", show_default=False)] = False,
) -> None:
    """Take a tour on real data.

    Fit, ask, prune, erase a patient, verify the receipt, tamper with it, watch certificates expire. Needs nothing but
    this package, takes a few seconds, and leaves a folder to explore.
    """
    # The demo stands above the command line and draws with its pens, so it is called by name.
    tour: Any = import_module("expunge.demo")
    console = session.out
    console.quiet = session.as_json
    done = tour.run(folder, fresh=fresh, console=console)
    if session.as_json:
        session.lines(
            [
                {
                    "folder": folder,
                    "seconds": done.total,
                    "steps": [vars(step) for step in done.steps],
                    "tampering": done.caught,
                    **done.facts,
                    "next": done.next_commands,
                }
            ]
        )
