"""Commands that take entries out, or keep them from being taken: delete, prune, erase-subject, hold, release."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from cli.command_runner import answer, answers, call, damage
from expunge.errors import StoreError
from expunge.ledger.file_writing import new_file
from expunge.store import Preview


def test_delete(ward: Path) -> None:
    told = answer("delete", "other", "h000", "h001", "--dry-run")
    assert told["applied"] == ["h000", "h001"]
    found = answer("delete", "other", "h000", "h001", "--evidence", "two.zip")
    assert found["outcome"] in ("decrement", "certified_zero")
    call("verify", "evidence", "two.zip", "--trust", "log.vkey")
    assert "two.zip exists" in call("delete", "other", "h002", "--evidence", "two.zip", code=2).stderr
    assert "receipt" in call("delete", "other", "--subject", "p-4").stdout
    assert call("delete", "other", "h000", code=2).stderr.startswith("error: input-error: no entry has id 'h000'")


def test_too_many_deletions_are_refused(ward: Path) -> None:
    ids = [row["id"] for row in answers("search", "other", "--at", "0,0", "-n", 100)]
    found = answer("delete", "other", *ids, code=3)
    assert (found["error"], found["exit_code"]) == ("DeletionRefused", 3)
    assert found["reason"] == "too_few_entries"
    assert found["measured"] == len(ids) > found["allowed"]
    assert answer("delete", "other", *ids, "--dry-run", code=3)["outcome"] == "refused"
    assert "because" in call("delete", "other", *ids, "--dry-run", code=3).stdout


def test_prune(ward: Path) -> None:
    told = answer("prune", "other", "--dry-run")
    assert told["readout_change"] == 0.0
    found = answer("prune", "other", "--mode", "forget", "--sketch", 1, "--evidence", "p.zip")
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
    assert "court order" in call("delete", "other", "h001", code=3).stderr
    assert answer("erase-subject", "p-1", "--dry-run", code=3)["memories"][0]["outcome"] == "refused"
    done = answer("erase-subject", "p-1", code=3)
    assert done["complete"] is False
    assert {part["name"]: part["outcome"] == "refused" for part in done["memories"]} == {"other": True, "ward": False}
    assert "NOT complete" in call("erase-subject", "p-1", code=3).stdout
    assert "released" in call("release", held["number"]).stdout
    assert answer("erase-subject", "p-1")["complete"] is True


def test_erase_a_subject_everywhere(ward: Path) -> None:
    told = answer("erase-subject", "p-2", "--dry-run")
    assert [part["name"] for part in told["memories"]] == ["other", "ward"]
    assert call("erase-subject", "p-2", "--dry-run").stdout.count("nothing was changed") == 2
    done = answer("erase-subject", "p-2", "--evidence", "bundles")
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
    assert call("erase-subject", "p-2", code=2).stderr.startswith("error: input-error")
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
        (("erase-subject", "p-2", "--evidence", "file"), 4, "cannot make the folder"),
        (("erase-subject", "p-2", "--evidence", "file/below"), 4, "cannot make the folder"),
        (("erase-subject", "p-2", "--evidence", "links"), 2, "leads out of"),
        (("delete", "ward", "--subject", "p-2", "--evidence", "none/e.zip"), 4, "cannot write beside"),
        (("delete", "ward", "--subject", "p-2", "--evidence", "links/ward.zip"), 2, "exists"),
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


def test_questions_before_destruction(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody at the terminal is asked; a script is not."""
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
    call("delete", "other", "h001", input="y\n")


def test_what_a_preview_holds_is_what_is_printed() -> None:
    """A new field of a dry run does not go unprinted by chance."""
    assert set(Preview.__dataclass_fields__) == {
        *("outcome", "applied", "size", "deletable", "changed_coefficients", "readout_change", "probes"),
        *("ended", "expired", "reactivated", "reason", "notice"),
    }
