"""The ``expunge`` command: its common options, every command below it, and how an error ends a run."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

import expunge
from expunge.cli.command_definition import GroupWithExamples, paragraphs
from expunge.cli.commands import (
    add_entries,
    ask_memory,
    back_up,
    draw_plot,
    export_ledger,
    handle_requests,
    issue_certificate,
    keep_mirrors,
    maintain_store,
    make_keys,
    manage_keys,
    publish_ledger,
    remove_entries,
    run_audit,
    run_demo,
    run_witness,
    serve_notes,
    serve_store,
    show_store,
    sign_heads,
    sweep_store,
    tune_width,
    verify_artifacts,
    warm_cache,
    write_verifier,
)
from expunge.cli.configuration import take_configuration
from expunge.cli.context import DEFAULT_STORE, CommandContext, print_json_lines
from expunge.cli.errors import DECLINED, READER_GONE, USAGE, print_error, report_error
from expunge.errors import StoreError

__all__ = ["app"]

HELP = """A memory you can delete from, and prove it.

Keeps (key, value) entries, weights them with a one-class support-vector fit, and makes every removal a checked, signed
transaction: applied, rescued or refused, with a receipt that anyone can verify offline.

Exit codes: 0 ok, 1 verification failed, 2 usage, 3 refused, 4 store.
"""

# Typer carries its own copy of click, or uses the installed one, depending on its version: ask the class itself.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class RootGroup(GroupWithExamples):
    """The outermost group: whatever goes wrong below leaves one line and an exit code, never a traceback."""

    examples = (
        "expunge demo",
        "expunge create icu-7 hours.csv --sigma 2 --nu 0.4",
        "expunge delete icu-7 --subject patient-17 --yes",
        "expunge verify ledger",
    )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run; in standalone mode, exit."""
        words = list(sys.argv[1:] if args is None else args)
        _open_closed_streams()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
                # Better a question mark than nothing at all.
                stream.reconfigure(errors="replace")
        code = self._run(words, prog_name=prog_name, complete_var=complete_var, **extra)
        if standalone_mode:
            sys.exit(code)
        return code

    def _run(self, words: list[str], **extra: Any) -> int:
        try:
            code = self._dispatch(words, **extra)
            sys.stdout.flush()
            return code
        except SystemExit as left:
            # This is what Typer makes of a reader that went away.
            if isinstance(left.__context__, BrokenPipeError):
                return _report_output_failure(left.__context__)
            raise
        except OSError as problem:
            return _report_output_failure(problem)

    def _dispatch(self, words: list[str], **extra: Any) -> int:
        as_json = "--json" in words
        try:
            result = super().main(words, standalone_mode=False, **extra)
            return result if isinstance(result, int) else 0
        except typer.Abort:
            print_error("Nothing was done.")
            return DECLINED
        except _UsageError as problem:
            return _report_usage(problem, as_json)
        except Exception as problem:
            if os.environ.get("EXPUNGE_TRACEBACK") or _is_full(problem):
                raise
            return report_error(problem, as_json=as_json)


app = typer.Typer(
    name="expunge",
    cls=RootGroup,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"expunge {expunge.__version__}")
        raise typer.Exit


@app.callback(help=paragraphs(HELP))
def common_options(
    typer_context: typer.Context,
    store: Annotated[
        str, typer.Option("--store", metavar="URL", envvar="EXPUNGE_STORE", help="Where the memories are.")
    ] = DEFAULT_STORE,
    signing_key: Annotated[
        str | None,
        typer.Option(
            "--signing-key",
            metavar="KEY",
            envvar="EXPUNGE_SIGNING_KEY",
            help="Signing key of the store, PEM file or URI; else STORE.key.",
        ),
    ] = None,
    head_key: Annotated[
        str | None,
        typer.Option(
            "--head-key",
            metavar="KEY",
            envvar="EXPUNGE_HEAD_KEY",
            help="Key that signs heads, where the signing key is not Ed25519.",
        ),
    ] = None,
    pepper: Annotated[
        Path | None,
        typer.Option(
            "--pepper",
            metavar="FILE",
            envvar="EXPUNGE_PEPPER",
            help="Pepper of the store, where its key is in no file or was rotated; else STORE.pepper.",
        ),
    ] = None,
    ledger_name: Annotated[
        str | None,
        typer.Option(
            "--ledger-name",
            metavar="NAME",
            envvar="EXPUNGE_LEDGER_NAME",
            help="Name of a new store's ledger, as hospital.example/ward: certificates show it.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            envvar="EXPUNGE_CONFIG",
            callback=take_configuration,
            is_eager=True,
            help="TOML with options: [store], [serve], [mcp].",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep the options that stand before the command's name, for the command."""
    typer_context.obj = CommandContext(store, signing_key, as_json, head_key, pepper, ledger_name)
    if typer_context.invoked_subcommand is None:
        print(typer_context.get_help())


for module in (
    make_keys,
    keep_mirrors,
    manage_keys,
    add_entries,
    remove_entries,
    handle_requests,
    maintain_store,
    sweep_store,
    ask_memory,
    show_store,
    draw_plot,
    tune_width,
    export_ledger,
    publish_ledger,
    issue_certificate,
    write_verifier,
    sign_heads,
    verify_artifacts,
    run_audit,
    back_up,
    warm_cache,
    serve_store,
    serve_notes,
    run_witness,
    run_demo,
):
    module.register(app)


def _report_usage(problem: Exception, as_json: bool) -> int:
    found = getattr(problem, "format_message", lambda: str(problem))()
    message = " ".join(str(found).split())
    typer_context = getattr(problem, "ctx", None)
    path = "expunge" if typer_context is None else typer_context.command_path
    if as_json:
        print_json_lines([{"error": "UsageError", "code": "usage-error", "message": message, "exit_code": USAGE}])
    print_error(f"error: usage-error: {message} Try: {path} --help")
    return USAGE


def _open_closed_streams() -> None:
    """Put the null device where a standard stream is closed: Python has None there, and a file could get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 — open until the end


def _is_full(problem: Exception) -> bool:
    """Whether standard output took no more. Errors of files have their names, and the library's own their class."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    return isinstance(problem, OSError) and problem.filename is None and problem.errno in full


def _report_output_failure(problem: OSError) -> int:
    """Exit code where standard output took no more: its reader left, or its disk is full."""
    # The interpreter must not try to flush into the void at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(problem, BrokenPipeError):
        return READER_GONE
    lost = StoreError(f"cannot write to standard output: {problem.strerror}; expunge log tells what was done")
    return report_error(lost, as_json=False)
