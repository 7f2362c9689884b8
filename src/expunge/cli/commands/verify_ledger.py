"""``expunge verify log``, ``checkpoint`` and ``store``: the ledger as a whole, its signed heads, and its store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.commands.sign_heads import head_content, kept_head, parse_head, require_extension
from expunge.cli.context import CommandContext, read_file
from expunge.cli.trust_options import (
    OriginOption,
    QuorumOption,
    TrustOption,
    WitnessOption,
    parse_trust,
    parse_witnesses,
)
from expunge.errors import InputError, StoreError

__all__ = ["register"]


def register(verify: typer.Typer) -> None:
    """Register the commands below ``expunge verify``."""
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


def log(
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
) -> None:
    """Verify the whole log: every receipt, the history of each memory, and the root of the tree.

    Every signature is checked; states and sizes must follow from each other; an entry that was erased must not come
    back. Without FILE the log is read from the store, and without --trust the store's own key is taken, which shows
    that the store agrees with itself, and no more.
    """
    from expunge.cli.output import counted, show_verified
    from expunge.ledger.event import EVENT_TYPE
    from expunge.verify import verify_log

    witness_keys, needed = parse_witnesses(witness, quorum)
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
            trusted = parse_trust([store.log_key.to_text()] if own else trust, origin)
    with context.progress("Verifying", len(leaves)) as step:

        def counted_leaves() -> Iterator[bytes]:
            for leaf in leaves:
                yield leaf
                step()

        verify_log(
            counted_leaves(),
            note,
            trusted.keys,
            *trusted.log,
            witnesses=witness_keys,
            quorum=needed,
            now=int(time.time()),
            also=(EVENT_TYPE,),
        )
    checked = ["signatures", "histories", "root", *(["cosignatures"] if witness_keys else [])]
    name = trusted.log[1]
    context.show(
        {
            "verified": True,
            "checked": checked,
            "leaves": len(leaves),
            "origin": name,
            "trust": "store" if own else "given",
        },
        f"{counted(len(leaves), 'leaf', 'leaves')} of {name}",
    )
    show_verified(context, checked)
    if own:
        context.note(
            "The store's own key was trusted. Keep a checkpoint elsewhere, and give --trust, to catch a rewritten log."
        )


def checkpoint(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head, or with --older an extension proof.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
    older: Annotated[Path | None, typer.Option("--older", metavar="FILE", help="A head that was kept earlier.")] = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
) -> None:
    """Verify a signed head of the log, its cosignatures, and that it extends an older one.

    With --older, FILE is what `expunge checkpoint export --since` wrote: the new head, and the proof that the log only
    grew. A log that was truncated, rewritten, or shown differently to different people cannot supply it.
    """
    from expunge.cli.output import show_verified
    from expunge.ledger.checkpoint import verify_checkpoint, verify_cosignatures
    from expunge.verify import verify_consistency

    log_keys, name = parse_trust(trust, origin).log
    witness_keys, needed = parse_witnesses(witness, quorum)
    data = read_file(file)
    head, note = parse_head(data)
    verify_checkpoint(note, log_keys, name)
    if witness_keys:
        verify_cosignatures(note, witness_keys, needed, now=int(time.time()))
    if older is not None:
        verify_consistency(kept_head(read_file(older)), require_extension(data, file), log_keys, name)
    checked = [
        "signature",
        *(["cosignatures"] if witness_keys else []),
        *(["consistency"] if older is not None else []),
    ]
    context.show(
        {"verified": True, "checked": checked, **head_content(head)},
        f"head of {head.origin}: {head.size} leaves, root {head.root.hex()}",
    )
    show_verified(context, checked)


def store(context: CommandContext) -> None:
    """Verify the whole store: database, every memory, every secret, the whole log.

    Unlike verify log it reads the content too: an entry that was put back behind the store, a secret that should be
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
    show_verified(context, ["database", "memories", "secrets", "log"])


def _read_leaves(path: Path) -> list[bytes]:
    """The leaves of a log from a file, one per line."""
    try:
        with path.open("rb") as file:
            return [line.removesuffix(b"\n") for line in file]
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
