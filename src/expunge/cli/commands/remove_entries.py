"""Commands that take entries out, or keep them from being taken: delete, prune, erase-subject, hold, release."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, print_json_lines
from expunge.cli.evidence_files import bundle_paths, save_bundle, state_before, write_bundles
from expunge.cli.options import (
    DryRunOption,
    EvidenceOption,
    ExpectedOption,
    IdempotencyOption,
    MemoryArgument,
    YesOption,
)
from expunge.errors import InputError, StoreError, VerificationError

if TYPE_CHECKING:
    from expunge.attestation.evidence import Prior
    from expunge.store import Store, SubjectErasure

__all__ = ["register"]

PANEL = "Edit"


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "delete",
        panel=PANEL,
        examples=[
            "expunge delete icu-7 h016 h017",
            "expunge delete icu-7 --subject patient-17 --dry-run",
            "expunge delete icu-7 --subject patient-17 --yes --evidence erasure.zip",
        ],
    )(delete)
    command(
        app,
        "prune",
        panel=PANEL,
        examples=[
            "expunge prune icu-7 --dry-run",
            "expunge prune icu-7",
            "expunge prune icu-7 --mode forget --sketch 4 --yes",
        ],
    )(prune)
    command(
        app,
        "erase-subject",
        panel=PANEL,
        examples=[
            "expunge erase-subject patient-17 --dry-run",
            "expunge erase-subject patient-17 --yes",
            "expunge erase-subject patient-17 --yes \\\n--evidence bundles/ --idempotency-key $(uuidgen)",
        ],
    )(erase_subject)
    command(
        app,
        "hold",
        panel=PANEL,
        examples=[
            "expunge hold icu-7 --subject patient-17 --reason 'court order'",
            "expunge hold icu-7 h016 --reason 'incident review'",
            "expunge hold",
        ],
    )(hold)
    command(app, "release", panel=PANEL, examples=["expunge hold", "expunge release 912"])(release)


def delete(
    context: CommandContext,
    name: MemoryArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The entries.")] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Every entry of this subject instead.")
    ] = None,
    yes: YesOption = False,
    evidence: EvidenceOption = None,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Delete entries by id or by subject.

    One checked transaction. Afterwards the memory equals a fresh fit of the rest at the same cap, and key, value,
    payload and salt are gone from the database. Refused, with nothing changed, where too few entries would be left for
    the cap, where a hold forbids it, or where no path passes the check.
    """
    from expunge.cli.output import counted, show_edit

    if bool(ids) == (subject is not None):
        raise InputError("say what to delete: ids, or --subject NAME, and one of them")
    wanted = ids or None
    with context.store() as store:
        memory = store[name]
        if dry_run:
            show_edit(context, memory.delete(wanted, subject=subject, dry_run=True, expected=expected), name)
            return
        if not yes:
            what = counted(len(ids or []), "entry") if subject is None else f"every entry of subject {subject!r}"
            context.confirm(f"Delete {what} from {name!r}? Their content cannot be brought back.")
        prior = None if evidence is None else state_before(memory, evidence)
        receipt = memory.delete(
            wanted,
            subject=subject,
            expected=expected or (memory.digest if evidence else None),
            idempotency_key=idempotency_key,
        )
        context.note_waiting(receipt.waiting)
        show_edit(context, receipt, name, store=store, memory=memory, evidence=evidence, prior=prior)


def prune(
    context: CommandContext,
    name: MemoryArgument,
    mode: Annotated[
        str, typer.Option("--mode", metavar="archive|forget", help="Keep the content aside, or keep none of it.")
    ] = "archive",
    sketch: Annotated[
        int,
        typer.Option(
            "--sketch",
            metavar="N",
            help="Numbers kept of each forgotten entry so that its warranty lasts longer.",
            min=0,
        ),
    ] = 0,
    yes: YesOption = False,
    evidence: EvidenceOption = None,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Drop entries proved to weigh nothing, under warranty.

    No readout changes. In the mode archive the content is kept aside, and an entry comes back when it would weigh
    something again. In the mode forget it is destroyed. Its certificate can expire with later admissions
    (`expunge warranties`), and the first erasure of an entry that is live now ends all certificates of this pruning.
    """
    from expunge.cli.output import show_edit

    if mode not in ("archive", "forget"):
        raise InputError(f"--mode is archive or forget, not {mode!r}")
    chosen: Any = mode
    with context.store() as store:
        memory = store[name]
        if dry_run:
            show_edit(context, memory.prune(chosen, sketch=sketch, dry_run=True, expected=expected), name)
            return
        if mode == "forget" and not yes:
            context.confirm(
                f"Forget every zero-weight entry of {name!r}? Their content cannot be brought back, and their "
                "certificates end with the first erasure of an entry that is live now."
            )
        prior = None if evidence is None else state_before(memory, evidence)
        receipt = memory.prune(
            chosen,
            sketch=sketch,
            expected=expected or (memory.digest if evidence else None),
            idempotency_key=idempotency_key,
        )
        context.note_waiting(receipt.waiting)
        show_edit(context, receipt, name, store=store, memory=memory, evidence=evidence, prior=prior)


def erase_subject(
    context: CommandContext,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The person.")],
    yes: YesOption = False,
    evidence: Annotated[
        Path | None,
        typer.Option("--evidence", metavar="FOLDER", help="Write one evidence bundle per memory (they hold content)."),
    ] = None,
    idempotency_key: IdempotencyOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Erase everything of one subject, in every memory.

    Each memory is one transaction with its own receipt, and one summary goes into the ledger. Where the erasure is
    refused (a hold, the cap), that memory keeps all of the subject's entries, and the command exits with 3.
    """
    from expunge.cli.output import fields, preview_content, preview_rows

    with context.store() as store:
        if dry_run:
            previews = store.erase_subject(subject, dry_run=True)
            context.show(
                {
                    "subject": subject,
                    "dry_run": True,
                    "memories": [preview_content(*item) for item in previews.items()],
                },
                *(fields(preview_rows(*item)) for item in previews.items()),
            )
            if any(preview.outcome == "refused" for preview in previews.values()):
                raise typer.Exit(3)
            return
        if not yes:
            context.confirm(f"Erase everything of {subject!r} from {context.displayed_url}? It cannot be brought back.")
        paths = {} if evidence is None else bundle_paths(evidence, store.names())
        priors = {name: _state_before(store, name, path) for name, path in paths.items()}
        done = store.erase_subject(subject, idempotency_key=idempotency_key)
        wanted = {
            part.memory: part.receipt.index
            for part in done.memories
            if evidence is not None and part.receipt is not None and part.applied
        }

        def save(name: str) -> None:
            if name not in paths:
                raise StoreError(f"{name!r} was not there when the erasure began")
            save_bundle(paths[name], store, store[name], priors[name], wanted[name])

        try:
            context.note_waiting(done.waiting)
            written = {name: path for name, path in paths.items() if name in wanted}
            _show_erasure(context, subject, done, written, keyed=idempotency_key is not None)
            sys.stdout.flush()
        finally:
            write_bundles((paths.get(name, evidence), partial(save, name)) for name in wanted)
    if not done.complete:
        raise typer.Exit(4 if any(part.outcome == "failed" for part in done.memories) else 3)


def _state_before(store: Store, name: str, path: Path) -> Prior | None:
    """What evidence needs of a memory; nothing of a damaged one, which must not keep the others from being erased."""
    try:
        return state_before(store[name], path)
    except VerificationError:
        return None


def _show_erasure(
    context: CommandContext, subject: str, done: SubjectErasure, paths: Mapping[str, Path], *, keyed: bool
) -> None:
    """Print what became of a subject in each memory, the summary's salt, and where evidence goes."""
    from expunge.cli.output import counted, fields, listing

    content = {
        "subject": subject,
        "complete": done.complete,
        "index": done.index,
        "salt": done.salt,
        "waiting": done.waiting,
        "memories": [
            {
                "name": part.memory,
                "outcome": part.outcome,
                "reason": part.reason,
                "receipt": None if part.receipt is None else part.receipt.to_json(),
                "evidence": paths.get(part.memory),
            }
            for part in done.memories
        ],
    }
    rows = [
        [
            part.memory,
            part.outcome,
            str(len(part.applied)),
            "" if part.receipt is None else str(part.receipt.index),
            part.reason or "" if part.receipt is None or not part.applied else "passed",
        ]
        for part in done.memories
    ]
    entries = sum(len(part.applied) for part in done.memories)
    kept = "kept nowhere else" if not keyed else "else only sealed, under the idempotency key and the signing key"
    context.show(
        content,
        listing(["memory", "outcome", "entries", "leaf", "check"], rows, right=["entries", "leaf"]),
        fields(
            [
                ("erased", f"{counted(entries, 'entry')} of {subject} in {counted(len(done.applied), 'memory')}"),
                ("summary", f"leaf {done.index} (expunge log {done.index})"),
                ("salt", f"{done.salt.hex()} ({kept}: it shows whom the summary is about)"),
                ("left", "" if done.complete else "NOT complete: see the reasons above"),
            ]
        ),
    )


def hold(
    context: CommandContext,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The memory; without it, holds are listed.")
    ] = None,
    entry: Annotated[str | None, typer.Argument(metavar="ID", help="The entry.")] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Every entry of this subject, present and to come.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")] = None,
) -> None:
    """Forbid the erasure of an entry or subject, or list holds.

    An erasure that would touch what is held is refused with the reason, and the refusal has its receipt.
    """
    from expunge.cli.output import fields, listing

    with context.store() as store:
        if entry is None and subject is None and reason is None:
            found = store.holds(name)
            if context.as_json:
                print_json_lines(vars(one) for one in found)
            elif found:
                rows = [[str(one.number), one.memory, one.id or "", one.subject or "", one.reason] for one in found]
                context.out.print(listing(["hold", "memory", "id", "subject", "reason"], rows, right=["hold"]))
            else:
                context.note("nothing is held")
            return
        if name is None or reason is None:
            raise InputError("a hold needs NAME, an ID or --subject, and --reason")
        placed = store.hold(name, entry, subject=subject, reason=reason)
    context.show(
        vars(placed),
        fields(
            [
                ("hold", str(placed.number)),
                ("on", f"{name}: {entry or 'every entry of ' + str(subject)}"),
                ("reason", reason),
                ("ends with", f"expunge release {placed.number}"),
            ]
        ),
    )


def release(
    context: CommandContext,
    number: Annotated[int, typer.Argument(metavar="HOLD", help="Its number (expunge hold lists them).")],
) -> None:
    """End a hold."""
    with context.store() as store:
        leaf = store.release(number)
    context.show({"released": number, "index": leaf.index}, f"hold {number} released (leaf {leaf.index})")
