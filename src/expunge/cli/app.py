"""The ``expunge`` command: its options, and every command below it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import expunge
from expunge.cli.command_definition import Front, unwrapped
from expunge.cli.commands import (
    add_entries,
    ask_memory,
    back_up,
    export_ledger,
    maintain_store,
    make_keys,
    remove_entries,
    run_audit,
    run_demo,
    run_mcp_server,
    serve_http,
    show_store,
    sign_heads,
    verify_artifacts,
)
from expunge.cli.context import DEFAULT_STORE, Session

__all__ = ["app"]

HELP = """A memory you can delete from, and prove it.

Keeps (key, value) entries, weights them with a one-class support-vector fit, and makes every removal a checked, signed
transaction: applied, rescued or refused, with a receipt that anyone can verify offline.

Exit codes: 0 ok, 1 verification failed, 2 usage, 3 refused, 4 store.
"""


class Expunge(Front):
    """The whole of it."""

    examples = (
        "expunge demo",
        "expunge create icu-7 hours.csv --sigma 2 --nu 0.4",
        "expunge delete icu-7 --subject patient-17",
        "expunge verify log",
    )


app = typer.Typer(
    name="expunge",
    cls=Expunge,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"expunge {expunge.__version__}")
        raise typer.Exit


@app.callback(help=unwrapped(HELP))
def front(
    context: typer.Context,
    store: Annotated[
        str, typer.Option("--store", metavar="URL", envvar="EXPUNGE_STORE", help="Where the memories are.")
    ] = DEFAULT_STORE,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="PATH", envvar="EXPUNGE_KEY", help="Signing key (PEM) of the store; else STORE.key."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.", show_default=False)] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version.", show_default=False),
    ] = False,
) -> None:
    """Keep what was said before the command, for the command."""
    context.obj = Session(store, key, as_json)
    if context.invoked_subcommand is None:
        print(context.get_help())


for part in (
    make_keys,
    add_entries,
    remove_entries,
    maintain_store,
    ask_memory,
    show_store,
    export_ledger,
    sign_heads,
    verify_artifacts,
    run_audit,
    back_up,
    serve_http,
    run_mcp_server,
    run_demo,
):
    part.add(app)
