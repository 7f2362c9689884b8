"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "DryRunOption",
    "EvidenceOption",
    "ExpectedOption",
    "ForceOption",
    "IdempotencyOption",
    "MemoryArgument",
    "OutOption",
    "YesOption",
]

MemoryArgument = Annotated[str, typer.Argument(metavar="NAME", help="The memory.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")]
EvidenceOption = Annotated[
    Path | None,
    typer.Option("--evidence", metavar="FILE", help="Write an evidence bundle of this edit (it holds content)."),
]
ExpectedOption = Annotated[
    str | None, typer.Option("--expected", metavar="DIGEST", help="Only if the memory is still in this state.")
]
IdempotencyOption = Annotated[
    str | None,
    typer.Option("--idempotency-key", metavar="TEXT", help="A repeated request with this key is applied once."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it here.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
