"""``expunge tune``: what fits at other widths and sparsities would be like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.commands.draw_plot import picture_kind, write_picture
from expunge.cli.context import CommandContext
from expunge.cli.table_options import (
    AlsoMissingOption,
    ColumnsFileOption,
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
    from expunge.memory.width_trials import WidthTrial
    from expunge.types import Matrix

__all__ = ["register"]

MEANING = (
    ("margin", "entries on the boundary, each with a weight of its own; beyond half of them the width is too narrow"),
    ("of all", "how many of all entries would be on the margin, predicted: an edit takes time with their number"),
    ("bound", "entries with the largest weight that the cap allows; about nu of them in a good fit"),
    ("the rest", "is in reserve, without weight: deleting one of them changes no answer"),
    ("deletable", "how many of all entries can be deleted before the cap changes"),
    ("rests on", "how many entries an answer rests on; few: sharp and rough, many: smooth and blurred"),
    ("inside", "share of entries held out of the fit that are inside the boundary; about 1 - nu in a good fit"),
)


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "tune",
        panel="Ask",
        examples=[
            "expunge tune icu-7",
            "expunge tune hours.csv",
            "expunge tune icu-7 --nu 0.1 --nu 0.3 --plot widths.png",
        ],
    )(tune)


def tune(
    context: CommandContext,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A memory, or a FILE that could become one.")],
    nu: Annotated[
        list[float] | None, typer.Option("--nu", metavar="N", help="A sparsity to try; repeatable. Else four of them.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the choice to FILE.png, .svg or .pdf.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    key_columns: KeyColumnsOption = None,
    value_columns: ValueColumnsOption = None,
    id_column: IdColumnOption = None,
    subject_column: SubjectColumnOption = None,
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
) -> None:
    """Compare widths and sparsities; nothing is stored.

    Four fifths of the entries (of 2,000 at most) are fitted at each width and sparsity, and the others are asked
    whether they are inside. A memory takes another width with expunge rebuild NAME --sigma S.
    """
    options = table_options(locals())
    from expunge.memory.width_trials import SPARSITIES, try_widths

    if plot is not None:
        picture_kind("--plot", plot)
    keys, present = _keys_of(context, source, options)
    with context.stages("Trying widths") as progress:
        trials = try_widths(keys, sparsities=tuple(nu) if nu else SPARSITIES, present=present, progress=progress)
    if plot is not None:
        from expunge import plots

        write_picture(plots.width_choice(trials), plot, force=force)
    content = {"source": source, "entries": len(keys), "trials": [each.to_json() for each in trials], "plot": plot}
    from expunge.cli.output import fields

    context.show(content, _table(trials), fields(MEANING), *([] if plot is None else [str(plot)]))


def _keys_of(context: CommandContext, source: str, options: Any) -> tuple[Matrix, tuple[float, float] | None]:
    """Keys of all entries of a memory, with its width and sparsity; or the keys of a table."""
    if source == "-" or Path(source).is_file():
        from expunge.tables import read_table

        return read_table(source, options).keys, None
    with context.store() as store:
        if source not in store.names():
            raise InputError(f"there is neither a memory nor a file {source!r}; expunge show lists memories")
        version = store[source].version
    version.require_entries()
    keys = version.columns(archived=True)[0]
    return keys, (version.state.gram.sigma, 1.0 / (version.state.cap * len(keys)))


def _table(trials: list[WidthTrial]) -> Any:
    from rich.text import Text

    from expunge.cli.output import listing

    columns = ["sigma", "nu", "margin", "of all", "bound", "deletable", "rests on", "inside", "fit"]
    rows = []
    for each in trials:
        marks = [word for word, true in (("default", each.default), ("now", each.present)) if true]
        cells = [
            f"{each.sigma:.4g}",
            f"{each.nu:.3g}",
            f"{each.margin:.0%}",
            f"{each.predicted_margin:,}",
            f"{each.bound:.0%}",
            f"{each.deletable:,}",
            f"{each.effective_neighbours:.0f}",
            f"{each.inside:.0%}",
            # What is marked stands alone where it is fine, so that it is whole at 80 columns.
            ", ".join([*marks] if each.healthy and marks else ["fine" if each.healthy else "degenerate", *marks]),
        ]
        rows.append([Text(cell, style="bold" if marks else "") for cell in cells])
    return listing(columns, rows, right=columns[:-1])
