"""Build the release and try it where nothing else is installed.

    python tools/release.py build                # dist/: sdist, wheel, verifier.html, and SHA256SUMS of the three
    python tools/release.py check                # the same, then a bare environment, and one for each extra
    python tools/release.py check --extras proof,service --constraint cpu.txt

``check`` installs the wheel with pip into fresh virtual environments, uses the command line, the library and the demo
there, and each extra twice: before it is installed (MissingExtra must name it) and after. It prints a table, writes
benchmarks/results/release.json, and ends with 1 if anything failed. An extra's environment begins as a copy of the
base one, as for somebody who adds an extra later.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "release.json"
USES = ROOT / "tools" / "extras.py"
VERIFIER = ROOT / "src" / "expunge" / "service" / "frontend" / "static" / "verifier.html"
TOOLING = ("dev", "docs")
TIMES = 10
# What a reader of the wheel must find, one of each kind: types, code, samples with their terms, page.
EXPECTED = (
    "expunge/py.typed",
    "expunge/audit/data/negative_control.json",
    "expunge/datasets/data/conversations/LICENSE.txt",
    "expunge/datasets/data/conversations/NOTICE.txt",
    "expunge/datasets/data/conversations/embeddings.npz",
    "expunge/datasets/data/icu/LICENSE.txt",
    "expunge/datasets/data/icu/NOTICE.txt",
    "expunge/datasets/data/icu/hours.csv",
    "expunge/datasets/data/learned_keys/weights.npz",
    "expunge/service/frontend/static/index.html",
    "expunge/service/frontend/static/verifier.html",
    "expunge/service/frontend/static/verify/receipt.js",
)
# The names of expunge load when they are first asked for, so the import alone would say too little.
IMPORTS = {"import_seconds": "import expunge", "memory_seconds": "from expunge import Memory"}
TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
# Bytes of every distribution but the installer's own.
SIZE = """
from importlib.metadata import distributions
print(sum(path.stat().st_size for found in distributions() if found.name not in ("pip", "setuptools")
          for file in found.files or [] if (path := found.locate_file(file)).is_file()))
"""


@dataclass(frozen=True)
class Tried:
    """One install: what it took, and whether what it is for worked there and was named where it was missing."""

    name: str
    megabytes: float
    distributions: int
    used: bool
    named: bool | None
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.used and self.named is not False


def build(out: Path, *, isolated: bool = True) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it."""
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)]
    run([*command, *([] if isolated else ["--no-isolation"])], environment=dict(os.environ))
    (sdist,), (wheel,) = out.glob("expunge-*.tar.gz"), out.glob("expunge-*.whl")
    return sdist, wheel


def add_verifier(out: Path, *built: Path) -> tuple[Path, Path]:
    """The verifier that is one file, for those who install nothing, and the digests of all that is uploaded."""
    verifier, sums = out / VERIFIER.name, out / "SHA256SUMS"
    verifier.write_bytes(VERIFIER.read_bytes())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in (*built, verifier)]
    sums.write_text("".join(lines), encoding="utf-8")
    return verifier, sums


def wheel_problems(wheel: Path) -> list[str]:
    """What is missing from the wheel, against the tree and the list above, and what should not be in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    tree = {
        path.relative_to(source).as_posix()
        for path in (source / "expunge").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    (about,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    terms = {f"{about}/licenses/LICENSE"}
    terms |= {f"{about}/licenses/src/{name}" for name in tree if name.endswith(("/LICENSE.txt", "/NOTICE.txt"))}
    stray = [name for name in names if not name.startswith(("expunge/", f"{about}/")) or "__pycache__" in name]
    return sorted(
        [f"missing: {name}" for name in (tree | set(EXPECTED) | terms) - names]
        + [f"stray: {name}" for name in {*stray, *(name for name in names - tree if name.startswith("expunge/"))}]
    )


def bare() -> dict[str, str]:
    """The environment without what would lead Python to packages of somebody else's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run to the end; what it printed, or its last words as an error."""
    surroundings = environment or bare()
    done = subprocess.run(  # noqa: S603 — our own commands
        command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[-2:])}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout.strip()


def install(folder: Path, what: str, constraint: Path | None) -> None:
    """Install into an environment with its own pip."""
    limits = ["--constraint", str(constraint.resolve())] if constraint else []
    run([python(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *limits, what])


def python(folder: Path) -> str:
    """The interpreter of an environment."""
    return str(folder / "bin" / "python")


def megabytes(size: int) -> float:
    """Bytes as millions of them."""
    return round(size / 1e6, 2)


def measured(folder: Path) -> tuple[float, int]:
    """Megabytes and number of distributions of an environment, without the installer."""
    size = int(run([python(folder), "-c", SIZE]))
    listed = json.loads(run([python(folder), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]))
    return megabytes(size), sum(each["name"] not in ("pip", "setuptools") for each in listed)


def try_base(folder: Path, wheel: Path) -> tuple[Tried, dict[str, float]]:
    """The wheel alone: version, library, command line and demo; and the median seconds that imports take."""
    run([sys.executable, "-m", "venv", str(folder)])
    install(folder, str(wheel), None)
    size, count = measured(folder)
    problem = ""
    with tempfile.TemporaryDirectory() as empty:
        try:
            run([str(folder / "bin" / "expunge"), "--version"])
            run([python(folder), str(USES), "base"], Path(empty))
            run([str(folder / "bin" / "expunge"), "demo"], Path(empty))
        except RuntimeError as failure:
            problem = str(failure)
    seconds = {
        name: round(statistics.median(float(run([python(folder), "-c", TIMED.format(line)])) for _ in range(TIMES)), 4)
        for name, line in IMPORTS.items()
    }
    return Tried("expunge", size, count, not problem, None, problem), seconds


def try_extra(base: Path, folder: Path, wheel: Path, extra: str, constraint: Path | None) -> Tried:
    """One extra: named while it is missing, and of use once it is there."""
    command = [str(USES), extra]
    before = subprocess.run(  # noqa: S603 — our own command
        [python(base), *command], env=bare(), capture_output=True, text=True, check=False
    )
    named = before.returncode == 3 and f"expunge[{extra}]" in before.stdout
    problem = "" if named else f"not named: {(before.stdout + before.stderr).strip()[-300:]}"
    # Links, not copies: pip replaces files and never writes into them.
    copytree(base, folder, symlinks=True, copy_function=os.link)
    used = True
    try:
        install(folder, f"{wheel}[{extra}]", constraint)
        run([python(folder), *command])
    except RuntimeError as failure:
        used, problem = False, f"{problem} {failure}".strip()
    return Tried(f"expunge[{extra}]", *measured(folder), used, named, problem)


def check(names: list[str], constraint: Path | None) -> bool:
    """Everything; prints the table, writes the result, and says whether all of it passed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sdist, wheel = build(folder / "dist")
        wrong = wheel_problems(wheel)
        base, seconds = try_base(folder / "base", wheel)
        tried = [base]
        for name in names:
            tried.append(try_extra(folder / "base", folder / name, wheel, name, constraint))
            run(["rm", "-rf", str(folder / name)])
        numbers = {
            "wheel_megabytes": megabytes(wheel.stat().st_size),
            "sdist_megabytes": megabytes(sdist.stat().st_size),
            "own_megabytes": megabytes(sum(file.file_size for file in zipfile.ZipFile(wheel).infolist())),
            **seconds,
        }
    passed = not wrong and all(each.passed for each in tried)
    show(tried, numbers)
    for line in [*wrong, *(f"{each.name}: {each.problem}" for each in tried if each.problem)]:
        print(line)
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "constraint": constraint.read_text().split() if constraint else [],
        "imports_timed": TIMES,
        **numbers,
        "wheel_problems": wrong,
        "installs": [asdict(each) for each in tried],
        "passed": passed,
    }
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from record import write_result

    write_result(RESULT, result)
    return passed


def show(tried: list[Tried], numbers: dict[str, float]) -> None:
    """The table, for a reader."""
    table = Table("install", "MB", "distributions", "used", "named when missing")
    mark = {True: "yes", False: "NO", None: ""}
    for each in tried:
        table.add_row(
            escape(each.name), f"{each.megabytes:.0f}", str(each.distributions), mark[each.used], mark[each.named]
        )
    Console().print(table)
    print(f"wheel {numbers['wheel_megabytes']} MB, sdist {numbers['sdist_megabytes']} MB")
    print(f"expunge itself, installed: {numbers['own_megabytes']} MB")
    for name, line in IMPORTS.items():
        print(f"{line}: {1000 * numbers[name]:.0f} ms, median of {TIMES}")


def runtime_extras() -> list[str]:
    """The extras for those who run expunge."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [name for name in sorted(project["optional-dependencies"]) if name not in TOOLING]


def main() -> None:
    """Parse and do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("act", choices=["build", "check"])
    parser.add_argument("--extras", metavar="NAMES", help="only these, with commas between; else every one")
    parser.add_argument("--constraint", metavar="FILE", type=Path, help="for pip, as in torch==2.13.0 for a CPU build")
    given = parser.parse_args()
    if given.act == "build":
        sdist, wheel = build(ROOT / "dist")
        wrong = wheel_problems(wheel)
        print(", ".join(file.name for file in (sdist, wheel, *add_verifier(ROOT / "dist", sdist, wheel))))
        print((ROOT / "dist" / "SHA256SUMS").read_text(encoding="utf-8"), end="")
        print(*wrong, sep="\n")
        raise SystemExit(1 if wrong else 0)
    names = runtime_extras() if given.extras is None else [name for name in given.extras.split(",") if name]
    raise SystemExit(0 if check(names, given.constraint) else 1)


if __name__ == "__main__":
    main()
