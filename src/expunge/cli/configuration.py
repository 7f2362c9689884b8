"""Options from a file: what ``--config`` names, in TOML.

The table ``[store]`` has the options that every command takes, ``[serve]`` and ``[mcp]`` those of these commands, by
their names without the dashes in front. An option that is typed counts before the environment, and that before the
file. A name that is no option is an error, as it is on the command line.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import typer

from expunge.cli.errors import report_error
from expunge.errors import ExpungeError, InputError, StoreError

__all__ = ["CONFIGURED", "take_configuration"]

# Commands that the file, and variables such as EXPUNGE_SERVE_PORT, may give options to.
CONFIGURED: Final = ("serve", "mcp")
_STORE = "store"


def take_configuration(typer_context: typer.Context, path: Path | None) -> Path | None:
    """Have the options of a file stand for those that are not typed."""
    if path is not None and not typer_context.resilient_parsing:
        try:
            typer_context.default_map = _defaults(typer_context, path)
        except ExpungeError as problem:
            raise typer.Exit(report_error(problem, as_json=False)) from None
    return path


def _defaults(typer_context: typer.Context, path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} is not TOML: {problem}") from None
    root: Any = typer_context.command
    found: dict[str, Any] = {}
    for table, options in tables.items():
        if table not in (_STORE, *CONFIGURED) or not isinstance(options, dict):
            raise InputError(f"{path}: there is no table [{table}]; there are [store], [serve] and [mcp]")
        command = root if table == _STORE else root.commands[table]
        given = _options(command, options, f"{path}, [{table}]")
        found |= given if table == _STORE else {table: given}
    return found


def _options(command: Any, given: dict[str, Any], where: str) -> dict[str, Any]:
    """Values by the names of parameters."""
    known = {
        spelled.removeprefix("--"): parameter
        for parameter in command.params
        for spelled in getattr(parameter, "opts", ())
        if spelled.startswith("--") and spelled not in ("--config", "--version", "--json", "--help")
    }
    found = {}
    for name, value in given.items():
        parameter = known.get(name)
        if parameter is None:
            raise InputError(f"{where}: there is no option {name}")
        if isinstance(value, dict) or (isinstance(value, list) and not parameter.multiple):
            raise InputError(f"{where}: {name} takes one value")
        if isinstance(value, bool) is not bool(getattr(parameter, "is_flag", False)):
            wanted = "takes a value" if isinstance(value, bool) else "is true or false"
            raise InputError(f"{where}: {name} {wanted}")
        found[parameter.name] = [str(item) for item in value] if isinstance(value, list) else value
        if not isinstance(value, bool | list):
            found[parameter.name] = str(value)
    return found
