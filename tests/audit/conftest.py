from __future__ import annotations

from pathlib import Path

import pytest

from audit.small_audits import made
from expunge.audit.experiments import EXPERIMENTS
from expunge.audit.results import AuditResults


@pytest.fixture(scope="session")
def small_results(tmp_path_factory: pytest.TempPathFactory) -> AuditResults:
    """Every audit, cut down; not to be written to."""
    folder: Path = tmp_path_factory.mktemp("audit")
    return made(folder, *(name for name in EXPERIMENTS if not name.startswith("selection")))
