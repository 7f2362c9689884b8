"""Commands about the ledger: log, export-evidence, verify ledger, verify store."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from cli.command_runner import TRUST, answer, answers, call, code_of, hours, shell


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
        assert said == f"error: input-error: {there} exists; choose another name\n"
    assert not Path("first.txt").exists()


def test_evidence_of_an_edit_that_is_not_the_latest(ward: Path) -> None:
    """A hold is no edit; a refusal is the latest receipt, of the state as it stands."""
    call("hold", "ward", "--subject", "p-1", "--reason", "x")
    call("delete", "--yes", "ward", "--subject", "p-1", code=3)
    assert answer("export-evidence", "ward", "--out", "w.zip")["outcome"] == "refused"
    call("verify", "evidence", "w.zip", *TRUST)


def test_the_ledger(ward: Path) -> None:
    assert answer("verify", "ledger")["trust"] == "store"
    assert "own key was trusted" in call("verify", "ledger").stderr
    assert answer("verify", "ledger", *TRUST)["trust"] == "given"
    call("log", "--out", "log.jsonl")
    call("verify", "ledger", "log.jsonl", *TRUST)
    lines = Path("log.jsonl").read_bytes().splitlines(keepends=True)
    for kept, error in (
        (lines[:-1], "ledger-size-mismatch"),
        ([*lines, lines[0]], "ledger-leaf-repeated"),
        ([lines[1], lines[0], lines[2]], "ledger-root-mismatch"),
        ([lines[0], lines[1].replace(b"ey", b"ez", 1), lines[2]], "ledger-receipt-invalid"),
        ([], "ledger-size-mismatch"),
    ):
        Path("cut.jsonl").write_bytes(b"".join(kept))
        assert code_of("verify", "ledger", "cut.jsonl", "--checkpoint", "log.jsonl.checkpoint", *TRUST) == error
    assert code_of("verify", "ledger", "--checkpoint", "log.jsonl.checkpoint", code=2) == "input-error"
    assert code_of("verify", "ledger", "none.jsonl", *TRUST, code=4) == "store-error"
    assert code_of("verify", "ledger", "--now", "2001-01-01T00:00:00Z") == "ledger-time-future"
    for wrong in ("yesterday", "2001-01-01T00:00:00"):
        assert code_of("verify", "ledger", "--now", wrong, code=2) == "input-error"


def test_what_a_ledger_tells_of(ward: Path) -> None:
    """Counts at its end, for people and as JSON; a contradiction says what to do."""
    call("hold", "other", "h001", "--reason", "court")
    call("delete", "--yes", "other", "h000")
    found = answer("verify", "ledger")
    assert found["memories"] == 2
    assert found["entries_erased"] >= 1
    assert found["entries_live"] + found["entries_erased"] <= found["entries_admitted"]
    assert (found["holds_in_force"], found["memories_empty"], found["requests_overdue"]) == (1, 0, 0)
    said = call("verify", "ledger").stdout
    assert "holds in force" in said
    assert "requests" not in said
    call("log", "--out", "log.jsonl")
    lines = Path("log.jsonl").read_bytes().splitlines(keepends=True)
    Path("cut.jsonl").write_bytes(b"".join([*lines, lines[0]]))
    failed = call("verify", "ledger", "cut.jsonl", "--checkpoint", "log.jsonl.checkpoint", *TRUST, code=1).stderr
    assert "ledger-leaf-repeated" in failed
    assert "keep this copy and its head" in failed


def test_a_log_that_was_cut_or_replaced_does_not_pass(ward: Path, tmp_path: Path) -> None:
    call("delete", "--yes", "other", "h000")
    call("checkpoint", "export", "--out", "kept.txt")
    Path("before.db").write_bytes(b"")
    table = hours(tmp_path / "again.csv")
    shorter = ("--store", "sqlite:///shorter.db", "--signing-key", "expunge.db.key")
    call("create", "ward", table, "--sigma", 2, "--nu", 0.3, *shorter)
    assert code_of("checkpoint", "check", "kept.txt", *shorter) == "consistency-sizes-reversed"
    stranger = ("--store", "sqlite:///stranger.db")
    for name in "abcde":
        call("create", name, table, "--sigma", 2, "--nu", 0.3, *stranger)
    assert code_of("checkpoint", "check", "kept.txt", *stranger) == "note-signer-unknown"


def test_a_store_that_was_written_to_behind_its_back(ward: Path) -> None:
    with sqlite3.connect("expunge.db") as database:
        database.execute(
            "UPDATE expunge_leaves SET envelope = CAST(replace(envelope, 'ey', 'ez') AS BLOB) WHERE number = 1"
        )
    database.close()
    assert code_of("verify", "ledger") == "ledger-receipt-invalid"


def test_a_name_cannot_steer_the_terminal(ward: Path) -> None:
    """Whoever sends a file names it: with colours, with a cleared screen, with a verdict of its own."""
    name = "\x1b[2J\x9b32m\u202ejson.deifirev\u2066\u061c.json"
    call("log", 2, "--out", name)
    done = call("verify", "receipt", name, *TRUST)
    failed = call("verify", "receipt", f"no {name}", *TRUST, code=4)
    for said in (done.stdout, failed.stderr, call("verify", "receipt", f"no {name}", *TRUST, "--json", code=4).stdout):
        assert not {"\x1b", "\x9b", "\u202e", "\u2066", "\u061c"} & set(said)
        assert r"\u001b[2J\u009b32m\u202ejson.deifirev\u2066\u061c.json" in said
    assert answer("log", 1, "--out", f"1{name}")["receipt"] == f"1{name}"


def test_a_name_that_is_not_utf_8(ward: Path) -> None:
    """Streams are strict where a locale is set; the verdict must not hang on a file's name."""
    shell("expunge log 2 --out $'\\xff.json'", ward, PYTHONIOENCODING="utf-8")
    done = shell("expunge verify receipt $'\\xff.json' --trust log.vkey", ward, PYTHONIOENCODING="utf-8")
    assert r"verified: \udcff.json" in done.stdout
    told = shell("expunge log 1 --out $'1\\xff.json' --json", ward, PYTHONIOENCODING="utf-8").stdout
    assert json.loads(told)["receipt"] == "1\udcff.json"
