"""Machine code has a place or none, and a newcomer is told why the first command takes longer."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import expunge
from expunge import compilation
from expunge.cli.compilation_notice import compilation_noted
from expunge.cli.context import CommandContext

SCRIPT = """
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
import numpy as np
from expunge.problem.readout import _transposed
assert _transposed(np.ones((1, 1)))[0, 0] == 1.0
print(_transposed.stats.cache_path, sum(_transposed.stats.cache_hits.values()))
"""


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """A copy of the package that nothing can be kept beside, whoever runs this: files stand where folders would."""
    copy, source = tmp_path / "site" / "expunge", Path(expunge.__file__).parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "data", "static"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_bytes(b"")
    (tmp_path / "temporary").mkdir()
    return tmp_path


def environment_of(folder: Path) -> dict[str, str]:
    """One in which the copy is imported, the home is no folder, and temporary files have a folder of their own."""
    left_out = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    return {name: text for name, text in os.environ.items() if name not in left_out} | {
        "PYTHONPATH": str(folder / "site"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/dev/null",
        "TMPDIR": str(folder / "temporary"),
    }


def run(folder: Path) -> tuple[str, str]:
    done = subprocess.run(  # noqa: S603 — this interpreter
        [sys.executable, "-c", SCRIPT],
        env=environment_of(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_without_a_home_a_private_directory_keeps_the_code(unwritable: Path) -> None:
    first, said = run(unwritable)
    (kept,) = (unwritable / "temporary").iterdir()
    assert first.startswith(str(kept))
    assert first.endswith(" 0")
    assert kept.stat().st_mode & 0o077 == 0
    assert said.strip() == "expunge.compilation compiling, once (10 to 20 s)"
    again, nothing = run(unwritable)
    assert again.endswith(" 1")
    assert nothing == ""


@pytest.mark.parametrize("taken_by", ["a file", "a directory that others can write to", "a link"])
def test_without_any_directory_the_code_is_made_in_every_process(unwritable: Path, taken_by: str) -> None:
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    path = unwritable / "temporary" / f"expunge-numba{user}"
    if taken_by == "a file":
        path.write_bytes(b"")
    elif taken_by == "a link":
        (unwritable / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(unwritable / "elsewhere")
    else:
        path.mkdir()
        path.chmod(0o777)
    out, said = run(unwritable)
    assert out == "None 0"
    assert "in every process" in said
    assert "NUMBA_CACHE_DIR" in said


def test_the_command_line_says_so_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("expunge.compilation")
    with compilation_noted(CommandContext()):
        log.info("compiling, once (10 to 20 s)")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.strip() == "Compiling, once (10 to 20 s)"
    with compilation_noted(CommandContext(as_json=True)):
        log.info("compiling, once (10 to 20 s)")
    log.info("compiling, once (10 to 20 s)")
    assert capsys.readouterr() == ("", "")


def test_what_is_said_of_code_that_is_partly_there(tmp_path: Path) -> None:
    assert compilation._words(str(tmp_path)) == "compiling, once (10 to 20 s)"
    (tmp_path / "kernel.nbi").write_bytes(b"")
    assert compilation._words(str(tmp_path)) == "compiling, once (about 10 s)"


LAZY = """
import sys
import expunge.store
from expunge import Memory
from expunge.problem import kernel_pairs
print([name for name in ("numba", "scipy", "flint") if name in sys.modules])
kept = kernel_pairs.two_sum
kernel_pairs.two_product(1.0, 2.0)
print("numba" in sys.modules, type(kernel_pairs.two_sum).__module__, kept(1.0, 2.0**-60) == (1.0, 2.0**-60))
"""


def test_numba_is_loaded_by_the_first_call_and_not_before() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=100)  # noqa: S603
    assert done.stdout.split("\n")[:2] == ["[]", "True numba.core.registry True"], done.stderr


MATRICES = """
import sys
import numpy as np
from expunge.problem import kernel_pairs
kernel_pairs.two_product(1.0, 2.0)
print("scipy.linalg" in sys.modules)
import numba
from numba.np import arraymath, linalg
product = numba.njit(lambda a, b: a @ np.linalg.inv(b))
made = product(np.eye(2), 2.0 * np.eye(2)).tolist()
print(arraymath.ensure_blas is linalg.ensure_blas, made, "scipy.linalg" in sys.modules)
"""


def test_numba_multiplies_matrices_and_loads_scipy_no_earlier() -> None:
    done = subprocess.run([sys.executable, "-c", MATRICES], capture_output=True, text=True, timeout=100)  # noqa: S603
    assert done.stdout.split("\n")[:2] == ["False", "True [[0.5, 0.0], [0.0, 0.5]] True"], done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_warm_compiles_everything_once_on_a_read_only_source_tree_without_a_home(unwritable: Path) -> None:
    """From a table to a verified store: nothing can be written but beside the table and among the temporary files."""
    table = unwritable / "hours.csv"
    table.write_text("hr,temp\n" + "".join(f"{60 + 7 * row % 41},{36 + row % 5 / 4}\n" for row in range(30)))
    environment = environment_of(unwritable)

    def run_command(words: str) -> tuple[str, str]:
        done = subprocess.run(  # noqa: S603 — this interpreter
            [sys.executable, "-m", "expunge", *words.split()],
            env=environment,
            cwd=unwritable,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert "ompiling" not in done.stdout
        return done.stdout, done.stderr

    out, said = run_command("warm")
    (kept,) = (unwritable / "temporary").glob("expunge-numba*")
    assert "Compiling, once (10 to 20 s)" in said
    assert out.startswith("Compiled ")
    assert str(kept) in out
    assert list(kept.rglob("*.nbi"))
    outputs = []
    for words in (
        "create ward hours.csv",
        "delete ward 3 --yes",
        "prune ward",
        "search ward --at hr=80,temp=37",
        "read ward --at hr=80,temp=37 --json",
        "show ward",
        "verify store",
        "warm",
    ):
        out, said = run_command(words)
        assert "ompiling" not in said, words
        outputs.append(out + said)
    assert "30 entries" in outputs[0]
    assert '"inside"' in outputs[4]
    assert outputs[-1].startswith("Nothing to compile")
    beside = {path.name for path in unwritable.iterdir()}
    assert beside == {"site", "temporary", "hours.csv", "expunge.db", "expunge.db.key"}
