"""``expunge retain``: erase what has ended."""

from __future__ import annotations

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext
from expunge.cli.options import ActorOption, CaseOption, DryRunOption

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "retain",
        panel="Edit",
        examples=["expunge retain --dry-run", "expunge retain", "expunge retain --json --case RETENTION-7"],
    )(retain)


def retain(
    context: CommandContext,
    case: CaseOption = None,
    actor: ActorOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Erase entries that have ended.

    Entries may be admitted with an end. This erases those whose end has come, with what was made from them, in every
    memory: one edit and one receipt per memory, and one summary with the time. Entries that have lost a source go, too.
    What a hold keeps stays, and is named. Until it is swept, an entry that has ended counts like any other; the service
    sweeps by itself.
    """
    from expunge.cli.output import counted, fields, joint_rows, preview_content, preview_rows

    with context.store() as store:
        if dry_run:
            preview = store.retain(dry_run=True)
            held = [(f"kept by holds in {name}", ", ".join(ids)) for name, ids in preview.held.items()]
            context.show(
                {
                    "dry_run": True,
                    "memories": [preview_content(*item) for item in preview.items()],
                    "held": preview.held,
                    "not_read": preview.not_read,
                },
                *(fields(preview_rows(*item)) for item in preview.items()),
                *([fields(held)] if held else []),
                *([] if preview else ["nothing has ended; nothing was changed"]),
            )
            return
        with context.stages("Erasing what has ended") as told:
            done = store.retain(progress=lambda number, total: told("memories", number, total), case=case, actor=actor)
        waiting = store.waiting()
        context.note_waiting(waiting)
    gone = sum(len(part.applied) for part in done.memories)
    memories = counted(len(done.applied), "memory")
    erased = f"{counted(gone, 'entry')} in {memories}" if gone else "nothing has ended"
    context.show(done.to_json() | {"waiting": waiting}, fields([("erased", erased), *joint_rows(done)]))
    outcomes = {part.outcome for part in done.memories}
    if outcomes & {"refused", "failed"}:
        raise typer.Exit(4 if "failed" in outcomes else 3)
