"""Every command of the command line, as the library builds it."""

from __future__ import annotations

from typing import Any

from typer.main import get_command

from expunge.cli.app import app

__all__ = ["every_command"]


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
