"""``expunge checkpoint``: signed heads of the log, exported, cosigned, and held against the log."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.context import CommandContext, print_json_lines, read_file, write_file
from expunge.cli.options import ForceOption, OutOption
from expunge.cli.trust_options import OriginOption, TrustOption, parse_trust
from expunge.errors import InputError, VerificationError

if TYPE_CHECKING:
    from expunge.ledger.checkpoint import Checkpoint
    from expunge.ledger.note import NoteKey, SignedNote
    from expunge.store import Store

__all__ = ["head_content", "kept_head", "parse_head", "register", "require_extension"]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    checkpoint = group(
        "checkpoint",
        summary="Export, cosign or check signed heads of the log.",
        examples=[
            "expunge checkpoint export --out head.txt",
            "expunge checkpoint check head.txt",
            "expunge checkpoint cosign head.txt --first --name witness.example/w1 \\\n"
            "--signing-key w1.pem --trust log.vkey --out cosigned.txt",
        ],
    )
    command(
        checkpoint,
        "export",
        examples=[
            "expunge checkpoint export",
            "expunge checkpoint export --out head.txt",
            "expunge checkpoint export --since kept.txt --out extension.txt",
        ],
    )(export)
    command(
        checkpoint,
        "cosign",
        examples=[
            "expunge checkpoint cosign head.txt --first --name witness.example/w1 \\\n"
            "--signing-key w1.pem --trust log.vkey --out cosigned.txt",
            "expunge checkpoint cosign extension.txt --older cosigned.txt \\\n"
            "--name witness.example/w1 --signing-key w1.pem --trust log.vkey",
        ],
    )(cosign)
    command(checkpoint, "merge", examples=["expunge checkpoint merge w1.txt w2.txt --out cosigned.txt"])(merge)
    command(
        checkpoint,
        "check",
        examples=["expunge checkpoint check kept.txt", "expunge checkpoint check kept.txt --trust log.vkey --json"],
    )(check)
    app.add_typer(checkpoint, rich_help_panel="Account")


def export(
    context: CommandContext,
    out: OutOption = None,
    since: Annotated[
        Path | None,
        typer.Option("--since", metavar="FILE", help="Export the proof that the log only grew since this head."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Export the signed head of the log, or the proof that it extends an older one.

    Give heads away, often: whoever keeps one can later show that the log was truncated or rewritten, if it was.
    """
    with context.store() as store:
        if since is None:
            data = store.checkpoint().to_bytes()
        else:
            data = _extension(store, read_file(since), [store.log_key], store.origin)
    head, _ = parse_head(data)
    if out is not None:
        write_file(out, data, force=force)
    if context.as_json:
        print_json_lines([{**head_content(head), "file": out, "text": data.decode()}])
    elif out is None:
        print(data.decode(), end="")
    else:
        context.out.print(f"{out}: head of {head.origin} at {head.size} leaves", markup=False)


def cosign(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head, or with --older an extension proof.")],
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="The witness's name.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
    older: Annotated[
        Path | None, typer.Option("--older", metavar="FILE", help="The head cosigned last; the new one must extend it.")
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="No head of this log was cosigned before.")] = False,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Cosign a head as a witness, with --signing-key.

    Verifies first that the log signed it, and that nothing was cut off or rewritten since the head that was cosigned
    last: --older. Only a witness that has cosigned none of this log says --first instead.
    """
    from expunge.ledger.checkpoint import cosign_checkpoint, verify_checkpoint
    from expunge.ledger.note import NoteAlgorithm, NoteKey
    from expunge.ledger.signing import load_signing_key
    from expunge.verify import verify_consistency

    if context.signing_key is None:
        raise InputError("a witness signs with its own key: give --signing-key (expunge keygen makes one)")
    if (older is None) != first:
        raise InputError("a witness cosigns what extends the head it cosigned last: give --older, or --first if none")
    log_keys, log = parse_trust(trust, origin).log
    data = read_file(file)
    head, note = parse_head(data)
    if older is not None:
        verify_consistency(kept_head(read_file(older)), require_extension(data, file), log_keys, log)
    else:
        verify_checkpoint(note, log_keys, log)
    key = load_signing_key(context.signing_key, context.passphrase)
    if any(known.public == key.public for known in log_keys):
        raise InputError("that is the log's own key: a witness cosigns with a key of its own (--signing-key)")
    signed = cosign_checkpoint(note, name, key, int(time.time())).to_bytes()
    witness = NoteKey(name, key.public, NoteAlgorithm.COSIGNATURE_V1).to_text()
    if out is not None:
        write_file(out, signed, force=force)
    if context.as_json:
        print_json_lines(
            [
                {
                    **head_content(head),
                    "witness": witness,
                    "extends": older is not None,
                    "file": out,
                    "text": signed.decode(),
                }
            ]
        )
        return
    if out is None:
        print(signed.decode(), end="")
    else:
        context.out.print(f"{out}: head of {head.origin} at {head.size} leaves, cosigned by {name}", markup=False)
    context.note(f"witness key: {witness}")


def merge(
    context: CommandContext,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="One head, as several witnesses cosigned it.")],
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Put the cosignatures of several witnesses on one head together.

    Each witness cosigns the same head on its own; a verifier that asks for a quorum needs all of them in one file.
    Nothing is verified here: expunge verify checkpoint does that.
    """
    (head, note), *others = [parse_head(read_file(file)) for file in files]
    for file, (_, other) in zip(files[1:], others, strict=True):
        if other.text != note.text:
            raise InputError(f"{file} is another head than {files[0]}: cosignatures are on one and the same")
        for line in other.signatures:
            if line not in note.signatures:
                note = note.with_signature(line)
    data = note.to_bytes()
    if out is not None:
        write_file(out, data, force=force)
    if context.as_json:
        names = [line.name for line in note.signatures]
        print_json_lines([{**head_content(head), "signatures": names, "file": out, "text": data.decode()}])
    elif out is None:
        print(data.decode(), end="")
    else:
        context.out.print(f"{out}: head of {head.origin}, {len(note.signatures)} signatures", markup=False)


def check(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head that was kept.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
) -> None:
    """Check the store's log against a head that was kept: it must only have grown since.

    Exits with 1 if the log was truncated, rewritten or replaced.
    """
    from expunge.cli.output import verified_line

    kept = read_file(file)
    head, _ = parse_head(kept)
    with context.store() as store:
        keys = parse_trust(trust or [store.log_key.to_text()], origin)
        new, _ = parse_head(_extension(store, kept, *keys.log))
    context.show(
        {"verified": True, "kept": head_content(head), "now": head_content(new)},
        verified_line(f"{new.size} leaves now extend the {head.size} of {file}"),
    )


def parse_head(data: bytes) -> tuple[Checkpoint, SignedNote]:
    """The head in a checkpoint or in an extension proof; not verified."""
    from expunge.ledger.checkpoint import parse_checkpoint
    from expunge.ledger.merkle.proof_file import parse_extension_proof
    from expunge.ledger.note import parse_note

    note = parse_extension_proof(data).checkpoint if data.startswith(b"old ") else parse_note(data)
    return parse_checkpoint(note.text), note


def kept_head(data: bytes) -> bytes:
    """The signed head in a file that was kept: the file itself, or the newer head of an extension proof."""
    return parse_head(data)[1].to_bytes()


def require_extension(data: bytes, file: Path) -> bytes:
    """The same bytes, if they are an extension proof."""
    if not data.startswith(b"old "):
        raise InputError(f"{file} is a head; with --older it takes what expunge checkpoint export --since writes")
    return data


def head_content(head: Checkpoint) -> dict[str, Any]:
    """A checkpoint as ``--json`` prints it."""
    return {"origin": head.origin, "size": head.size, "root": head.root.hex()}


def _extension(store: Store, kept: bytes, log_keys: Iterable[NoteKey], origin: str) -> bytes:
    """The proof that the log only grew since a kept head; a log that did not has none."""
    from expunge.verify import verify_consistency

    head, _ = parse_head(kept)
    if head.size > store.size:
        raise VerificationError(
            f"the kept head has {head.size} leaves, the log {store.size}: it was truncated",
            code="consistency-sizes-reversed",
        )
    proof = store.consistency(head.size).to_bytes()
    verify_consistency(kept_head(kept), proof, log_keys, origin)
    return proof
