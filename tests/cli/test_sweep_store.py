"""Ends and sources on the command line: admit, import, create, show, delete, retain."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cli.command_runner import TRUST, answer, call


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Talks, and facts that were made from them."""
    monkeypatch.chdir(tmp_path)
    rows: dict[str, list[dict[str, Any]]] = {
        "talks": [{"k0": row / 7, "k1": -row / 9, "v0": 1, "id": f"t{row}", "subject": "ann"} for row in range(4)],
        "facts": [
            {"id": "f0", "from": [["talks", "t0"]], "until": "2031-02-03"},
            {"id": "f1", "from": "f0", "until": None},
            {"id": "f2", "from": None, "until": "2031-02-03T04:05:06+01:00"},
        ],
    }
    for number, row in enumerate(rows["facts"]):
        row |= {"k0": number / 5, "k1": 0.3, "v0": 2}
    for name, found in rows.items():
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    fit = ("--sigma", 1, "--nu", 0.5)
    call("create", "talks", "talks.jsonl", *fit)
    columns = ("--expires-column", "until", "--sources-column", "from")
    call("create", "facts", "facts.jsonl", *fit, *columns, "--dry-run")
    call("create", "facts", "facts.jsonl", *fit, *columns)
    Path("log.vkey").write_text(call("show", "--verifier-key").stdout)
    return tmp_path


def test_ends_and_sources_are_shown(family: Path) -> None:
    shown = answer("show", "facts", "f0")
    assert (shown["expires"], shown["derived_from"]) == ("2031-02-03T00:00:00Z", ["t0 of talks"])
    assert answer("show", "facts", "f2")["expires"] == "2031-02-03T03:05:06Z"
    assert answer("show", "facts", "f1")["derived_from"] == ["f0"]
    memory = answer("show", "facts")
    assert (memory["ending"], memory["first_end"], memory["due"]) == (2, "2031-02-03T00:00:00Z", 0)
    assert "made from" in call("show", "facts", "f0").stdout


def test_an_import_and_an_admission_take_both(family: Path) -> None:
    row = {"k0": 0.9, "k1": 0.1, "v0": 1, "id": "f9", "from": '["f0", ["talks", "t1"]]', "until": "2030-01-01"}
    Path("more.jsonl").write_text(json.dumps(row) + "\n")
    columns = ("--expires-column", "until", "--sources-column", "from")
    answer("import", "facts", "more.jsonl", *columns)
    assert answer("show", "facts", "f9")["derived_from"] == ["f0", "t1 of talks"]
    options = ("--value", "1", "--id", "g", "--expires", "30d", "--derived-from", '["talks","t2"]')
    answer("admit", "facts", "--at", "0.2,0.1", *options, "--derived-from", "f9")
    assert answer("show", "facts", "g")["derived_from"] == ["f9", "t2 of talks"]
    assert answer("show", "facts", "g")["expires"] is not None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--expires", "soon"), "--expires"),
        (("--expires", "2001-01-01"), "expires-past"),
        (("--derived-from", "nobody"), "source-unknown"),
        (("--derived-from", '["nowhere","t1"]'), "source-unknown"),
    ],
)
def test_what_cannot_be_is_said(family: Path, words: tuple[str, ...], named: str) -> None:
    assert named in call("admit", "facts", "--at", "0.2,0.1", "--value", "1", *words, code=2).stderr


@pytest.mark.parametrize(
    ("cells", "named"),
    [({"until": "soon"}, "until"), ({"from": [["talks"]]}, "from"), ({"from": "[1"}, "from"), ({"until": 7}, "until")],
)
def test_a_cell_that_is_none_is_named(family: Path, cells: dict[str, Any], named: str) -> None:
    row = {"k0": 0.9, "k1": 0.1, "v0": 1, "id": "f9", "from": "f0", "until": "2030-01-01"} | cells
    Path("more.jsonl").write_text(json.dumps(row) + "\n")
    columns = ("--expires-column", "until", "--sources-column", "from")
    said = call("import", "facts", "more.jsonl", *columns, code=2).stderr
    assert "row 1" in said
    assert named in said


def test_a_deletion_shows_what_goes_with_it(family: Path) -> None:
    preview = answer("delete", "talks", "t0", "--dry-run")
    assert {name: one["applied"] for name, one in preview["elsewhere"].items()} == {"facts": ["f0", "f1"]}
    assert "f0 (made from t0 of talks)" in call("delete", "talks", "t0", "--dry-run", env={"COLUMNS": "200"}).stdout
    assert "derived-entries" in call("delete", "talks", "t0", "--yes", "--derived", "refuse", code=3).stderr
    assert "--derived" in call("delete", "talks", "t0", "--yes", "--derived", "keep", code=2).stderr
    subjects = answer("erase-subject", "ann", "--dry-run")
    assert {one["name"]: len(one["applied"]) for one in subjects["memories"]} == {"talks": 4, "facts": 2}
    call("erase-subject", "ann", "--yes", "--derived", "refuse", code=3)
    call("drop", "talks", "--yes", "--derived", "refuse", code=3)
    done = answer("delete", "talks", "t0", "--yes")
    assert [part["applied"] for part in done["elsewhere"]["memories"]] == [["f0", "f1"]]
    assert "3 entries in 2 memories" in call("log").stdout
    call("verify", "ledger", *TRUST)


def test_what_a_hold_keeps_elsewhere_ends_in_3(family: Path) -> None:
    call("hold", "facts", "f1", "--reason", "court")
    assert answer("delete", "talks", "t0", "--yes", code=3)["elsewhere"]["complete"] is False


def test_retain(family: Path) -> None:
    assert answer("retain")["memories"] == []
    call("admit", "talks", "--at", "0.3,0.4", "--value", "1", "--id", "ends", "--expires", "2s")
    call("admit", "facts", "--at", "0.3,0.4", "--value", "1", "--id", "made", "--derived-from", '["talks","ends"]')
    call("admit", "talks", "--at", "0.5,0.4", "--value", "1", "--id", "held", "--expires", "2s")
    hold = answer("hold", "talks", "held", "--reason", "court")["number"]
    time.sleep(2.1)
    assert answer("show", "talks")["due"] == 2
    preview = answer("retain", "--dry-run")
    assert {one["name"]: one["applied"] for one in preview["memories"]} == {"facts": ["made"], "talks": ["ends"]}
    assert preview["held"] == {"talks": ["held"]}
    assert "made (made from ends of talks)" in call("retain", "--dry-run", env={"COLUMNS": "200"}).stdout
    done = answer("retain", "--case", "RETENTION-7")
    assert (done["complete"], done["held"]) == (False, {"talks": ["held"]})
    assert {part["memory"]: part["applied"] for part in done["memories"]} == {"facts": ["made"], "talks": ["ends"]}
    assert "nothing has ended" in call("retain").stdout
    call("release", hold)
    assert "held removed" in call("retain").stdout
    assert "ended by" in call("log", env={"COLUMNS": "200"}).stdout
    call("verify", "ledger", *TRUST)


def test_a_restore_says_what_has_ended_since_the_backup(family: Path) -> None:
    call("admit", "talks", "--at", "0.3,0.4", "--value", "1", "--id", "ends", "--expires", "2s")
    call("admit", "facts", "--at", "0.3,0.4", "--value", "1", "--id", "made", "--derived-from", '["talks","ends"]')
    call("backup", "monday.db")
    time.sleep(2.1)
    new = ("--signing-key", "expunge.db.key", "--store")
    shown = call("restore", "monday.db", *new, "sqlite:///new.db").stdout
    assert "ended since" in shown
    assert "2 entries erased" in shown
    told = answer("restore", "monday.db", *new, "sqlite:///newer.db")["retained"]
    assert {part["memory"]: part["applied"] for part in told["memories"]} == {"talks": ["ends"], "facts": ["made"]}
    call("verify", "store", *new, "sqlite:///newer.db")
