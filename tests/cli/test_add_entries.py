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
    assert "keys of 3 columns, but 'ward' has 2" in call("import", "ward", "wide.csv", code=2).stderr


@pytest.mark.parametrize("row", ['{"id": "\\ud800", "k": [0, 0], "v": 1}', '{"id": "z", "k": [2e150, 0], "v": 1}'])
def test_an_import_with_a_bad_row_admits_none(ward: Path, row: str) -> None:
    Path("more.jsonl").write_text(f'{{"id": "y", "k": [0, 0], "v": 1}}\n{row}\n')
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
    words = ("delete", "other", "h003", "--idempotency-key", "ticket-1")
    assert answer(*words)["index"] == answer(*words)["index"]
    assert call(*words[:2], "h004", *words[3:], code=4).stderr.startswith("error: conflict")
    assert call("delete", "other", "h004", "--expected", "0" * 64, code=4).stderr.startswith("error: stale")
    state = answer("show", "other")["digest"]
    assert answer("delete", "other", "h004", "--expected", state)["applied"] == ["h004"]


def test_an_admission_that_would_end_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's first example."""
    monkeypatch.chdir(tmp_path)
    Path("three.csv").write_text("id,k0,k1,v0\na,-1,0,1\nb,1,0,2\nc,0,0.9,9\n")
    for mode in ("forget", "archive"):
        call("create", mode, "three.csv", "--sigma", 5, "--cap", 1)
        call("prune", mode, "--mode", mode)
        late = ("admit", mode, "--at", "0,-10", "--value", 3, "--id", "d")
        assert "would end 1 certificates" in call(*late, "--on-expiry", "refuse", code=3).stderr
        assert answer(*late, "--on-expiry", "refuse", "--dry-run", code=3)["outcome"] == "refused"
        call(*late)
    (row,) = answers("warranties", "forget")
    assert (row["id"], row["status"]) == ("c", "expired")
    assert "expired" in call("show", "forget", "c").stdout
    assert answers("warranties", "archive") == []
    assert answer("show", "archive", "c")["coefficient"] == pytest.approx(0.0330, abs=1e-3)
