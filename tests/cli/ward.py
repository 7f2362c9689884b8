"""A small ward for the command line, and a way to call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner, Result

from expunge.cli.app import app

__all__ = ["ROOT", "answer", "answers", "call", "hours", "shell"]

ROOT = Path(__file__).parents[2]
ENVIRONMENT = dict.fromkeys(f"EXPUNGE_{name}" for name in ("STORE", "SIGNING_KEY", "PASSPHRASE", "TRACEBACK"))


def call(*words: object, code: int = 0, **options: Any) -> Result:
    """Run a command in this process and hold it to its exit code."""
    environment = {**ENVIRONMENT, "COLUMNS": "100", **options.pop("env", {})}
    result = CliRunner().invoke(app, [str(word) for word in words], env=environment, prog_name="expunge", **options)
    assert "Traceback" not in result.output, result.output
    assert result.exit_code == code, f"{words}: {result.exit_code}\n{result.output}\n{result.exception!r}"
    return result


def answer(*words: object, code: int = 0, **options: Any) -> dict[str, Any]:
    """The one JSON object that a command prints."""
    (found,) = answers(*words, code=code, **options)
    return found


def answers(*words: object, code: int = 0, **options: Any) -> list[dict[str, Any]]:
    """The JSON objects that a command prints, one a line."""
    return [json.loads(line) for line in call(*words, "--json", code=code, **options).stdout.splitlines()]


def shell(command: str, folder: Path, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell would, with this environment's ``expunge``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EXPUNGE_")}
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", f'expunge() {{ "{sys.executable}" -m expunge "$@"; }}; {command}'],  # noqa: S607
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def hours(path: Path, *, count: int = 40, patients: int = 5, seed: int = 1) -> Path:
    """A table with two key columns, one value, an id, a patient and a note."""
    rng = np.random.default_rng(seed)
    rows = ["id,patient,k0,k1,v0,note"]
    rows += [
        f"h{row:03d},p-{row % patients},{x:.6f},{y:.6f},{97 + v:.3f},note {row}"
        for row, (x, y, v) in enumerate(rng.standard_normal((count, 3)))
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
