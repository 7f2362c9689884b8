"""``expunge plot``: a picture of a memory, as a file."""

from __future__ import annotations

from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, write_file
from expunge.cli.options import MemoryArgument
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.plots.style import Plot
    from expunge.store import StoredMemory

__all__ = ["picture_kind", "register", "write_picture"]

# What a file of each kind says of its making is left out, so that the same memory gives the same file.
KINDS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class What(StrEnum):
    """What a picture shows."""

    map = "map"
    weights = "weights"
    warranties = "warranties"
    deletion = "deletion"


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "plot",
        panel="Ask",
        examples=[
            "expunge plot icu-7 --out map.png",
            "expunge plot icu-7 --what weights --out weights.svg",
            "expunge plot icu-7 --what deletion --subject patient-17 --out without.pdf",
        ],
    )(plot)


def plot(
    context: CommandContext,
    name: MemoryArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where it goes: FILE.png, .svg or .pdf.")],
    what: Annotated[What, typer.Option("--what", help="What to draw.")] = What.map,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B", help="Two key columns for the map."),
    ] = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="With deletion: an entry to leave out; repeatable.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="With deletion: all entries of a subject.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
) -> None:
    """Draw a memory: map, weights, warranties, a deletion.

    The map shows every entry and the boundary; a deletion is drawn as it would be, and nothing is deleted. A map shows
    where each entry lies: treat the file like the entries.
    """
    picture_kind("--out", out)
    asked = what is What.deletion
    if asked != bool(ids or subject):
        raise InputError("--what deletion needs --id or --subject" if asked else "--id and --subject go with deletion")
    if columns is not None and what not in (What.map, What.deletion):
        raise InputError(f"--columns goes with map and deletion, not with {what.value}")
    chosen = None if columns is None else [part.strip() for part in columns.split(",")]
    with context.store() as store, context.progress("Drawing", None):
        figure = _figure(store[name], what, chosen, ids, subject)
    write_picture(figure, out, force=force)
    context.show({"written": out, "what": what.value}, str(out))


def picture_kind(option: str, file: Path) -> str:
    """The kind of a picture, from the name of its file."""
    kind = file.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InputError(f"{option} must end in .png, .svg or .pdf, not {file.name!r}")
    return kind


def write_picture(figure: Plot, file: Path, *, force: bool) -> None:
    """Write a figure to a file of a kind that its name tells."""
    kind, picture = picture_kind("the file", file), BytesIO()
    figure.write(picture, kind, KINDS[kind])
    write_file(file, picture.getvalue(), force=force)


def _figure(
    memory: StoredMemory, what: What, columns: list[str] | None, ids: list[str] | None, subject: str | None
) -> Plot:
    from expunge import plots

    if what is What.map:
        return plots.map_of(memory, columns)
    if what is What.weights:
        return plots.coefficients(memory)
    if what is What.warranties:
        return plots.warranty_survival(memory)
    return plots.deletion_changes(memory, ids or None, subject=subject, columns=columns)
