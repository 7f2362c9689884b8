"""Commands around a person's request: export, case, erasures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.commands.remove_entries import show_erasure
from expunge.cli.context import CommandContext, print_json_lines
from expunge.cli.options import ActorOption, CaseOption, YesOption, parse_duration
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.store import Case

__all__ = ["export_subject", "register"]

PANEL = "Edit"

LeafArgument = Annotated[int, typer.Argument(metavar="LEAF", help="The leaf of the request.", min=0)]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    cases = group(
        "case",
        summary="Read or erase the cases of receipts.",
        examples=["expunge case show --case DSR-2026-114", "expunge case erase --older-than 1095d --yes"],
    )
    command(
        cases,
        "show",
        examples=["expunge case show", "expunge case show 12", "expunge case show --case DSR-2026-114"],
    )(show_case)
    command(
        cases,
        "erase",
        examples=[
            "expunge case erase 12 --yes",
            "expunge case erase --case DSR-2026-114 --yes",
            "expunge case erase --older-than 1095d --yes",
        ],
    )(erase_case)
    app.add_typer(cases, rich_help_panel=PANEL)
    erasures = group(
        "erasures",
        summary="Erasures that wait: list, cancel, carry out.",
        examples=["expunge erasures list", "expunge erasures cancel 12", "expunge erasures run"],
    )
    command(erasures, "list", examples=["expunge erasures list", "expunge erasures list --json"])(list_erasures)
    command(erasures, "cancel", examples=["expunge erasures cancel 12 --case DSR-2026-114"])(cancel_erasure)
    command(erasures, "run", examples=["expunge erasures run"])(run_erasures)
    app.add_typer(erasures, rich_help_panel=PANEL)


def export_subject(
    context: CommandContext,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The person.")],
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="A new file, or with --format csv a new folder.")],
    form: Annotated[str, typer.Option("--format", metavar="json|csv", help="How to write it.")] = "json",
) -> None:
    """Write everything that the store holds of one person.

    Entries of every memory with content, the leaves of the ledger that name them, and holds on them. What was made from
    them, which an erasure takes along, is listed without content. Nobody else can read the file, and the store keeps no
    trace of it. Memories with entries that have no subject are named, because these were not searched. So are subjects
    that look alike; they are not in the file.
    """
    from expunge.cli.output import counted, fields, search_content, search_rows

    if form not in ("json", "csv"):
        raise InputError(f"--format is json or csv, not {form!r}")
    if form == "json" and out.suffix.lower() == ".csv":
        raise InputError(f"{out} would be JSON; for tables name a new folder: --out {out.stem} --format csv")
    with context.store() as store, context.progress(f"Exporting {subject}", None):
        found = store.export_subject(subject)
        count = found.write_json(out) if form == "json" else found.write_csv(out)
        # Not in the file, which is for the person: these may be others.
        search = store.find_subject(subject)
    about = found.about()
    holds = ", ".join(f"hold {hold.number} on {hold.memory}" for hold in found.holds)
    context.show(
        {"file": out, "entries": count, **about, **search_content(search)},
        fields(
            [
                ("export", str(out)),
                ("holds", f"{counted(count, 'entry')} of {subject} in {counted(len(found.memories), 'memory')}"),
                ("memories", ", ".join(found.memories)),
                ("held", holds),
                ("waiting", ", ".join(f"erasure of leaf {one.leaf}" for one in found.requested)),
                *search_rows(search),
            ]
        ),
    )


def show_case(
    context: CommandContext,
    leaf: Annotated[int | None, typer.Argument(metavar="LEAF", help="A leaf of the ledger.", min=0)] = None,
    case: Annotated[str | None, typer.Option("--case", metavar="TEXT", help="All leaves of this case.")] = None,
) -> None:
    """Show which case a leaf belongs to, or all leaves of a case.

    With texts and salts, which open the commitments in the ledger. A case that was erased is not found.
    """
    from expunge.cli.output import listing

    if leaf is not None and case is not None:
        raise InputError("say LEAF or --case, and one of them")
    with context.store() as store:
        if leaf is None:
            found = store.cases(case)
        else:
            one = store.case_of(leaf)
            found = [] if one is None else [one]
    if context.as_json:
        print_json_lines(kept.to_json() for kept in found)
    elif found:
        context.out.print(listing(["case", "actor", "leaves"], [_case_row(kept) for kept in found]))
    else:
        context.note("no case is kept here")


def erase_case(
    context: CommandContext,
    leaf: Annotated[int | None, typer.Argument(metavar="LEAF", help="A leaf of the ledger.", min=0)] = None,
    case: Annotated[str | None, typer.Option("--case", metavar="TEXT", help="This case.")] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="All without a leaf since then, as in 1095d.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Erase texts and salts of cases.

    The leaves stay, with commitments that nobody can open any more.
    """
    from expunge.cli.output import counted

    span = None if older_than is None else parse_duration("--older-than", older_than)
    context.require_consent(yes)
    with context.store() as store:
        context.confirm("Erase the case? Nobody can tell afterwards which case its receipts belong to.", yes)
        count = store.erase_cases(leaf=leaf, case=case, older_than=span)
        waiting = store.waiting()
        context.note_waiting(waiting)
    context.show({"erased": count, "waiting": waiting}, f"{counted(count, 'case')} erased")


def list_erasures(context: CommandContext) -> None:
    """List the erasures that wait to be carried out."""
    from expunge.cli.output import listing

    with context.store() as store:
        found = [pending.to_json() for pending in store.erasures()]
    if context.as_json:
        print_json_lines(found)
    elif found:
        for one in found:
            one["state"] = "held back" if one["held_back"] else "under way" if one["begun"] else "waits"
        columns = ["leaf", "due", "state", "subject", "case", "actor"]
        context.out.print(listing(columns, [[str(one[name] or "") for name in columns] for one in found]))
    else:
        context.note("no erasure waits")


def cancel_erasure(
    context: CommandContext, leaf: LeafArgument, case: CaseOption = None, actor: ActorOption = None
) -> None:
    """Cancel an erasure before it is due."""
    with context.store() as store:
        written = store.cancel_erasure(leaf, case=case, actor=actor)
        waiting = store.waiting()
        context.note_waiting(waiting)
    content = {"cancelled": leaf, "index": written.index, "waiting": waiting}
    context.show(content, f"the erasure requested at leaf {leaf} is cancelled (leaf {written.index})")


def run_erasures(context: CommandContext) -> None:
    """Carry out the erasures that are due.

    Every command that opens the store does so, and so does the service; this one says what it came to, and fails where
    a memory cannot be edited.
    """
    with context.store(carry_out=False) as store:
        done = store.carry_out_erasures()
        waiting = store.waiting()
        context.note_waiting(waiting)
        for erasure in done:
            show_erasure(context, None, erasure, {}, keyed=False)
    if not done:
        context.note("no erasure is due")
    if not all(erasure.complete for erasure in done):
        raise typer.Exit(3)


def _case_row(kept: Case) -> list[str]:
    return [kept.case or "", kept.actor or "", ", ".join(str(leaf) for leaf in kept.leaves)]
