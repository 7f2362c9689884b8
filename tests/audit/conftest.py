from __future__ import annotations

from pathlib import Path

import pytest

from audit.small import made
from expunge.audit.experiments import EXPERIMENTS
from expunge.audit.results import Archive


@pytest.fixture(scope="session")
def small_archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Every audit, cut down; not to be written to."""
    folder: Path = tmp_path_factory.mktemp("audit")
    return made(folder, *(name for name in EXPERIMENTS if not name.startswith("selection")))
