from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from expunge import InputError, Memory, MissingExtra, StoreError
from expunge.datasets import table_files
from expunge.datasets.table_files import Columns, read_table

CSV = 'id,who,k0,k1,v0,text\na,p1,0,1.5,7,hello\nb,,2,-3e-1,8,\nc,p1,4,5,9,"x, y"\n'


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_csv(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "ward.csv", CSV), Columns(subject="who", payload="text"))
    assert table.keys.tolist() == [[0.0, 1.5], [2.0, -0.3], [4.0, 5.0]]
    assert table.values.tolist() == [[7.0], [8.0], [9.0]]
    assert (table.key_names, table.value_names) == (("k0", "k1"), ("v0",))
    assert table.ids == ("a", "b", "c")
    assert table.subjects == ("p1", None, "p1")
    assert table.payloads == ("hello", "", "x, y")
    memory = Memory.fit(**table.arguments, sigma=1.0, nu=0.5)
    assert memory.ids == ("a", "b", "c")
    assert [row["id"] for row in table.rows()] == ["a", "b", "c"]
    assert len(table) == 3


def test_tabs_a_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "ward.tsv", "\ufeffk0\tv0\r\n1\t2\r\n\r\n3\t4\r\n"))
    assert table.keys.tolist() == [[1.0], [3.0]]
    assert table.ids is table.subjects is table.payloads is None
    assert next(table.rows())["payload"] is None


def test_json_lines_with_lists_and_any_payload(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "key": [0.5, 1], "value": [2, 3], "subject": "p", "payload": {"text": "hello"}},
        {"id": "b", "key": [4, 5], "value": [6, 7]},
    ]
    table = read_table(written(tmp_path, "ward.jsonl", "\n".join(map(json.dumps, rows))))
    assert table.keys.tolist() == [[0.5, 1.0], [4.0, 5.0]]
    assert table.key_names == ("key[0]", "key[1]")
    assert table.ids == ("1", "b")
    assert table.subjects == ("p", None)
    assert table.payloads == ({"text": "hello"}, None)


def test_parquet_by_either_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ward.parquet"
    frame = polars.DataFrame({"id": ["a", "b"], "key": [[1.0, 2.0], [3.0, 4.0]], "spo2": [97, 98]})
    frame.write_parquet(path)
    table = read_table(path, Columns(values="spo2"))
    assert table.keys.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.values.tolist() == [[97.0], [98.0]]

    class Arrow:
        @staticmethod
        def read_table(name: str) -> Any:
            return type("T", (), {"to_pydict": lambda self: polars.read_parquet(name).to_dict(as_series=False)})()

    monkeypatch.setattr(table_files, "find_spec", lambda name: None if name == "polars" else object())
    monkeypatch.setattr(table_files, "import_module", lambda name: Arrow)
    assert read_table(path, Columns(values="spo2")).ids == ("a", "b")
    monkeypatch.setattr(table_files, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'expunge\[parquet\]'"):
        read_table(path)


def test_arrays(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "plain.npy", rows)
    table = read_table(tmp_path / "plain.npy", Columns(keys="0:3", values="3"))
    assert table.keys.tolist() == rows[:, :3].tolist()
    assert table.value_names == ("3",)
    assert read_table(tmp_path / "plain.npy", Columns(keys=":-1", values="-1:")).values.tolist() == rows[:, 3:].tolist()
    named = np.array([("a", 1.0, 2.0), ("b", 3.0, 4.0)], dtype=[("id", "U4"), ("k0", "f8"), ("v0", "f4")])
    np.save(tmp_path / "named.npy", named)
    assert read_table(tmp_path / "named.npy").ids == ("a", "b")
    np.savez(tmp_path / "both.npz", keys=rows, values=rows[:, 0], id=np.array(["a", "b", "c"]))
    table = read_table(tmp_path / "both.npz")
    assert table.keys.shape == (3, 4)
    assert table.values.tolist() == rows[:, :1].tolist()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def given(content: bytes) -> None:
        # As in a locale that lets any byte through.
        stream = io.TextIOWrapper(io.BytesIO(content), encoding="ascii", errors="surrogateescape")
        monkeypatch.setattr(sys, "stdin", stream)

    given(b"k0,v0\n1,2\n")
    assert read_table("-", kind="csv").keys.tolist() == [[1.0]]
    given("\ufeffid,k0,v0\nß,1,2\n".encode())
    assert read_table("-", kind="csv").ids == ("ß",)
    given(b"id,k0,v0\n\xff,1,2\n")
    with pytest.raises(InputError, match="standard input is not UTF-8"):
        read_table("-", kind="csv")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(StoreError, match="cannot read standard input: it is closed"):
        read_table("-", kind="csv")
    with pytest.raises(InputError, match="say what comes on standard input with --format"):
        read_table("-")
    with pytest.raises(InputError, match="npy is read from a file"):
        read_table("-", kind="npy")


def test_who_gets_a_column(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "id,hr,spo2,temp\na,1,2,3\n")
    everything = read_table(path, Columns(keys="*", values="spo2"))
    assert (everything.key_names, everything.value_names) == (("hr", "temp"), ("spo2",))
    shared = read_table(path, Columns(keys="spo2,hr", values="spo2"))
    assert (shared.key_names, shared.value_names) == (("spo2", "hr"), ("spo2",))
    several = read_table(path, Columns(keys="hr", values="spo2", payload="hr,temp"))
    assert several.payloads == ({"hr": "1", "temp": "3"},)
    assert read_table(path, Columns(keys="hr", values="spo2", payload="t*")).payloads == ({"temp": "3"},)


LINES = json.dumps({"key": [1, 2], "value": 3})

BAD: list[tuple[str, str | bytes, dict[str, str], str]] = [
    ("a.csv", "", {}, "has no header"),
    ("a.csv", "k0,v0\n", {}, "has no rows"),
    ("a.csv", "k0,k0,v0\n1,2,3\n", {}, "two columns called 'k0'"),
    ("a.csv", "k0,v0\n1,2\n3\n", {}, r"row 2 \(line 3\) has 1 fields, but the header has 2"),
    ("a.csv", "k0,v0\n1,2\nx,4\n", {}, r"row 2 \(line 3\), column 'k0': 'x' is not a number"),
    ("a.csv", "k0,v0\n1,2\n1_0,4\n", {}, r"row 2 \(line 3\), column 'k0': '1_0' is not a number"),
    ("a.csv", "k0,v0\n1,\n", {}, r"row 1 \(line 2\), column 'v0': the cell is empty"),
    ("a.csv", "k0,v0\n1,nan\n", {}, r"row 1 \(line 2\), column 'v0': 'nan' is not a finite number"),
    ("a.csv", "k0,v0\n1,1e999\n", {}, "column 'v0': '1e999' is not a finite number"),
    ("a.csv", 'k0,v0\n1,"2\n', {}, r"row 1 \(line 2\): unexpected end of data"),
    ("a.csv", "k0,v0,id\n1,2,a\n1,2,a\n", {}, r"row 2 \(line 3\), column 'id': id 'a' is taken by row 1"),
    ("a.csv", "k0,v0,id\n1,2,\n", {}, r"column 'id': an id must not be empty"),
    ("a.csv", "x,v0\n1,2\n", {}, r"no column that matches 'k\*'; name --key-columns; it has x, v0"),
    ("a.csv", "k0,x\n1,2\n", {}, r"no column that matches 'v\*'"),
    ("a.csv", "k0,v0\n1,2\n", {"keys": "hr"}, r"no column 'hr' \(--key-columns\); it has k0, v0"),
    ("a.csv", "k0,v0\n1,2\n", {"subject": "who"}, r"no column 'who' \(--subject-column\)"),
    ("a.csv", "k0,v0\n1,2\n", {"payload": "text"}, r"no column 'text' \(--payload-columns\)"),
    ("a.csv", b"k0,v0\n\xff,2\n", {}, "not UTF-8"),
    ("a.jsonl", "{\n", {}, r"row 1 \(line 1\) is not JSON"),
    ("a.jsonl", "[" * 100_000, {}, r"row 1 \(line 1\) is not JSON"),
    ("a.jsonl", LINES + "\n\n[1]\n", {}, r"row 2 \(line 3\) is not a JSON object but \[1\]"),
    (
        "a.jsonl",
        LINES + '\n{"value": 1}',
        {},
        r"row 2 \(line 2\), column 'key': the missing field, but row 1 has a list",
    ),
    ("a.jsonl", LINES + '\n{"key": [1], "value": 1}', {}, "column 'key': 1 numbers, but row 1 has 2"),
    ("a.jsonl", LINES + '\n{"key": [1, null], "value": 1}', {}, r"column 'key\[1\]': null is not a number"),
    ("a.jsonl", LINES + '\n{"key": [1, true], "value": 1}', {}, r"column 'key\[1\]': True is not a number"),
    ("a.jsonl", '{"key": [], "value": 1}', {}, "row 1 .*column 'key': the list is empty"),
    ("a.jsonl", '{"key": 1e400, "value": 1}', {}, "column 'key': inf is not a finite number"),
    ("a.jsonl", '{"key": 1' + "0" * 400 + ', "value": 1}', {}, "column 'key': .* is not a finite number"),
    ("a.csv", "k0,v0\n1,2\n1,-2e150\n", {}, r"row 2 \(line 3\), column 'v0': '-2e150' is not below 1e150"),
    ("a.jsonl", '{"key": 1, "value": 1, "id": "\\ud800"}', {}, r"row 1 .*column 'id': .* is not valid Unicode"),
    ("a.jsonl", '{"key": 1, "value": 1, "subject": "\\ud800"}', {}, r"row 1 .*column 'subject': .* not valid Unicode"),
    ("a.jsonl", '{"key": 1, "value": 1, "id": [1]}', {}, r"column 'id': \[1\] cannot name anything"),
    ("a.jsonl", '{"key": 1, "value": 1, "id": true}', {}, "column 'id': True cannot name anything"),
    ("a.jsonl", '{"key": 1, "value": 1, "payload": ' + "[" * 65 + "]" * 65 + "}", {}, "column 'payload'.*64 levels"),
    ("a.jsonl", '{"key": 1, "value": 1, "p": 1, "q": ' + "[" * 64 + "]" * 64 + "}", {"payload": "p,q"}, "64 levels"),
    ("a.jsonl", '{"key": 1, "value": 1, "payload": NaN}', {}, r"row 1 \(line 1\), column 'payload': a payload must be"),
    ("a.npy", b"not an array", {}, "not a usable NPY file"),
    ("a.npz", b"not an archive", {}, "not a usable NPZ file"),
    ("a.parquet", b"PAR1 no", {}, "not a usable Parquet file"),
    ("a.xlsx", b"", {}, "cannot tell the format from 'xlsx'; use --format csv"),
    ("a", b"", {}, "cannot tell the format"),
]


@pytest.mark.parametrize(("name", "content", "columns", "message"), BAD)
def test_errors_say_where(
    tmp_path: Path, name: str, content: str | bytes, columns: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_table(written(tmp_path, name, content), Columns(**columns))


def test_bad_arrays(tmp_path: Path) -> None:
    def saved(name: str, **arrays: Any) -> Path:
        path = tmp_path / name
        np.savez(path, **arrays) if name.endswith("z") else np.save(path, next(iter(arrays.values())))
        return path

    for path, message in (
        (saved("a.npy", x=np.zeros(3)), "must have two dimensions"),
        (saved("b.npy", x=np.zeros((3, 2))), "by number, as in --key-columns 0:6"),
        (saved("c.npy", x=np.array([[1.0, np.nan]])), "row 1, column '1': nan is not a finite number"),
        (saved("d.npz", keys=np.zeros((3, 2)), values=np.zeros(2)), "'values' has 2 rows, the others have 3"),
        (saved("e.npz", keys=np.zeros((1, 1, 1))), "must have one or two dimensions"),
        (saved("f.npy", x=np.array([["a", "b"]])), "'a' is not a number"),
    ):
        columns = Columns(keys="0", values="1") if path.name in "c.npy f.npy" else Columns()
        with pytest.raises(InputError, match=message):
            read_table(path, columns)
    with pytest.raises(InputError, match="'a:b' is not a range of columns"):
        read_table(tmp_path / "b.npy", Columns(keys="a:b"))
    (tmp_path / "d.npz").rename(tmp_path / "g.npy")
    with pytest.raises(InputError, match="'values' has 2 rows"):
        read_table(tmp_path / "g.npy")
    (tmp_path / "b.npy").rename(tmp_path / "h.npz")
    with pytest.raises(InputError, match="not an archive of arrays but one array"):
        read_table(tmp_path / "h.npz")


@pytest.mark.parametrize("name", ["none.csv", "none.jsonl", "none.npy", "none.npz", "none.parquet"])
def test_files_that_are_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match=r"cannot read .*none\..*: there is no such file"):
        read_table(tmp_path / name)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(StoreError, match="cannot read"):
        read_table(tmp_path / "x.csv")
    with pytest.raises(InputError, match="'xml' is not a format"):
        read_table(tmp_path / "x.csv", kind="xml")
