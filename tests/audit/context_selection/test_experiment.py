"""The experiment as the audit runs it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("polars", reason="polars comes with the audit extra")

from expunge.audit.engine import Plan, run_experiment
from expunge.audit.experiments import load_experiment
from expunge.audit.results import open_results
from expunge.verify.audit_results import verify_audit_results


@pytest.mark.slow
def test_a_quick_run_has_every_scheduled_row_and_verifies(tmp_path: Path) -> None:
    plan = Plan(quick=True)
    done = run_experiment("selection", tmp_path, plan)
    verify_audit_results(tmp_path)
    results = open_results(tmp_path)
    rows = results.table("selection", "trials").rows(named=True)
    experiment = load_experiment("selection")
    assert Counter(f"{row['regime']}/{row['arm']}" for row in rows) == experiment.scheduled(plan)
    numbers = results.numbers("selection")
    assert round(numbers["redundancy seed 0/support/recall/mean"], 3) == 0.861
    assert numbers["patients deleted/memory/left/max"] == 0.0
    paired = [row for row in rows if row["regime"] == "text 25%" and row["arm"] == "uniform"]
    assert {row["over_uniform"] for row in paired} == {0.0}
    lines = experiment.headlines(numbers)
    assert any(line.startswith("cover") and "0.961" in line for line in lines)
    assert done.tasks == len(experiment.tasks(plan))
