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


def test_one_seed_has_no_interval_and_a_whole_window_is_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(name: str, bits: list[float], visible: int | None) -> None:
        run = {"shape": {"block": 64}, "slots": [{"window": visible}] * len(bits)}
        (tmp_path / f"{name}.json").write_text(json.dumps({"best_bits": bits, "run": run}))

    keep("32m-hybrid", [1.9], None)
    keep("32m-window", [2.0], 60)
    keep("32m-softmax", [2.5], None)
    keep("3m-tuned-window", [2.0, 2.1, 2.3], 64)
    keep("3m-tuned-softmax", [2.1, 2.12, 2.3], None)
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "read", lambda name: record.read(name, tmp_path))
    (row,) = summary.compared("best_bits")[2:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:] == ["1.900", "2.000 (60)", "2.500", "–", "−5.0%", "–", "1 of 1", "behind, one seed"]
    # A window of 60 of 64 is another setting than full softmax; one of 64 is not.
    (row,) = summary.repeated()[2:]
    assert row == "| enwik8, 3.22M, third tuning | 0.020 | 0.100 |"


def test_models_beside_the_hybrid_are_judged_against_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(name: str, best: list[float], test: list[float]) -> None:
        content = {"best_bits": best, "test_bits": test}
        (tmp_path / f"10m-long{name}.json").write_text(json.dumps(content))

    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "read", lambda name: record.read(name, tmp_path))
    keep("-hybrid", [1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    keep("-window", [1.1, 1.2, 1.1], [2.3, 2.2, 2.4])
    keep("-rate-softmax", [1.3, 1.5, 1.4], [2.4, 2.4, 2.4])
    assert summary.beside() == []
    keep("-even-hybrid", [0.9, 0.8, 0.9], [1.9, 2.2, 2.1])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in summary.beside()[2:]]
    assert rows[0] == ["hybrid", "1.100", "–", "–", "–", "2.100", "–", "–", "–"]
    assert [(row[1], row[4], row[5], row[8]) for row in rows[1:]] == [
        ("1.133", "2 of 3", "2.300", "3 of 3"),
        ("1.400", "3 of 3", "2.400", "3 of 3"),
        ("0.867", "0 of 3", "2.067", "1 of 3"),
    ]
    found = paired([1.3, 1.5, 1.4], [1.0, 1.1, 1.2])
    assert rows[2][2:4] == [f"[{found.interval[0]:+.3f}, {found.interval[1]:+.3f}]", f"{found.p:.2g}"]


def test_a_run_that_stopped_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(name: str, **more: object) -> None:
        run = {"steps": 10, "slots": [{"window": 9, "label": "a", "recipe": {"rate": 1e-3, "warmup": 0}}] * 2}
        content = {"best_bits": [1.9, 2.0], "final_bits": [1.9, 2.0], "complete": True, "run": run}
        (tmp_path / f"{name}.json").write_text(json.dumps(content | more))

    keep("3m-hybrid", complete=False)
    keep("3m-window")
    keep("tune-10m-hybrid", complete=False)
    # Every model diverged: there is nothing to wait for.
    keep("tune-10m-window", complete=False, final_bits=[None, None], best_bits=[None, None])
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "read", lambda name: record.read(name, tmp_path))
    assert summary.compared("best_bits") == []
    assert [line[:25] for line in summary.tuned() if "round" in line] == ["| first round, window, 10"]
    assert sum("diverged" in line for line in summary.tuned()) == 2


def test_the_median_of_an_even_number_of_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"fall": fall} for fall in (0.9, 0.95, 0.97, 0.99)]
    (tmp_path / "student.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "read", lambda name: record.read(name, tmp_path))
    assert "median of 4 seeds | −99% | −96.0% |" in summary.student()[2]
