"""Audits cut down to seconds: the same code on a few trials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from expunge.audit.engine import Plan, run_experiment
from expunge.audit.experiments import deletion, latency, record_edits, sequential, streaming
from expunge.audit.results import AuditResults, open_results

__all__ = ["made", "shortened"]


@contextmanager
def shortened(trials: int = 4) -> Iterator[None]:
    """A few trials, two short trajectories, short streams."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletion, "QUICK_TRIALS", trials)
        patch.setattr(deletion, "CHUNK", max(1, trials // 2))
        patch.setattr(record_edits, "QUICK_TRIALS", trials)
        patch.setattr(record_edits, "CHUNK", max(1, trials // 2))
        patch.setattr(latency, "QUICK_SIZES", (40,))
        patch.setattr(latency, "QUICK_TRIALS", 2)
        patch.setattr(sequential, "SIZES", (64,))
        patch.setattr(sequential, "DIMENSIONS", (6,))
        patch.setattr(sequential, "CYCLES", 8)
        patch.setattr(streaming, "INITIAL", 48)
        patch.setattr(streaming, "QUICK_ARRIVALS", 24)
        yield


def made(folder: Path, *names: str, plan: Plan | None = None) -> AuditResults:
    """The results of some audits, cut down, run here."""
    with shortened():
        for name in names:
            run_experiment(name, folder, Plan(quick=True) if plan is None else plan)
    return open_results(folder)
