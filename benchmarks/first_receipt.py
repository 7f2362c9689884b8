"""From a fresh machine and a table to a verified erasure: type what the README says, and time it.

    python benchmarks/first_receipt.py

The commands are those of the README between the marks ``first receipt``. They run in a copy of the repository's last
commit, in a new virtual environment, with an empty home and an empty cache of pip, on the hours of intensive care that
ship with the package, under the name that the README gives them. What pip took, in time and in bytes that it
downloaded, is told apart from our own seconds. Needs a package index. The machine may have other work, so the time of
processors stands beside the seconds.

Bytes are those of the packages that pip fetched. What they are, pip is asked afterwards and without a clock, as the
cache stays empty where a server forbids it or an index is a folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from record import describe, write_result

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "src" / "expunge" / "datasets" / "data" / "icu" / "hours.csv"
MARKED = re.compile(r"<!-- first receipt: begin -->\s*```sh\n(.*?)```\s*<!-- first receipt: end -->", re.DOTALL)


def commands() -> list[str]:
    """The commands of the README, without their comments."""
    (block,) = MARKED.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    return [shlex.join(shlex.split(line, comments=True)) for line in block.splitlines() if line.strip()]


def fresh(folder: Path) -> dict[str, str]:
    """A copy of the last commit in the folder, a virtual environment, and the variables of a shell that is in it."""
    (folder / "home").mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S607
    (folder / "copy").mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder / "copy")], input=archive.stdout, check=True)  # noqa: S603, S607
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)  # noqa: S603
    (folder / "copy" / "hours.csv").write_bytes(TABLE.read_bytes())
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EXPUNGE_", "PYTHON", "NUMBA_"))}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_CACHE_DIR": str(folder / "cache"),
        "COLUMNS": "100",
    }


def processor_seconds() -> float:
    """Time of processors that commands have taken so far, those that they started included."""
    used = os.times()
    return used.children_user + used.children_system


def downloaded(folder: Path, variables: dict[str, str]) -> int:
    """Bytes of the packages that the installation needs, and of those that build this one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = folder / "packages"
    subprocess.run(  # noqa: S603
        ["pip", "download", "--quiet", "--dest", str(packages), ".", *project["build-system"]["requires"]],  # noqa: S607
        cwd=folder / "copy",
        env=variables,
        check=True,
    )
    name = project["project"]["name"]
    return sum(path.stat().st_size for path in packages.iterdir() if not path.name.startswith(f"{name}-"))


def main() -> None:
    """Type, time, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "first_receipt.json")
    out = parser.parse_args().out
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        variables = fresh(folder)
        for command in commands():
            print(f"$ {command}", flush=True)
            started, used = time.perf_counter(), processor_seconds()
            done = subprocess.run(  # noqa: S602 — what the README says is typed into a shell
                command, shell=True, cwd=folder / "copy", env=variables, capture_output=True, text=True, check=False
            )
            rows.append(
                {
                    "command": command,
                    "seconds": time.perf_counter() - started,
                    "processor_seconds": processor_seconds() - used,
                    "exit_code": done.returncode,
                }
            )
            shown = done.stdout[-300:] if command.startswith("pip") else done.stderr + done.stdout
            print(
                shown,
                f"({rows[-1]['seconds']:.1f} s, {rows[-1]['processor_seconds']:.1f} s of processors)\n",
                flush=True,
            )
            if done.returncode:
                raise SystemExit(done.stderr)
        report = {
            "machine": describe(),
            "commands": rows,
            "megabytes_downloaded": downloaded(folder, variables) / 1e6,
            "seconds_of_pip": sum(row["seconds"] for row in rows if row["command"].startswith("pip")),
            "own_seconds": sum(row["seconds"] for row in rows if not row["command"].startswith("pip")),
            "own_processor_seconds": sum(
                row["processor_seconds"] for row in rows if not row["command"].startswith("pip")
            ),
            "load_average": os.getloadavg()[0],
        }
    write_result(out, report)
    print(
        f"{len(rows)} commands: {report['own_seconds']:.1f} s of our own ({report['own_processor_seconds']:.1f} s of "
        f"processors), {report['seconds_of_pip']:.1f} s of pip, "
        f"{report['megabytes_downloaded']:.0f} MB downloaded"
    )


if __name__ == "__main__":
    main()
