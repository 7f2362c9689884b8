from __future__ import annotations

from pathlib import Path

import pytest

from expunge.audit.context_selection.event_hours import measure_stays
from expunge.audit.context_selection.selection_figures import case_stay, draw_comparison, draw_timeline
from expunge.datasets import Stay, icu_stays


def test_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the plots extra")
    stay = case_stay(icu_stays())
    counts = draw_timeline(stay, tmp_path / "stay.png")
    assert counts["support"] == round(
        {row.arm: row.recall for row in measure_stays("shipped", None, "same channel", [place_of(stay)], "x")}[
            "support"
        ]
        * stay.events.sum()
    )
    arm = {"mean": 0.5, "low": 0.4, "high": 0.6}
    draw_comparison({"one": {"arms": {"cover": arm, "uniform": arm}}}, {"one": "One"}, tmp_path / "arms.png")
    for name in ("stay.png", "arms.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def place_of(stay: Stay) -> int:
    return [one.id for one in icu_stays()].index(stay.id)
