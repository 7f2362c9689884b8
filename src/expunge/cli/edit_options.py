"""What every edit has in common: options, the receipt it prints, and the evidence it leaves."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from expunge.cli.command_definition import report
from expunge.cli.context import Session
from expunge.cli.errors import one_line
from expunge.errors import ExpungeError, InputError, StoreError

if TYPE_CHECKING:
    from expunge.attestation.evidence import Prior
    from expunge.ledger.note import SignedNote
    from expunge.store import Preview, SignedReceipt, Store, StoredMemory

__all__ = [
    "EvidenceOption",
    "ExpectedOption",
    "IdempotencyOption",
    "YesOption",
    "bundle_paths",
    "finish",
    "preview_content",
    "preview_rows",
    "prior_of",
    "save_evidence",
    "write_bundles",
]

LONGEST_STEM = 160

EvidenceOption = Annotated[
    Path | None,
    typer.Option(
        "--evidence",
        metavar="FILE",
        help="Write an evidence bundle of this edit (it holds content).",
        show_default=False,
    ),
]
ExpectedOption = Annotated[
    str | None,
    typer.Option("--expected", metavar="DIGEST", help="Only if the memory is still in this state.", show_default=False),
]
IdempotencyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="TEXT",
        help="A repeated request with this key is applied once.",
        show_default=False,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)]


def prior_of(memory: StoredMemory, evidence: Path | None) -> Prior | None:
    """What evidence needs of the state before an edit, if there is to be any."""
    if evidence is None:
        return None
    from expunge.attestation.evidence import Prior

    if os.path.lexists(evidence):
        raise InputError(f"{evidence} exists; choose another name for the evidence")
    try:
        # As the bundle will be written: a folder that is missing, full or closed shows before the edit, not after it.
        with tempfile.NamedTemporaryFile(prefix=f"{evidence.name}.", dir=evidence.parent):
            pass
    except OSError as problem:
        raise StoreError(f"cannot write beside {evidence}: {problem.strerror}; nothing was changed") from None
    return Prior.of(memory.view)


def bundle_paths(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Where the bundle of each memory goes: in the folder itself, whatever the memory is called."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inside = folder.resolve(strict=True)
    except OSError as problem:
        raise StoreError(f"cannot make the folder {folder}: {problem.strerror}; nothing was changed") from None
    paths: dict[str, Path] = {}
    taken: set[str] = set()
    for name in names:
        stem = quote(name, safe="")
        if stem.startswith("."):
            stem = f"%2E{stem[1:]}"
        # Some file systems take no long names, and some no two that differ in case alone.
        if len(stem) > LONGEST_STEM or stem.casefold() in taken:
            stem = f"{stem[:LONGEST_STEM]}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        taken.add(stem.casefold())
        paths[name] = folder / f"{stem}.zip"
        if paths[name].resolve().parent != inside:
            raise InputError(f"{paths[name]} leads out of {folder}; nothing was changed")
    return paths


def save_evidence(
    path: Path,
    store: Store,
    memory: StoredMemory,
    prior: Prior | None,
    index: int,
    *,
    prove: bool = False,
    head: SignedNote | None = None,
) -> None:
    """Write the bundle of the edit at a leaf, which must be the memory's latest; ``head`` is a cosigned one."""
    from expunge.attestation.evidence import write_evidence
    from expunge.ledger.receipt_parsing import parse_predicate

    leaf, view = store.leaf(index), memory.view
    stated = parse_predicate(leaf.statement)
    if stated.state_after != view.digest:
        raise StoreError(f"{memory.name!r} has been edited since leaf {index}; evidence shows the state after an edit")
    commitments = view.entries.commitments[view.slots]
    if prior is not None and prior.commitments.tobytes() == commitments.tobytes():
        # A repeated request was answered, not applied again: what was there before it is not known any more.
        prior = None
    write_evidence(
        path,
        None if stated.state_before in (None, stated.state_after) else prior,
        view,
        leaf.envelope,
        proof=memory.prove() if prove else None,
        inclusion=store.inclusion(index, head),
    )


def write_bundles(writes: Iterable[tuple[Path | None, Callable[[], None]]]) -> None:
    """Write the evidence of what has been applied and printed; where that fails, say so and exit with 4."""
    failed = []
    for path, write in writes:
        try:
            write()
        except (ExpungeError, OSError) as problem:
            failed.append(f"{path} ({one_line(problem)})")
    if failed:
        # On standard error alone: the one JSON document is out already.
        said = StoreError(f"applied; evidence not written: {', '.join(failed)}; try expunge export-evidence")
        raise typer.Exit(report(said, as_json=False))


def finish(
    session: Session,
    result: SignedReceipt | Preview,
    name: str,
    *,
    store: Store | None = None,
    memory: StoredMemory | None = None,
    evidence: Path | None = None,
    prior: Prior | None = None,
) -> None:
    """Print what an edit did, or would do; evidence comes last, when no failure can hide the receipt."""
    from expunge.cli.output import fields, receipt_panel
    from expunge.memory.receipt import Receipt

    if not isinstance(result, Receipt):
        session.show(preview_content(name, result), fields(preview_rows(name, result)))
        if result.outcome == "refused":
            raise typer.Exit(3)
        return
    content = result.to_json() | {"name": name, "evidence": evidence}
    extra = [("ledger", f"leaf {result.index} (expunge log {result.index})")]
    if evidence is not None:
        extra.append(("evidence", f"{evidence} (holds the remaining content)"))
    try:
        session.show(content, receipt_panel(result, title=f"receipt {result.index}: {name}", extra=extra))
        sys.stdout.flush()
    finally:
        if evidence is not None and store is not None and memory is not None:
            write_bundles([(evidence, partial(save_evidence, evidence, store, memory, prior, result.index))])


def preview_content(name: str, preview: Preview) -> dict[str, Any]:
    """A dry run as ``--json`` prints it."""
    return {"name": name, "dry_run": True, **vars(preview)}


def preview_rows(name: str, preview: Preview) -> list[tuple[str, str]]:
    """A dry run as a person reads it."""
    applied = preview.applied
    shown = f"{len(applied)}: {', '.join(applied[:3])}{', …' if len(applied) > 3 else ''}" if applied else "none"
    rows = [("dry run", f"{name}: nothing was changed"), ("outcome", preview.outcome)]
    if preview.reason is not None:
        return [*rows, ("because", preview.reason)]
    ended = [(preview.expired, "would expire"), (preview.reactivated, "would come back from the archive")]
    return [
        *rows,
        ("entries", shown),
        ("left", f"{preview.size} live; {preview.deletable} more could be deleted"),
        ("weights", f"{preview.changed_coefficients} would change"),
        ("readout", f"changes by at most {preview.readout_change:.2%} of the value range at {preview.probes} keys"),
        ("warranties", ", ".join(f"{len(names)} {text}" for names, text in ended if names)),
    ]
