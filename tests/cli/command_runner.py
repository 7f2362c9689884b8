"""Runs commands in this process or in a shell, and makes the table that they read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from typer.main import get_command
from typer.testing import CliRunner, Result

from expunge.cli.app import app

__all__ = [
    "ROOT",
    "TRUST",
    "answer",
    "answers",
    "call",
    "changed",
    "code_of",
    "damage",
    "every_command",
    "hours",
    "shell",
]

ROOT = Path(__file__).parents[2]
TRUST = ("--trust", "log.vkey")
ENVIRONMENT = dict.fromkeys(
    f"EXPUNGE_{name}" for name in ("STORE", "SIGNING_KEY", "PASSPHRASE", "TRACEBACK", "ACTOR", "LEDGER_NAME")
)


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


def code_of(*words: object, code: int = 1) -> str:
    """The code of the error that a command ends with."""
    done = call(*words, code=code)
    (line,) = done.stderr.splitlines()
    found = re.match(r"error: ([a-z0-9-]+): .", line)
    assert found, line
    assert "verified" not in done.stdout
    assert answer(*words, code=code)["code"] == found.group(1)
    return found.group(1)


def changed(source: str, target: str, old: bytes, new: bytes) -> str:
    """Copy a file with its first `old` replaced by `new`, and return the copy's name."""
    data = Path(source).read_bytes()
    assert old in data
    Path(target).write_bytes(data.replace(old, new, 1))
    return target


def damage(name: str) -> None:
    """Overwrite the state of a memory with zeros."""
    with contextlib.closing(sqlite3.connect("expunge.db")) as database, database:
        found = "(SELECT number FROM expunge_memories WHERE name = ?)"
        changed = f"UPDATE expunge_states SET state = zeroblob(length(state)) WHERE memory = {found}"  # noqa: S608
        assert database.execute(changed, (name,)).rowcount


def every_command() -> dict[str, Any]:
    """Commands by name, in the order of the help; those of a group as ``group name``."""
    found: dict[str, Any] = {}

    def walk(group: Any, prefix: str) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                walk(command, f"{prefix}{name} ")
            else:
                found[prefix + name] = command

    walk(get_command(app), "")
    return found
