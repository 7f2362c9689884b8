"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.memory.attributes import DerivedChoice

__all__ = [
    "ActorOption",
    "CaseOption",
    "DerivedOption",
    "DryRunOption",
    "EvidenceOption",
    "ExpectedOption",
    "ForceOption",
    "IdempotencyOption",
    "MemoryArgument",
    "OutOption",
    "RayOption",
    "YesOption",
    "parse_derived",
    "parse_duration",
    "parse_end",
    "parse_salt",
    "parse_width",
]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,6})([smhd])")

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
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray", metavar="ADDRESS", help="Spread over a Ray cluster: HOST:PORT, auto to find one, local to start one."
    ),
]
CaseOption = Annotated[
    str | None,
    typer.Option("--case", metavar="TEXT", help="Reference of the case, for the receipt to commit to; no name in it."),
]
ActorOption = Annotated[
    str | None,
    typer.Option("--actor", metavar="TEXT", envvar="EXPUNGE_ACTOR", help="Who asks, for the receipt to commit to."),
]
DerivedOption = Annotated[
    str,
    typer.Option("--derived", metavar="erase|refuse", help="What was made from these entries goes, or nothing does."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where nobody is at the terminal.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it here.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def parse_salt(option: str, text: str) -> bytes:
    """A salt as it is printed."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InputError(f"{option} is hexadecimal, not {text[:40]!r}") from None


def parse_duration(option: str, text: str) -> timedelta:
    """A time span, as in 30d."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InputError(f"{option} is a number with s, m, h or d behind it, as in 30d, not {text!r}")
    return timedelta(seconds=int(found.group(1)) * _UNITS[found.group(2)])


def parse_derived(text: str) -> DerivedChoice:
    """What to do about derived entries."""
    if text == "erase":
        return "erase"
    if text == "refuse":
        return "refuse"
    raise InputError(f"--derived is erase or refuse, not {text!r}")


def parse_end(option: str, text: str) -> datetime:
    """When an entry ends: a day, a time, or a span from now on, as in 30d."""
    from expunge.tables.entry_columns import time_of

    if _DURATION.fullmatch(text):
        return datetime.now(UTC) + parse_duration(option, text)
    try:
        return time_of(text)
    except ValueError:
        raise InputError(f"{option} is a day, a time or a span, as in 2027-01-31 or 30d, not {text!r}") from None


def parse_width(option: str, text: str) -> float | Literal["auto"]:
    """A width as it is typed: a number, or auto."""
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} is a number or auto, not {text!r}") from None
