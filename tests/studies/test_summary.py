from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from studies import record, summary
from studies.statistics import paired


def test_the_page_shows_the_committed_results() -> None:
    text = summary.PAGE.read_text(encoding="utf-8")
    assert summary.page(text) == text
    for name, table in summary.tables().items():
        assert f"<!-- {name}: begin -->" in text
        assert table in text


def test_a_comparison_is_read_from_its_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hybrid, window = [2.0, 2.1, 2.05], [2.2, 2.25, 2.1]

    def content(bits: list[float], visible: int | None) -> dict[str, Any]:
        return {"best_bits": bits, "run": {"slots": [{"window": visible}] * 3}}

    for name, bits, visible in (("3m-hybrid", hybrid, None), ("3m-window", window, 99)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content(bits, visible)))
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "read", lambda name: record.read(name, tmp_path))
    (row,) = summary.compared("best_bits")[2:]
    found = paired(hybrid, window)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == "2.050"
    assert cells[2] == "2.183 (99)"
    assert cells[5] == f"−{100 * found.relative:.1f}%"
    assert cells[7] == "3 of 3"
    # No test bits were recorded, so no table claims any.
    assert summary.compared("test_bits") == []
    assert summary.student() == []
