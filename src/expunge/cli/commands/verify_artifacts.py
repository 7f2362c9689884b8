"""``expunge verify``: one artifact checked, offline, against keys that the caller trusts.

These commands call `expunge.verify`, which knows nothing of solver, memory or store. Only ``verify ledger``,
``verify proof``, ``verify state`` and ``verify store`` open a store, the first three only where no files are given.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.commands import verify_document, verify_ledger
from expunge.cli.context import CommandContext, jsonable, print_json_lines, read_file
from expunge.cli.head_files import stamp_content, stamp_line
from expunge.cli.options import RayOption, parse_salt
from expunge.cli.ray_option import workers_of
from expunge.cli.trust_options import (
    MaxAgeOption,
    OriginOption,
    PolicyOption,
    QuorumOption,
    TimestampOption,
    TrustOption,
    TsaRootOption,
    WitnessOption,
    check_timestamp,
    parse_trust,
    parse_witnesses,
)
from expunge.errors import InputError, VerificationError

if TYPE_CHECKING:
    from expunge.ledger.event import Event

__all__ = ["register"]

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file to verify.")]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    verify = group(
        "verify",
        summary="Verify receipts, evidence, states, proofs, log, store.",
        examples=[
            "expunge verify receipt erasure.json --trust log.vkey",
            "expunge verify evidence erasure.zip --trust log.vkey",
            "expunge verify ledger log.jsonl --trust log.vkey",
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
        "proof",
        examples=[
            "expunge verify proof icu-7.proof --memory icu-7",
            "expunge verify proof icu-7.proof --keys keys.npy --cap 0.0029 --sigma 2",
        ],
    )(proof)
    command(
        verify,
        "state",
        examples=[
            "expunge verify state icu-7.memory",
            "expunge verify state --memory icu-7",
            "expunge verify state --memory icu-7 --json",
            "expunge verify state archive.memory --ray 10.0.0.5:6379",
        ],
    )(state)
    verify_document.register(verify)
    verify_ledger.register(verify)
    app.add_typer(verify, rich_help_panel="Account")


def receipt(
    context: CommandContext,
    file: FileArgument,
    trust: TrustOption = None,
    inclusion: Annotated[
        Path | None,
        typer.Option(
            "--inclusion",
            metavar="FILE",
            help="Proof that the receipt is in the log; else FILE.tlog-proof, if it is there.",
        ),
    ] = None,
    origin: OriginOption = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
    max_age: MaxAgeOption = None,
    policy: PolicyOption = None,
    threshold: Annotated[
        int, typer.Option("--threshold", metavar="N", help="How many trusted keys must have signed.", min=1)
    ] = 1,
    subject: Annotated[str | None, typer.Option("--subject", metavar="NAME", help="Whom an erasure was about.")] = None,
    salt: Annotated[
        str | None,
        typer.Option("--salt", metavar="HEX", help="What erase-subject printed, with --subject."),
    ] = None,
    timestamp: TimestampOption = None,
    tsa_root: TsaRootOption = None,
) -> None:
    """Verify a receipt: its signature, its form, its place in the log.

    Says what the receipt states once that is settled. Needs no store and no network. The summary of erase-subject names
    its subject only to those who have the salt: --subject and --salt show that it is about this one.
    """
    from expunge.cli.output import erasure_complete
    from expunge.ledger.envelope import read_envelope, verify_envelope
    from expunge.ledger.event import EVENT_TYPE, parse_event
    from expunge.ledger.receipt_parsing import parse_predicate
    from expunge.ledger.statement import parse_statement

    trusted = parse_trust(trust, origin)
    witness_keys, needed = parse_witnesses(witness, quorum, max_age, policy)
    envelope = read_envelope(read_file(file))
    verify_envelope(envelope, trusted.keys, threshold)
    statement = parse_statement(envelope.payload)
    event = parse_event(statement) if statement.predicate_type == EVENT_TYPE else None
    stated = parse_predicate(statement) if event is None else None
    beside = file.with_suffix(".tlog-proof")
    path = inclusion if inclusion is not None else beside if beside.is_file() else None
    location = "not checked: no inclusion proof was given"
    stamp = None
    if path is not None:
        from expunge.verify import verify_inclusion

        now = int(time.time())
        proof = verify_inclusion(
            envelope.to_bytes(),
            read_file(path),
            *trusted.log,
            witnesses=witness_keys,
            quorum=needed,
            now=now,
            max_age=max_age,
        )
        stamp = check_timestamp(proof.checkpoint.to_bytes(), timestamp, tsa_root)
        location = f"leaf {proof.index} of {trusted.origin}{stamp_line(stamp)}"
    elif witness_keys:
        raise InputError("witnesses cosign the head in an inclusion proof; give --inclusion")
    elif timestamp or tsa_root:
        raise InputError("a time stamp dates the head in an inclusion proof; give --inclusion")
    if subject is not None or salt is not None:
        _check_subject(event, subject, salt)
    checked = ["signature", "form"]
    checked += [
        word
        for word, done in (
            ("inclusion", path),
            ("cosignatures", witness_keys),
            ("timestamp", stamp),
            ("subject", subject),
        )
        if done
    ]
    content = {"verified": True, "checked": checked, "log": location, "type": statement.predicate_type}
    content |= stamp_content(stamp)
    if event is not None and event.kind == "subject_erased":
        # What verifies is the summary of an erasure, which may say that it was refused.
        content["complete"] = erasure_complete(jsonable(statement.predicate))
    if context.as_json:
        print_json_lines([{**content, "receipt": jsonable(statement.predicate)}])
        return
    from expunge.cli.output import event_rows, fields, show_verified, signed_receipt_panel

    if stated is not None:
        context.out.print(signed_receipt_panel(stated, title=f"verified: {file.name}", extra=[("log", location)]))
    else:
        context.out.print(fields([*event_rows(jsonable(statement.predicate)), ("log", location)]))
    show_verified(context, checked)


def evidence(
    context: CommandContext,
    file: FileArgument,
    trust: TrustOption = None,
    origin: OriginOption = None,
    log: Annotated[bool, typer.Option("--log/--no-log", help="Require that the receipt is in the log.")] = True,
    prior: Annotated[
        bool, typer.Option("--prior/--no-prior", help="Require the state before the edit to be shown.")
    ] = True,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
    max_age: MaxAgeOption = None,
    policy: PolicyOption = None,
) -> None:
    """Verify an evidence bundle: recompute every number of its receipt from the entries that remain.

    Opens commitments, recomputes both state digests, recomputes every weight from the keys bit by bit, and rechecks
    the proof where the bundle has one.

    A folder that `expunge audit` wrote needs no key: every state is checked from its keys, and every difference and
    every reported number is recomputed from the states.
    """
    if os.path.isdir(file):
        if witness or quorum or policy or max_age is not None:
            raise InputError("witnesses cosign the head of a log, and an audit is in none; leave --witness out")
        _verify_audit(context, file)
        return
    from expunge.cli.output import show_verified
    from expunge.verify import verify_evidence

    trusted = parse_trust(trust, origin)
    witness_keys, needed = parse_witnesses(witness, quorum, max_age, policy)
    if witness_keys and not log:
        raise InputError("witnesses cosign the head of the log; leave out --no-log, or --witness")
    data = read_file(file, limit=2**31)
    with context.progress("Recomputing", None):
        log_keys, of_log = trusted.log if log else (None, None)
        bundle = verify_evidence(
            data,
            trusted.keys,
            log_keys=log_keys,
            origin=of_log,
            witnesses=witness_keys,
            quorum=needed,
            now=int(time.time()),
            max_age=max_age,
            require_prior=prior,
        ).bundle
    checked = ["signature", "form", *(["inclusion"] if log else []), *(["cosignatures"] if witness_keys else [])]
    checked += ["commitments", "state", *(["prior state"] if bundle.prior is not None else []), "weights"]
    checked += ["proof"] if bundle.proof is not None else []
    entries = int(bundle.keys.shape[0])
    context.show(
        {"verified": True, "checked": checked, "entries": entries},
        f"{file.name}: recomputed from {entries} remaining entries",
    )
    show_verified(context, checked)


def _verify_audit(context: CommandContext, folder: Path) -> None:
    """Verify the results of an audit."""
    from expunge.cli.output import show_verified
    from expunge.verify.audit_results import verify_audit_results

    counts: Counter[str] = Counter()
    with context.progress("Recomputing", None) as step:

        def count(word: str) -> None:
            counts[word] += 1
            step()

        verify_audit_results(folder, watch=count)
    totals = {f"{word}s": counts[word] for word in sorted(counts)}
    context.show(
        {"verified": True, "checked": sorted(totals), **totals},
        f"{folder}: " + ", ".join(f"{count:,} {word}" for word, count in totals.items()),
    )
    show_verified(context, [word for word in ("files", "states", "comparisons", "numbers") if word in totals])


def proof(
    context: CommandContext,
    file: FileArgument,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="NAME", help="Check against this memory of the store."),
    ] = None,
    keys: Annotated[Path | None, typer.Option("--keys", metavar="FILE", help="Check against these keys (NPY).")] = None,
    cap: Annotated[float | None, typer.Option("--cap", metavar="C", help="The cap, with --keys.")] = None,
    sigma: Annotated[float | None, typer.Option("--sigma", metavar="S", help="The width, with --keys.")] = None,
) -> None:
    """Verify a proof of the partition from the keys alone, without any solver.

    Shows that exactly the entries in the proof's reserve weigh exactly nothing.
    """
    from expunge.cli.output import group_sizes, show_verified
    from expunge.verify.proof import verify_proof
    from expunge.verify.proof_format import Proof

    claimed = Proof.from_bytes(read_file(file))
    if memory is not None:
        if keys is not None or cap is not None or sigma is not None:
            raise InputError("give --memory, or --keys with --cap and --sigma, not both")
        with context.store() as store:
            points, limit, width = store[memory].keys, store[memory].cap, store[memory].sigma
    elif keys is None or cap is None or sigma is None:
        raise InputError("a proof is about keys: give --memory, or --keys with --cap and --sigma")
    else:
        from expunge.cli.vector_arguments import parse_vectors

        points, limit, width = parse_vectors(f"@{keys}", "--keys"), cap, sigma
    with context.progress("Verifying", None):
        verify_proof(claimed, points, cap=limit, sigma=width)
    groups = group_sizes(claimed)
    context.show(
        {"verified": True, **groups}, f"{file.name}: {groups['reserve']} of {claimed.size} weights are exactly zero"
    )
    show_verified(context, ["partition"])


def state(
    context: CommandContext,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A memory that was saved to a file; else --memory.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="NAME", help="Check this memory of the store.")
    ] = None,
    ray: RayOption = None,
) -> None:
    """Verify weights bit by bit: recompute them from the keys, without any solver.

    The right weights are the doubles nearest to the exact optimum of keys, cap and width, so they are the same whatever
    was ever added or erased. They are evaluated in ball arithmetic, and every coefficient and the offset are compared.
    --ray spreads the slacks of a very large memory over a cluster, with the same result.
    """
    from expunge.cli.output import show_verified
    from expunge.verify.state import verify_state
    from expunge.verify.state_file import SavedState, read_state

    if (file is None) == (memory is None):
        raise InputError("give FILE, or --memory, and not both")
    if file is not None:
        claimed = read_state(file)
    else:
        with context.store() as store:
            held = store[memory or ""].solution
        problem = held.problem
        claimed = SavedState(problem.keys, held.coefficients, held.offset, problem.cap, problem.sigma)
    with workers_of(ray) as workers, context.progress("Recomputing", len(claimed.keys)) as step:
        found = verify_state(
            claimed.keys,
            claimed.coefficients,
            claimed.offset,
            cap=claimed.cap,
            sigma=claimed.sigma,
            watch=step,
            workers=workers,
        )
    name = file.name if file is not None else memory
    context.show(
        {"verified": True, "checked": ["coefficients", "offset"], **vars(found)},
        f"{name}: {found.entries} coefficients and the offset are the exact ones, to the last bit "
        f"({found.margin} margin, {found.bound} bound, {found.reserve} reserve; {found.bits} bits)",
    )
    if found.bounded:
        context.note(f"{found.bounded} slacks far from zero were bounded in double precision, not in balls.")
    show_verified(context, ["coefficients", "offset"])


def _check_subject(event: Event | None, subject: str | None, salt: str | None) -> None:
    from expunge.ledger.event import subject_commitment

    if subject is None or salt is None:
        raise InputError("--subject and --salt go together")
    shown = subject_commitment(parse_salt("--salt", salt), subject)
    if event is None or event.kind != "subject_erased" or event.subject.sha256 != shown:
        raise VerificationError(
            f"this is not the summary of an erasure of {subject!r} under this salt", code="commitment-mismatch"
        )
