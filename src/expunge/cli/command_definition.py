"""How a command is defined: its common options, and the examples at the end of its help."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from expunge.cli.compilation_notice import compilation_noted
from expunge.cli.configuration import CONFIGURED
from expunge.cli.context import DEFAULT_STORE, CommandContext
from expunge.cli.errors import report_error
from expunge.errors import ExpungeError

__all__ = ["GroupWithExamples", "command", "group", "paragraphs"]

F = TypeVar("F", bound=Callable[..., None])
COMMON = "Common options"

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"Where the memories are; else $EXPUNGE_STORE, else {DEFAULT_STORE}.",
        rich_help_panel=COMMON,
    ),
]
SigningKeyOption = Annotated[
    str | None,
    typer.Option(
        "--signing-key",
        metavar="KEY",
        help="Signing key of the store, PEM file or URI; else $EXPUNGE_SIGNING_KEY.",
        rich_help_panel=COMMON,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.", rich_help_panel=COMMON)]


class CommandWithExamples(TyperCommand):
    """A command whose help ends in examples. Each has lines of its own: Typer would run them together."""

    examples: Sequence[str] = ()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line: ``NAME``, ``[NAME]``, ``FILE...`` or ``[ID]...``, whatever Typer's version."""
        pieces = ["[OPTIONS]"]
        for argument in self.get_params(ctx):
            if argument.param_type_name == "argument":
                name = argument.metavar or str(argument.name).upper()
                pieces.append((name if argument.required else f"[{name}]") + ("..." if argument.nargs == -1 else ""))
        return pieces

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help, then examples."""
        super().format_help(ctx, formatter)
        _print_examples(self.examples)


class GroupWithExamples(TyperGroup):
    """A group whose help ends in examples."""

    examples: Sequence[str] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help, then examples."""
        super().format_help(ctx, formatter)
        _print_examples(self.examples)


def group(name: str, *, summary: str, examples: Sequence[str]) -> typer.Typer:
    """A command with commands below it."""
    new = typer.Typer(
        name=name,
        help=summary,
        cls=type("Group", (GroupWithExamples,), {"examples": tuple(examples)}),
        invoke_without_command=True,
        rich_markup_mode="rich",
        add_completion=False,
    )

    @new.callback()
    def _print_help(typer_context: typer.Context) -> None:
        if typer_context.invoked_subcommand is None:
            print(typer_context.get_help())

    return new


def command(app: typer.Typer, name: str, *, examples: Sequence[str], panel: str | None = None) -> Callable[[F], F]:
    """Register a function whose first argument is the CommandContext; its docstring is the help."""

    def register(function: F) -> F:
        signature = _signature(function)

        @functools.wraps(function)
        def run(
            *, typer_context: typer.Context, store: str | None, signing_key: str | None, as_json: bool, **options: Any
        ) -> None:
            above: CommandContext = typer_context.obj or CommandContext()
            context = replace(
                above,
                url=store or above.url,
                signing_key=signing_key or above.signing_key,
                as_json=as_json or above.as_json,
            )
            try:
                with compilation_noted(context):
                    function(context, **options)
                sys.stdout.flush()
            except ExpungeError as problem:
                raise typer.Exit(report_error(problem, as_json=context.as_json)) from None

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: found.annotation for name, found in signature.parameters.items()}
        del run.__wrapped__
        app.command(
            name,
            help=paragraphs(function.__doc__ or ""),
            cls=type("Command", (CommandWithExamples,), {"examples": tuple(examples)}),
            rich_help_panel=panel,
            no_args_is_help=False,
            context_settings={"auto_envvar_prefix": f"EXPUNGE_{name.upper()}"} if name in CONFIGURED else None,
        )(run)
        return function

    return register


def paragraphs(text: str) -> str:
    """A docstring with one line per paragraph, for the terminal to break."""
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


def _signature(function: Callable[..., None]) -> inspect.Signature:
    """What the command takes: the function's own parameters, then the common ones."""
    own = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [found.replace(kind=keyword) for found in list(own.parameters.values())[1:]]
    common = [
        inspect.Parameter("typer_context", keyword, annotation=typer.Context),
        inspect.Parameter("store", keyword, annotation=StoreOption, default=None),
        inspect.Parameter("signing_key", keyword, annotation=SigningKeyOption, default=None),
        inspect.Parameter("as_json", keyword, annotation=JsonOption, default=False),
    ]
    return inspect.Signature([*parameters, *common])
