"""Options that say how to read a table, for the commands that take one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.context import read_file
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.preprocessing import Preprocessing
    from expunge.tables import TableOptions

__all__ = [
    "FORMATS",
    "AlsoMissingOption",
    "ColumnsFileOption",
    "DecimalOption",
    "DelimiterOption",
    "EncodingOption",
    "ExpiresColumnOption",
    "FileArgument",
    "FormatOption",
    "HeaderOption",
    "IdColumnOption",
    "KeyColumnsOption",
    "LeaveOutOption",
    "MissingOption",
    "OptionalFileArgument",
    "PayloadColumnOption",
    "PreviewOption",
    "ScaleOption",
    "SkipLinesOption",
    "SourcesColumnOption",
    "SubjectColumnOption",
    "ValueColumnsOption",
    "columns_of",
    "table_options",
]

FORMATS = "csv|tsv|jsonl|json|parquet|npy|npz"
COLUMNS, READING = "Columns of the table", "Reading the table"
_FILE = "CSV, TSV, JSON Lines, JSON, Parquet, NPY or NPZ, also gzipped; - is standard input."


def _option(name: str, metavar: str | None, text: str, panel: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=panel)


FileArgument = Annotated[str, typer.Argument(metavar="FILE", help=_FILE)]
OptionalFileArgument = Annotated[str | None, typer.Argument(metavar="FILE", help=_FILE)]
KeyColumnsOption = Annotated[
    str | None,
    _option(
        "--key-columns",
        "COLUMNS",
        "Names, patterns or (arrays) ranges such as 0:6; else k0, k1, …, a list, or all columns of numbers.",
        COLUMNS,
    ),
]
ValueColumnsOption = Annotated[
    str | None,
    _option("--value-columns", "COLUMNS", "Likewise; else v0, v1, …, or the keys' own measurements.", COLUMNS),
]
IdColumnOption = Annotated[
    str | None,
    _option(
        "--id-column", "COLUMN", "Its id, or none; else id, or a column named like one that never repeats.", COLUMNS
    ),
]
SubjectColumnOption = Annotated[
    str | None,
    _option("--subject-column", "COLUMN", "Whose entry it is, or none; else subject, patient, user, …", COLUMNS),
]
PayloadColumnOption = Annotated[
    str | None,
    _option(
        "--payload-column",
        "COLUMNS",
        "The original, kept with the entry, or none; several make one object. Else payload, or all other columns.",
        COLUMNS,
    ),
]
ExpiresColumnOption = Annotated[
    str | None, _option("--expires-column", "COLUMN", "When each entry ends: a day, or a time (UTC).", COLUMNS)
]
SourcesColumnOption = Annotated[
    str | None,
    _option("--sources-column", "COLUMN", "What each entry was made from: an id, or a JSON list.", COLUMNS),
]
LeaveOutOption = Annotated[str | None, _option("--leave-out", "COLUMNS", "Columns that are not read.", COLUMNS)]
MissingOption = Annotated[
    str | None,
    _option(
        "--missing",
        "median|drop|refuse",
        "Missing numbers: fill in the median, drop the row, or stop. Else median, up to 3/4 of a column.",
        COLUMNS,
    ),
]
AlsoMissingOption = Annotated[
    str | None,
    _option("--also-missing", "TEXTS", "What else spells a missing number, as in '-999,<0.5'.", COLUMNS),
]
ScaleOption = Annotated[
    str | None,
    _option("--scale", "auto|none", "Whether named measurements are centred and scaled, on a coarse grid.", COLUMNS),
]
ColumnsFileOption = Annotated[
    Path | None,
    _option("--columns-file", "FILE", "Columns with centre, scale and fill, as --preview --json prints them.", COLUMNS),
]
DelimiterOption = Annotated[
    str | None,
    _option("--delimiter", "SIGN", "comma, semicolon, tab, pipe, blank or a sign; else it is found.", READING),
]
DecimalOption = Annotated[str | None, _option("--decimal", "point|comma", "Decimal mark; else it is found.", READING)]
EncodingOption = Annotated[
    str | None, _option("--encoding", "NAME", "Encoding of the text; else UTF-8, UTF-16 or cp1252.", READING)
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line names the columns.",
        rich_help_panel=READING,
        show_default=False,
    ),
]
SkipLinesOption = Annotated[
    int | None,
    _option("--skip-lines", "N", "Lines above the header; else comments and titles are passed over.", READING),
]
FormatOption = Annotated[str | None, _option("--format", FORMATS, "Where neither name nor content tells.", READING)]
PreviewOption = Annotated[
    bool, typer.Option("--preview", help="Show what each column is taken for, and the numbers chosen; store nothing.")
]


def table_options(given: dict[str, Any], preprocessing: Preprocessing | None = None) -> TableOptions:
    """Options of a table from the parameters of a command: all that `TableOptions` knows.

    Parameters
    ----------
    given : dict
        Parameters of the command by name, as in ``locals()``.
    preprocessing : Preprocessing or None
        Columns of the memory that the table is for; else those of ``columns_file``.

    """
    from expunge.tables import TableOptions

    called = {
        "keys": "key_columns",
        "values": "value_columns",
        "id": "id_column",
        "subject": "subject_column",
        "expires": "expires_column",
        "sources": "sources_column",
        "payload": "payload_column",
        "format": "file_format",
    }
    taken = {field.name: given.get(called.get(field.name, field.name)) for field in fields(TableOptions)}
    if preprocessing is None and given.get("columns_file") is not None:
        preprocessing = columns_of(given["columns_file"])
    return TableOptions(**(taken | {"preprocessing": preprocessing}))


def columns_of(path: Path) -> Preprocessing:
    """Columns from a JSON file: those of `Preprocessing.to_json`, or what ``--preview --json`` prints."""
    import json

    from expunge.preprocessing import Preprocessing

    try:
        content = json.loads(read_file(path))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} is not JSON: {problem}") from None
    if isinstance(content, dict) and "preprocessing" in content:
        content = content["preprocessing"]
    return Preprocessing.from_json(content)
