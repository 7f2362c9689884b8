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
    ActorOption,
    CaseOption,
    DerivedOption,
    DryRunOption,
    EvidenceOption,
    ExpectedOption,
    IdempotencyOption,
    MemoryArgument,
    YesOption,
    parse_derived,
    parse_duration,
    parse_salt,
)
from expunge.errors import InputError, StoreError, VerificationError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from expunge.attestation.evidence import Prior
    from expunge.store import PendingErasure, Store, SubjectErasure, SubjectSearch

__all__ = ["pending_rows", "register", "show_erasure"]

PANEL = "Edit"


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "delete",
        panel=PANEL,
        examples=[
            "expunge delete icu-7 h016 h017 --yes",
            "expunge delete icu-7 --subject patient-17 --dry-run",
            "expunge delete talks t12 --yes --derived refuse",
            "expunge delete icu-7 --subject patient-17 --yes --evidence erasure.zip",
            "expunge delete icu-7 h018 --yes --case DSR-2026-114 --actor privacy-desk",
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
            "expunge erase-subject patient-17 --case DSR-2026-114 --after 72h",
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
    derived: DerivedOption = "erase",
    yes: YesOption = False,
    evidence: EvidenceOption = None,
    expected: ExpectedOption = None,
    idempotency_key: IdempotencyOption = None,
    case: CaseOption = None,
    actor: ActorOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Delete entries by id or by subject.

    What was made from them goes with them, in other memories, too: --dry-run lists it, and with --derived refuse
    nothing is deleted then. One checked transaction per memory. Afterwards the memory equals a fresh fit of the rest,
    and key, value, payload and salt are gone from the database. Where too few are left for the cap, the rest, archived
    entries included, is fitted again at a larger one; where none is left, the memory is empty. Refused, with nothing
    changed, where a hold forbids it, or where no path passes the check.
    """
    from expunge.cli.output import counted, show_edit

    if bool(ids) == (subject is not None):
        raise InputError("say what to delete: ids, or --subject NAME, and one of them")
    choice = parse_derived(derived)
    if not dry_run:
        context.require_consent(yes)
    wanted = ids or None
    with context.store() as store:
        memory = store[name]
        if subject is not None and not memory.has_subject(subject):
            for part in _found_besides(store.find_subject(subject)):
                context.err.print(part)
        if dry_run:
            preview = memory.delete(wanted, subject=subject, derived=choice, dry_run=True, expected=expected)
            show_edit(context, preview, name)
            return
        what = counted(len(ids or []), "entry") if subject is None else f"every entry of subject {subject!r}"
        context.confirm(f"Delete {what} from {name!r}? Their content cannot be brought back.", yes)
        prior = None if evidence is None else state_before(memory, evidence)
        receipt = memory.delete(
            wanted,
            subject=subject,
            derived=choice,
            expected=expected or (memory.digest if evidence else None),
            idempotency_key=idempotency_key,
            case=case,
            actor=actor,
        )
        context.note_waiting(receipt.waiting)
        show_edit(context, receipt, name, store=store, memory=memory, evidence=evidence, prior=prior)
    if receipt.elsewhere is not None and not receipt.elsewhere.complete:
        raise typer.Exit(3)


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
    case: CaseOption = None,
    actor: ActorOption = None,
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
    if mode == "forget" and not dry_run:
        context.require_consent(yes)
    chosen: Any = mode
    with context.store() as store:
        memory = store[name]
        if dry_run:
            with context.stages(f"Pruning {name}") as progress:
                preview = memory.prune(chosen, sketch=sketch, dry_run=True, expected=expected, progress=progress)
            show_edit(context, preview, name)
            return
        if mode == "forget":
            context.confirm(
                f"Forget every zero-weight entry of {name!r}? Their content cannot be brought back, and their "
                "certificates end with the first erasure of an entry that is live now.",
                yes,
            )
        prior = None if evidence is None else state_before(memory, evidence)
        with context.stages(f"Pruning {name}") as progress:
            receipt = memory.prune(
                chosen,
                sketch=sketch,
                expected=expected or (memory.digest if evidence else None),
                idempotency_key=idempotency_key,
                case=case,
                actor=actor,
                progress=progress,
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
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="TIME", help="Not now but then, as in 72h: it can be cancelled until then."),
    ] = None,
    derived: DerivedOption = "erase",
    idempotency_key: IdempotencyOption = None,
    case: CaseOption = None,
    actor: ActorOption = None,
    salt: Annotated[
        str | None,
        typer.Option("--salt", metavar="HEX", help="Salt of an earlier erasure of the subject: names its leaf."),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Erase everything of one subject, in every memory.

    What was made from it goes, too, whosever it is; with --derived refuse nothing does then. Each memory is one
    transaction with its own receipt, and one summary goes into the ledger. Where the erasure is refused (by a hold),
    that memory keeps all that was to go from it, and the command exits with 3. With --after only the request is
    recorded: expunge erasures lists, cancels and carries out what waits.

    Where no entry belongs to the subject, nothing is written and the command exits with 0, whether the subject was
    erased before or never there. Memories with entries that have no subject are named, because these were not searched.
    So are subjects that look alike; erase each that is the same person by its own name.
    """
    from expunge.cli.output import fields, preview_content, preview_rows, search_content

    if after is not None and (dry_run or evidence is not None):
        raise InputError("--after goes without --dry-run and --evidence: nothing is erased yet")
    if salt is not None and (dry_run or after is not None):
        raise InputError("--salt goes without --dry-run and --after")
    choice = parse_derived(derived)
    if after is None and not dry_run:
        context.require_consent(yes)

    with context.store() as store:
        if dry_run:
            previews = store.erase_subject(subject, derived=choice, dry_run=True)
            context.show(
                {
                    "subject": subject,
                    "dry_run": True,
                    "memories": [preview_content(*item) for item in previews.items()],
                    **search_content(previews.search),
                },
                *(fields(preview_rows(*item)) for item in previews.items()),
                *([] if previews else [_nobody(subject, "nothing was changed")]),
                *_found_besides(previews.search),
            )
            if any(preview.outcome == "refused" for preview in previews.values()):
                raise typer.Exit(3)
            return
        if after is not None:
            waiting = store.erase_subject(
                subject,
                after=parse_duration("--after", after),
                derived=choice,
                idempotency_key=idempotency_key,
                case=case,
                actor=actor,
            )
            search = store.find_subject(subject)
            context.show(
                waiting.to_json() | search_content(search),
                fields(pending_rows(waiting)),
                *([] if search.memories else [_nobody(subject, "what is there when it is due goes")]),
                *_found_besides(search),
            )
            return
        if not yes:
            search = store.find_subject(subject)
            for part in _found_besides(search):
                context.err.print(part)
            if search.memories:
                context.confirm(
                    f"Erase everything of {subject!r} from {context.displayed_url}? It cannot be brought back.", yes
                )
        paths = {} if evidence is None else bundle_paths(evidence, store.names())
        priors = {name: _state_before(store, name, path) for name, path in paths.items()}
        done = store.erase_subject(
            subject,
            derived=choice,
            idempotency_key=idempotency_key,
            salt=None if salt is None else parse_salt("--salt", salt),
            case=case,
            actor=actor,
        )
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
            show_erasure(context, subject, done, written, keyed=idempotency_key is not None)
            sys.stdout.flush()
        finally:
            write_bundles((paths.get(name, evidence), partial(save, name)) for name in wanted)
    if not done.complete:
        raise typer.Exit(4 if any(part.outcome == "failed" for part in done.memories) else 3)


def _nobody(subject: str, consequence: str) -> str:
    """The same words whether the subject was erased before or never there."""
    return f"no entry belongs to subject {subject!r}; {consequence}"


def _found_besides(search: SubjectSearch) -> list[RenderableType]:
    """What a person must know beside the entries of the subject; nothing where there is nothing."""
    from expunge.cli.output import fields, search_rows

    rows = [row for row in search_rows(search) if row[1]]
    return [fields(rows)] if rows else []


def _state_before(store: Store, name: str, path: Path) -> Prior | None:
    """What evidence needs of a memory; nothing of a damaged one, which must not keep the others from being erased."""
    try:
        return state_before(store[name], path)
    except VerificationError:
        return None


def pending_rows(waiting: PendingErasure) -> list[tuple[str, str]]:
    """An erasure that waits, as a person reads it."""
    content = waiting.to_json()
    return [
        ("erasure", f"of everything of {waiting.subject}, when it is due"),
        ("due", content["due"]),
        ("request", f"leaf {waiting.leaf} (expunge log {waiting.leaf})"),
        ("case", waiting.case or ""),
        ("actor", waiting.actor or ""),
        ("salt", f"{content['salt']} (of the request and of the summary: it shows whom they are about)"),
        ("undo", "" if waiting.begun else f"expunge erasures cancel {waiting.leaf}"),
    ]


def show_erasure(
    context: CommandContext,
    subject: str | None,
    done: SubjectErasure,
    paths: Mapping[str, Path],
    *,
    keyed: bool,
) -> None:
    """Print what became of a subject in each memory, the summary's salt, and where evidence goes.

    Without a subject, that of an erasure which was due, nothing is said that could tell whom it was about.
    """
    from expunge.cli.output import counted, fields, listing, search_content, search_rows
    from expunge.preprocessing.outdated import outdated_text

    content = {
        "subject": subject,
        "complete": done.complete,
        "index": done.index,
        "salt": done.salt,
        "earlier": done.earlier,
        "waiting": done.waiting,
        **search_content(done),
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
    entries, whom = sum(len(part.applied) for part in done.memories), subject or "a subject"
    earlier = "" if done.earlier is None else f"leaf {done.earlier}: the salt is that of this erasure"
    if done.index is None or done.salt is None:
        about = [("erased", f"0 entries of {whom}: no entry belongs to this subject"), ("earlier", earlier)]
        context.show(content, fields([*about, *search_rows(done)]))
        return
    kept = "kept nowhere else" if not keyed else "else only sealed, under the idempotency key and the signing key"
    context.show(
        content if subject is not None else {name: content[name] for name in content if name != "subject"},
        listing(["memory", "outcome", "entries", "leaf", "check"], rows, right=["entries", "leaf"]),
        fields(
            [
                (
                    "erased",
                    f"{counted(entries, 'entry')} of {whom} in {counted(len(done.applied), 'memory')}",
                ),
                ("summary", f"leaf {done.index} (expunge log {done.index})"),
                ("salt", f"{done.salt.hex()} ({kept}: it shows whom the summary is about)"),
                ("earlier", earlier),
                ("left", "" if done.complete else "NOT complete: see the reasons above"),
                *(
                    ("outdated", f"{part.memory}: {outdated_text(part.receipt.outdated)}")
                    for part in done.memories
                    if part.receipt is not None and part.receipt.outdated != ()
                ),
                *search_rows(done),
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
    case: CaseOption = None,
    actor: ActorOption = None,
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
        placed = store.hold(name, entry, subject=subject, reason=reason, case=case, actor=actor)
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
    case: CaseOption = None,
    actor: ActorOption = None,
) -> None:
    """End a hold."""
    with context.store() as store:
        leaf = store.release(number, case=case, actor=actor)
        waiting = store.waiting()
        context.note_waiting(waiting)
    content = {"released": number, "index": leaf.index, "waiting": waiting}
    context.show(content, f"hold {number} released (leaf {leaf.index})")
