"""What each command does and prints, for people and as JSON."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars
import pytest

from cli.ward import answer, answers, call, hours
from expunge.errors import StoreError
from expunge.ledger.file_writing import new_file
from expunge.store import Preview
from expunge.store import open as open_store


def test_keygen_and_a_store_of_ones_own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = answer("keygen", "mine.pem")
    assert made["encrypted"] is False
    assert Path(made["private"]).stat().st_mode & 0o777 == 0o600
    table = hours(tmp_path / "hours.csv")
    call("create", "ward", table, "--sigma", 2, "--nu", 0.3, "--key", "mine.pem")
    assert not Path("expunge.db.key").exists()
    assert call("show", code=4).stderr.startswith("error: SigningKeyMissing")
    assert answer("show", "--key", "mine.pem")["memories"][0]["name"] == "ward"
    assert answer("show", env={"EXPUNGE_KEY": "mine.pem"})["leaves"] == 1


def test_no_private_key_is_left_where_the_public_one_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.pub").touch()
    assert "mine.pub exists" in call("keygen", "mine.pem", code=4).stderr
    assert not Path("mine.pem").exists()


def test_a_key_under_a_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secret = {"EXPUNGE_PASSPHRASE": "long and random"}
    assert answer("keygen", "mine.pem", env=secret)["encrypted"] is True
    table = hours(tmp_path / "hours.csv")
    words = ("create", "ward", table, "--sigma", 2, "--nu", 0.3, "--key", "mine.pem")
    assert "set $EXPUNGE_PASSPHRASE" in call(*words, code=2).stderr
    call(*words, env=secret)
    assert answer("show", "--key", "mine.pem", env=secret)["leaves"] == 1


def test_a_passphrase_and_the_key_beside_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secret = {"EXPUNGE_PASSPHRASE": "long and random"}
    words = ("create", "ward", hours(tmp_path / "hours.csv"), "--sigma", 2, "--nu", 0.3)
    for options, key in (((), "expunge.db.key"), (("--store", "sqlite:///new.db", "--key", "new.pem"), "new.pem")):
        call(*words, *options, env=secret)
        assert "ENCRYPTED" in Path(key).read_text()
        assert answer("show", *options, env=secret)["leaves"] == 1
        assert "set $EXPUNGE_PASSPHRASE" in call("show", *options, code=2).stderr
    # A key without encryption needs no passphrase, whatever is set.
    call(*words, "--store", "sqlite:///clear.db")
    assert answer("show", "--store", "sqlite:///clear.db", env=secret)["leaves"] == 1


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
    assert found["check"]["passed"] is True
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
    assert call(*words[:2], "h004", *words[3:], code=4).stderr.startswith("error: Conflict")
    assert call("delete", "other", "h004", "--expected", "0" * 64, code=4).stderr.startswith("error: Stale")
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
    assert (row["id"], row["status"], row["expired_at"]) == ("c", "expired", 2)
    assert "expired since edit 2" in call("show", "forget", "c").stdout
    assert answers("warranties", "archive") == []
    assert answer("show", "archive", "c")["coefficient"] == pytest.approx(0.0330, abs=1e-3)


def test_delete(ward: Path) -> None:
    told = answer("delete", "other", "h000", "h001", "--dry-run")
    assert told["applied"] == ["h000", "h001"]
    found = answer("delete", "other", "h000", "h001", "--evidence", "two.zip")
    assert found["outcome"] in ("decrement", "certified_zero")
    call("verify", "evidence", "two.zip", "--trust", "log.vkey")
    assert "two.zip exists" in call("delete", "other", "h002", "--evidence", "two.zip", code=2).stderr
    assert "receipt" in call("delete", "other", "--subject", "p-4").stdout
    assert call("delete", "other", "h000", code=2).stderr.startswith("error: InputError: no entry has id 'h000'")


def test_too_many_deletions_are_refused(ward: Path) -> None:
    ids = [row["id"] for row in answers("search", "other", "--at", "0,0", "-n", 100)]
    found = answer("delete", "other", *ids, code=3)
    assert (found["error"], found["exit_code"]) == ("DeletionRefused", 3)
    assert found["allowed"] == 1.0
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
    assert "CommitmentMismatch" in call(*about, "--subject", "p-3", "--salt", done["salt"], code=1).stderr
    call(*about, "--subject", "p-2", code=2)
    call(*about, "--subject", "p-2", "--salt", "xyz", code=2)
    call(*about, "--subject", "2", "--salt", done["salt"] + b"p-".hex(), code=2)
    call(*about, "--subject", "\udcff", "--salt", done["salt"], code=2)
    assert call("erase-subject", "p-2", code=2).stderr.startswith("error: InputError")
    for name in ("ward", "other"):
        assert "p-2" not in call("search", name, "--at", "0,0", "-n", 50).stdout


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


def test_questions(ward: Path) -> None:
    np.save("queries.npy", np.zeros((3, 2)))
    assert len(answers("read", "ward", "--at", "@queries.npy", "--at", "1,1")) == 4
    (row,) = answers("read", "ward", "--at", "0.1,0.2")
    (hit, *_) = answers("search", "ward", "--at", "0.1,0.2")
    with open_store("sqlite:///expunge.db") as store:
        memory = store["ward"]
        assert row["readout"] == memory.read([0.1, 0.2])[0].tolist()
        assert row["score"] == memory.score([0.1, 0.2])[0]
        first = memory.search([0.1, 0.2], 1)[0]
    assert (hit["id"], hit["share"], hit["payload"]) == (first.id, first.share, first.payload)
    assert "similarity" in call("search", "ward", "--like", first.id).stdout
    assert "readout" in call("read", "ward", "--like", first.id).stdout
    assert "search takes one query" in call("search", "ward", "--at", "@queries.npy", code=2).stderr


def test_show(ward: Path) -> None:
    found = answer("show")
    assert [row["name"] for row in found["memories"]] == ["other", "ward"]
    assert found["verifier_key"] == Path("log.vkey").read_text().strip()
    assert "verifies under" in call("show").stdout
    memory = answer("show", "ward")
    assert memory["margin"] + memory["bound"] + memory["reserve"] == memory["entries"]
    assert memory["check"]["passed"] is True
    assert "passed" in call("show", "ward").stdout
    pruned = answers("warranties", "ward")[0]["id"]
    assert answer("show", "ward", pruned)["pruned"] is True
    groups = {answer("show", "other", f"h{row:03d}")["group"] for row in range(40)}
    assert groups == {"margin", "bound", "reserve"}
    assert "removing it" in call("show", "other", "h000").stdout
    call("show", "ward", "--verifier-key", code=2)


def _damage(name: str) -> None:
    with contextlib.closing(sqlite3.connect("expunge.db")) as database, database:
        found = "(SELECT number FROM expunge_memories WHERE name = ?)"
        changed = f"UPDATE expunge_states SET state = zeroblob(length(state)) WHERE memory = {found}"  # noqa: S608
        assert database.execute(changed, (name,)).rowcount


def test_a_damaged_memory_is_named_and_hides_no_other(ward: Path) -> None:
    _damage("ward")
    found = answer("show", code=1)
    assert [row["name"] for row in found["memories"]] == ["other"]
    assert "altered" in found["damaged"]["ward"]
    assert "DAMAGED" in call("show", code=1).stdout


def test_a_damaged_memory_keeps_no_subject_in_the_others(ward: Path) -> None:
    call("erase-subject", "p-1", "--yes")
    call("admit", "other", "--at", "0,0", "--value", 97, "--subject", "p-1")
    _damage("ward")
    done = answer("erase-subject", "p-1", "--yes", "--evidence", "bundles")
    assert [part["name"] for part in done["memories"] if part["receipt"]["applied"]] == ["other"]
    call("verify", "evidence", "bundles/other.zip", "--trust", "log.vkey")


def test_an_empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///expunge.db").close()
    assert answer("show")["memories"] == []
    assert "No memory yet" in call("show").stderr
    assert answers("log") == []
    call("log")
    assert "verified" in call("verify", "log").stdout


def test_log(ward: Path) -> None:
    rows = answers("log")
    assert [row["kind"] for row in rows] == ["created", "created", "pruned"]
    assert [row["name"] for row in answers("log", "--memory", "ward")] == ["ward", "ward"]
    assert "1 leaves in all" not in call("log").stderr
    assert "3 leaves in all" in call("log", "-n", 1).stderr
    assert "receipt 2: ward" in call("log", 2).stdout
    assert answer("log", 2)["receipt"]["outcome"] == "pruned"
    answer("hold", "ward", "--subject", "p-1", "--reason", "x")
    assert "held" in call("log", 3).stdout
    assert answer("log", 3)["receipt"]["event"] == "held"
    call("log", 99, code=2)
    written = answer("log", 2, "--out", "r.json")
    assert Path(written["inclusion"]).name == "r.tlog-proof"
    call("log", 2, "--out", "r.json", code=2)
    call("log", 2, "--out", "r.tlog-proof", code=2)
    whole = answer("log", "--out", "log.jsonl")
    assert (whole["size"], len(Path("log.jsonl").read_bytes().splitlines())) == (4, 4)
    call("log", "--out", "log.jsonl", code=2)


def test_a_receipt_is_written_with_its_proof_or_not_at_all(ward: Path) -> None:
    call("log", 0, "--out", "first.json")
    for name, there in (("first.json", "first.json"), ("first.txt", "first.tlog-proof")):
        said = call("log", 1, "--out", name, code=2).stderr
        assert said == f"error: InputError: {there} exists; choose another name\n"
    assert not Path("first.txt").exists()


def test_backup_and_restore(ward: Path) -> None:
    assert answer("backup", "b.db")["memories"] == ["other", "ward"]
    call("backup", "b.db", code=4)
    erased = answer("delete", "other", "--subject", "p-0")["applied"]
    call("log", "--out", "log.jsonl")
    call("checkpoint", "export", "--out", "head.txt")
    key = ("--store", "sqlite:///new.db", "--key", "expunge.db.key")
    assert "give --key" in call("restore", "b.db", "--store", "sqlite:///new.db", code=2).stderr
    call("restore", "b.db", "--store", "sqlite:///new.db", "--key", "none.key", code=2)
    assert call("restore", "b.db", *key, "--checkpoint", "head.txt", code=1).stderr.startswith("error: ")
    assert not Path("new.db").exists()
    done = answer("restore", "b.db", *key, "--ledger", "log.jsonl", "--checkpoint", "head.txt")
    assert sorted(done["erased_again"]["other"]) == sorted(erased)
    call("verify", "log", *key, "--trust", "log.vkey")
    call("restore", "b.db", *key, code=4)
    assert "erased again" in call("restore", "b.db", "--store", "sqlite:///n.db", "--key", "expunge.db.key").stdout


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


def test_a_failed_proof_has_its_exit_code(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer("prove", "ward", "--out", "w.proof")["outcome"] == "proved"
    call("prove", "ward", "--out", "w.proof", code=2)
    assert "exactly zero" in call("prove", "ward", "--out", "w.proof", "--force").stdout
    from dataclasses import replace

    from expunge.store import StoredMemory

    proof = StoredMemory.prove
    monkeypatch.setattr(
        StoredMemory,
        "prove",
        lambda self: replace(proof(self), outcome="undecidable", reason="a slack contains 0", witness=None),
    )
    said = call("prove", "ward", code=1).stdout
    assert "undecidable: a slack contains 0" in said
    assert "weights" not in said
    assert "not proved" in said
    assert "ProofNotProved" in call("export-evidence", "ward", "--out", "w.zip", "--proof", code=1).stderr
    assert not Path("w.zip").exists()


def test_what_a_preview_holds_is_what_is_printed() -> None:
    """A new field of a dry run does not go unprinted by chance."""
    assert set(Preview.__dataclass_fields__) == {
        *("outcome", "applied", "size", "deletable", "changed_coefficients", "readout_change", "probes"),
        *("expired", "reactivated", "reason"),
    }
