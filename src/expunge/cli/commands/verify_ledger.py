"""``expunge verify ledger``, ``checkpoint`` and ``store``: the ledger as a whole, its signed heads, and its store."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, read_file
from expunge.cli.head_files import (
    head_content,
    kept_head,
    parse_head,
    require_extension,
    stamp_content,
    stamp_line,
)
from expunge.cli.trust_options import (
    PRESENT_AGE,
    MaxAgeOption,
    OriginOption,
    PolicyOption,
    PresentAgeOption,
    QuorumOption,
    TimestampOption,
    Trust,
    TrustOption,
    TsaRootOption,
    WitnessOption,
    check_timestamp,
    parse_present_age,
    parse_trust,
    parse_witnesses,
)
from expunge.errors import InputError, StoreError

if TYPE_CHECKING:
    from expunge.verify.replay.replay import Tally

__all__ = ["register"]


def register(verify: typer.Typer) -> None:
    """Register the commands below ``expunge verify``."""
    command(
        verify,
        "ledger",
        examples=[
            "expunge verify ledger log.jsonl --trust log.vkey",
            "expunge verify ledger --store sqlite:///ward.db --trust log.vkey",
            "expunge verify ledger --json",
        ],
    )(ledger)
    command(
        verify,
        "checkpoint",
        examples=[
            "expunge verify checkpoint head.txt --trust log.vkey",
            "expunge verify checkpoint extension.txt --older kept.txt --trust log.vkey",
            "expunge verify checkpoint head.txt --trust log.vkey \\\n--witness w1.vkey --witness w2.vkey --quorum 1",
            "expunge verify checkpoint head.txt --trust log.vkey \\\n--timestamp head.tsr --tsa-root tsa-root.pem",
        ],
    )(checkpoint)
    command(
        verify,
        "tiles",
        examples=[
            "expunge verify tiles public/ --trust log.vkey",
            "expunge verify tiles public/ --trust log.vkey --json",
        ],
    )(tiles)
    command(
        verify, "store", examples=["expunge verify store", "expunge verify store --store sqlite:///ward.db --json"]
    )(store)


def ledger(
    context: CommandContext,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Every leaf, one per line (expunge log --out); else the store's."),
    ] = None,
    head: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="FILE", help="The signed head; else FILE.checkpoint.")
    ] = None,
    trust: TrustOption = None,
    origin: OriginOption = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
    max_age: MaxAgeOption = None,
    policy: PolicyOption = None,
    now: Annotated[
        str | None,
        typer.Option("--now", metavar="TIME", help="The time now, as 2026-03-01T12:30:05Z; else the clock's."),
    ] = None,
) -> None:
    """Verify the whole ledger: every signature, what the leaves say of each other, and the root of the tree.

    Every leaf is replayed. What an edit names must be there, what was erased must not come back, holds must be in force
    where an edit was refused for them, and no time may run back or lie ahead. Without FILE the ledger is read from the
    store, and without --trust the store's own key is taken, which shows that the store agrees with itself, and no more.
    """
    from expunge.cli.output import counted, fields, show_verified
    from expunge.verify import verify_ledger

    witness_keys, needed = parse_witnesses(witness, quorum, max_age, policy)
    seconds = int(time.time()) if now is None else _seconds(now)
    if file is not None:
        trusted = parse_trust(trust, origin)
        leaves, note = _read_leaves(file), read_file(head or Path(f"{file}.checkpoint"))
        own = False
    else:
        if head is not None:
            raise InputError("--checkpoint goes with FILE; to hold a store to a head: expunge checkpoint check HEAD")
        with context.store() as store:
            leaves = [leaf.envelope for leaf in store.receipts()]
            note = store.checkpoint().to_bytes()
            own = not trust
            if own and origin not in (None, store.origin):
                raise InputError(f"the ledger of this store is {store.origin}, not {origin}")
            trusted = Trust(store.public_keys, store.log_keys, store.origin) if own else parse_trust(trust, origin)
    with context.progress("Verifying", len(leaves)) as step:
        found = verify_ledger(
            leaves,
            note,
            trusted.keys,
            *trusted.log,
            witnesses=witness_keys,
            quorum=needed,
            now=seconds,
            max_age=max_age,
            step=step,
        )
    tally = found.tally
    checked = ["signatures", "histories", "root", *(["cosignatures"] if witness_keys else [])]
    name = trusted.log[1]
    context.show(
        {
            "verified": True,
            "checked": checked,
            "leaves": len(leaves),
            "origin": name,
            "trust": "store" if own else "given",
            **asdict(tally),
        },
        f"{counted(len(leaves), 'leaf', 'leaves')} of {name}",
        fields(_tally_rows(tally)),
    )
    show_verified(context, checked)
    if tally.requests_overdue:
        context.note(
            f"{counted(tally.requests_overdue, 'request')} for erasure not carried out in time. The ledger says so "
            "itself, so that this is no error of it."
        )
    if own:
        context.note(
            "The store's own key was trusted. Keep a checkpoint elsewhere, and give --trust: a rewritten ledger is "
            "caught by nothing else."
        )


def _tally_rows(tally: Tally) -> list[tuple[str, str]]:
    """What a ledger tells of, for people; what is not there is left out."""
    from expunge.cli.output import counted

    def also(*parts: tuple[int, str]) -> str:
        return "".join(f", {number} {what}" for number, what in parts if number)

    there = f"{tally.entries_live} live" + also(
        (tally.entries_archived, "archived"), (tally.entries_forgotten, "forgotten and on record")
    )
    erasures = f"{tally.erasures_complete} complete" + also((tally.erasures_incomplete, "refused or failed in part"))
    asked = counted(tally.requests_open, "request") + also((tally.requests_overdue, "overdue"))
    empty, dropped = (tally.memories_empty, "empty"), (tally.memories_dropped, "dropped before")
    return [
        ("memories", f"{tally.memories}{also(empty, dropped)}"),
        ("entries", there),
        ("ever", f"{tally.entries_admitted} admitted, {tally.entries_erased} erased"),
        ("erasures of a subject", erasures if tally.erasures_complete + tally.erasures_incomplete else ""),
        ("holds in force", str(tally.holds_in_force or "")),
        ("open", asked if tally.requests_open else ""),
        ("mirrors", _mirrors_text(tally)),
    ]


def _mirrors_text(tally: Tally) -> str:
    """Mirrors, and copies of erased entries by what was found of them; empty where there never was one."""
    parts = {
        "there": tally.mirrors,
        "erasures that one has not followed": tally.mirrors_pending,
        "erasures that one never did": tally.mirrors_given_up,
        "copies erased": tally.copies_absent,
        "copies erased, with bytes left in files": tally.copies_in_files,
        "copies erased and not checkable": tally.copies_not_checkable,
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count)


def _seconds(text: str) -> int:
    """Seconds since 1970 of a time that somebody typed."""
    try:
        stated = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--now is a time such as 2026-03-01T12:30:05Z, not {text[:40]!r}") from None
    if stated.tzinfo is None:
        raise InputError(f"--now names its time zone, as in 2026-03-01T12:30:05Z: {text!r} does not")
    return int(stated.timestamp())


def checkpoint(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head, or with --older an extension proof.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
    older: Annotated[Path | None, typer.Option("--older", metavar="FILE", help="A head that was kept earlier.")] = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
    max_age: PresentAgeOption = None,
    policy: PolicyOption = None,
    timestamp: TimestampOption = None,
    tsa_root: TsaRootOption = None,
) -> None:
    """Verify a signed head of the log, its cosignatures, its time stamp, and that it extends an older one.

    With --older, FILE is what `expunge checkpoint export --since` wrote: the new head, and the proof that the log only
    grew. A log that was truncated, rewritten, or shown differently to different people cannot supply it.

    The head is taken for the present one: a witness's cosignature counts if it is at most --max-age old, else somebody
    may be showing an older head to hide later leaves. For a head that was kept, give --max-age none.
    """
    from expunge.cli.output import show_verified
    from expunge.ledger.checkpoint import verify_checkpoint, verify_cosignatures
    from expunge.verify import verify_consistency

    log_keys, name = parse_trust(trust, origin).log
    given = parse_present_age(max_age)
    witness_keys, needed = parse_witnesses(witness, quorum, given, policy)
    data = read_file(file)
    head, note = parse_head(data)
    verify_checkpoint(note, log_keys, name)
    if witness_keys:
        allowed = PRESENT_AGE if max_age is None else given
        verify_cosignatures(note, witness_keys, needed, log_keys=log_keys, now=int(time.time()), max_age=allowed)
    if older is not None:
        verify_consistency(kept_head(read_file(older)), require_extension(data, file), log_keys, name)
    stamp = check_timestamp(note.to_bytes(), timestamp, tsa_root)
    checked = [
        "signature",
        *(["cosignatures"] if witness_keys else []),
        *(["timestamp"] if stamp is not None else []),
        *(["consistency"] if older is not None else []),
    ]
    context.show(
        {"verified": True, "checked": checked, **head_content(head), **stamp_content(stamp)},
        f"head of {head.origin}: {head.size} leaves, root {head.root.hex()}{stamp_line(stamp)}",
    )
    show_verified(context, checked)


def tiles(
    context: CommandContext,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What expunge export tiles wrote, or a copy of it.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
    max_age: MaxAgeOption = None,
    policy: PolicyOption = None,
) -> None:
    """Verify a log that was published as tiles: every entry and every tile, up to the signed head.

    What the entries say is not looked at; verify log does that.
    """
    from expunge.cli.output import counted, show_verified
    from expunge.ledger.checkpoint import verify_cosignatures
    from expunge.verify.tiles import verify_tiles

    log_keys, name = parse_trust(trust, origin).log
    witness_keys, needed = parse_witnesses(witness, quorum, max_age, policy)
    with context.progress("Verifying", None) as step:
        head, note = verify_tiles(folder, log_keys, name, step=step)
    if witness_keys:
        verify_cosignatures(note, witness_keys, needed, log_keys=log_keys, now=int(time.time()), max_age=max_age)
    checked = ["signature", "entries", "tiles", "root", *(["cosignatures"] if witness_keys else [])]
    context.show(
        {"verified": True, "checked": checked, **head_content(head)},
        f"{counted(head.size, 'leaf', 'leaves')} of {name}",
    )
    show_verified(context, checked)


def store(context: CommandContext) -> None:
    """Verify the whole store: database, every memory, every secret, the whole log.

    Unlike verify ledger it reads the content too: an entry that was put back behind the store, a secret that should be
    gone, or a state that is not what its receipt says is found. Needs the store's key.
    """
    from expunge.cli.output import counted, show_verified

    with context.store() as opened, context.progress("Verifying", None):
        found = opened.verify()
    context.show(
        {"verified": True, **vars(found)},
        f"{counted(found.memories, 'memory')}, {counted(found.entries, 'entry')}, "
        f"{counted(found.leaves, 'leaf', 'leaves')} of the log, {counted(found.checkpoints, 'signed head')}",
    )
    applied = f"erasures re-applied: {found.erasures} of {found.erasures}"
    show_verified(context, ["database", "memories", "secrets", "log", applied])


def _read_leaves(path: Path) -> list[bytes]:
    """The leaves of a log from a file, one per line."""
    try:
        with path.open("rb") as file:
            return [line.removesuffix(b"\n") for line in file]
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
