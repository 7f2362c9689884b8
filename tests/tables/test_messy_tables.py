"""Messy tables of open data: read with the right roles, and by the command line to a verified erasure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from expunge.cli.app import app
from expunge.errors import InputError
from expunge.tables import TableOptions, read_table
from messy_tables import RESULTS, TABLES, walk

NAMES = [table.name for table in TABLES]
UNASKED = [table for table in TABLES if not table.option]
SIGNS = ("hr", "sbp", "dbp", "rr", "spo2", "temp")

# Key columns, and which columns say what an entry is called and whose it is.
ROLES = {
    "gaps": (SIGNS, None, "patient"),
    "semicolons": (("sepal length", "sepal width", "petal length", "petal width"), None, None),
    "units": (("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"), None, None),
    "parquet": (SIGNS, None, "subject_id"),
    "joined": (("hour", *SIGNS, "weight"), None, "patient"),
    "titled": (SIGNS, "record_id", None),
    "priced": (("price", "alcohol", "magnesium", "ash", "colour"), None, "member"),
}


def typed(words: Sequence[str]) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words), prog_name="expunge")
    assert "Traceback" not in done.output
    return done.exit_code, done.stdout, done.stderr


def test_eight_tables_at_least_need_no_option() -> None:
    assert len(TABLES) >= 12
    assert len(UNASKED) >= 8


def test_the_record_has_every_table() -> None:
    """Each went to a verified erasure, and its fit was healthy."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["tables"]
    assert [(one["table"], one["mess"], one["option"]) for one in found] == [
        (table.name, table.mess, list(table.option)) for table in TABLES
    ]
    assert all(one["healthy"] and one["verified"] and one["erased"] for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=NAMES)
def test_from_the_file_to_a_verified_erasure(table: object, tmp_path: Path) -> None:
    (known,) = (one for one in TABLES if one is table)
    found = walk(known, tmp_path, typed)
    assert found.option == known.option
    assert found.healthy, found.warnings
    assert found.erased
    assert found.verified


@pytest.mark.parametrize("table", [table for table in TABLES if table.name in ROLES], ids=list(ROLES))
def test_roles_are_guessed_as_a_person_would(table: object, tmp_path: Path) -> None:
    (known,) = (one for one in TABLES if one is table)
    known.write(tmp_path / known.file)
    found = read_table(tmp_path / known.file)
    roles = {column.role: column.name for column in found.columns}
    assert (found.key_names, roles.get("id"), roles.get("subject")) == ROLES[known.name]
    assert found.value_names == found.key_names


@pytest.mark.parametrize("table", [table for table in TABLES if table.option], ids=lambda table: table.name)
def test_the_first_error_names_the_option(table: object, tmp_path: Path) -> None:
    (known,) = (one for one in TABLES if one is table)
    known.write(tmp_path / known.file)
    with pytest.raises(InputError, match=" '?".join(known.option)):
        read_table(tmp_path / known.file)


def test_an_outlier_and_a_constant_column_are_named(tmp_path: Path) -> None:
    (joined,) = (table for table in TABLES if table.name == "joined")
    joined.write(tmp_path / joined.file)
    table = read_table(tmp_path / joined.file)
    told = "\n".join(table.notices)
    assert "row 18 (line 19), column 'weight'" in told
    assert "monitor (constant)" in told
    assert "1 repeated header(s) passed over: line 402" in told
    assert len(table) == 864


def test_units_of_a_row_and_of_a_header(tmp_path: Path) -> None:
    (known,) = (table for table in TABLES if table.name == "units")
    known.write(tmp_path / known.file)
    units = {column.name: column.unit for column in read_table(tmp_path / known.file).preprocessing.keys}
    assert (units["age"], units["bmi"], units["s5"], units["sex"]) == ("years", "kg/m2", "log(mg/dl)", "1/2")


def test_a_given_width_of_missing_share(tmp_path: Path) -> None:
    """Half a column is filled in unasked, most of one is not, and all three choices do what they say."""
    path = tmp_path / "t.csv"
    rows = [f"{row},{row * row % 17 if row % 5 else ''}" for row in range(40)]
    path.write_text("hr,rr\n" + "\n".join(rows) + "\n")
    filled = read_table(path)
    assert len(filled) == 40
    assert {column.name: column.fill for column in filled.preprocessing.keys} == {"hr": 16.0, "rr": 8.0}
    assert "rr 8 (20.0%) by 8" in "\n".join(filled.notices)
    dropped = read_table(path, TableOptions(missing="drop"))
    assert (len(dropped), dropped.rows[0], dropped.rows[-1]) == (32, 2, 40)
    with pytest.raises(InputError, match=r"row 1 \(line 2\), column 'rr': the number is missing.*rr: 8 of 40"):
        read_table(path, TableOptions(missing="refuse"))
