"""Roles of columns: guessed with a notice, never by a pattern that takes more than it spells out."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from expunge.errors import InputError
from expunge.preprocessing import Column, Preprocessing
from expunge.tables import Table, TableOptions, read_table


def read(folder: Path, content: str, **options: Any) -> Table:
    (folder / "t.csv").write_text(content, encoding="utf-8")
    return read_table(folder / "t.csv", TableOptions(**options))


def roles(table: Table) -> dict[str, str]:
    return {column.name: column.role for column in table.columns}


def test_k_and_v_take_no_other_columns(tmp_path: Path) -> None:
    table = read(tmp_path, "kidney,visits,hr\n1,2,80\n2,5,90\n3,4,70\n")
    assert table.key_names == table.value_names == ("kidney", "visits", "hr")
    table = read(tmp_path, "k0,k1,v0,kidney,visits\n1,2,3,4,5\n2,2,3,4,9\n")
    assert (table.key_names, table.value_names) == (("k0", "k1"), ("v0",))
    assert table.payloads == ({"kidney": "4", "visits": "5"}, {"kidney": "4", "visits": "9"})
    assert [(column.centre, column.scale) for column in table.preprocessing.keys] == [(0.0, 1.0)] * 2
    # Potassium and vitamins are measurements.
    assert read(tmp_path, "na,k,cl\n140,4.1,100\n138,3.9,99\n").key_names == ("na", "k", "cl")
    assert read(tmp_path, "k2,hr\n140,4.1\n138,3.9\n").key_names == ("k2", "hr")


def test_few_different_whole_numbers_are_pointed_out(tmp_path: Path) -> None:
    """A class label among the keys is a surprise; a score of three is none in a table of scores."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b,target", *(f"{row}.5,{row * row},{row % 3}" for row in range(40))]))
    (notice,) = [notice for notice in read_table(path).notices if notice.startswith("few different")]
    assert "target (3)" in notice
    assert "--leave-out 'target'" in notice
    assert read_table(path, TableOptions(leave_out="target")).key_names == ("a", "b")
    path.write_text("\n".join(["a,b", *(f"{row % 2},{row % 3}" for row in range(40))]))
    assert not [notice for notice in read_table(path).notices if notice.startswith("few different")]


@pytest.mark.parametrize("name", ["Nummer", "lfd. Nr.", "número", "N°", "序号", "номер", "obs"])
def test_a_first_column_that_counts_is_the_id_where_its_name_says_so(tmp_path: Path, name: str) -> None:
    rows = [f"{count},{60 + 7 * count % 11},36.{count}" for count in range(101, 110)]
    table = read(tmp_path, "\n".join([f"{name},hr,temp", *rows]))
    assert table.ids == tuple(map(str, range(101, 110)))
    assert table.key_names == ("hr", "temp")
    assert f"ids: column {name!r}, another one in every row" in "\n".join(table.notices)
    # With a gap, and further back, it is a measurement like others.
    for content in ([f"{name},hr,temp", "999,1,2", *rows], [f"hr,{name}", *(row.partition(",")[2] for row in rows)]):
        assert read(tmp_path, "\n".join(content)).ids is None


def test_numbers_in_unbroken_sequence_are_pointed_out(tmp_path: Path) -> None:
    order = [4, 1, 8, 2, 7, 5, 3, 6]
    table = read(tmp_path, "\n".join(["hr,week", *(f"{60 + 3 * count},{count}" for count in order)]))
    assert table.key_names == ("hr", "week")
    (told,) = [notice for notice in table.notices if "unbroken" in notice]
    assert "every row: week; if they only number the rows, --id-column 'week' or --leave-out 'week'" in told
    for cells in ([*order[:-1], 9], [*order[:-1], 5], [*order[:-1], 6.5]):
        table = read(tmp_path, "\n".join(["hr,week", *(f"{60 + 3 * row},{cell}" for row, cell in enumerate(cells))]))
        assert "unbroken" not in "\n".join(table.notices)


def test_people_ids_and_times_are_no_measurements(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        "record_id,stay_id,patient_id,charttime,day,epoch,hr,ward,sex\n"
        "9,7,1,2026-01-01 10:00,20260101,1700000000,80,A,m\n"
        "8,7,1,2026-01-01 11:00,20260101,1700003600,90,A,f\n"
        "6,8,2,2026-01-02 11:00,20260102,1700090000,70,B,f\n",
        leave_out="day",
    )
    assert roles(table) == {
        "record_id": "id",
        "stay_id": "payload",
        "patient_id": "subject",
        "charttime": "payload",
        "epoch": "payload",
        "hr": "key, value",
        "ward": "payload",
        "sex": "payload",
    }
    assert table.ids == ("9", "8", "6")
    assert table.subjects == ("1", "1", "2")
    told = "\n".join(table.notices)
    for words in (
        "ids: column 'record_id'",
        "subjects: column 'patient_id' says whose entry a row is (2 different)",
        "keys: hr",
        "epoch (time)",
        "charttime (time)",
    ):
        assert words in told
    assert table.payloads is not None
    assert table.payloads[0]["charttime"] == "2026-01-01 10:00"


@pytest.mark.parametrize(
    ("name", "person"),
    [
        ("patient", True),
        ("Patient ID", True),
        ("patientunitstayid", True),
        ("PatientId", True),
        ("subject_id", True),
        ("user", True),
        ("username", True),
        ("customer no", True),
        ("Patientennummer", True),
        ("stay_id", True),
        ("patient weight", False),
        ("users", False),
        ("stay", False),
        ("user_score", False),
        ("fluid", False),
        ("subjective", False),
    ],
)
def test_whose_entry_it_is_is_read_off_the_name(tmp_path: Path, name: str, person: bool) -> None:
    table = read(tmp_path, f"{name},hr\n1,80\n1,90\n2,70\n")
    assert (table.subjects is not None) == person


@pytest.mark.parametrize(("name", "measured"), [("itemid", False), ("OrderID", False), ("fluid", True), ("acid", True)])
def test_numbers_of_things_are_no_measurements(tmp_path: Path, name: str, measured: bool) -> None:
    table = read(tmp_path, f"{name},hr\n1,80\n1,90\n2,70\n")
    assert (name in table.key_names) == measured


def test_one_row_per_person_is_called_after_the_person(tmp_path: Path) -> None:
    table = read(tmp_path, "patient,hr\np1,80\np2,90\n")
    assert table.ids == table.subjects == ("p1", "p2")
    table = read(tmp_path, "patient,hr\np1,80\np2,90\n", id="none", subject="none")
    assert table.ids is table.subjects is None
    assert table.payloads == ({"patient": "p1"}, {"patient": "p2"})


def test_a_missing_subject_is_said(tmp_path: Path) -> None:
    table = read(tmp_path, "patient,hr\np1,80\n,90\np1,70\n")
    assert table.subjects == ("p1", None, "p1")
    assert "1 entries have no subject: erasing a person cannot find them" in table.notices


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("yes", "no", "no"), "'yes' is true or false, not a number; write it as 1 or 0"),
        (("2026-01-01", "2026-01-02", ""), "'2026-01-01' is a time, not a number"),
        (("A", "B", "A"), "'A' is not a number; make each of its 2 texts a column of 0 and 1"),
        (("1", "2", "<5"), "'<5' is not a number"),
    ],
)
def test_a_named_key_column_must_hold_numbers(tmp_path: Path, cells: tuple[str, ...], message: str) -> None:
    rows = "".join(f"{80 + place},{cell}\n" for place, cell in enumerate(cells))
    with pytest.raises(InputError, match=f"column 'x': {message}|column 'x'.*{message}|{message}"):
        read(tmp_path, "hr,x\n" + rows, keys="hr,x")


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    polars.DataFrame(
        {
            "patient": ["a", "a", None],
            "at": [start, start, None],
            "ventilated": [True, None, False],
            "ward": polars.Series(["A", "B", "A"], dtype=polars.Categorical),
            "hr": [80, None, 70],
            "temp": [36.5, float("nan"), 38.0],
        }
    ).write_parquet(path)
    table = read_table(path)
    assert table.key_names == ("hr", "temp")
    assert np.isnan(table.measurements[1]).all()
    assert table.subjects == ("a", "a", None)
    assert table.payloads is not None
    assert table.payloads[0] == {"at": "2026-01-01T00:00:00+00:00", "ventilated": True, "ward": "A"}
    assert {column.name: column.kind for column in table.columns if column.role == "payload"} == {
        "at": "time",
        "ventilated": "truth",
        "ward": "text",
    }


def test_numbers_beside_a_list_are_its_values(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a", "vec": [1, 2], "stars": 3}\n{"text": "b", "vec": [2, 4], "stars": 5}\n')
    table = read_table(path)
    assert (table.key_names, table.value_names) == (("vec[0]", "vec[1]"), ("stars",))
    assert table.keys.tolist() == [[1.0, 2.0], [2.0, 4.0]]
    path.write_text('{"a": [1, 2], "b": [1, 2]}\n')
    with pytest.raises(InputError, match="several lists of numbers: say which with --key-columns"):
        read_table(path)


def test_columns_of_a_memory_are_found_by_name(tmp_path: Path) -> None:
    first = read(tmp_path, "patient,HR [bpm],temp\np,80,36\np,90,37\nq,70,38\n")
    again = read(tmp_path, "temp,patient,HR,note\n36,p,80,x\n,p,90,y\n", preprocessing=first.preprocessing)
    assert again.key_names == ("HR", "temp")
    assert again.keys.tolist() == first.preprocessing.to_keys(np.array([[80.0, 36.0], [90.0, np.nan]])).tolist()
    assert again.payloads == ({"note": "x"}, {"note": "y"})
    with pytest.raises(InputError, match=r"t\.csv lacks temp, which the memory has; not known to the memory: rr"):
        read(tmp_path, "HR,rr\n80,12\n", preprocessing=first.preprocessing)
    with pytest.raises(InputError, match="column 'HR' is in 1/s, but the memory has bpm: convert it"):
        read(tmp_path, "HR [1/s],temp\n80,12\n", preprocessing=first.preprocessing)
    bare = Preprocessing((Column("HR"),), (Column("HR"),))
    with pytest.raises(InputError, match=r"numbers are missing \(HR: 1 of 2\), and the memory has no fill"):
        read(tmp_path, "HR,x\n80,1\n,2\n", preprocessing=bare)
    assert len(read(tmp_path, "HR,x\n80,1\n,2\n", preprocessing=bare, missing="drop")) == 1


def test_numbers_chosen_from_rows_are_on_the_grid_and_forget_their_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = [f"{a:.3f},{b:.3f}" if a > 60 else f",{b:.3f}" for a, b in rng.normal((80, 37), (12, 0.6), (200, 2))]
    one = read(tmp_path, "hr,temp\n" + "\n".join(rows) + "\n").preprocessing
    assert one == read(tmp_path, "hr,temp\n" + "\n".join(reversed(rows)) + "\n").preprocessing
    for column in one.keys:
        assert np.log2(column.scale) == round(np.log2(column.scale))
        assert column.centre % (column.scale / 2) == 0.0
        assert column.fill == column.centre
    plain = read(tmp_path, "hr,temp\n" + "\n".join(rows) + "\n", scale="none").preprocessing
    assert {(column.centre, column.scale) for column in plain.keys} == {(0.0, 1.0)}
