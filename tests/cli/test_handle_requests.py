"""Commands around a person's request: export, case, erasures, backups."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

from cli.command_runner import answer, answers, call


def wait_until_due() -> None:
    """A delay has whole seconds, and the shortest is one."""
    time.sleep(1.05)


def test_edits_take_a_case_and_an_actor(ward: Path) -> None:
    asked = ("--case", "DSR-2026-114", "--actor", "privacy-desk")
    leaves = [
        answer("delete", "--yes", "other", "h000", *asked)["index"],
        answer("admit", "other", "--at", "1,2", "--value", "3", *asked)["index"],
        answer("prune", "other", *asked)["index"],
        answer("rebuild", "other", "--nu", "0.5", *asked)["index"],
    ]
    held = answer("hold", "other", "--subject", "p-1", "--reason", "court", *asked)
    leaves += [leaves[-1] + 1, answer("release", held["number"], *asked)["index"]]
    erased = answer("erase-subject", "--yes", "p-2", *asked)
    leaves.append(erased["index"])
    leaves.append(answer("drop", "other", "--yes", *asked)["index"])
    for leaf in leaves:
        found = answer("case", "show", leaf)
        assert (found["case"], found["actor"]) == ("DSR-2026-114", "privacy-desk")
        assert leaf in found["leaves"]
    assert "DSR-2026-114" in call("case", "show").stdout
    assert len(answers("case", "show", "--case", "DSR-2026-114")) == len(leaves)
    assert answers("case", "show", 0) == []
    assert answer("case", "erase", "--yes", leaves[0])["erased"] == 1
    assert answers("case", "show", leaves[0]) == []
    assert answer("case", "erase", "--yes", "--older-than", "1d")["erased"] == 0
    assert "7 cases erased" in call("case", "erase", "--yes", "--case", "DSR-2026-114").stdout
    assert "no case is kept" in call("case", "show").stderr
    assert call("delete", "--yes", "ward", "h000", "--case", "", code=2).stderr.startswith(
        "error: input-error: case has 1 to"
    )
    for wrong in ((), (1, "--case", "x"), ("--older-than", "soon")):
        call("case", "erase", "--yes", *wrong, code=2)
    call("case", "show", 1, "--case", "x", code=2)
    # Of the environment, too.
    found = answer("delete", "--yes", "ward", "h001", env={"EXPUNGE_ACTOR": "night shift"})
    assert answer("case", "show", found["index"])["actor"] == "night shift"
    call("verify", "store")


def test_export_of_a_person(ward: Path) -> None:
    answer("hold", "ward", "--subject", "p-1", "--reason", "court")
    told = answer("export", "subject", "p-1", "--out", "p-1.json")
    document = json.loads(Path("p-1.json").read_text(encoding="utf-8"))
    assert told["entries"] == len(document["entries"]) == 16
    assert told["memories"] == ["other", "ward"]
    assert Path("p-1.json").stat().st_mode & 0o777 == 0o600
    shown = call("export", "subject", "p-1", "--out", "p-1", "--format", "csv").stdout
    assert "16 entries of p-1 in 2 memories" in shown
    assert "hold 1 on ward" in shown
    with Path("p-1/entries.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 16
    assert "exists" in call("export", "subject", "p-1", "--out", "p-1.json", code=2).stderr
    call("export", "subject", "p-1", "--out", "x", "--format", "xml", code=2)
    assert "--out p-1 --format csv" in call("export", "subject", "p-1", "--out", "p-1.csv", code=2).stderr
    assert not Path("p-1.csv").exists()
    assert "0 entries" in call("export", "subject", "nobody", "--out", "nobody.json").stdout


def test_erasures_that_wait(ward: Path) -> None:
    waiting = answer("erase-subject", "p-1", "--after", "72h", "--case", "DSR-1")
    shown = call("erase-subject", "p-2", "--after", "1h", "--actor", "desk").stdout
    assert "expunge erasures cancel" in shown
    assert [one["subject"] for one in answers("erasures", "list")] == ["p-1", "p-2"]
    assert "DSR-1" in call("erasures", "list").stdout
    assert "cancelled" in call("erasures", "cancel", waiting["leaf"]).stdout
    assert "no erasure waits" in call("erasures", "cancel", waiting["leaf"], code=2).stderr
    for wrong in (("--after", "soon"), ("--after", "0s"), ("--after", "1h", "--dry-run")):
        call("erase-subject", "--yes", "p-3", *wrong, code=2)


def test_what_is_due_is_carried_out(ward: Path) -> None:
    hold = answer("hold", "ward", "--subject", "p-2", "--reason", "court")
    answer("erase-subject", "p-2", "--after", "1s")
    wait_until_due()
    done = answer("erasures", "run", code=3)
    assert done["complete"] is False
    assert "subject" not in done
    assert [one["outcome"] for one in done["memories"]] == ["decrement", "refused"]
    # The request is held back until the hold is released, and then carried out.
    assert [one["subject"] for one in answers("erasures", "list")] == ["p-2"]
    assert answers("erasures", "run") == []
    answer("release", hold["number"])
    assert [one["complete"] for one in answers("erasures", "run")] == [True]
    assert answers("erasures", "list") == []
    answer("erase-subject", "p-3", "--after", "1s")
    wait_until_due()
    # Any command that opens the store carries it out.
    assert answers("erasures", "list") == []
    assert "no entry belongs" in call("erase-subject", "--yes", "p-3").stdout
    call("verify", "ledger")
    call("verify", "store")


def test_backups_that_still_hold_a_person(ward: Path) -> None:
    call("backup", "monday.db")
    call("delete", "--yes", "ward", "h000", "--case", "DSR-1")
    call("backup", "tuesday.db")
    call("erase-subject", "--yes", "p-1")
    call("backup", "wednesday.db")
    files = ("monday.db", "tuesday.db", "wednesday.db")
    assert [one["erased"] for one in answers("backups", *files)] == [17, 16, 0]
    shown = call("backups", *files, "--subject", "p-1").stdout
    assert "of p-1" in shown
    assert [one["of_subject"] for one in answers("backups", *files, "--subject", "p-1")] == [16, 16, 0]
    assert "there is no backup" in call("backups", "friday.db", code=4).stderr
    call("log", "--out", "log.jsonl")
    assert Path("log.jsonl.cases").read_text(encoding="ascii").count("\n") == 1
    new = ("--store", "sqlite:///new.db", "--signing-key", "expunge.db.key")
    shown = call("restore", "tuesday.db", "--ledger", "log.jsonl", *new).stdout
    assert "erasures re-applied: 17 of 17" in shown
    assert answer("verify", "store", *new)["erasures"] == 17
    assert "erasures re-applied: 17 of 17" in call("verify", "store", *new).stdout
    assert [one["case"] for one in answers("case", "show", *new)] == ["DSR-1"]
    # The case is erased: from a newer ledger it does not come back.
    call("case", "erase", "--case", "DSR-1", "--yes")
    call("log", "--out", "newer.jsonl")
    new = ("--store", "sqlite:///newer.db", "--signing-key", "expunge.db.key")
    found = answer("restore", "tuesday.db", "--ledger", "newer.jsonl", *new)
    assert (found["cases_lost"], found["erasures"]) == (1, 17)
    assert (found["retained"]["memories"], found["retained"]["complete"]) == ([], True)
    assert answers("case", "show", *new) == []
    Path("newer.jsonl.cases").write_text("x", encoding="ascii")
    new = ("--store", "sqlite:///newest.db", "--signing-key", "expunge.db.key")
    assert "does not list" in call("restore", "tuesday.db", "--ledger", "newer.jsonl", *new, code=2).stderr
