"""Write docs/reference/dependencies.md and the software bill of materials: `make licences`.

A fresh environment gets the base install. cyclonedx-py lists what is in it (CycloneDX 1.6), and pip-licenses says under
which licences. What the extras ask for is looked up in the environment that runs this, where all of them are installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import expunge

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "dependencies.md"
BILL = ROOT / "docs" / "reference" / "sbom.cdx.json"
# Extras for those who work on expunge, not for those who run it.
TOOLING = ("dev", "docs")

TOP = """\
# Dependencies and licences

What expunge asks for at run time, and under which licences. `make licences` writes this page with pip-licenses, and
[the bill of materials](sbom.cdx.json) of the base install with cyclonedx-py (CycloneDX 1.6).

expunge itself is Apache-2.0; the samples in its wheel are under ODbL-1.0 (hours in intensive care) and MIT
(conversations), with their licences beside them.

## The base install

Everything that `pip install .` brings, on Linux and the version of Python that wrote the page. All of it is permissive,
which a test checks, but for FLINT (LGPL-3.0-or-later), a library inside the wheel of python-flint (MIT): it is used as
it comes, loaded at run time, and replaceable by another build.

The wheels of numpy and scipy carry OpenBLAS (BSD-3-Clause) and GCC's run time libraries (GPL with
the exception for linking, and LGPL) as files of their own; their licences are in those of the wheels.

"""
EXTRAS = """
## The extras

What each asks for itself. psycopg is under the LGPL: used as it comes, loaded at run time and replaceable by another
build. PyTorch's build for CUDA brings NVIDIA's libraries, which are
proprietary; the build for processors does not. `dev` and `docs` are for working on expunge.

| extra | dependency | licence |
|---|---|---|
"""


def run(*command: str) -> str:
    """What a command of this environment printed."""
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 — our own
    return done.stdout


def licences(python: str, names: Iterable[str] = ()) -> dict[str, str]:
    """Licences of the named distributions of an environment, or of all, by canonical name."""
    chosen = ["--packages", *names] if names else []
    command = ["-m", "piplicenses", "--python", python, "--from", "mixed", "--format", "json"]
    listed = json.loads(run(sys.executable, *command, *chosen))
    # Some put the whole text where its name belongs; the first line names it.
    return {canonicalize_name(one["Name"]): one["License"].splitlines()[0] for one in listed}


def asked() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for at run time: under "" the base install, then each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in TOOLING}
    return {name: list(map(Requirement, lines)) for name, lines in {"": project["dependencies"], **extras}.items()}


def write_bill(python: str) -> None:
    """Write the bill of materials of an environment."""
    about = ["--pyproject", "pyproject.toml", "--mc-type", "library", "--spec-version", "1.6", "--output-reproducible"]
    bill = json.loads(run(sys.executable, "-m", "cyclonedx_py", "environment", *about, python))
    # pyproject.toml leaves the version to the package.
    bill["metadata"]["component"]["version"] = expunge.__version__
    BILL.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")


def write_page(python: str) -> None:
    """Write the page: the base install of an environment, and what the extras ask for."""
    base = licences(python)
    lines = [f"| {name} | {licence} |" for name, licence in sorted(base.items()) if name != "expunge"]
    rows = [(extra, each) for extra, some in asked().items() if extra for each in some if each.name != "expunge"]
    here = licences(sys.executable, sorted({each.name for _, each in rows}))
    extras = [f"| {extra} | `{each}` | {here[canonicalize_name(each.name)]} |" for extra, each in rows]
    table = "\n".join(["| distribution | licence |", "|---|---|", *lines])
    PAGE.write_text(f"{TOP}{table}\n{EXTRAS}" + "\n".join(extras) + "\n", encoding="utf-8")


def main() -> None:
    """Install the base and write both files."""
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder) / "bin" / "python")
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", str(ROOT))
        write_bill(python)
        write_page(python)


if __name__ == "__main__":
    main()
