"""Benchmarks keep their latest result for the documents, and every run in the history."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import first_minutes
import first_receipt
from record import HISTORY, describe, write_result


def test_a_run_replaces_the_result_and_adds_to_the_history(tmp_path: Path) -> None:
    out = tmp_path / "results" / "edits.json"
    write_result(out, {"machine": describe(), "ms": 1.5})
    write_result(out, {"machine": {"gpu": "one"}, "ms": 1.25})
    write_result(out.with_name("soak.json"), {"old": 1, "new": 2}, measured={"new": 2})
    assert json.loads(out.read_text()) == {"machine": {"gpu": "one"}, "ms": 1.25}
    assert json.loads(out.with_name("soak.json").read_text()) == {"old": 1, "new": 2}
    first, second, third = map(json.loads, (out.parent / HISTORY).read_text().splitlines())
    assert [line["benchmark"] for line in (first, second, third)] == ["edits", "edits", "soak"]
    assert [line["numbers"] for line in (first, second, third)] == [{"ms": 1.5}, {"ms": 1.25}, {"new": 2}]
    assert second["machine"] == {"gpu": "one"}
    for line in (first, third):
        assert line["machine"]["cores"] >= 1
        assert line["machine"]["versions"]["numpy"]
    assert datetime.fromisoformat(first["date"]).tzinfo is not None
    assert first["commit"] is None or re.fullmatch(r"[0-9a-f]{40}\+?", first["commit"])


def test_the_way_to_the_first_receipt_is_four_commands() -> None:
    commands = first_receipt.commands()
    assert [command.split()[:2] for command in commands] == [
        ["pip", "install"],
        ["expunge", "create"],
        ["expunge", "erase-subject"],
        ["expunge", "verify"],
    ]
    record = json.loads((Path(first_receipt.__file__).parent / "results" / "first_receipt.json").read_text())
    assert [row["command"] for row in record["commands"]] == commands
    assert not any(row["exit_code"] for row in record["commands"])


def test_a_command_beyond_its_limit_is_named() -> None:
    fine = {"seconds": 2.0, "megabytes": 300.0}
    found = {"entries": 10, "keys": "csv", "create": fine, "show": fine, "read": fine}
    assert first_minutes.beyond(found) == []
    assert first_minutes.beyond({**found, "create": {"seconds": 61.0, "megabytes": 10.0}}) == [
        "10 csv: create is beyond 60 s or 2000 MB"
    ]
    assert (
        len(
            first_minutes.beyond(
                {**found, "show": {"seconds": 1.0, "megabytes": 501.0}, "read": {**fine, "seconds": 4.0}}
            )
        )
        == 2
    )
