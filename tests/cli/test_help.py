"""Help that teaches, and comes at once."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import expunge
from cli.command_runner import call, every_command, shell
from expunge.cli.app import app

EVERY = every_command()


def examples(command: Any) -> list[str]:
    """The examples in the help of a command, as one would paste them."""
    return [example.replace("\\\n", "") for example in command.examples]


@pytest.mark.parametrize("name", EVERY)
def test_the_help_of_each_command_has_examples_of_it(name: str) -> None:
    shown = call(*name.split(), "--help", env={"COLUMNS": "80"}).stdout
    assert "Examples" in shown
    found = examples(EVERY[name])
    assert any(f"expunge {name}" in example for example in found)
    told = shown.partition("Examples")[2].strip()
    assert re.sub(r"\n +", "\n", told) == "\n".join(f"$ {example}" for example in EVERY[name].examples)
    assert all(len(line) <= 80 for line in shown.splitlines())
    for option in ("--store", "--signing-key", "--json"):
        assert option in shown


@pytest.mark.parametrize("name", EVERY)
def test_the_usage_line_names_each_argument_once(name: str) -> None:
    """``NAME`` is required, ``[NAME]`` is not, and ``...`` follows what may be repeated."""
    shown = call(*name.split(), "--help", env={"COLUMNS": "80"}).stdout
    usage = next(line for line in shown.splitlines() if "Usage:" in line)
    words = usage.partition("[OPTIONS]")[2].split()
    assert all(re.fullmatch(r"([A-Z]+|\[[A-Z]+\])(\.\.\.)?", word) for word in words), usage


@pytest.mark.parametrize("name", ["create", "import", "tune", "audit deletion", "audit all"])
def test_what_an_error_of_a_table_names_is_an_option_of_every_command_that_reads_one(name: str) -> None:
    folder = Path(expunge.__file__).parent / "tables"
    named = {found for path in folder.glob("*.py") for found in re.findall(r"--[a-z]+(?:-[a-z]+)*", path.read_text())}
    # Of a table that becomes entries, and of an empty memory.
    named -= {"--payload-column", "--expires-column", "--sources-column", "--dimension", "--value-dimension"}
    # A memory that takes further rows has its columns.
    named -= {"--scale", "--columns-file"} if name == "import" else set()
    options = {option for parameter in EVERY[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {"--no-header", "--decimal", "--also-missing"} <= named
    assert named <= options


def test_usage_lines_of_optional_and_repeated_arguments() -> None:
    for name, words in (
        ("delete", "NAME [ID]..."),
        ("checkpoint merge", "FILE..."),
        ("show", "[NAME] [ID]"),
        ("log", "[INDEX]"),
    ):
        assert f"Usage: expunge {name} [OPTIONS] {words} " in call(*name.split(), "--help").stdout


@pytest.mark.parametrize("name", ["", "audit", "checkpoint", "token", "verify"])
def test_groups_have_help_with_and_without_asking(name: str) -> None:
    words = name.split()
    assert call(*words).stdout == call(*words, "--help").stdout
    assert "Examples" in call(*words).stdout


def group_examples() -> list[str]:
    front: Any = get_command(app)
    groups = (front, *(front.commands[name] for name in ("audit", "checkpoint", "token", "verify")))
    return [line for group in groups for line in examples(group)]


@pytest.mark.parametrize(
    "example", sorted({line for command in EVERY.values() for line in examples(command)} | set(group_examples()))
)
def test_every_example_is_understood(example: str) -> None:
    """Parsed as it would be when pasted, without being run."""
    words = shlex.split(example.rpartition("| ")[2].partition(" > ")[0])
    while "=" in words[0]:
        words.pop(0)
    assert words.pop(0) == "expunge"
    front: Any = get_command(app)
    context = front.make_context("expunge", words, resilient_parsing=False)
    command: Any = front
    rest = [*context._protected_args, *context.args]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    assert command.make_context(command.name, list(rest), parent=context)


def test_names_in_the_list_fit_their_line() -> None:
    shown = call("--help", env={"COLUMNS": "80"}).stdout
    commands = shown.partition("Set up")[2]
    for name in EVERY:
        if " " not in name:
            assert re.search(rf"│ {name} +\S.*\.? +│", commands), name
    assert all(re.match(r"│ [a-z-]+ ", line) for line in commands.splitlines() if line.startswith("│"))


def test_the_version() -> None:
    assert call("--version").stdout == f"expunge {expunge.__version__}\n"


def test_help_is_quick() -> None:
    """In processor time, best of three, less what starting Python itself takes: the machine may be busy."""

    def best(*words: str) -> float:
        took = []
        for _ in range(3):
            before = os.times()
            subprocess.run([sys.executable, *words], capture_output=True, check=True)  # noqa: S603
            after = os.times()
            took.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return min(took)

    assert best("-m", "expunge", "--help") - best("-c", "pass") < 0.5


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    heavy = ("numpy", "numba", "scipy", "sqlalchemy", "cryptography", "sklearn", "polars", "pyarrow", "flint")
    program = (
        "import sys; sys.argv = ['expunge', '--help']\n"
        "from expunge.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stderr.strip() == "[]"


def test_verifying_a_receipt_loads_neither_solver_nor_store(ward: Path) -> None:
    call("log", 0, "--out", "r.json")
    heavy = ("numba", "scipy", "sqlalchemy", "sklearn", "expunge.memory.memory", "expunge.store")
    program = (
        "import sys; sys.argv = 'expunge verify receipt r.json --trust log.vkey'.split()\n"
        "from expunge.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ward)  # noqa: S603
    assert done.stderr.strip() == "[]"


def test_python_dash_m(tmp_path: Path) -> None:
    assert shell("expunge --version", tmp_path).stdout == f"expunge {expunge.__version__}\n"
