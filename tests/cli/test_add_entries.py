"""Commands that put entries in: create, import, admit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars
import pytest

from cli.command_runner import answer, answers, call, hours


def test_create_from_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(3).standard_normal((20, 3))
    np.save("t.npy", rows)
    np.savez("t.npz", keys=rows[:, :2], values=rows[:, 2])
    lines = [{"key": row[:2].tolist(), "value": row[2], "id": f"i{n}"} for n, row in enumerate(rows)]
    Path("t.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    polars.DataFrame({"k0": rows[:, 0], "k1": rows[:, 1], "v": rows[:, 2]}).write_parquet("t.parquet")
    Path("t.tsv").write_text("k0\tk1\tv\n" + "\n".join("\t".join(map(repr, row)) for row in rows.tolist()))
    picked = ("--key-columns", "0:2", "--value-columns", "2")
    found = [
        answer("create", kind, f"t.{kind}", "--sigma", 1, "--cap", 0.1, *(picked if kind == "npy" else ()))
        for kind in ("npy", "npz", "jsonl", "parquet", "tsv")
    ]
    assert {(one["entries"], one["margin"], one["bound"], one["cap"]) for one in found} == {
        (20, found[0]["margin"], found[0]["bound"], 0.1)
    }
    assert [one["index"] for one in found] == list(range(5))
    assert answer("show", "jsonl", "i7")["id"] == "i7"


def test_create_from_a_table_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No option but the file's name; what was guessed is said, and the memory treats later rows alike."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    rows = []
    for row, (a, b, c) in enumerate(rng.standard_normal((60, 3))):
        oxygen = "" if row % 9 == 4 else f"{97 + c:.1f}"
        cells = [f"p-{row % 6}", f"{80 + 12 * a:.0f}", f"{37 + 0.5 * b:.1f}", oxygen, f"note {row}"]
        rows.append(";".join(cells).replace(".", ","))
    Path("ward.csv").write_text("\n".join(["patient;HR [bpm];temp;SpO2;remark", *rows]) + "\n")
    shown = call("create", "ward", "ward.csv", "--preview", env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "HR [bpm]" in shown
    previewed = answer("create", "ward", "ward.csv", "--preview")
    assert not list(tmp_path.glob("*.db*"))
    done = call("create", "ward", "ward.csv")
    for words in ("delimiter: semicolons", "numbers: decimal comma", "subjects: column 'patient'", "SpO2 7 (11.7%) by"):
        assert words in done.stderr
    assert "an answer rests on" in done.stdout
    shape = answer("show", "ward")
    assert shape["sigma"] == previewed["sigma"]
    Path("columns.json").write_text(json.dumps(previewed))
    again = answer("create", "again", "ward.csv", "--columns-file", "columns.json")
    assert (again["sigma"], again["margin"]) == (previewed["sigma"], answer("show", "ward")["margin"])
    Path("more.csv").write_text("SpO2,temp,patient,HR\n97,37,p-9,80\n,37.5,p-9,90\n")
    assert answer("import", "ward", "more.csv")["admitted"] == 2
    assert answer("admit", "ward", "--at", "HR=80,temp=37,SpO2=97", "--subject", "p-9")["outcome"] == "admitted"
    call("admit", "ward", "--at", "0,0,0", code=2)
    Path("less.csv").write_text("patient,HR\np-9,80\n")
    assert "less.csv lacks temp, SpO2" in call("import", "ward", "less.csv", code=2).stderr
    assert answer("erase-subject", "p-9", "--yes")["complete"]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_preview_shows_names_in_a_narrow_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What gives way is the range, never the name of a column."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    names = [f"measurement {place}" for place in range(4)]
    rows = rng.lognormal(-4.0, 1.0, (30, 4)).round(7)
    Path("t.csv").write_text(
        "\n".join(
            [
                ",".join(["patient", *names]),
                *(f"p{row % 7}," + ",".join(map(str, cells)) for row, cells in enumerate(rows)),
            ]
        )
    )
    shown = call("create", "ward", "t.csv", "--preview", env={"COLUMNS": str(width)}).stdout
    for name in names:
        assert name[:11] in shown
    assert max(map(len, shown.splitlines())) <= width
    assert ("not shown" in shown) == (width < 100)
    assert "scale" in shown


def test_a_preview_of_a_wide_table_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many columns alike are shortened; the columns between others, and all of them in JSON, are there."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(3).standard_normal((30, 300)).round(3)
    header = ["patient", *(f"x{place}" for place in range(300)), "note"]
    cells = [[f"p{row % 7}", *map(str, numbers), "ok"] for row, numbers in enumerate(rows)]
    Path("wide.csv").write_text("\n".join(map(",".join, [header, *cells])))
    shown = call("create", "ward", "wide.csv", "--preview").stdout
    assert len(shown.splitlines()) < 40
    for words in ("patient", "x0 ", "x7 ", "… 290 more", "x298", "x299", "note", "302, 290 not shown: --json has all"):
        assert words in shown
    assert "x150" not in shown
    assert [column["name"] for column in answer("create", "ward", "wide.csv", "--preview")["columns"]] == header


def test_lines_above_a_table_are_skipped_where_tables_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"p{row % 5},{60 + row * row % 37},{36 + row % 4 / 4}" for row in range(30)]
    Path("t.csv").write_text("\n".join(["Ward,7", "", "patient,HR,temp", *rows, ""]))
    refused = call("create", "ward", "t.csv", code=2).stderr
    assert "the table seems to begin on line 3" in refused
    assert "--skip-lines 2" in refused
    assert answer("create", "ward", "t.csv", "--skip-lines", 2)["entries"] == 30
    assert answer("import", "ward", "t.csv", "--skip-lines", 2)["admitted"] == 30
    call("tune", "t.csv", "--skip-lines", 2)
    call("tune", "t.csv", "--skip-lines", -1, code=2)


def test_a_file_with_one_row_per_person_gets_ids_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else tomorrow's file, about the same people, would be refused."""
    monkeypatch.chdir(tmp_path)
    rows = [f"p{row % 5},{60 + row},{36 + row % 4 / 4}" for row in range(20)]
    Path("ward.csv").write_text("\n".join(["patient,HR,temp", *rows]))
    call("create", "ward", "ward.csv")
    for day in range(2):
        Path("day.csv").write_text(f"patient,HR,temp\np1,{70 + day},37\np9,{80 + day},38\n")
        assert "ids: random" in call("import", "ward", "day.csv").stderr
    assert answer("erase-subject", "p9", "--yes")["memories"][0]["receipt"]["action"] == "deletion"
    # A register of people has one row per person, and keeps their ids.
    Path("people.csv").write_text(
        "\n".join(["patient,age,bmi", *(f"p{row},{40 + row},{20 + row % 6}" for row in range(20))])
    )
    call("create", "people", "people.csv")
    Path("new.csv").write_text("patient,age,bmi\np77,50,24\n")
    call("import", "people", "new.csv")
    assert answer("show", "people", "p77")["subject"] == "p77"
    assert "--id-column none" in call("import", "people", "new.csv", code=2).stderr


def test_a_unit_that_the_memory_does_not_state_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ward.csv").write_text("\n".join(["HR,temp", *(f"{60 + row},{36 + row % 4 / 4}" for row in range(20))]))
    call("create", "ward", "ward.csv")
    Path("more.csv").write_text("HR,temp [F]\n80,98.6\n")
    assert "column 'temp' is in F; the memory states no unit" in call("import", "ward", "more.csv", "--dry-run").stderr


def test_a_dry_run_of_create_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = hours(tmp_path / "hours.csv")
    found = answer("create", "ward", table, "--sigma", 2, "--nu", 0.3, "--dry-run")
    assert found["dry_run"] is True
    assert found["index"] is None
    assert "nothing was stored" in call("create", "ward", table, "--sigma", 2, "--nu", 0.3, "--dry-run").stdout
    call("create", "ward", table, "--sigma", 2, "--nu", 7, code=2)
    call("create", "", table, "--sigma", 2, "--nu", 0.3, code=2)
    for options in ((), ("--scope", "nonsense"), ("--scope", "read", "--expires", "soon")):
        call("token", "create", *options, code=2)
    assert not list(tmp_path.glob("*.db*"))


def test_a_dry_run_of_create_says_that_a_name_is_taken(ward: Path) -> None:
    words = ("create", "ward", "hours.csv", "--sigma", 2, "--nu", 0.3)
    for options in ((), ("--dry-run",)):
        assert "there is a memory 'ward' already" in call(*words, *options, code=2).stderr


def test_create_takes_a_file_or_a_dimension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = hours(tmp_path / "hours.csv")
    shape = ("--dimension", 3)
    for words in ((), (table, *shape), ("--dimension", 0), (*shape, "--value-dimension", 0), (*shape, "--nu", 7)):
        call("create", "ward", *words, "--sigma", 2, *(() if "--nu" in words else ("--nu", 0.3)), code=2)
    Path("none.csv").write_text("k0,v0\n")
    assert "none.csv has no rows" in call("create", "ward", "none.csv", "--sigma", 2, "--nu", 0.3, code=2).stderr
    assert not list(tmp_path.glob("*.db*"))
    told = answer("create", "ward", *shape, "--sigma", 2, "--nu", 0.3, "--dry-run")
    assert (told["entries"], told["cap"], told["index"], told["key_columns"]) == (0, 1.0, None, ["k0", "k1", "k2"])
    assert "the memory is empty" in call("create", "ward", *shape, "--sigma", 2, "--nu", 0.3).stdout


def test_several_entries_in_one_edit(ward: Path) -> None:
    """Rows of two files, and rows of a table: one receipt; with --each one per row."""
    np.save("keys.npy", [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    np.save("values.npy", [[97.0], [98.0], [99.0]])
    words = ("admit", "ward", "--at", "@keys.npy", "--value", "@values.npy", "--subject", "p-9")
    assert len(answer(*words, "--dry-run")["applied"]) == 3
    leaves = len(answers("log"))
    found = answer(*words, "--evidence", "three.zip")
    assert (found["outcome"], len(found["applied"]), len(answers("log"))) == ("admitted", 3, leaves + 1)
    call("verify", "evidence", "three.zip", "--trust", "log.vkey")
    assert "--id names one entry" in call(*words, "--id", "n", code=2).stderr
    assert "3 keys, and 1 values" in call(*words[:4], "--value", "97", code=2).stderr
    Path("more.csv").write_text("k0,k1,v0\n0,0,97\n0.5,0,97\n0,0.5,98\n")
    assert "3 entries, one receipt" in call("import", "ward", "more.csv").stdout
    assert len(answers("log")) == leaves + 2
    assert "3 entries, one receipt each" in call("import", "ward", "more.csv", "--each").stdout
    assert len(answers("log")) == leaves + 5
    assert answer("erase-subject", "--yes", "p-9")["complete"]


def test_import_row_by_row(ward: Path) -> None:
    Path("more.csv").write_text("id,patient,k0,k1,v0\nh001,p-9,0,0,97\nx1,p-9,0.5,0,97\nx2,p-9,0,0.5,98\n")
    words = ("import", "ward", "more.csv", "--subject-column", "patient")
    assert "more.csv, row 1: id 'h001' is taken in 'ward' (1 in all); --skip-existing" in call(*words, code=2).stderr
    found = answer(*words, "--skip-existing", "--dry-run")
    assert (found["admitted"], found["would_admit"], found["skipped"]) == (0, 2, 1)
    assert "would admit 2 entries" in call(*words, "--skip-existing", "--dry-run").stdout
    before = answer("show", "ward")["entries"]
    found = answer(*words, "--skip-existing")
    assert (found["admitted"], found["skipped"]) == (2, 1)
    assert found["entries"] >= before + 2
    assert "3 that were there already" in call(*words, "--skip-existing").stdout
    Path("wide.csv").write_text("k0,k1,k2,v0\n1,2,3,4\n")
    assert "payload: k2 (number), kept with each entry" in call("import", "ward", "wide.csv").stderr
    Path("other.csv").write_text("k0,rr,v0\n1,2,4\n")
    assert (
        "other.csv lacks k1, which the memory has; not known to the memory: rr"
        in call("import", "ward", "other.csv", code=2).stderr
    )


@pytest.mark.parametrize(
    "row", ['{"id": "\\ud800", "k0": 0, "k1": 0, "v0": 1}', '{"id": "z", "k0": 2e150, "k1": 0, "v0": 1}']
)
def test_an_import_with_a_bad_row_admits_none(ward: Path, row: str) -> None:
    Path("more.jsonl").write_text(f'{{"id": "y", "k0": 0, "k1": 0, "v0": 1}}\n{row}\n')
    before = answer("show", "ward")["digest"]
    assert "more.jsonl, row 2 (line 2), column" in call("import", "ward", "more.jsonl", code=2).stderr
    assert answer("show", "ward")["digest"] == before


def test_an_import_that_skips_needs_ids(ward: Path) -> None:
    Path("more.csv").write_text("k0,k1,v0\n0,0,97\n")
    assert answer("import", "ward", "more.csv")["admitted"] == 1
    before = answer("show", "ward")["digest"]
    assert "more.csv has no ids" in call("import", "ward", "more.csv", "--skip-existing", code=2).stderr
    assert answer("show", "ward")["digest"] == before


def test_import_from_standard_input(ward: Path) -> None:
    found = answer("import", "ward", "-", "--format", "csv", input="id,k0,k1,v0\nz,1,1,97\n")
    assert found["admitted"] == 1


def test_admit(ward: Path) -> None:
    words = ("admit", "ward", "--at", "0.3,-0.2", "--value", "96")
    told = answer(*words, "--dry-run", "--id", "n")
    assert (told["dry_run"], told["applied"]) == (True, ["n"])
    assert "nothing was changed" in call(*words, "--dry-run").stdout
    found = answer(*words, "--id", "n", "--subject", "p-9", "--payload", '{"text": "hello"}', "--evidence", "n.zip")
    assert found["outcome"] == "admitted"
    assert not {"check", "attempts", "seconds", "pivots"} & found.keys()
    assert answer("show", "ward", "n")["payload"] == {"text": "hello"}
    assert "id 'n' is taken" in call(*words, "--id", "n", code=2).stderr
    Path("note.bin").write_bytes(b"\xff\x00")
    Path("at.json").write_text("[0.1, 0.2]")
    call("admit", "ward", "--at", "@at.json", "--value", "[97]", "--id", "b", "--payload", "@note.bin")
    assert answer("show", "ward", "b")["payload"] == "ff00"
    assert "2 bytes" in call("show", "ward", "b").stdout
    call("verify", "evidence", "n.zip", "--trust", "log.vkey")


def test_the_same_request_twice(ward: Path) -> None:
    words = ("delete", "--yes", "other", "h003", "--idempotency-key", "ticket-1")
    assert answer(*words)["index"] == answer(*words)["index"]
    assert call(*words[:3], "h004", *words[4:], code=4).stderr.startswith("error: conflict")
    assert call("delete", "--yes", "other", "h004", "--expected", "0" * 64, code=4).stderr.startswith("error: stale")
    state = answer("show", "other")["digest"]
    assert answer("delete", "--yes", "other", "h004", "--expected", state)["applied"] == ["h004"]


def test_an_admission_that_would_end_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's first example."""
    monkeypatch.chdir(tmp_path)
    Path("three.csv").write_text("id,k0,k1,v0\na,-1,0,1\nb,1,0,2\nc,0,0.9,9\n")
    for mode in ("forget", "archive"):
        call("create", mode, "three.csv", "--sigma", 5, "--cap", 1)
        call("prune", "--yes", mode, "--mode", mode)
        late = ("admit", mode, "--at", "0,-10", "--value", 3, "--id", "d")
        assert "would end 1 certificates" in call(*late, "--on-expiry", "refuse", code=3).stderr
        assert answer(*late, "--on-expiry", "refuse", "--dry-run", code=3)["outcome"] == "refused"
        call(*late)
    (row,) = answers("warranties", "forget")
    assert (row["id"], row["status"]) == ("c", "expired")
    assert "expired" in call("show", "forget", "c").stdout
    assert answers("warranties", "archive") == []
    assert answer("show", "archive", "c")["coefficient"] == pytest.approx(0.0330, abs=1e-3)
