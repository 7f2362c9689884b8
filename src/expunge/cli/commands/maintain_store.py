"""Commands for a memory as a whole, and for the store's files: rebuild, drop, vacuum."""

from __future__ import annotations

from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext
from expunge.cli.options import (
    ActorOption,
    CaseOption,
    DerivedOption,
    ExpectedOption,
    IdempotencyOption,
    MemoryArgument,
    YesOption,
    parse_derived,
    parse_width,
)
from expunge.errors import InputError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "rebuild",
        panel="Edit",
        examples=[
            "expunge rebuild icu-7 --nu 0.6",
            "expunge rebuild icu-7 --cap 0.05",
            "expunge rebuild icu-7 --sigma auto",
            "expunge rebuild icu-7 --sigma 2.83 --nu 0.1",
        ],
    )(rebuild)
    command(
        app,
        "drop",
        panel="Edit",
        examples=["expunge drop icu-7 --yes", "expunge drop icu-7 --yes --expected 6f1c…"],
    )(drop)
    command(app, "vacuum", panel="Keep", examples=["expunge vacuum", "expunge vacuum --json"])(vacuum)


def rebuild(
    context: CommandContext,
    name: MemoryArgument,
    nu: Annotated[
        float | None, typer.Option("--nu", metavar="SHARE", help="The cap becomes 1/(SHARE·n), in (0, 1].")
    ] = None,
    cap: Annotated[float | None, typer.Option("--cap", metavar="C", help="The cap itself instead.")] = None,
    sigma: Annotated[
        str | None, typer.Option("--sigma", metavar="S|auto", help="The new width, or auto to choose it from the keys.")
    ] = None,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
    case: CaseOption = None,
    actor: ActorOption = None,
) -> None:
    """Solve a memory afresh at a new cap or width.

    The larger the cap, the more entries can be deleted before fewer than 1/cap are left, and it has to grow. Without
    --nu and --cap the cap stays, and without --sigma the width; expunge tune compares widths. It is another reference
    than before, and the receipt says so; certificates of forgotten entries end.
    """
    from expunge.cli.output import fields, show_edit

    if nu is not None and cap is not None:
        raise InputError("say which cap: --nu SHARE or --cap C, and one of them")
    if nu is None and cap is None and sigma is None:
        raise InputError("say what is new: the cap with --nu SHARE or --cap C, the width with --sigma S, or both")
    width = None if sigma is None else parse_width("--sigma", sigma)
    with context.store() as store:
        memory = store[name]
        with context.stages(f"Rebuilding {name}") as progress:
            receipt = memory.rebuild(
                nu=nu,
                cap=cap,
                sigma=width,
                expected=expected,
                idempotency_key=idempotency_key,
                case=case,
                actor=actor,
                progress=progress,
            )
        show_edit(context, receipt, name)
        if receipt.outcome == "rebuilt" and not context.as_json:
            context.show(None, fields(("fit", line) for line in memory.report().lines()))


def drop(
    context: CommandContext,
    name: MemoryArgument,
    derived: DerivedOption = "erase",
    yes: YesOption = False,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
    case: CaseOption = None,
    actor: ActorOption = None,
) -> None:
    """Take a memory away with all its content.

    What was made from its entries in other memories goes, too; with --derived refuse nothing does then. Its receipts
    stay in the log, and the drop is signed there. Refused while something in the memory is held. A memory that is
    damaged can be dropped, too.
    """
    choice = parse_derived(derived)
    context.require_consent(yes)
    with context.store() as store:
        if name not in store.names() and idempotency_key is None:
            raise InputError(f"there is no memory {name!r}; expunge show lists them")
        context.confirm(f"Drop {name!r} with all its content? It cannot be brought back.", yes)
        leaf = store.drop(
            name, derived=choice, expected=expected, idempotency_key=idempotency_key, case=case, actor=actor
        )
        waiting = store.waiting()
        context.note_waiting(waiting)
    content = {"name": name, "kind": leaf.kind, "index": leaf.index, "waiting": waiting}
    context.show(content, f"{name} dropped (leaf {leaf.index})")


def vacuum(context: CommandContext) -> None:
    """Remove what earlier erasures left in the database's files.

    On SQLite an erasure does so by itself, unless a reader was in its way. On PostgreSQL it is this that takes erased
    secrets out of the files. Says what it cannot reach.
    """
    from expunge.cli.output import fields

    with context.store() as store, context.progress("Vacuuming", None):
        done = store.vacuum()
    context.show(
        vars(done),
        fields([("files", "clean" if done.files else "NOT clean yet"), ("remains", done.remains)]),
    )
