"""How a command is made: common options, examples in its help, errors as one line and an exit code."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from expunge.cli.context import DEFAULT_STORE, Session
from expunge.cli.errors import DECLINED, DEFECT, GONE, USAGE, code_of, described, exit_code, one_line, visible
from expunge.errors import ExpungeError, StoreError

__all__ = ["Front", "command", "group", "report", "unwrapped"]

F = TypeVar("F", bound=Callable[..., None])
COMMON = "Common options"

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"Where the memories are; else $EXPUNGE_STORE, else {DEFAULT_STORE}.",
        rich_help_panel=COMMON,
        show_default=False,
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="PATH",
        help="Signing key (PEM) of the store; else $EXPUNGE_KEY.",
        rich_help_panel=COMMON,
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print JSON on standard output.", rich_help_panel=COMMON, show_default=False),
]

# Typer carries its own copy of click, or uses the installed one, depending on its version: ask the class itself.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Taught(TyperCommand):
    """A command whose help ends in examples. Each has lines of its own: Typer would run them together."""

    examples: Sequence[str] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help, then examples."""
        super().format_help(ctx, formatter)
        _print_examples(self.examples)


class TaughtGroup(TyperGroup):
    """A group whose help ends in examples."""

    examples: Sequence[str] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help, then examples."""
        super().format_help(ctx, formatter)
        _print_examples(self.examples)


class Front(TaughtGroup):
    """The outermost group: whatever goes wrong below leaves one line and an exit code, never a traceback."""

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
            code = self._answer(words, **extra)
            sys.stdout.flush()
            return code
        except SystemExit as left:
            # This is what Typer makes of a reader that went away.
            if isinstance(left.__context__, BrokenPipeError):
                return _unheard(left.__context__)
            raise
        except OSError as problem:
            return _unheard(problem)

    def _answer(self, words: list[str], **extra: Any) -> int:
        as_json = "--json" in words
        try:
            result = super().main(words, standalone_mode=False, **extra)
            return result if isinstance(result, int) else 0
        except typer.Abort:
            _say("Nothing was done.")
            return DECLINED
        except _UsageError as problem:
            return _usage(problem, as_json)
        except Exception as problem:
            if os.environ.get("EXPUNGE_TRACEBACK") or _is_full(problem):
                raise
            return report(problem, as_json=as_json)


def group(name: str, *, summary: str, examples: Sequence[str]) -> typer.Typer:
    """A command with commands below it."""
    made = typer.Typer(
        name=name,
        help=summary,
        cls=type("Group", (TaughtGroup,), {"examples": tuple(examples)}),
        invoke_without_command=True,
        rich_markup_mode="rich",
        add_completion=False,
    )

    @made.callback()
    def _alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return made


def command(app: typer.Typer, name: str, *, examples: Sequence[str], panel: str | None = None) -> Callable[[F], F]:
    """Register a function whose first argument is the Session; its docstring is the help."""

    def register(function: F) -> F:
        @functools.wraps(function)
        def run(*, context: typer.Context, store: str | None, key: Path | None, as_json: bool, **given: Any) -> None:
            above: Session = context.obj or Session()
            session = Session(store or above.url, key or above.signing_key, as_json or above.as_json)
            try:
                function(session, **given)
                sys.stdout.flush()
            except ExpungeError as problem:
                raise typer.Exit(report(problem, as_json=session.as_json)) from None

        run.__signature__ = _signature(function)  # type: ignore[attr-defined]
        run.__annotations__ = {name: found.annotation for name, found in _signature(function).parameters.items()}
        del run.__wrapped__
        app.command(
            name,
            help=unwrapped(function.__doc__ or ""),
            cls=type("Command", (Taught,), {"examples": tuple(examples)}),
            rich_help_panel=panel,
            no_args_is_help=False,
        )(run)
        return function

    return register


def report(problem: BaseException, *, as_json: bool) -> int:
    """Print an error, and return its exit code."""
    code = exit_code(problem)
    if as_json:
        Session(as_json=True).lines([described(problem)])
    if code == DEFECT:
        _say(
            f"error: {type(problem).__name__}: {one_line(problem)} (a defect in expunge; nothing half-done was kept; "
            "EXPUNGE_TRACEBACK=1 shows where)"
        )
    else:
        _say(f"error: {code_of(problem)}: {one_line(problem)}")
    return code


def unwrapped(text: str) -> str:
    """A docstring with one line a paragraph, for the terminal to break."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _print_examples(examples: Sequence[str]) -> None:
    """Below a help text; unbroken, so that they can be pasted."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print("\n Examples\n", style="bold")
    for example in examples:
        first, *rest = example.split("\n")
        for line in (f"   $ {first}", *(f"       {line}" for line in rest)):
            console.print(line, markup=False, soft_wrap=True)


def _usage(problem: Exception, as_json: bool) -> int:
    found = getattr(problem, "format_message", lambda: str(problem))()
    message = " ".join(str(found).split())
    context = getattr(problem, "ctx", None)
    path = "expunge" if context is None else context.command_path
    if as_json:
        Session(as_json=True).lines(
            [{"error": "UsageError", "code": "usage-error", "message": message, "exit_code": USAGE}]
        )
    _say(f"error: usage-error: {message} Try: {path} --help")
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


def _unheard(problem: OSError) -> int:
    """Exit code where standard output took no more: its reader left, or its disk is full."""
    # The interpreter must not try to flush into the void at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(problem, BrokenPipeError):
        return GONE
    lost = StoreError(f"cannot write to standard output: {problem.strerror}; expunge log tells what was done")
    return report(lost, as_json=False)


def _say(line: str) -> None:
    line = visible(line)
    if line.startswith("error:") and sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        line = line.replace("error:", "\x1b[1;31merror:\x1b[0m", 1)
    print(line, file=sys.stderr)


def _signature(function: Callable[..., None]) -> inspect.Signature:
    """What the command takes: the function's own parameters, then the common ones."""
    own = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [found.replace(kind=keyword) for found in list(own.parameters.values())[1:]]
    common = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        inspect.Parameter("store", keyword, annotation=StoreOption, default=None),
        inspect.Parameter("key", keyword, annotation=KeyOption, default=None),
        inspect.Parameter("as_json", keyword, annotation=JsonOption, default=False),
    ]
    return inspect.Signature([*parameters, *common])
