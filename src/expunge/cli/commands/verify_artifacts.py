"""``expunge verify``: one artifact checked, offline, against keys that the caller trusts.

These commands call `expunge.verify`, which knows nothing of solver, memory or store. Only ``verify log`` and
``verify proof`` open a store, and only where no files are given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.context import Session, melted, read_file
from expunge.cli.trust_options import (
    OriginOption,
    QuorumOption,
    TrustOption,
    WitnessOption,
    trusted,
    witnesses,
)
from expunge.errors import InputError, StoreError, VerificationError

if TYPE_CHECKING:
    from expunge.ledger.event import Event

__all__ = ["add", "read_log"]

Artifact = Annotated[Path, typer.Argument(metavar="FILE", help="The file to verify.")]


def add(app: typer.Typer) -> None:
    """Register the commands."""
    verify = group(
        "verify",
        summary="Verify a receipt, evidence, log, proof, head or store.",
        examples=[
            "expunge verify receipt erasure.json --trust log.vkey",
            "expunge verify evidence erasure.zip --trust log.vkey",
            "expunge verify log log.jsonl --trust log.vkey",
        ],
    )
    command(
        verify,
        "receipt",
        examples=[
            "expunge verify receipt erasure.json --trust log.vkey",
            "expunge verify receipt erasure.json --trust ward.pub \\\n--origin ledger.example/ward",
            "expunge verify receipt erasure.json --trust log.vkey --witness w1.vkey",
        ],
    )(receipt)
    command(
        verify,
        "evidence",
        examples=[
            "expunge verify evidence erasure.zip --trust log.vkey",
            "expunge verify evidence erasure.zip --trust ward.pub --no-log",
            "expunge verify evidence expunge-audit",
        ],
    )(evidence)
    command(
        verify,
        "log",
        examples=[
            "expunge verify log log.jsonl --trust log.vkey",
            "expunge verify log --store sqlite:///ward.db --trust log.vkey",
            "expunge verify log",
        ],
    )(log)
    command(
        verify,
        "proof",
        examples=[
            "expunge verify proof icu-7.proof --memory icu-7",
            "expunge verify proof icu-7.proof --keys keys.npy --cap 0.0029 --sigma 2",
        ],
    )(proof)
    command(
        verify,
        "checkpoint",
        examples=[
            "expunge verify checkpoint head.txt --trust log.vkey",
            "expunge verify checkpoint extension.txt --older kept.txt --trust log.vkey",
            "expunge verify checkpoint head.txt --trust log.vkey \\\n--witness w1.vkey --witness w2.vkey --quorum 1",
        ],
    )(checkpoint)
    command(
        verify, "store", examples=["expunge verify store", "expunge verify store --store sqlite:///ward.db --json"]
    )(store)
    app.add_typer(verify, rich_help_panel="Account")


def receipt(
    session: Session,
    file: Artifact,
    trust: TrustOption = None,
    inclusion: Annotated[
        Path | None,
        typer.Option(
            "--inclusion",
            metavar="FILE",
            help="Proof that the receipt is in the log; else FILE.tlog-proof, if it is there.",
            show_default=False,
        ),
    ] = None,
    origin: OriginOption = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
    threshold: Annotated[
        int, typer.Option("--threshold", metavar="N", help="How many trusted keys must have signed.", min=1)
    ] = 1,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Whom an erasure was about.", show_default=False)
    ] = None,
    salt: Annotated[
        str | None,
        typer.Option("--salt", metavar="HEX", help="What erase-subject printed, with --subject.", show_default=False),
    ] = None,
) -> None:
    """Verify a receipt: its signature, its form, its place in the log.

    Says what the receipt states once that is settled. Needs no store and no network. The summary of erase-subject names
    its subject only to those who have the salt: --subject and --salt show that it is about this one.
    """
    from expunge.cli.output import erased_whole
    from expunge.ledger.envelope import open_statement
    from expunge.ledger.event import EVENT_TYPE, parse_event
    from expunge.ledger.receipt_parsing import parse_predicate
    from expunge.verify import verify_inclusion

    keys = trusted(trust, origin)
    known, needed = witnesses(witness, quorum)
    data = read_file(file)
    statement = open_statement(data, keys.keys, threshold=threshold)
    event = parse_event(statement) if statement.predicate_type == EVENT_TYPE else None
    stated = parse_predicate(statement) if event is None else None
    beside = file.with_suffix(".tlog-proof")
    path = inclusion if inclusion is not None else beside if beside.is_file() else None
    place = "not checked: no inclusion proof was given"
    if path is not None:
        from expunge.ledger.merkle.proof_file import parse_inclusion_proof

        carried = read_file(path)
        verify_inclusion(data, carried, *keys.log, witnesses=known, quorum=needed, now=int(time.time()))
        place = f"leaf {parse_inclusion_proof(carried).index} of {keys.origin}"
    elif known:
        raise InputError("witnesses cosign the head in an inclusion proof; give --inclusion")
    if subject is not None or salt is not None:
        _check_subject(event, subject, salt)
    checked = ["signature", "form"]
    checked += [word for word, done in (("inclusion", path), ("cosignatures", known), ("subject", subject)) if done]
    content = {"verified": True, "checked": checked, "log": place, "type": statement.predicate_type}
    if event is not None and event.kind == "subject_erased":
        # What verifies is the summary of an erasure, which may say that it was refused.
        content["complete"] = erased_whole(melted(statement.predicate))
    if session.as_json:
        session.lines([{**content, "receipt": melted(statement.predicate)}])
        return
    from expunge.cli.output import event_rows, fields, stated_panel

    if stated is not None:
        session.out.print(stated_panel(stated, title=f"verified: {file.name}", extra=[("log", place)]))
    else:
        session.out.print(fields([*event_rows(melted(statement.predicate)), ("log", place)]))
    _verified(session, checked)


def evidence(
    session: Session,
    file: Artifact,
    trust: TrustOption = None,
    origin: OriginOption = None,
    log: Annotated[bool, typer.Option("--log/--no-log", help="Require that the receipt is in the log.")] = True,
    prior: Annotated[
        bool, typer.Option("--prior/--no-prior", help="Require the state before the edit to be shown.")
    ] = True,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
) -> None:
    """Verify an evidence bundle: recompute every number of its receipt from the entries that remain.

    Opens commitments, recomputes both state digests, checks from the keys that the weights are optimal, and rechecks
    the proof and the reference where the bundle has them.

    A folder that `expunge audit` wrote needs no key: every state is checked from its keys, and every difference and
    every reported number is recomputed from the states.
    """
    if os.path.isdir(file):
        if witness or quorum:
            raise InputError("witnesses cosign the head of a log, and an audit is in none; leave --witness out")
        _audit_results(session, file)
        return
    from expunge.verify import verify_evidence
    from expunge.verify.evidence_format import parse_bundle

    keys = trusted(trust, origin)
    known, needed = witnesses(witness, quorum)
    if known and not log:
        raise InputError("witnesses cosign the head of the log; leave out --no-log, or --witness")
    data = read_file(file, limit=2**31)
    log_keys, name = keys.log if log else (None, None)
    with session.progress("Recomputing", None):
        verify_evidence(
            data,
            keys.keys,
            log_keys=log_keys,
            origin=name,
            witnesses=known,
            quorum=needed,
            now=int(time.time()),
            require_prior=prior,
        )
        found = parse_bundle(data)
    checked = ["signature", "form", *(["inclusion"] if log else []), *(["cosignatures"] if known else [])]
    checked += ["commitments", "state", *(["prior state"] if found.prior is not None else []), "optimality"]
    checked += [word for word, part in (("proof", found.proof), ("reference", found.reference)) if part is not None]
    entries = int(found.keys.shape[0])
    session.show(
        {"verified": True, "checked": checked, "entries": entries},
        f"{file.name}: recomputed from {entries} remaining entries",
    )
    _verified(session, checked)


def _audit_results(session: Session, folder: Path) -> None:
    """Verify what an audit kept."""
    from collections import Counter

    from expunge.verify.audit_results import verify_audit_results

    counts: Counter[str] = Counter()
    with session.progress("Recomputing", None) as step:

        def seen(word: str) -> None:
            counts[word] += 1
            step()

        verify_audit_results(folder, watch=seen)
    told = {f"{word}s": counts[word] for word in sorted(counts)}
    session.show(
        {"verified": True, "checked": sorted(told), **told},
        f"{folder}: " + ", ".join(f"{count:,} {word}" for word, count in told.items()),
    )
    _verified(session, [word for word in ("files", "states", "comparisons", "numbers") if word in told])


def log(
    session: Session,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Every leaf, one a line (expunge log --out); else the store's.", show_default=False
        ),
    ] = None,
    head: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="The signed head; else FILE.checkpoint.", show_default=False),
    ] = None,
    trust: TrustOption = None,
    origin: OriginOption = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
) -> None:
    """Verify the whole log: every receipt, the history of each memory, and the root of the tree.

    Every signature is checked; states and sizes must follow from each other; an entry that was erased must not come
    back. Without FILE the log is read from the store, and without --trust the store's own key is taken, which shows
    that the store agrees with itself, and no more.
    """
    from expunge.cli.output import counted
    from expunge.ledger.event import EVENT_TYPE
    from expunge.verify import verify_log

    known, needed = witnesses(witness, quorum)
    if file is not None:
        keys = trusted(trust, origin)
        leaves, note = read_log(file), read_file(head or Path(f"{file}.checkpoint"))
        own = False
    else:
        if head is not None:
            raise InputError("--checkpoint goes with FILE; to hold a store to a head: expunge checkpoint check HEAD")
        with session.store() as store:
            leaves = [leaf.envelope for leaf in store.receipts()]
            note = store.checkpoint().to_bytes()
            own = not trust
            keys = trusted([store.log_key.to_text()] if own else trust, origin)
    with session.progress("Verifying", len(leaves)) as step:

        def stepped() -> Iterator[bytes]:
            for leaf in leaves:
                yield leaf
                step()

        verify_log(
            stepped(),
            note,
            keys.keys,
            *keys.log,
            witnesses=known,
            quorum=needed,
            now=int(time.time()),
            also=(EVENT_TYPE,),
        )
    checked = ["signatures", "histories", "root", *(["cosignatures"] if known else [])]
    name = keys.log[1]
    session.show(
        {
            "verified": True,
            "checked": checked,
            "leaves": len(leaves),
            "origin": name,
            "trust": "store" if own else "given",
        },
        f"{counted(len(leaves), 'leaf', 'leaves')} of {name}",
    )
    _verified(session, checked)
    if own:
        session.note(
            "The store's own key was trusted. Keep a checkpoint elsewhere, and give --trust, to catch a rewritten log."
        )


def proof(
    session: Session,
    file: Artifact,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="NAME", help="Check against this memory of the store.", show_default=False),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="FILE", help="Check against these keys (NPY).", show_default=False)
    ] = None,
    cap: Annotated[
        float | None, typer.Option("--cap", metavar="C", help="The cap, with --keys.", show_default=False)
    ] = None,
    sigma: Annotated[
        float | None, typer.Option("--sigma", metavar="S", help="The width, with --keys.", show_default=False)
    ] = None,
) -> None:
    """Verify a proof of the partition from the keys alone, without any solver.

    Shows that exactly the entries in the proof's reserve weigh exactly nothing.
    """
    from expunge.verify.proof import verify_proof
    from expunge.verify.proof_format import Proof

    found = Proof.from_bytes(read_file(file))
    if memory is not None:
        if keys is not None or cap is not None or sigma is not None:
            raise InputError("give --memory, or --keys with --cap and --sigma, not both")
        with session.store() as store:
            points, limit, width = store[memory].keys, store[memory].cap, store[memory].sigma
    elif keys is None or cap is None or sigma is None:
        raise InputError("a proof is about keys: give --memory, or --keys with --cap and --sigma")
    else:
        from expunge.cli.vector_arguments import parse_vectors

        points, limit, width = parse_vectors(f"@{keys}", "--keys"), cap, sigma
    with session.progress("Verifying", None):
        verify_proof(found, points, cap=limit, sigma=width)
    groups = {"margin": int(found.margin.size), "bound": int(found.bound.size), "reserve": int(found.reserve.size)}
    session.show(
        {"verified": True, **groups}, f"{file.name}: {groups['reserve']} of {found.size} weights are exactly zero"
    )
    _verified(session, ["partition"])


def checkpoint(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head, or with --older an extension proof.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
    older: Annotated[
        Path | None, typer.Option("--older", metavar="FILE", help="A head that was kept earlier.", show_default=False)
    ] = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
) -> None:
    """Verify a signed head of the log, its cosignatures, and that it extends an older one.

    With --older, FILE is what `expunge checkpoint export --since` wrote: the new head, and the proof that the log only
    grew. A log that was truncated, rewritten, or shown differently to different people cannot supply it.
    """
    from expunge.cli.commands.sign_heads import extension_in, head_content, head_of, kept_head
    from expunge.ledger.checkpoint import verify_checkpoint, verify_cosignatures
    from expunge.verify import verify_consistency

    log_keys, name = trusted(trust, origin).log
    known, needed = witnesses(witness, quorum)
    data = read_file(file)
    head, note = head_of(data)
    verify_checkpoint(note, log_keys, name)
    if known:
        verify_cosignatures(note, known, needed, now=int(time.time()))
    if older is not None:
        verify_consistency(kept_head(read_file(older)), extension_in(data, file), log_keys, name)
    checked = ["signature", *(["cosignatures"] if known else []), *(["consistency"] if older is not None else [])]
    session.show(
        {"verified": True, "checked": checked, **head_content(head)},
        f"head of {head.origin}: {head.size} leaves, root {head.root.hex()}",
    )
    _verified(session, checked)


def _check_subject(event: Event | None, subject: str | None, salt: str | None) -> None:
    from expunge.ledger.event import subject_commitment

    if subject is None or salt is None:
        raise InputError("--subject and --salt go together")
    try:
        secret = bytes.fromhex(salt)
    except ValueError:
        raise InputError(f"--salt is hexadecimal, not {salt[:40]!r}") from None
    shown = subject_commitment(secret, subject)
    if event is None or event.kind != "subject_erased" or event.subject.sha256 != shown:
        raise VerificationError(
            f"this is not the summary of an erasure of {subject!r} under this salt", code="commitment-mismatch"
        )


def read_log(path: Path) -> list[bytes]:
    """The leaves of a log from a file, one a line."""
    try:
        with path.open("rb") as file:
            return [line.removesuffix(b"\n") for line in file]
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None


def _verified(session: Session, checked: list[str]) -> None:
    if not session.as_json:
        from expunge.cli.output import verified_line

        session.out.print(verified_line("  ".join(f"{word} ✓" for word in checked)))


def store(session: Session) -> None:
    """Verify the whole store: database, every memory, every secret, the whole log.

    Unlike verify log it reads the content too: an entry that was put back behind the store, a secret that should be
    gone, or a state that is not what its receipt says is found. Needs the store's key.
    """
    from expunge.cli.output import counted

    with session.store() as opened, session.progress("Verifying", None):
        found = opened.verify()
    session.show(
        {"verified": True, **vars(found)},
        f"{counted(found.memories, 'memory')}, {counted(found.entries, 'entry')}, "
        f"{counted(found.leaves, 'leaf', 'leaves')} of the log, {counted(found.checkpoints, 'signed head')}",
    )
    if not session.as_json:
        _verified(session, ["database", "memories", "secrets", "log"])
