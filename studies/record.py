"""What a result was measured on, and the files it is kept in."""

from __future__ import annotations

import json
import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

__all__ = ["RESULTS", "machine", "read", "write"]

RESULTS = Path(__file__).parent / "results"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine(device: str = "cpu") -> dict[str, Any]:
    """Device, cores and versions."""
    return {
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("torch", "triton", "numpy")},
        "cuda": torch.version.cuda if device.startswith("cuda") else None,
    }


def _finite(value: Any) -> Any:
    """The same data with null for what JSON cannot say: a slot that diverged has no number."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(folder: Path, name: str, content: dict[str, Any]) -> Path:
    """One small JSON file, written whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(_finite(content), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def read(name: str, folder: Path = RESULTS) -> Any:
    """A result by its name."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
