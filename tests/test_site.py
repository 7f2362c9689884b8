"""The documentation site builds without a warning, and its generated pages are what the code says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tools" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["commands.md", "errors.md"])
def test_every_command_and_error_is_documented(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == reference().PAGES[name](), "run: python tools/make_reference.py"


@pytest.mark.slow
@pytest.mark.long
def test_the_site_builds_with_warnings_as_errors(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(tmp_path),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 — our own documents
    assert built.returncode == 0, built.stderr
    for page in ("index", "quickstart", "guides/library", "reference/commands", "formats/receipt"):
        assert (tmp_path / f"{page}.html").exists()
