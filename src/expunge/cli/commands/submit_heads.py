"""``expunge checkpoint witness``: the store's head, submitted to witnesses over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.commands.date_heads import TimeoutOption
from expunge.cli.context import CommandContext, print_json_lines, read_file, write_file
from expunge.cli.head_files import head_content, parse_head
from expunge.cli.options import ForceOption, OutOption
from expunge.cli.trust_options import PolicyOption, QuorumOption, WitnessOption, parse_witnesses
from expunge.errors import ExpungeError, InputError

if TYPE_CHECKING:
    from expunge.ledger.note import NoteKey, SignedNote
    from expunge.ledger.witness_policy import WitnessPolicy
    from expunge.store import Store

__all__ = ["register"]


def register(checkpoint: typer.Typer) -> None:
    """Register the command below ``expunge checkpoint``."""
    command(
        checkpoint,
        "witness",
        examples=[
            "expunge checkpoint witness --policy witnesses.policy --out cosigned.txt",
            "expunge checkpoint witness --witness-url http://127.0.0.1:8731 \\\n--witness w1.vkey --out cosigned.txt",
            "expunge checkpoint witness --head head.txt \\\n--policy witnesses.policy --out cosigned.txt",
        ],
    )(witness)


def witness(
    context: CommandContext,
    witness: WitnessOption = None,
    witness_url: Annotated[
        list[str] | None,
        typer.Option("--witness-url", metavar="URL", help="Where a witness takes heads. Repeat for several."),
    ] = None,
    policy: PolicyOption = None,
    quorum: QuorumOption = 0,
    head: Annotated[
        Path | None, typer.Option("--head", metavar="FILE", help="This earlier head of the store, not a new one.")
    ] = None,
    timeout: TimeoutOption = 10.0,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Have the head of the log cosigned by witnesses over HTTP (C2SP tlog-witness), and write it with their lines.

    Whoever the witnesses are, their keys come from --witness or --policy, not from them. A witness that does not answer
    or refuses is named; the command fails unless the quorum is met by the rest.
    """
    keys, needed = parse_witnesses(witness, quorum, None, policy)
    addresses = _addresses(witness_url, needed)
    if not keys or not addresses:
        raise InputError("which witnesses? give --policy with addresses, or --witness and --witness-url")
    if out is not None and out.exists() and not force:
        raise InputError(f"{out} exists; choose another name, or --force to replace it")
    with context.store() as store:
        note = store.checkpoint() if head is None else parse_head(read_file(head))[1]
        cosigned = _collect(context, store, note, addresses, keys, timeout)
        log_keys = [store.log_key]
    from expunge.ledger.checkpoint import verify_cosignatures

    verify_cosignatures(cosigned, keys, needed, log_keys=log_keys)
    data = cosigned.to_bytes()
    stated = parse_head(data)[0]
    if out is not None:
        write_file(out, data, force=force)
    if context.as_json:
        names = [line.name for line in cosigned.signatures]
        print_json_lines([{**head_content(stated), "signatures": names, "file": out, "text": data.decode()}])
    elif out is None:
        print(data.decode(), end="")
    else:
        context.out.print(
            f"{out}: head of {stated.origin} at {stated.size} leaves, {len(cosigned.signatures)} signatures",
            markup=False,
        )


def _addresses(urls: list[str] | None, needed: int | WitnessPolicy) -> list[str]:
    stated = [] if isinstance(needed, int) else [found.url for found in needed.witnesses.values()]
    return list(dict.fromkeys([*(urls or []), *(url for url in stated if url is not None)]))


def _collect(
    context: CommandContext,
    store: Store,
    note: SignedNote,
    addresses: Sequence[str],
    keys: Sequence[NoteKey],
    timeout: float,
) -> SignedNote:
    """The head with the lines of every witness that cosigned; the first failure is raised if none did."""
    from expunge.witnessing.witness_client import request_cosignatures

    def prove(old: int) -> tuple[bytes, ...]:
        return store.consistency(old, note).path

    submitted, cosigned = note, note
    failures: list[ExpungeError] = []
    for url in addresses:
        try:
            lines = request_cosignatures(url, submitted, prove, keys, log_keys=[store.log_key], timeout=timeout)
        except InputError:
            raise
        except ExpungeError as problem:
            failures.append(problem)
            context.note(f"{problem.code}: {problem}")
            continue
        known = {(line.name, line.key_id) for line in lines}
        kept = tuple(line for line in cosigned.signatures if (line.name, line.key_id) not in known)
        cosigned = type(note)(note.text, (*kept, *lines))
    if len(failures) == len(addresses):
        raise failures[0]
    return cosigned
