"""Commands for a memory as a whole, and for the store's files: rebuild, drop, vacuum."""

from __future__ import annotations

from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext
from expunge.cli.options import ExpectedOption, IdempotencyOption, MemoryArgument, YesOption
from expunge.errors import InputError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "rebuild",
        panel="Edit",
        examples=["expunge rebuild icu-7 --nu 0.6", "expunge rebuild icu-7 --cap 0.05"],
    )(rebuild)
    command(
        app,
        "drop",
        panel="Edit",
        examples=["expunge drop icu-7", "expunge drop icu-7 --yes --expected 6f1c…"],
    )(drop)
    command(app, "vacuum", panel="Keep", examples=["expunge vacuum", "expunge vacuum --json"])(vacuum)


def rebuild(
    context: CommandContext,
    name: MemoryArgument,
    nu: Annotated[
        float | None, typer.Option("--nu", metavar="SHARE", help="The cap becomes 1/(SHARE·n), in (0, 1].")
    ] = None,
    cap: Annotated[float | None, typer.Option("--cap", metavar="C", help="The cap itself instead.")] = None,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
) -> None:
    """Solve a memory afresh at a new cap.

    A larger cap lets more entries be deleted: at least 1/cap must stay. It is another reference than before, and the
    receipt says so; certificates of pruned entries end where they no longer hold.
    """
    from expunge.cli.output import show_edit

    if (nu is None) == (cap is None):
        raise InputError("say which cap: --nu SHARE or --cap C, and one of them")
    with context.store() as store:
        memory = store[name]
        show_edit(context, memory.rebuild(nu=nu, cap=cap, expected=expected, idempotency_key=idempotency_key), name)


def drop(
    context: CommandContext,
    name: MemoryArgument,
    yes: YesOption = False,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
) -> None:
    """Take a memory away with all its content.

    Its receipts stay in the log, and the drop is signed there. Refused while something in the memory is held. A memory
    that is damaged can be dropped, too.
    """
    with context.store() as store:
        if name not in store.names() and idempotency_key is None:
            raise InputError(f"there is no memory {name!r}; expunge show lists them")
        if not yes:
            context.confirm(f"Drop {name!r} with all its content? It cannot be brought back.")
        leaf = store.drop(name, expected=expected, idempotency_key=idempotency_key)
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
