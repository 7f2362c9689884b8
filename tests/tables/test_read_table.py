from __future__ import annotations

import datetime
import gzip
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from expunge import InputError, Memory, MissingExtra, StoreError
from expunge.tables import TableOptions, arrays, read_table

CSV = 'id,who,k0,k1,v0,text\na,p1,0,1.5,7,hello\nb,,2,-3e-1,8,\nc,p1,4,5,9,"x, y"\n'


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_csv(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "ward.csv", CSV), TableOptions(subject="who", payload="text"))
    assert table.keys.tolist() == [[0.0, 1.5], [2.0, -0.3], [4.0, 5.0]]
    assert table.values.tolist() == [[7.0], [8.0], [9.0]]
    assert (table.key_names, table.value_names) == (("k0", "k1"), ("v0",))
    assert table.ids == ("a", "b", "c")
    assert table.subjects == ("p1", None, "p1")
    assert table.payloads == ("hello", "", "x, y")
    memory = Memory.fit(**table.arguments, sigma=1.0, nu=0.5)
    assert memory.ids == ("a", "b", "c")
    assert [row["id"] for row in table.entries()] == ["a", "b", "c"]
    assert len(table) == 3


def test_tabs_a_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "ward.tsv", "\ufeffk0\tv0\r\n1\t2\r\n\r\n3\t4\r\n"))
    assert table.keys.tolist() == [[1.0], [3.0]]
    assert table.ids is table.subjects is table.payloads is None
    assert next(table.entries())["payload"] is None


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
    table = read_table(path, TableOptions(values="spo2"))
    assert table.keys.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.values.tolist() == [[97.0], [98.0]]

    class Arrow:
        @staticmethod
        def read_table(name: str) -> Any:
            return type("T", (), {"to_pydict": lambda self: polars.read_parquet(name).to_dict(as_series=False)})()

    monkeypatch.setattr(arrays, "find_spec", lambda name: None if name == "polars" else object())
    monkeypatch.setattr(arrays, "import_module", lambda name: Arrow)
    assert read_table(path, TableOptions(values="spo2")).ids == ("a", "b")
    monkeypatch.setattr(arrays, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'expunge\[parquet\]'"):
        read_table(path)


def test_arrays(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "plain.npy", rows)
    table = read_table(tmp_path / "plain.npy", TableOptions(keys="0:3", values="3"))
    assert table.keys.tolist() == rows[:, :3].tolist()
    assert table.value_names == ("3",)
    assert (
        read_table(tmp_path / "plain.npy", TableOptions(keys=":-1", values="-1:")).values.tolist()
        == rows[:, 3:].tolist()
    )
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
    assert read_table("-").keys.tolist() == [[1.0]]
    given("\ufeffid,k0,v0\nß,1,2\n".encode())
    assert read_table("-").ids == ("ß",)
    given(b"id,k0,v0\n\xff,1,2\n")
    table = read_table("-")
    assert table.ids == ("ÿ",)
    assert "encoding: Windows-1252" in table.notices[0]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(StoreError, match="cannot read standard input: it is closed"):
        read_table("-")


def test_rows_within_one_object_of_json(tmp_path: Path) -> None:
    rows = [{"hr": 80 + row, "t": 37, "at": {"bed": row}} for row in range(3)]
    path = written(tmp_path, "page.json", json.dumps({"count": 3, "results": rows}, indent=1))
    table = read_table(path)
    assert table.measurements.tolist() == [[80.0], [81.0], [82.0]]
    assert table.notices[0] == "rows: the objects in the list 'results'"
    assert len(read_table(written(tmp_path, "one.json", '{\n"hr": 80,\n"t": 37}'))) == 1


def test_numbers_that_stand_for_missing_ones(tmp_path: Path) -> None:
    """One spelling stands for all others of the same number, in text and in columns of numbers."""
    wanted = TableOptions(also_missing="-999")
    text = written(tmp_path, "t.csv", "hr,t\n80,36\n\N{MINUS SIGN}999.0,37\n82,38\n")
    polars.DataFrame({"hr": [80.0, -999.0, 82.0], "t": [36, 37, 38]}).write_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", hr=np.array([80, -999, 82]), t=np.array([36.0, 37.0, 38.0]))
    for path in (text, tmp_path / "t.parquet", tmp_path / "t.npz"):
        assert np.isnan(read_table(path, wanted).measurements).tolist() == [[False] * 2, [True, False], [False] * 2]


def test_payload_cells_as_parquet_has_them(tmp_path: Path) -> None:
    """NaN is a missing number, and times are text, within structures as well; bytes are refused."""
    day = datetime.date(2026, 1, 2)
    frame = polars.DataFrame({"x": [1.0, 2.0], "c": [7.0, float("nan")], "s": [{"on": day, "y": float("nan")}] * 2})
    frame.write_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    inner = {"on": "2026-01-02", "y": None}
    assert table.payloads == ({"c": 7.0, "s": inner}, {"c": None, "s": inner})
    frame.with_columns(b=polars.lit(b"ab")).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"column 'b'.*--leave-out 'b'"):
        read_table(tmp_path / "b.parquet")
    assert len(read_table(tmp_path / "b.parquet", TableOptions(leave_out="b"))) == 2


def test_who_gets_a_column(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "id,hr,spo2,temp\na,1,2,3\n")
    everything = read_table(path, TableOptions(keys="*", values="spo2"))
    assert (everything.key_names, everything.value_names) == (("hr", "temp"), ("spo2",))
    shared = read_table(path, TableOptions(keys="spo2,hr", values="spo2"))
    assert (shared.key_names, shared.value_names) == (("spo2", "hr"), ("spo2",))
    several = read_table(path, TableOptions(keys="hr", values="spo2", payload="hr,temp"))
    assert several.payloads == ({"hr": "1", "temp": "3"},)
    assert read_table(path, TableOptions(keys="hr", values="spo2", payload="t*")).payloads == ({"temp": "3"},)


LINES = json.dumps({"key": [1, 2], "value": 3})

BAD: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    ("a.csv", "", {}, "has no header"),
    ("a.csv", "k0,v0\n", {}, "has no rows"),
    ("a.csv", "k0,k0,v0\n1,2,3\n", {}, "two columns called 'k0'"),
    ("a.csv", "k0,v0\n1,2\n3\n", {}, r"row 2 \(line 3\) has 1 fields, but the header has 2"),
    ("a.csv", "k0,v0\n1,2\nx,4\n", {}, r"row 2 \(line 3\), column 'k0': 'x' is not a number"),
    ("a.csv", "k0,v0\n1,2\n1_0,4\n", {}, r"row 2 \(line 3\), column 'k0': '1_0' is not a number"),
    ("a.csv", "k0,v0\n1,\n", {"values": "v0"}, "column 'v0': every cell is empty"),
    ("a.csv", "k0,v0\n1,1e999\n", {}, "column 'v0': '1e999' is not a finite number"),
    ("a.csv", 'k0,v0\n1,"2\n', {}, r"row 1 \(line 2\): a quotation mark opens"),
    ("a.csv", "k0,v0,id\n1,2,a\n1,2,a\n", {}, r"row 2 \(line 3\), column 'id': id 'a' is taken by row 1"),
    ("a.csv", "k0,v0,id\n1,2,\n", {}, r"column 'id': an id must not be empty"),
    ("a.csv", "x,y\na,b\n", {}, r"no column of numbers that could be keys; it has x \(text, as in 'a'\)"),
    ("a.csv", "k0,v0\n1,2\n", {"keys": "hr"}, r"no column 'hr' \(--key-columns\); it has k0, v0"),
    ("a.csv", "k0,v0\n1,2\n", {"subject": "who"}, r"no column 'who' \(--subject-column\)"),
    ("a.csv", "k0,v0\n1,2\n", {"payload": "text"}, r"no column 'text' \(--payload-column\)"),
    ("a.csv", b"k0,v0\n\xff,2\n", {}, r"row 1 \(line 2\), column 'k0': '\xff' is not a number"),
    ("a.csv", b"k0,v0,t\n1,2,\xc3\xa4\n1,2,\xe4\n", {}, "line 3: byte 0xe4 is not UTF-8, as other lines are"),
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
    ("a.jsonl", '{"key": 1, "value": 1, "payload": Infinity}', {}, r"row 1 .*'payload': a payload .* --leave-out"),
    ("a.csv", "x:y\n1:2\n", {}, "--delimiter ':'"),
    ("a.csv", "sick\nyes\nno\n", {}, "true and false as 1 and 0"),
    ("a.csv", "<html><body>404</body></html>", {}, "is a web page"),
    ("a.json", '{"hr": 80,\n"t": }', {}, r"row 1 \(line 1\) is not JSON"),
    ("a.jsonl", '{\n"hr": 80}', {}, "--format json"),
    ("a.json", "5", {}, "is not a JSON object but 5"),
    ("a.zip", b"PK\x03\x04" + b"\x00" * 30, {}, "not a usable ZIP file"),
    ("a.json", '{"hr": [1, 2], "t": [3, 4]}', {}, "one object per row"),
    ("a.npy", b"not an array", {}, "not a usable NPY file"),
    ("a.npz", b"not an archive", {}, "not a usable NPZ file"),
    ("a.parquet", b"PAR1 no", {}, "not a usable Parquet file"),
    ("a.xlsx", b"", {}, "is empty"),
    ("a", b"", {}, "is empty"),
    ("a", b"\x01\x00\x02", {}, "is not text, and not a table in a known format"),
]


@pytest.mark.parametrize(("name", "content", "columns", "message"), BAD)
def test_errors_say_where(
    tmp_path: Path, name: str, content: str | bytes, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_table(written(tmp_path, name, content), TableOptions(**columns))


def test_bad_arrays(tmp_path: Path) -> None:
    def saved(name: str, **arrays: Any) -> Path:
        path = tmp_path / name
        np.savez(path, **arrays) if name.endswith("z") else np.save(path, next(iter(arrays.values())))
        return path

    for path, message in (
        (saved("a.npy", x=np.zeros(3)), "must have two dimensions"),
        (saved("b.npy", x=np.zeros((3, 2))), "'a:b' is not a range of columns"),
        (saved("c.npy", x=np.array([[1.0, 2.0], [1.0, np.nan]])), "row 2, column '1': the number is missing"),
        (saved("d.npz", keys=np.zeros((3, 2)), values=np.zeros(2)), "'values' has 2 rows, the others have 3"),
        (saved("e.npz", keys=np.zeros((1, 1, 1))), "must have one or two dimensions"),
        (saved("f.npy", x=np.array([["a", "b"]])), "'a' is not a number"),
        (saved("i.npy", x=np.array([["a", "b"]])), "no column of numbers that could be keys; it has 0"),
        (saved("j.npy", x=np.zeros((3, 2))), "no column left for the keys: name some with --key-columns"),
    ):
        keys = {"b.npy": "a:b", "c.npy": "0", "f.npy": "0"}.get(path.name)
        columns = TableOptions(keys=keys, values="*" if path.name == "j.npy" else None if keys is None else "1")
        with pytest.raises(InputError, match=message):
            read_table(path, columns)
    (tmp_path / "d.npz").rename(tmp_path / "g.npy")
    with pytest.raises(InputError, match="'values' has 2 rows"):
        read_table(tmp_path / "g.npy")
    (tmp_path / "b.npy").rename(tmp_path / "h.npz")
    assert len(read_table(tmp_path / "h.npz")) == 3


@pytest.mark.parametrize("name", ["none.csv", "none.jsonl", "none.npy", "none.npz", "none.parquet"])
def test_files_that_are_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match=r"cannot read .*none\..*: there is no such file"):
        read_table(tmp_path / name)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(StoreError, match="cannot read"):
        read_table(tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"--format is csv or .*, not 'xml'"):
        read_table(tmp_path / "x.csv", TableOptions(format="xml"))


@pytest.mark.slow
def test_what_unpacks_to_far_more_than_it_has_is_not_unpacked(tmp_path: Path) -> None:
    """A file of 0.3 MB that would take 300 MB: the memory that is taken stays small."""
    zeros = np.zeros((300 << 20) // 8)
    np.savez_compressed(tmp_path / "bomb.npz", a=zeros)
    text = b"0," * (1 << 20)
    with gzip.open(tmp_path / "bomb.csv.gz", "wb", compresslevel=1) as file:
        for _ in range(150):
            file.write(text)
    with (
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.csv", "w") as one,
    ):
        for _ in range(150):
            one.write(text)
    for name in ("bomb.npz", "bomb.csv.gz", "bomb.zip"):
        with pytest.raises(InputError, match="unpacks to more than 256 MB"):
            read_table(tmp_path / name)
    # What packs well, and is small, is read.
    np.savez_compressed(tmp_path / "fine.npz", k0=np.zeros(1000), v0=np.arange(1000.0))
    assert len(read_table(tmp_path / "fine.npz")) == 1000
