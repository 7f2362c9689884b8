"""Write the pages of docs/reference that list every command and every error, from the code itself.

    python tools/make_reference.py

``tests/test_site.py`` checks that the committed pages are what this writes.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import expunge
from expunge.cli.app import app
from expunge.cli.command_definition import COMMON
from expunge.error_codes import CODES, code_of
from expunge.errors import ExpungeError

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
# Modules that need an extra which a reader may not have; their errors are none that cross the public border.
SKIPPED = ("expunge.torch", "expunge.integrations")


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
        "`$EXPUNGE_STORE`, else `sqlite:///expunge.db`), `--key PATH` (the signing key; else `$EXPUNGE_KEY`) and",
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


def errors() -> list[type[ExpungeError]]:
    """Every error class of the package, by module and place."""
    for module in pkgutil.walk_packages(expunge.__path__, "expunge."):
        if not module.name.startswith(SKIPPED) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def below(kind: type[ExpungeError]) -> Iterator[type[ExpungeError]]:
        for child in kind.__subclasses__():
            if child.__module__.startswith("expunge.") and not child.__module__.startswith(SKIPPED):
                yield child
            yield from below(child)

    found: set[type[ExpungeError]] = {ExpungeError, *below(ExpungeError)}
    return sorted(found, key=lambda kind: (kind.__module__, inspect.getsourcelines(kind)[1]))


def error_page() -> str:
    """Each error with what it means, its HTTP status and its exit code."""
    lines = [
        "# Errors",
        "",
        "Everything that expunge raises on purpose is an `ExpungeError`. The tree is drawn in `expunge.errors`; one",
        "table (`expunge.error_codes`) says what the command line and the service make of each.",
        "",
        "| class | HTTP | exit |",
        "|---|---|---|",
        *(f"| `{name}` | {code.status} | {code.exit} |" for name, code in CODES.items()),
    ]
    module = ""
    for kind in errors():
        if kind.__module__ != module:
            module = kind.__module__
            lines += ["", f"## {module}", "", "| error | is a | exit | meaning |", "|---|---|---|---|"]
        parent = kind.__mro__[1].__name__
        meaning = cell((kind.__doc__ or "").split("\n\n")[0])
        lines.append(f"| `{kind.__name__}` | `{parent}` | {code_of(kind.__new__(kind)).exit} | {meaning} |")
    return "\n".join(lines) + "\n"


PAGES = {"commands.md": command_page, "errors.md": error_page}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(f"wrote {FOLDER.name}/{name}")


if __name__ == "__main__":
    main()
