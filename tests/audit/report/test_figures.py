"""The figures: drawn from the rows, the same every time, and not blank."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expunge.audit.report.figures import COLOURS, Figure, _column, draw_figures
from expunge.audit.results import AuditResults, open_results
from expunge.errors import MissingExtra

NAMES = ["deletion-agreement", "chained-edits", "projection-readouts", "deletion-latency", "warranty-survival"]


@pytest.fixture(scope="module")
def drawn(small_results: AuditResults, tmp_path_factory: pytest.TempPathFactory) -> list[Figure]:
    return draw_figures(small_results, tmp_path_factory.mktemp("figures"))


def test_every_figure_is_drawn_and_says_what_it_shows(drawn: list[Figure]) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    assert [figure.name for figure in drawn] == NAMES
    for figure in drawn:
        pixels = pyplot.imread(figure.png)
        height, width = pixels.shape[:2]
        assert width >= 700
        assert height >= 400
        # Ours has its colour in every figure.
        ours = np.array([int(COLOURS["ours"][at : at + 2], 16) for at in (1, 3, 5)]) / 255.0
        assert (np.abs(pixels[:, :, :3] - ours).max(axis=2) < 0.02).sum() > 30, figure.name
        assert figure.svg.read_text(encoding="utf-8").lstrip().startswith("<?xml")
        assert figure.title
        assert figure.caption.endswith(".")
    assert pyplot.get_fignums() == []


def test_results_of_one_audit_give_its_figure_only_and_the_same(
    small_results: AuditResults, drawn: list[Figure], tmp_path: Path
) -> None:
    (again,) = draw_figures(AuditResults(small_results.path, ("deletion",)), tmp_path)
    assert again.name == drawn[0].name
    assert again.png.read_bytes() == drawn[0].png.read_bytes()
    assert again.svg.read_bytes() == drawn[0].svg.read_bytes()
    assert draw_figures(AuditResults(small_results.path, ("expiry",)), tmp_path) == []


def test_rows_without_a_value_are_left_out(small_results: AuditResults) -> None:
    rows = open_results(small_results.path).table("projection", "comparisons")
    raw = _column(rows, "readout_percent", regime="gaussian", arm="ours", tolerance=None)
    assert (
        raw.size
        == rows.filter((rows["regime"] == "gaussian") & (rows["arm"] == "ours") & rows["tolerance"].is_null()).height
    )
    assert _column(rows, "readout_percent", regime="nowhere").size == 0


def test_what_never_came_about_has_no_point(
    small_results: AuditResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tolerance at which every projection failed; a memory without a reserve entry."""
    table = AuditResults.table

    def fewer(self: AuditResults, experiment: str, name: str) -> Any:
        rows = table(self, experiment, name)
        if (experiment, name) == ("projection", "comparisons"):
            return rows.filter((rows["arm"] != "classic") | rows["tolerance"].is_null() | (rows["tolerance"] > 1e-9))
        return rows.filter(rows["victim"] != "reserve") if name == "timings" else rows

    monkeypatch.setattr(AuditResults, "table", fewer)
    drawn = draw_figures(AuditResults(small_results.path, ("projection", "latency")), tmp_path)
    assert [figure.name for figure in drawn] == ["projection-readouts", "deletion-latency"]


def test_without_matplotlib_the_extra_is_named(
    small_results: AuditResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"expunge\[audit\]"):
        draw_figures(small_results, tmp_path)
