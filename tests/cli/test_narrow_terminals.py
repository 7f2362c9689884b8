"""What commands print fits into a terminal of 80 columns, and of 120."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_runner import call, hours

COMMANDS = (
    "show",
    "show ward",
    "show ward h000",
    "read ward --like h000",
    "read ward --like h000 --like h001",
    "search ward --like h000",
    "nearest ward --like h000",
    "warranties shelf",
    "prune ward --dry-run",
    "delete ward h003 --dry-run",
    "erase-subject p-1 --dry-run",
    "create other hours.csv --preview",
    "import ward hours.csv --skip-existing --subject-column patient --dry-run",
    "hold",
    "log",
    "log 0",
    "key list",
    "token list",
    "erasures list",
    "verify store",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("narrow")
    hours(path / "hours.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        call("create", "ward", "hours.csv", "--nu", 0.3, "--subject-column", "patient", "--payload-column", "note")
        call("create", "shelf", "hours.csv", "--nu", 0.3, "--subject-column", "none")
        call("prune", "shelf")
        call("delete", "ward", "h002", "--yes")
        call("hold", "ward", "--subject", "p-2", "--reason", "an order of a court, in many words that say nothing new")
        call("erase-subject", "p-3", "--after", "72h")
        call("token", "create", "--scope", "all", "--note", "whose it is, and why")
    return path


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.chdir(folder)
    for command in COMMANDS:
        done = call(*command.split(), env={"COLUMNS": str(width)})
        wide = [line for line in (done.stdout + done.stderr).splitlines() if len(line) > width]
        assert not wide, (command, wide)
