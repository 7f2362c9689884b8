"""Write the pages of docs/reference that list every command and every error, from the code itself.

    python tools/make_reference.py

``tests/test_site.py`` checks that the committed pages are what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from expunge import errors
from expunge.cli.app import app
from expunge.cli.command_definition import COMMON
from expunge.error_codes import CODES, outside_of
from expunge.errors import ExpungeError

FOLDER = Path(__file__).parent.parent / "docs" / "reference"


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below one, depth first, in the order of the help."""
    for name, below in getattr(command, "commands", {}).items():
        yield (*path, name), below
        yield from commands(below, (*path, name))


def cell(text: str) -> str:
    """Text on one line, fit for a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def command_page() -> str:
    """Each command with its arguments, options and examples."""
    lines = [
        "# Commands",
        "",
        "`expunge COMMAND --help` says the same in the terminal. Every command takes `--store URL` (else",
        "`$EXPUNGE_STORE`, else `sqlite:///expunge.db`), `--signing-key PATH` (else `$EXPUNGE_SIGNING_KEY`) and",
        "`--json`. Exit codes are 0 ok, 1 verification failed, 2 usage, 3 refused, 4 store. The",
        "[guide](../guides/cli.md) tells them as a story.",
    ]
    for path, command in commands(typer.main.get_command(app)):
        if getattr(command, "commands", None):
            lines += ["", f"## expunge {' '.join(path)}", "", cell(command.help or "")]
            continue
        level = "##" if len(path) == 1 else "###"
        lines += ["", f"{level} expunge {' '.join(path)}", "", cell(command.help or ""), ""]
        rows = []
        for parameter in command.params:
            if parameter.name == "help" or getattr(parameter, "hidden", False):
                continue
            if getattr(parameter, "rich_help_panel", None) == COMMON:
                continue
            if parameter.param_type_name == "argument":
                name = f"`{parameter.metavar or parameter.name.upper()}`"
            else:
                name = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
            rows.append(f"| {name} | {cell(getattr(parameter, 'help', None) or '')} |")
        lines += ["| | |", "|---|---|", *rows] if rows else []
        if getattr(command, "examples", ()):
            shown = [
                line if line.startswith("expunge") or "expunge " in line else f"  {line}" for line in command.examples
            ]
            lines += ["", "```sh", *shown, "```"]
    return "\n".join(lines) + "\n"


def error_page() -> str:
    """Each code with its class, what it means, its HTTP status and its exit code."""
    lines = [
        "# Errors",
        "",
        "Everything that expunge raises on purpose is an `ExpungeError`. The class says what kind of thing went wrong",
        "(`expunge.errors` draws the tree), `error.code` says which case. Codes are stable; the service's problem",
        "types and the command line's messages name them.",
    ]
    for title, kinds in CODES.items():
        lines += ["", f"## {title.split(' (')[0]}", ""]
        lines += ["| code | class | HTTP | exit | meaning |", "|---|---|---|---|---|"]
        for kind, code, meaning in ((kind, *item) for kind, codes in kinds.items() for item in codes.items()):
            outside = outside_of(_error(kind, code))
            told = f"{outside.status} | {outside.exit}"
            lines.append(f"| `{code}` | `{kind}` | {told} | {cell(meaning)} |")
    return "\n".join(lines) + "\n"


def _error(kind: str, code: str) -> ExpungeError:
    """An error of a class with a code, however its class is made."""
    made: ExpungeError = getattr(errors, kind).__new__(getattr(errors, kind))
    made.code = code
    return made


PAGES = {"commands.md": command_page, "errors.md": error_page}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(f"wrote {FOLDER.name}/{name}")


if __name__ == "__main__":
    main()
