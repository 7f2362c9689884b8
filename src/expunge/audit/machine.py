"""What a run was made with: versions, source, machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["describe_machine", "describe_versions", "source_commit"]

# Whatever takes part in a number.
PACKAGES = ("expunge", "numpy", "scipy", "numba", "scikit-learn", "daqp", "proxsuite", "clarabel", "polars")


def describe_versions() -> dict[str, str]:
    """Versions of Python and of every package that takes part in a number; an absent one is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def describe_machine() -> dict[str, Any]:
    """Processor, cores, system."""
    model = platform.processor()
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass
    return {"processor": model, "cores": os.cpu_count(), "system": platform.system(), "machine": platform.machine()}


def source_commit() -> str | None:
    """The commit that the package was run from, ``+`` added where files differ from it; None outside a checkout."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changed else "")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(  # noqa: S603
        ["git", "-C", str(folder), *words],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    return done.stdout.strip()
