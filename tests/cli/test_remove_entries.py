"""Commands that take entries out, or keep them from being taken: delete, prune, erase-subject, hold, release."""

from __future__ import annotations

import json
import re
import time
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import expunge
from cli.command_runner import answer, answers, call, damage
from expunge.errors import StoreError
from expunge.ledger.file_writing import new_file
from expunge.store import Preview


def test_delete(ward: Path) -> None:
    told = answer("delete", "other", "h000", "h001", "--dry-run")
    assert told["applied"] == ["h000", "h001"]
    found = answer("delete", "--yes", "other", "h000", "h001", "--evidence", "two.zip")
    assert found["outcome"] in ("decrement", "certified_zero")
    call("verify", "evidence", "two.zip", "--trust", "log.vkey")
    assert "two.zip exists" in call("delete", "--yes", "other", "h002", "--evidence", "two.zip", code=2).stderr
    assert "receipt" in call("delete", "--yes", "other", "--subject", "p-4").stdout
    assert call("delete", "--yes", "other", "h000", code=2).stderr.startswith(
        "error: input-error: no entry has id 'h000'"
    )


def test_more_deletions_than_the_cap_allows(ward: Path) -> None:
    """What it says: how many of how many, that the rest was fitted again, and at which cap."""
    cap = answer("show", "other")["cap"]
    ids = [f"h{row:03d}" for row in range(40)]
    told = answer("delete", "other", *ids[:30], "--dry-run")
    assert (told["outcome"], told["size"], told["cap_before"]) == ("refitted", 10, cap)
    would = " ".join(call("delete", "other", *ids[:30], "--dry-run", env={"COLUMNS": "300"}).stdout.split())
    sentence = "30 of 40 entries {0} removed. Too few {0} left for the old cap, so the remaining 10 {0} fitted again"
    assert sentence.format("would be") in would
    said = " ".join(call("delete", "other", *ids[:30], "--yes", env={"COLUMNS": "300"}).stdout.split())
    assert f"{sentence.format('were')} at cap {told['cap']:.6g} (was {cap:.6g})." in said
    assert answer("show", "other")["cap"] == told["cap"]
    assert "refitted" in call("log").stdout
    # The last ones.
    done = answer("delete", "--yes", "other", *ids[30:], "--evidence", "rest.zip")
    assert (done["outcome"], len(done["applied"])) == ("emptied", 10)
    call("verify", "evidence", "rest.zip", "--trust", "log.vkey")
    call("verify", "ledger", "--trust", "log.vkey")
    assert "emptied" in call("log", done["index"]).stdout


def test_an_empty_memory(ward: Path) -> None:
    answer("erase-subject", "--yes", "p-1")
    call("create", "later", "--sigma", 2, "--nu", 0.4, "--dimension", 2, "--value-dimension", 2)
    shown = answer("show", "later")
    assert (shown["entries"], shown["dimension"], shown["value_dimension"], shown["cap"]) == (0, 2, 2, 1.0)
    assert "the memory is empty" in call("show", "later").stdout
    assert answers("search", "later", "--at", "0,0") == []
    assert "'later' is empty" in call("search", "later", "--at", "0,0").stderr
    assert call("read", "later", "--at", "0,0", code=2).stderr.startswith("error: memory-empty: the memory is empty")
    assert answer("prune", "later")["outcome"] == answer("rebuild", "later", "--nu", 0.5)["outcome"] == "noop"
    assert "0 pruned entries" in call("warranties", "later").stdout
    assert call("prove", "later", code=2).stderr.startswith("error: memory-empty")
    told = call("admit", "later", "--at", "0,1", "--value", "2,3", "--subject", "p-7", "--dry-run").stdout
    assert "readout" not in told
    call("admit", "later", "--at", "0,1", "--value", "2,3", "--subject", "p-77")
    assert answer("erase-subject", "--yes", "p-77")["memories"][0]["outcome"] == "emptied"
    assert "emptied" in call("log").stdout
    call("verify", "store")


def test_prune(ward: Path) -> None:
    told = answer("prune", "other", "--dry-run")
    assert told["readout_change"] == 0.0
    found = answer("prune", "--yes", "other", "--mode", "forget", "--sketch", 1, "--evidence", "p.zip")
    assert found["applied"] == told["applied"]
    assert answer("prune", "other")["outcome"] == "noop"
    rows = answers("warranties", "other", "--status", "valid")
    assert [row["remaining"] for row in rows] == sorted(row["remaining"] for row in rows)
    assert "0 pruned entries" in call("warranties", "other", "--status", "expired").stdout
    shown = call("warranties", "other", "-n", 1)
    assert f"{len(rows) - 1} more" in shown.stderr
    call("verify", "evidence", "p.zip", "--trust", "log.vkey")


def test_holds(ward: Path) -> None:
    assert "nothing is held" in call("hold").stderr
    held = answer("hold", "other", "--subject", "p-1", "--reason", "court order")
    call("hold", "other", "h002", "--reason", "review")
    assert "court order" in call("hold", "other").stdout
    assert len(answers("hold")) == 2
    assert "court order" in call("delete", "--yes", "other", "h001", code=3).stderr
    assert answer("erase-subject", "p-1", "--dry-run", code=3)["memories"][0]["outcome"] == "refused"
    done = answer("erase-subject", "--yes", "p-1", code=3)
    assert done["complete"] is False
    assert {part["name"]: part["outcome"] == "refused" for part in done["memories"]} == {"other": True, "ward": False}
    assert "NOT complete" in call("erase-subject", "--yes", "p-1", code=3).stdout
    assert "released" in call("release", held["number"]).stdout
    assert answer("erase-subject", "--yes", "p-1")["complete"] is True


def test_erase_a_subject_everywhere(ward: Path) -> None:
    told = answer("erase-subject", "p-2", "--dry-run")
    assert [part["name"] for part in told["memories"]] == ["other", "ward"]
    assert call("erase-subject", "p-2", "--dry-run").stdout.count("nothing was changed") == 2
    done = answer("erase-subject", "--yes", "p-2", "--evidence", "bundles")
    assert [Path(part["evidence"]).name for part in done["memories"]] == ["other.zip", "ward.zip"]
    for part in done["memories"]:
        call("verify", "evidence", part["evidence"], "--trust", "log.vkey")
    call("log", done["index"], "--out", "summary.json")
    about = ("verify", "receipt", "summary.json", "--trust", "log.vkey")
    assert "subject" in answer(*about, "--subject", "p-2", "--salt", done["salt"])["checked"]
    assert "subject erased" in call(*about).stdout
    assert "commitment-mismatch" in call(*about, "--subject", "p-3", "--salt", done["salt"], code=1).stderr
    call(*about, "--subject", "p-2", code=2)
    call(*about, "--subject", "p-2", "--salt", "xyz", code=2)
    call(*about, "--subject", "2", "--salt", done["salt"] + b"p-".hex(), code=2)
    call(*about, "--subject", "\udcff", "--salt", done["salt"], code=2)
    nobody = call("erase-subject", "--yes", "p-2").stdout
    assert nobody.replace("p-2", "p-9") == call("erase-subject", "--yes", "p-9").stdout
    assert "0 entries of p-2: no entry belongs to this subject" in nobody
    assert answer("erase-subject", "p-2", "--yes", "--salt", done["salt"])["earlier"] == done["index"]
    assert f"leaf {done['index']}" in call("erase-subject", "p-2", "--yes", "--salt", done["salt"]).stdout
    assert answer("erase-subject", "p-2", "--yes", "--salt", "00" * 32)["earlier"] is None
    for wrong in ("xyz", "00"):
        call("erase-subject", "p-2", "--yes", "--salt", wrong, code=2)
    for beside in ("--dry-run", "--after=1h"):
        call("erase-subject", "p-2", "--salt", done["salt"], beside, code=2)
    for name in ("ward", "other"):
        assert "p-2" not in call("search", name, "--at", "0,0", "-n", 50).stdout


def test_a_damaged_memory_keeps_no_subject_in_the_others(ward: Path) -> None:
    call("erase-subject", "p-1", "--yes")
    call("admit", "other", "--at", "0,0", "--value", 97, "--subject", "p-1")
    damage("ward")
    done = answer("erase-subject", "p-1", "--yes", "--evidence", "bundles")
    assert [part["name"] for part in done["memories"] if part["receipt"]["applied"]] == ["other"]
    call("verify", "evidence", "bundles/other.zip", "--trust", "log.vkey")


NAMES = ("../../escaped", "a/b", "..", ".hidden", "Ward", "ä" * 60, "a%2Fb")


def test_bundles_stay_in_their_folder_whatever_a_memory_is_called(ward: Path) -> None:
    for name in NAMES:
        call("create", name, "hours.csv", "--sigma", 2, "--nu", 0.3, "--subject-column", "patient")
    before = {path for path in ward.parent.rglob("*") if not path.is_relative_to(ward / "deep")}
    done = answer("erase-subject", "p-2", "--yes", "--evidence", "deep/bundles")
    written = sorted((ward / "deep" / "bundles").iterdir())
    assert [part["name"] for part in done["memories"]] == sorted([*NAMES, "ward", "other"])
    assert sorted(Path(part["evidence"]).resolve() for part in done["memories"]) == written
    assert {path for path in ward.parent.rglob("*") if not path.is_relative_to(ward / "deep")} == before
    assert {"%2E.%2F..%2Fescaped.zip", "%2E..zip", "a%2Fb.zip", "a%252Fb.zip"} <= {path.name for path in written}
    assert len({path.name.casefold() for path in written}) == len(written) == 9
    for path in written:
        call("verify", "evidence", path, "--trust", "log.vkey")


def test_evidence_that_could_not_be_written_is_refused_before_the_edit(ward: Path) -> None:
    Path("file").write_text("")
    Path("elsewhere").mkdir()
    Path("links").mkdir()
    Path("links/ward.zip").symlink_to(ward / "elsewhere" / "ward.zip")
    before = answer("show", "ward")["digest"], answer("show")["leaves"]
    for words, code, said in (
        (("erase-subject", "--yes", "p-2", "--evidence", "file"), 4, "cannot make the folder"),
        (("erase-subject", "--yes", "p-2", "--evidence", "file/below"), 4, "cannot make the folder"),
        (("erase-subject", "--yes", "p-2", "--evidence", "links"), 2, "leads out of"),
        (("delete", "--yes", "ward", "--subject", "p-2", "--evidence", "none/e.zip"), 4, "cannot write beside"),
        (("delete", "--yes", "ward", "--subject", "p-2", "--evidence", "links/ward.zip"), 2, "exists"),
        (("admit", "ward", "--at", "0,0", "--value", 1, "--evidence", "none/e.zip"), 4, "cannot write beside"),
    ):
        assert said in call(*words, code=code).stderr
        assert (answer("show", "ward")["digest"], answer("show")["leaves"]) == before


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_failed_write_of_evidence_loses_neither_receipt_nor_salt(
    ward: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    from expunge.attestation import evidence

    real, broken = new_file, {"other.zip", "one.zip"}

    def full(path: Path, **options: Any) -> AbstractContextManager[BinaryIO]:
        if path.name in broken:
            raise StoreError(f"cannot write {path}: no space left on device")
        return real(path, **options)

    monkeypatch.setattr(evidence, "new_file", full)
    words = ("erase-subject", "p-2", "--yes", "--evidence", "bundles", "--idempotency-key", "t")
    done = call(*words, *form, code=4)
    assert "applied; evidence not written: bundles/other.zip" in done.stderr
    assert [path.name for path in Path("bundles").iterdir()] == ["ward.zip"]
    if form:
        content = json.loads(done.stdout)
        index, salt = content["index"], content["salt"]
    else:
        ((index, salt),) = re.findall(r"summary +leaf (\d+) .*salt +([0-9a-f]{64})\b", done.stdout, re.DOTALL)
    call("log", index, "--out", "summary.json")
    call("verify", "receipt", "summary.json", "--trust", "log.vkey", "--subject", "p-2", "--salt", salt)

    # The same request again is answered, and its bundle lacks only what was there before.
    broken.remove("other.zip")
    Path("bundles/ward.zip").unlink()
    call(*words, *form)
    call("verify", "evidence", "bundles/other.zip", "--trust", "log.vkey", "--no-prior")

    gone = call("delete", "ward", "h000", "--yes", "--evidence", "one.zip", *form, code=4)
    assert "applied; evidence not written: one.zip" in gone.stderr
    assert (json.loads(gone.stdout)["applied"] == ["h000"]) if form else ("receipt" in gone.stdout)


DESTRUCTIVE = (
    ("delete", "other", "h000"),
    ("delete", "other", "--subject", "p-1"),
    ("prune", "other", "--mode", "forget"),
    ("erase-subject", "p-1"),
    ("erase-subject", "nobody"),
    ("drop", "other"),
    ("case", "erase", "--older-than", "1d"),
)


@pytest.mark.parametrize("words", DESTRUCTIVE, ids=" ".join)
def test_nobody_at_the_terminal_and_no_yes_is_refused_before_anything_is_touched(
    ward: Path, words: tuple[str, ...]
) -> None:
    """A typed y in a pipe is no answer, and an erasure that is due is not carried out on the way."""
    with expunge.open("sqlite:///expunge.db") as store:
        store.erase_subject("p-2", after=timedelta(seconds=1))
    time.sleep(1.05)
    before = Path("expunge.db").read_bytes()
    done = call(*words, code=2, input="y\n")
    assert done.stderr.startswith("error: confirmation-missing: ")
    assert "--yes" in done.stderr
    assert answer(*words, code=2)["code"] == "confirmation-missing"
    assert Path("expunge.db").read_bytes() == before
    call(*words, "--yes")


def test_questions_before_destruction(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody at the terminal is asked."""
    monkeypatch.setattr("expunge.cli.context.interactive", lambda: True)
    for words in (
        ("delete", "other", "h000"),
        ("prune", "other", "--mode", "forget"),
        ("erase-subject", "p-1"),
    ):
        done = call(*words, code=3, input="n\n")
        assert "cannot be brought back" in done.stderr
        assert "Nothing was done." in done.stderr
        call(*words, code=3, input="")
    assert len(answers("log")) == 3
    call("prune", "other", input="")
    call("delete", "other", "h000", "--yes", input="")
    call("delete", "--yes", "other", "h001", input="y\n")


def test_what_a_preview_holds_is_what_is_printed() -> None:
    """A new field of a dry run does not go unprinted by chance."""
    assert set(Preview.__dataclass_fields__) == {
        *(
            "outcome",
            "applied",
            "size",
            "deletable",
            "cap",
            "cap_before",
            "changed_coefficients",
            "readout_bound",
            "readout_change",
            "probes",
        ),
        *("ended", "expired", "reactivated", "reason", "notice", "outdated", "derived", "elsewhere", "holds"),
    }


def test_an_erasure_that_empties_a_memory_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("id,patient,hr,spo2\nx1,p-1,88,97\n", encoding="utf-8")
    call("create", "solo", "one.csv", "--subject-column", "patient")
    shown = " ".join(call("erase-subject", "p-1", "--yes", env={"COLUMNS": "300"}).stdout.split())
    assert "outdated solo: chosen from entries that are gone, and still there:" in shown
    assert "centre of hr 88" in shown
    call("drop", "solo", "--yes")
    call("create", "again", "one.csv", "--subject-column", "patient")
    (told,) = answer("erase-subject", "p-1", "--yes")["memories"]
    assert {(one["what"], one["column"]) for one in told["receipt"]["outdated"]} >= {
        ("centre", "hr"),
        ("centre", "spo2"),
    }
