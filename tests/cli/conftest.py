from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.command_runner import call, hours


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two memories, pruned once, and the key that its log verifies under."""
    folder = tmp_path_factory.mktemp("ward")
    store = f"sqlite:///{folder / 'expunge.db'}"
    table = hours(folder / "hours.csv")
    columns = ("--subject-column", "patient", "--payload-column", "note")
    call("create", "ward", table, "--sigma", 2, "--nu", 0.3, *columns, "--store", store)
    call("create", "other", table, "--sigma", 1, "--nu", 0.5, *columns, "--store", store)
    call("prune", "ward", "--store", store)
    (folder / "log.vkey").write_text(call("show", "--verifier-key", "--store", store).stdout, encoding="utf-8")
    return folder


@pytest.fixture
def ward(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the prepared folder of one's own, and the working directory."""
    folder = tmp_path / "ward"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    return folder
