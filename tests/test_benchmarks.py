"""Benchmarks keep their latest result for the documents, and every run in the history."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

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
