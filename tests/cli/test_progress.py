"""Bars are for people at a terminal: none with --json, and none where standard error is no terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from expunge.cli.context import CommandContext


def shown(context: CommandContext, *, terminal: bool) -> str:
    stream = StringIO()
    vars(context)["err"] = Console(file=stream, force_terminal=terminal, width=100)
    with context.stages("Creating [b]ward[/b]") as told:
        told("fitting 50 keys", 0, 50)
        told("fitting 50 keys", 25, 50)
        told("writing and signing", 0, 50)
    with context.progress("Verifying", 3) as step:
        step()
    return stream.getvalue()


def test_a_terminal_gets_a_bar_with_the_stage() -> None:
    text = shown(CommandContext(), terminal=True)
    assert "Creating [b]ward[/b]: writing and signing" in text
    assert "Verifying" in text


def test_a_stage_that_has_not_begun_does_not_count_what_the_last_one_did() -> None:
    context, stream = CommandContext(), StringIO()
    vars(context)["err"] = Console(file=stream, force_terminal=True, width=100)
    with context.stages("Creating ward") as told:
        told("fitting 50 keys", 25, 50)
        told("writing and signing", 0, 70)
    last = stream.getvalue().rpartition("writing and signing")[2]
    assert "0/?" in last
    assert "/50" not in last


@pytest.mark.parametrize(("as_json", "terminal"), [(True, True), (False, False), (True, False)])
def test_nobody_else_gets_one(as_json: bool, terminal: bool) -> None:
    assert shown(CommandContext(as_json=as_json), terminal=terminal).strip() == ""
