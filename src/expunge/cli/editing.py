"""What every edit has in common: options, the receipt it prints, and the evidence it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.session import Session
from expunge.errors import InputError, StoreError

if TYPE_CHECKING:
    from expunge.evidence import Prior
    from expunge.store import Preview, SignedReceipt, Store, StoredMemory

__all__ = [
    "EvidenceOption",
    "ExpectedOption",
    "IdempotencyOption",
    "YesOption",
    "finish",
    "preview_content",
    "prior_of",
    "save_evidence",
]

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
    from expunge.evidence import Prior

    if evidence.exists():
        raise InputError(f"{evidence} exists; choose another name for the evidence")
    return Prior.of(memory.view)


def save_evidence(
    path: Path, store: Store, memory: StoredMemory, prior: Prior | None, index: int, *, prove: bool = False
) -> None:
    """Write the bundle of the edit at a leaf, which must be the memory's latest."""
    from expunge.evidence import write_evidence
    from expunge.ledger.predicate import parse_predicate

    leaf, view = store.leaf(index), memory.view
    stated = parse_predicate(leaf.statement)
    if stated.state_after != view.digest:
        raise StoreError(f"{memory.name!r} has been edited since leaf {index}; evidence shows the state after an edit")
    write_evidence(
        path,
        None if stated.state_before in (None, stated.state_after) else prior,
        view,
        leaf.envelope,
        proof=memory.prove() if prove else None,
        inclusion=store.inclusion(index),
    )


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
    """Print what an edit did, or would do."""
    from expunge.cli.render import fields, receipt_content, receipt_panel
    from expunge.receipt import Receipt

    if not isinstance(result, Receipt):
        session.show(preview_content(name, result), fields(preview_rows(name, result)))
        if result.outcome == "refused":
            raise typer.Exit(3)
        return
    if evidence is not None and store is not None and memory is not None:
        save_evidence(evidence, store, memory, prior, result.index)
    content = receipt_content(result) | {"name": name, "evidence": evidence}
    extra = [("ledger", f"leaf {result.index} (expunge log {result.index})")]
    if evidence is not None:
        extra.append(("evidence", f"{evidence} (holds the remaining content)"))
    session.show(content, receipt_panel(result, title=f"receipt {result.index}: {name}", extra=extra))


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
