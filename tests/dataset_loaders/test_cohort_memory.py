"""The cohort builder streams: its memory does not grow with the chart file."""

from __future__ import annotations

from pathlib import Path

import pytest

import cohort


def test_a_chart_file_is_never_in_memory(tmp_path: Path) -> None:
    pytest.importorskip("polars", reason="polars comes with the clinical extra")
    size = cohort.write_folder(tmp_path / "mimic", 200e6, listed=400, drawn=40)
    found = cohort.measure(tmp_path / "mimic")
    assert size > 200e6
    assert found["flow"]["stays"] == 400
    assert found["flow"]["hourly"] == 40
    assert found["hours"] == 40 * cohort.HOURS
    assert 1024 * (found["peak_kib"] - found["before_kib"]) < 0.5 * size
