"""Commands for whole memories and for the store's files: rebuild, drop, vacuum, backup, restore, verify store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.command_runner import answer, answers, call, hours

CREATE = ("--sigma", 2, "--nu", 0.3, "--subject-column", "patient", "--payload-column", "note")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    hours(tmp_path / "hours.csv")
    call("create", "ward", "hours.csv", *CREATE)
    return tmp_path


def refused(*words: object, code: int = 1) -> str:
    return str(answer(*words, code=code)["code"])


def test_a_memory_is_dropped_with_a_signed_event(store: Path) -> None:
    call("create", "other", "hours.csv", *CREATE)
    digest = answer("show", "other")["digest"]
    assert refused("drop", "other", "--yes", "--expected", "0" * 64, code=4) == "stale"
    assert refused("drop", "oter", "--yes", code=2) == "input-error"
    call("hold", "other", "h001", "--reason", "court order")
    assert refused("drop", "other", "--yes", code=3) == "deletion-refused"
    call("release", answers("hold")[0]["number"])
    told = answer("drop", "other", "--yes", "--expected", digest, "--idempotency-key", "k" * 32)
    assert told["kind"] == "dropped"
    # Asked again, it is answered again.
    assert answer("drop", "other", "--yes", "--expected", digest, "--idempotency-key", "k" * 32) == told
    assert "dropped" in call("log").stdout
    call("verify", "store")


def test_after_a_rebuild_more_can_be_deleted_before_the_cap_changes(store: Path) -> None:
    many = [f"h{row:03d}" for row in range(32)]
    assert answer("delete", "ward", *many, "--dry-run")["outcome"] == "refitted"
    assert "say what is new" in call("rebuild", "ward", code=2).stderr
    assert "one of them" in call("rebuild", "ward", "--nu", 0.5, "--cap", 0.5, code=2).stderr
    assert answer("rebuild", "ward", "--cap", 0.25)["outcome"] == "rebuilt"
    assert answer("delete", "ward", *many, "--yes")["outcome"] == "decrement"
    assert answer("show", "ward")["entries"] == 8


def test_a_rebuild_at_another_width_is_recorded(store: Path) -> None:
    assert "a number or auto" in call("rebuild", "ward", "--sigma", "wide", code=2).stderr
    cap = answer("show", "ward")["cap"]
    shown = call("rebuild", "ward", "--sigma", "auto").stdout
    assert "can be deleted before the cap changes" in " ".join(shown.split())
    told = answer("show", "ward")
    assert (told["cap"], told["sigma"]) == (cap, told["fit"]["sigma"])
    told = answer("rebuild", "ward", "--sigma", 3.0, "--nu", 0.5)
    assert (told["outcome"], told["details"]["sigma"]) == ("rebuilt", 3.0)
    assert answer("log", told["index"])["receipt"]["problem"]["sigma"] == (3.0).hex()
    call("verify", "store")


def test_the_whole_store_is_verified(store: Path) -> None:
    told = answer("verify", "store")
    expected = {"verified": True, "memories": 1, "entries": 40, "leaves": 1, "checkpoints": 0, "erasures": 0}
    assert told == expected | {"checkpoints": told["checkpoints"]}
    assert "1 memory, 40 entries, 1 leaf of the log" in call("verify", "store").stdout
    with sqlite3.connect("expunge.db") as database:
        rows = database.execute("SELECT * FROM expunge_secrets").fetchall()
    call("delete", "ward", "h003", "--yes")
    call("verify", "store")
    # A secret that should be gone, put back behind the store.
    with sqlite3.connect("expunge.db") as database:
        marks = ", ".join("?" * len(rows[0]))
        database.executemany(f"INSERT OR REPLACE INTO expunge_secrets VALUES ({marks})", rows)  # noqa: S608
    assert answer("verify", "store", code=1)["error"]


@pytest.mark.slow
def test_a_vacuum_says_what_a_reader_keeps(store: Path) -> None:
    assert answer("vacuum")["files"] is True
    reader = sqlite3.connect("expunge.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM expunge_entries").fetchone()
    call("delete", "ward", "h003", "--yes")
    told = answer("vacuum")
    assert (told["files"], told["log"]) == (False, False)
    assert "a reader keeps the old state" in told["remains"]
    assert "NOT clean yet" in call("vacuum").stdout
    reader.execute("ROLLBACK")
    reader.close()
    assert answer("vacuum")["files"] is True
    assert "clean" in call("vacuum").stdout


def test_a_ledger_that_was_cut_is_not_restored_from(store: Path) -> None:
    call("backup", "monday.db")
    call("delete", "ward", "h006", "--yes")
    call("log", "--out", "newest.jsonl")
    whole = Path("newest.jsonl").read_bytes()
    Path("newest.jsonl").write_bytes(whole.splitlines(keepends=True)[0])
    restore = ("restore", "monday.db", "--signing-key", "expunge.db.key", "--ledger", "newest.jsonl", "--store")
    assert answer(*restore, "sqlite:///new.db", code=1)["error"]
    assert not Path("new.db").exists()
    Path("newest.jsonl").write_bytes(whole)
    assert answer(*restore, "sqlite:///new.db")["erased_again"] == {"ward": ["h006"]}
    # Without the head nobody can tell, and the command says so.
    Path("newest.jsonl.checkpoint").unlink()
    assert "would not be noticed" in call(*restore, "sqlite:///late.db").stderr


def test_a_ledger_with_a_missing_leaf_is_not_written_out(store: Path) -> None:
    call("delete", "ward", "h006", "--yes")
    with sqlite3.connect("expunge.db") as database:
        database.execute("DELETE FROM expunge_leaves WHERE number = 0")
    assert refused("log", "--out", "log.jsonl") == "verification-error"
    assert not list(store.glob("log.jsonl*"))


def test_a_restore_tells_of_holds_that_are_lost(store: Path) -> None:
    call("backup", "monday.db")
    call("hold", "ward", "--subject", "p-3", "--reason", "court order")
    call("log", "--out", "newest.jsonl")
    restore = ("restore", "monday.db", "--signing-key", "expunge.db.key", "--ledger", "newest.jsonl", "--store")
    assert answer(*restore, "sqlite:///a.db")["holds_lost"] == 1
    assert "HOLDS LOST" in call(*restore, "sqlite:///b.db").stdout
    assert "1 hold placed after the backup" in " ".join(call(*restore, "sqlite:///c.db").stdout.split())


def test_an_erasure_that_was_refused_does_not_read_like_one(store: Path) -> None:
    call("hold", "ward", "h001", "--reason", "court order")
    told = answer("erase-subject", "p-1", "--yes", code=3)
    index = told["index"]
    call("log", index, "--out", "summary.json")
    call("show", "--verifier-key")
    Path("log.vkey").write_text(call("show", "--verifier-key").stdout)
    seen = call("verify", "receipt", "summary.json", "--trust", "log.vkey").stdout
    assert "subject erased, NOT COMPLETE" in seen
    assert answer("verify", "receipt", "summary.json", "--trust", "log.vkey")["complete"] is False
    assert "NOT COMPLETE" in call("log").stdout
    call("release", answers("hold")[0]["number"])
    done = answer("erase-subject", "p-1", "--yes")
    call("log", done["index"], "--out", "done.json")
    assert "NOT COMPLETE" not in call("verify", "receipt", "done.json", "--trust", "log.vkey").stdout
    assert answer("verify", "receipt", "done.json", "--trust", "log.vkey")["complete"] is True
    assert "kept nowhere else" in " ".join(call("erase-subject", "p-2", "--yes").stdout.split())
    keyed = call("erase-subject", "p-3", "--yes", "--idempotency-key", "k" * 32, env={"COLUMNS": "200"}).stdout
    assert "kept nowhere else" not in keyed
    assert "sealed, under the idempotency key" in keyed


def test_witnesses_that_cosign_one_head_apart_make_a_quorum_together(store: Path) -> None:
    Path("log.vkey").write_text(call("show", "--verifier-key").stdout)
    call("checkpoint", "export", "--out", "head.txt")
    for name in ("w1", "w2"):
        call("keygen", f"{name}.pem", "--witness", name)
        cosign = ("checkpoint", "cosign", "head.txt", "--first", "--name", name, "--trust", "log.vkey")
        call(*cosign, "--signing-key", f"{name}.pem", "--out", f"{name}.txt")
    both = ("--trust", "log.vkey", "--witness", "w1.vkey", "--witness", "w2.vkey")
    missed = answer("verify", "checkpoint", "w1.txt", *both, code=1)
    assert missed["code"] == "cosignature-quorum-missed"
    assert "w1" in missed["message"]
    told = answer("checkpoint", "merge", "w1.txt", "w2.txt", "--out", "both.txt")
    assert told["signatures"][1:] == ["w1", "w2"]
    call("verify", "checkpoint", "both.txt", *both)
    # Merging again adds nothing.
    assert call("checkpoint", "merge", "both.txt", "w1.txt").stdout == Path("both.txt").read_text()
    call("delete", "ward", "h001", "--yes")
    call("checkpoint", "export", "--out", "later.txt")
    assert "another head" in call("checkpoint", "merge", "both.txt", "later.txt", code=2).stderr
    own = ("checkpoint", "cosign", "head.txt", "--first", "--name", "w3", "--trust", "log.vkey")
    assert "witness-is-log" in call(*own, "--signing-key", "expunge.db.key", code=2).stderr


@pytest.mark.parametrize("words", [("delete", "ward", "h001"), ("erase-subject", "p-1"), ("drop", "ward")])
def test_an_erasure_that_a_reader_delays_says_so(
    ward: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("expunge.store.backends.sqlite._TRUNCATE_WAIT", 0.1)
    with closing(sqlite3.connect("expunge.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM expunge_secrets").fetchone()
        assert "reader" in answer(*words, "--yes")["waiting"]
        if words[0] == "delete":
            assert "not yet gone from the files" in call("delete", "ward", "h002", "--yes").stderr


def test_backup_and_restore(ward: Path) -> None:
    assert answer("backup", "b.db")["memories"] == ["other", "ward"]
    call("backup", "b.db", code=4)
    erased = answer("delete", "--yes", "other", "--subject", "p-0")["applied"]
    call("log", "--out", "log.jsonl")
    call("checkpoint", "export", "--out", "head.txt")
    key = ("--store", "sqlite:///new.db", "--signing-key", "expunge.db.key")
    assert "give --signing-key" in call("restore", "b.db", "--store", "sqlite:///new.db", code=2).stderr
    call("restore", "b.db", "--store", "sqlite:///new.db", "--signing-key", "none.key", code=2)
    assert call("restore", "b.db", *key, "--checkpoint", "head.txt", code=1).stderr.startswith("error: ")
    assert not Path("new.db").exists()
    done = answer("restore", "b.db", *key, "--ledger", "log.jsonl", "--checkpoint", "head.txt")
    assert sorted(done["erased_again"]["other"]) == sorted(erased)
    call("verify", "ledger", *key, "--trust", "log.vkey")
    call("restore", "b.db", *key, code=4)
    assert (
        "erased again" in call("restore", "b.db", "--store", "sqlite:///n.db", "--signing-key", "expunge.db.key").stdout
    )
