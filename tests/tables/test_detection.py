"""Format, packing, encoding, delimiter, decimal mark and header of a file are found, or named in the error."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from expunge.errors import InputError
from expunge.tables import Table, TableOptions, read_table
from expunge.tables.spellings import grouped_number

ROWS = "hr,temp\n80,36.5\n90,37.25\n70,38.0\n"


def read(folder: Path, content: str | bytes, name: str = "t.csv", **options: object) -> Table:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, TableOptions(**options))  # type: ignore[arg-type]


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_dot_", ".").replace("_slash_", "/"), content)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (ROWS, "t.csv"),
        (ROWS, "t.txt"),
        (ROWS, "t"),
        (ROWS.replace("\n", "\r\n"), "t.csv"),
        (ROWS.replace("\n", "\r"), "t.csv"),
        (ROWS.replace(",", "\t"), "t.csv"),
        (ROWS.replace(",", ";"), "t.csv"),
        (ROWS.replace(",", "|"), "t.tsv"),
        (ROWS.replace(",", ";").replace(".", ","), "t.csv"),
        ("sep=;\n" + ROWS.replace(",", ";").replace(".", ","), "t.csv"),
        (ROWS.replace(",", ";").replace("temp", '"temp"').replace("36.5", '"36,5"').replace(".", ","), "t.csv"),
        (b"\xef\xbb\xbf" + ROWS.encode(), "t.csv"),
        (ROWS.encode("utf-16"), "t.csv"),
        (b"\xfe\xff" + ROWS.encode("utf-16-be"), "t.csv"),
        (ROWS.encode("utf-16-le"), "t.csv"),
        (ROWS.encode("utf-32"), "t.csv"),
        (gzip.compress(ROWS.encode(), mtime=0), "t.csv.gz"),
        (gzip.compress(ROWS.encode(), mtime=0), "t.csv"),
        (zipped(t_dot_csv=ROWS), "t.zip"),
        (ROWS + ",\n,\n", "t.csv"),
        (ROWS.replace("90", "hr,temp\n90"), "t.csv"),
        (ROWS.replace("hr,temp\n", "hr,temp\nbpm,°C\n"), "t.csv"),
        (ROWS.replace("hr,temp\n", "hr [bpm],temp (°C)\n"), "t.csv"),
        (",hr,temp\n0,80,36.5\n1,90,37.25\n2,70,38.0\n", "t.csv"),
        ("hr,temp,\n80,36.5,\n90,37.25,\n70,38.0,\n", "t.csv"),
        ("hr temp\n80 36.5\n90 37.25\n70 38.0\n", "t.txt"),
        ("hr   temp\n80   36.5\n90   37.25\n70   38.0\n", "t.txt"),
        ('"hr" "temp"\n"1" 80 36.5\n"2" 90 37.25\n"17" 70 38.0\n', "t.txt"),
        ('hr, temp, "note, in short"\n80, 36.5, "a, b"\n90, 37.25, c\n70, 38.0, "d"\n', "t.csv"),
        ('[{"hr": 80, "temp": 36.5}, {"hr": 90, "temp": 37.25}, {"hr": 70, "temp": 38}]', "t.json"),
        ('[{"hr": 80, "temp": 36.5}, {"hr": 90, "temp": 37.25}, {"hr": 70, "temp": 38}]', "t"),
        ('{"hr": 80, "temp": 36.5}\n{"hr": 90, "temp": 37.25}\n{"hr": 70, "temp": 38}\n', "t.json"),
        ('{"hr": 80, "temp": 36.5}\n{"hr": 90, "temp": "37.25"}\n{"hr": 70, "temp": 38}\n', "t"),
    ],
)
def test_the_same_table_however_it_is_written(tmp_path: Path, content: str | bytes, name: str) -> None:
    table = read(tmp_path, content, name)
    assert table.measurements.tolist() == [[80.0, 36.5], [90.0, 37.25], [70.0, 38.0]]
    assert table.key_names == ("hr", "temp")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (zipped(xl="", **{"[Content_Types]_dot_xml": ""}), "t.xlsx", "an Excel workbook, .* CSV UTF-8, and give t.csv"),
        (zipped(content_dot_xml="", mimetype=""), "t.ods", "an OpenDocument spreadsheet"),
        (b"\xd0\xcf\x11\xe0" + b"\x00" * 99, "t.xls", "an Excel workbook"),
        (zipped(a_dot_csv=ROWS, b_dot_csv=ROWS), "t.zip", "a zip archive of 2 files"),
        (b"BZh9", "t.csv.bz2", "packed with bzip2"),
        (gzip.compress(ROWS.encode(), mtime=0)[:-9], "t.csv.gz", "a damaged gzip file"),
        ("", "t.csv", "is empty: it has no header and no rows"),
        ("\n\n", "t.csv", "is empty"),
        ("hr,temp\n", "t.csv", "no rows below its header"),
        ("[]", "t.json", "no rows"),
        ("[1", "t.json", "is not JSON"),
        ("80,36.5\n90,37\n", "t.csv", r"no header: its first line holds numbers \(80, 36.5\).*--no-header"),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n", "t.csv", "no header"),
        ("hr,temp,hr\n1,2,3\n", "t.csv", r"two columns called 'hr' \(columns 1 and 3\)"),
        (
            "hr,temp\n80,36.5\n90\n",
            "t.csv",
            r"row 2 \(line 3\) has 1 fields, but the header has 2, separated by commas",
        ),
        (
            'a,b\n1,2\n3,"4\n5,6\n',
            "t.csv",
            r"row 2 \(line 3\): a quotation mark opens a field there, and none closes it",
        ),
        (
            "Ward 7, 2026\nhr,temp,wbc\n80,36.5,4\n90,37,5\n",
            "t.csv",
            "the table seems to begin on line 2, with hr, temp, wbc: say --skip-lines 1",
        ),
        (
            "Patient,Müller\nWard,7\n\nhr,temp,wbc\n80,36.5,4\n90,37,5\n",
            "t.csv",
            "the table seems to begin on line 4, .*: say --skip-lines 3",
        ),
        ("hr,temp\n80,36.5,4\n90,37,5\n", "t.csv", "row 1 .line 2. has 3 fields, .* --skip-lines says how many"),
        (
            "hr;wbc\n80;1,234\n90;2,345\n",
            "t.csv",
            r"row 1 \(line 2\), column 'wbc': the comma of '1,234' .*--decimal comma for 1.234, or .* point for 1234",
        ),
        (
            "hr,wbc\n80,1.234.567\n90,2.345.678\n",
            "t.csv",
            "points of '1.234.567' separate thousands; say --decimal comma",
        ),
        (
            "hr;wbc;x\n80;1,5;1.5\n90;2,5;2.5\n",
            "t.csv",
            r"'1.5' has a decimal point, and '1,5' in column 'wbc' a comma",
        ),
        (
            "hr,spo2\n80,97 %\n90,98\n",
            "t.csv",
            r"row 1 .line 2., column 'spo2': '97 %' has its unit in the cell.*write 'spo2 \[%\]' .*--leave-out 'spo2'",
        ),
        (
            "hr,dose,spo2,cost\n80,5 mg,97,$1\n90,10 g,98%,£2\n",
            "t.csv",
            r"Such columns: dose \(g, mg\), spo2 \(%\), cost \(\$, £\); .*--leave-out 'dose,spo2,cost'",
        ),
        (
            "hr,spo2 [fraction]\n80,97 %\n90,98 %\n",
            "t.csv",
            "'spo2' is in fraction by its header, but cells such as '97 %' are in %",
        ),
        (
            "hr,cost\n80,1.899 €\n90,2.199 €\n",
            "t.csv",
            "the point of '1.899' .€. may be decimal .*--decimal comma for 1899",
        ),
        ("hr;cost\n80;€1,899\n90;€2,199\n", "t.csv", "the comma of '1,899' may be decimal"),
        ("hr,temp\n80,36.5\n90,inf\n", "t.csv", r"row 2 \(line 3\), column 'temp': 'inf' is not a finite number"),
        ("hr,name\n80,\xe4\n90,\udcff\n".encode("utf-8", "surrogateescape"), "t.csv", "line 3: byte 0xff is not UTF-8"),
        (b"hr,name\n80,\x81\n", "t.csv", "line 2: byte 0x81 is neither UTF-8 nor Windows-1252; .*--encoding"),
    ],
)
def test_the_error_names_what_it_is_and_what_to_do(
    tmp_path: Path, content: str | bytes, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, content, name)


def test_an_option_decides(tmp_path: Path) -> None:
    assert read(tmp_path, "80,36.5\n90,37\n", header=False).key_names == ("0", "1")
    assert read(tmp_path, "2019,2020\n1,2\n3,5\n", header=True).key_names == ("2019", "2020")
    assert read(tmp_path, "hr;wbc\n80;1,234\n90;2,345\n", decimal="comma").measurements[0, 1] == 1.234
    assert read(tmp_path, "hr;wbc\n80;1,234\n90;2,345\n", decimal="point").measurements[0, 1] == 1234.0
    assert read(tmp_path, "hr,wbc\n80,1.234.567\n90,2\n", decimal="comma").measurements[0, 1] == 1234567.0
    assert read(tmp_path, "a~b\n1~2\n3~5\n", delimiter="~").key_names == ("a", "b")
    assert read(tmp_path, "a;b\n1;2\n3;5\n", delimiter="semicolon").key_names == ("a", "b")
    cyrillic = "пульс,имя\n80,Анна\n90,Олег\n"
    assert read(tmp_path, cyrillic.encode("cp1251"), encoding="cp1251").key_names == ("пульс",)
    for options, message in (
        ({"encoding": "nonsense"}, "'nonsense' is not an encoding"),
        ({"encoding": "utf-8"}, "line 1: byte 0xef is not utf-8 text"),
        ({"delimiter": "::"}, "--delimiter is one character"),
        ({"decimal": "dot"}, "--decimal is point or comma"),
    ):
        with pytest.raises(InputError, match=message):
            read(tmp_path, cyrillic.encode("cp1251"), **options)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (("1,234,567", "2,345,678", "12"), [1234567.0, 2345678.0, 12.0]),
        (("1,234.5", "999.25", "-2,000"), [1234.5, 999.25, -2000.0]),
        (("1.234,5", "999,25", "-2.000.000"), [1234.5, 999.25, -2000000.0]),
        (("1'234.5", "12'345'678", "7"), [1234.5, 12345678.0, 7.0]),
        (("1\u202f234,5", "12 345,0", "7"), [1234.5, 12345.0, 7.0]),
    ],
)
def test_thousands_separators_are_taken_out_where_they_can_be_nothing_else(
    tmp_path: Path, cells: tuple[str, ...], numbers: list[float]
) -> None:
    table = read(tmp_path, "hr;wbc\n" + "".join(f"8{row};{cell}\n" for row, cell in enumerate(cells)))
    assert table.measurements[:, 1].tolist() == numbers
    assert any("thousands separators taken out: wbc" in notice for notice in table.notices)


@pytest.mark.parametrize("cell", ["0,123", "1,23", "12,34,567", "1,234.5,6", "1.234.5", "1 234 5", "1,234 567", ",123"])
def test_other_numbers_have_no_thousands_separators(cell: str) -> None:
    assert grouped_number(cell, ".") is None
    assert grouped_number(cell, ",") is None


TITLES = [
    "Ward 7\n",
    "Ward 7\n\n",
    "# exported 2026-05-01, by hand\n# second line\n",
    '# a "quotation, "mark\n\n',
    "\n\n",
    "Ward 7\nMay 2026\n\n# comment\n",
    "Ward 7,\n,\n",
    "Ward 7,\nMay 2026,\n,\nconfidential,\n",
]


@pytest.mark.parametrize("sign", [",", ";", "\t"])
@pytest.mark.parametrize("title", TITLES)
def test_titles_and_comments_above_the_header_are_passed_over(tmp_path: Path, title: str, sign: str) -> None:
    above = title if title.startswith("#") else title.replace(",", sign)
    table = read(tmp_path, above + ROWS.replace(",", sign))
    assert table.measurements.tolist() == [[80.0, 36.5], [90.0, 37.25], [70.0, 38.0]]
    assert table.key_names == ("hr", "temp")
    told = [notice for notice in table.notices if "--skip-lines" in notice]
    assert told == (
        [f"the table begins on line {title.count(chr(10)) + 1}, below titles or comments; --skip-lines says otherwise"]
        if title.strip()
        else []
    )
    # Rows keep the lines of the file.
    with pytest.raises(InputError, match=rf"row 3 \(line {title.count(chr(10)) + 4}\)"):
        read(tmp_path, above + ROWS.replace(",", sign).replace("38.0", "x"))


def test_lines_that_are_to_be_skipped(tmp_path: Path) -> None:
    above = "Patient,Müller\nWard,7\n"
    assert read(tmp_path, above + ROWS, skip_lines=2).key_names == ("hr", "temp")
    assert read(tmp_path, "sep=;\n" + ROWS.replace(",", ";"), skip_lines=1).key_names == ("hr", "temp")
    assert read(tmp_path, above + "1,2\n2,3\n", skip_lines=2, header=False).measurements.shape == (2, 2)
    with pytest.raises(InputError, match=r"row 3 \(line 6\), column 'temp'"):
        read(tmp_path, above + ROWS.replace("38.0", "x"), skip_lines=2)
    with pytest.raises(InputError, match="is empty"):
        read(tmp_path, ROWS, skip_lines=9)
    with pytest.raises(InputError, match="--skip-lines is a number of lines"):
        read(tmp_path, ROWS, skip_lines=-1)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        # A header that begins with the sign of a comment, one with empty cells, a name alone, a name of two lines.
        ("#hr,temp\n80,36.5\n90,37\n", ("#hr", "temp")),
        ("# note\n#hr,temp\n80,36.5\n90,37\n", ("#hr", "temp")),
        ("hr,,\n80,36.5,4.5\n90,37,5\n70,36,6\n", ("hr", "column 2", "column 3")),
        ("hr\n80\n90\n", ("hr",)),
        ('"blood\npressure",hr\n80,36.5\n90,37\n', ("blood\npressure", "hr")),
    ],
)
def test_headers_are_no_titles(tmp_path: Path, content: str, names: tuple[str, ...]) -> None:
    table = read(tmp_path, content)
    assert table.key_names == names
    assert len(table) == content.count("\n") - 1 - content.count("note") - content.count("blood")


@pytest.mark.parametrize("word", ["Total", "Grand total:", "Summe", "Mittelwert", "合计"])
def test_a_row_of_sums_at_the_end_is_no_entry(tmp_path: Path, word: str) -> None:
    table = read(tmp_path, f"ward,hr,temp\nA,80,36.5\nB,90,37\n{word},170,73.5\n")
    assert table.measurements.tolist() == [[80.0, 36.5], [90.0, 37.0]]
    assert any(f"line 4 sums up the others ({word})" in notice for notice in table.notices)
    # Within the table and without another row it is an entry like others.
    assert len(read(tmp_path, f"ward,hr,temp\n{word},80,36.5\nB,90,37\n")) == 2
    assert len(read(tmp_path, f"ward,hr,temp\n{word},80,36.5\n")) == 1
    assert len(read(tmp_path, f"hr,temp\n80,36.5\n90,37\n{word},36\n")) == 2


def test_a_unit_in_every_cell_is_the_columns(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        'pay,share,dose,cost,temp,at,day,note\n"$62,600",25%,5 mg,"1.299,50 €",36.5 °C,8 am,3 May,ok\n'
        '"-$1,250",7 %,2.5 mg,"12,00 €",NA,9 am,4 May,5 mg\n'.replace("2.5 mg", "2 mg").replace("36.5", "36"),
    )
    assert table.key_names == ("pay", "share", "dose", "cost", "temp")
    assert [column.unit for column in table.preprocessing.keys] == ["$", "%", "mg", "€", "°C"]
    assert table.measurements[0].tolist() == [62600.0, 25.0, 5.0, 1299.5, 36.0]
    assert table.measurements[1, 0] == -1250.0
    assert np.isnan(table.measurements[1, 4])
    assert table.payloads == (
        {"at": "8 am", "day": "3 May", "note": "ok"},
        {"at": "9 am", "day": "4 May", "note": "5 mg"},
    )
    (told,) = [notice for notice in table.notices if notice.startswith("units read")]
    assert "pay in $ (as in '$62,600'), share in % (as in '25%')" in told
    # A column that the caller wants as text stays as it is.
    text = read(tmp_path, "hr,dose\n80,5 mg\n90,10 mg\n", payload="dose")
    assert text.payloads == ("5 mg", "10 mg")


def test_units_in_cells_are_held_to_those_of_the_memory(tmp_path: Path) -> None:
    first = read(tmp_path, "hr,dose\n80,5 mg\n90,10 mg\n")
    assert read(tmp_path, "dose [mg],hr\n7,80\n", preprocessing=first.preprocessing).measurements.tolist() == [
        [80.0, 7.0]
    ]
    with pytest.raises(InputError, match="'dose' is in g, but the memory has mg"):
        read(tmp_path, "hr,dose\n80,5 g\n", preprocessing=first.preprocessing)


def test_text_with_blanks_is_no_table(tmp_path: Path) -> None:
    for content in ("label\nbed 1\nbed 2\n", "one two three\nfour five six\n", "a note\nof 1\nand 2 more\n"):
        with pytest.raises(InputError, match="no column of numbers"):
            read(tmp_path, content)


def test_codes_with_zeros_before_them_are_pointed_out(tmp_path: Path) -> None:
    table = read(tmp_path, "client,zip,spend\na,01067,3\nb,80331,0\nc,04109,0.5\n")
    assert any("begin with 0, as codes do: zip" in notice for notice in table.notices)
    assert read(tmp_path, "client,zip,spend\na,01067,3\nb,80331,0\n", leave_out="zip").key_names == ("spend",)


def test_a_saved_index_is_no_measurement(tmp_path: Path) -> None:
    """Of a data frame that was filtered: its numbers have gaps, and another order where it was sorted."""
    for header in ("", "Unnamed: 0", "__index_level_0__"):
        table = read(tmp_path, f"{header},hr,temp\n17,80,36.5\n4,90,37\n5,85,36\n")
        assert table.key_names == ("hr", "temp")
        assert "numbers the rows: left out" in table.notices[0]
    assert read(tmp_path, "a,hr,temp\n17,80,36.5\n4,90,37\n").key_names == ("a", "hr", "temp")
    assert read(tmp_path, ",hr\n1.5,80\n4,90\n").key_names == ("column 1", "hr")
    assert read(tmp_path, ",hr\n4,80\n4,90\n5,70\n").key_names == ("column 1", "hr")
    assert read(tmp_path, ",hr\n17,80\n4,90\n", id="column 1").ids == ("17", "4")


def test_a_number_that_stands_for_a_missing_one_is_pointed_out(tmp_path: Path) -> None:
    rows = "".join(f"{60 + row},{-999 if row % 5 == 0 else 1 + row / 7}\n" for row in range(30))
    table = read(tmp_path, f"hr,lactate\n{rows}")
    assert any("lactate: -999 in 6 rows" in notice and "--also-missing -999" in notice for notice in table.notices)
    table = read(tmp_path, f"hr,lactate\n{rows}", also_missing="-999")
    assert [column.missing for column in table.columns] == [0, 6]
    assert not any("far from all" in notice for notice in table.notices)


def test_names_of_numbers_from_0_are_a_header(tmp_path: Path) -> None:
    """A data frame without names is written so."""
    table = read(tmp_path, ",0,1,2\n0,1.5,2.5,3.5\n1,4.5,5.5,7.5\n")
    assert table.key_names == ("0", "1", "2")


def test_western_text_is_shown_as_it_was_read(tmp_path: Path) -> None:
    table = read(tmp_path, "patient,hr\nMüller,80\nGroß,90\n".encode("latin-1"))
    assert table.subjects == ("Müller", "Groß")
    assert "it has 'Müller,80'" in table.notices[0]


def test_a_unit_is_no_name(tmp_path: Path) -> None:
    table = read(tmp_path, "HR [bpm],temp (°C),temp (°F),x[0],x[1]\n80,36,98,1,2\n90,37,99,2,4\n")
    assert table.key_names == ("HR", "temp (°C)", "temp (°F)", "x[0]", "x[1]")
    assert [column.unit for column in table.preprocessing.keys] == ["bpm", "°C", "°F", None, None]
    assert read(tmp_path, "HR [bpm],temp\n80,36\n90,37\n", keys="HR [bpm]").key_names == ("HR",)


def test_a_quoted_line_break_keeps_the_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape("row 3 (line 5), column 'hr': 'x' is not a number")):
        read(tmp_path, 'hr,note\n80,"two\nlines"\n90,b\nx,c\n')
