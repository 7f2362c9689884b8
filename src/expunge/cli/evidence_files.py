"""Evidence bundles that edits leave: where each goes, and what it shows."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import typer

from expunge.cli.errors import one_line, report_error
from expunge.errors import ExpungeError, InputError, StoreError

if TYPE_CHECKING:
    from expunge.attestation.evidence import Prior
    from expunge.ledger.note import SignedNote
    from expunge.store import Store, StoredMemory

__all__ = ["bundle_paths", "save_bundle", "state_before", "write_bundles"]

LONGEST_STEM = 160


def state_before(memory: StoredMemory, path: Path) -> Prior:
    """What a bundle needs of the state before an edit; the bundle's path is checked first."""
    from expunge.attestation.evidence import Prior

    if os.path.lexists(path):
        raise InputError(f"{path} exists; choose another name for the evidence")
    try:
        # As the bundle will be written: a folder that is missing, full or closed shows before the edit, not after it.
        with tempfile.NamedTemporaryFile(prefix=f"{path.name}.", dir=path.parent):
            pass
    except OSError as problem:
        raise StoreError(f"cannot write beside {path}: {problem.strerror}; nothing was changed") from None
    return Prior.of(memory.version)


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


def save_bundle(
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
    from expunge.attestation.evidence import Prior, write_evidence
    from expunge.ledger.receipt_parsing import parse_predicate

    leaf, version = store.leaf(index), memory.version
    stated = parse_predicate(leaf.statement)
    if stated.state_after != version.digest:
        raise StoreError(f"{memory.name!r} has been edited since leaf {index}; evidence shows the state after an edit")
    if prior is not None and prior.commitments.tobytes() == Prior.of(version).commitments.tobytes():
        # A repeated request was answered, not applied again: what was there before it is not known any more.
        prior = None
    write_evidence(
        path,
        None if stated.state_before in (None, stated.state_after) else prior,
        version,
        leaf.envelope,
        prove=prove,
        inclusion=store.inclusion(index, head),
    )


def write_bundles(writes: Iterable[tuple[Path | None, Callable[[], None]]]) -> None:
    """Write the evidence of what has been applied and printed; where that fails, say so and exit with 4."""
    failed = []
    for path, write in writes:
        try:
            write()
        except (ExpungeError, OSError) as failure:
            failed.append(f"{path} ({one_line(failure)})")
    if failed:
        # On standard error alone: the one JSON document is out already.
        problem = StoreError(f"applied; evidence not written: {', '.join(failed)}; try expunge export-evidence")
        raise typer.Exit(report_error(problem, as_json=False))
