"""``expunge checkpoint``: signed heads of the log, exported, cosigned, and held against the log."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.commands import date_heads, submit_heads
from expunge.cli.context import CommandContext, print_json_lines, read_file, write_file
from expunge.cli.head_files import head_content, kept_head, parse_head
from expunge.cli.options import ForceOption, OutOption
from expunge.cli.trust_options import OriginOption, TrustOption, parse_trust
from expunge.errors import InputError, VerificationError

if TYPE_CHECKING:
    from expunge.ledger.mldsa import MldsaSigningKey
    from expunge.ledger.note import NoteKey
    from expunge.ledger.signing import Signer
    from expunge.ledger.witness_state import WitnessState
    from expunge.store import Store

StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="FILE", help="Where the witness keeps heads; else beside its key, as .heads."),
]

__all__ = ["StateOption", "open_witness_key", "register", "witness_state"]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    checkpoint = group(
        "checkpoint",
        summary="Export, date, cosign or check heads of the log.",
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
            "expunge checkpoint cosign extension.txt --name witness.example/w1 \\\n"
            "--signing-key w1.pem --trust log.vkey",
        ],
    )(cosign)
    command(
        checkpoint,
        "kept",
        examples=["expunge checkpoint kept --signing-key w1.pem --out kept.txt"],
    )(kept)
    command(
        checkpoint,
        "merge",
        examples=[
            "expunge checkpoint merge w1.txt w2.txt --out cosigned.txt",
            "expunge checkpoint merge head.txt line.txt --out cosigned.txt",
        ],
    )(merge)
    command(
        checkpoint,
        "check",
        examples=["expunge checkpoint check kept.txt", "expunge checkpoint check kept.txt --trust log.vkey --json"],
    )(check)
    date_heads.register(checkpoint)
    submit_heads.register(checkpoint)
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
            data = _extension(store, read_file(since), store.log_keys, store.origin)
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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head, or an extension proof.")],
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="The witness's name.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
    first: Annotated[bool, typer.Option("--first", help="This witness has cosigned no head of this log.")] = False,
    state: StateOption = None,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Cosign a head as a witness, with --signing-key.

    The witness keeps the head that it cosigned last, in a file beside its key, and cosigns no head that does not extend
    it. Where the log has grown, FILE is the proof of that: the log's operator makes it with checkpoint export --since,
    from what checkpoint kept prints. Nothing is kept before the first head: --first says that this is right.
    """
    from expunge.ledger.checkpoint import Witness, parse_checkpoint, verify_checkpoint
    from expunge.ledger.merkle.proof_file import ExtensionProof, parse_extension_proof

    log_keys, log = parse_trust(trust, origin).log
    heads = witness_state(context, state)
    data = read_file(file)
    head, note = parse_head(data)
    verify_checkpoint(note, log_keys, log)
    before = heads.kept(log)
    if before is None and not first:
        raise InputError(
            f"{heads.path} keeps no head of {log}; say --first if this witness never cosigned one, or name the file "
            "where it keeps them with --state"
        )
    if before is not None and first:
        raise InputError(f"{heads.path} keeps a head of {log}, so this is not the first; leave --first out")
    kept = 0 if before is None else parse_checkpoint(before.text).size
    extension = ExtensionProof(0 if first else kept, (), note)
    if not first and data.startswith(b"old "):
        extension = parse_extension_proof(data)
    elif not first and head.size > kept:
        raise InputError(
            f"{file} is a head of {head.size} leaves, and the kept head has {kept}: give the proof that it extends it, "
            "which expunge checkpoint export --since writes"
        )
    witness = Witness(name, open_witness_key(context))
    line = heads.cosign(extension, log_keys, log, witness, int(time.time()))
    verifier = witness.verifier.to_text()
    signed = note.with_signature(line).to_bytes()
    if out is not None:
        write_file(out, signed, force=force)
    if context.as_json:
        content = {"witness": verifier, "extends": not first, "file": out, "text": signed.decode()}
        print_json_lines([{**head_content(head), **content}])
        return
    if out is None:
        print(signed.decode(), end="")
    else:
        context.out.print(f"{out}: head of {head.origin} at {head.size} leaves, cosigned by {name}", markup=False)
    context.note(f"witness key: {verifier}")


def kept(
    context: CommandContext,
    origin: Annotated[
        str | None, typer.Argument(metavar="ORIGIN", help="The log's name, where heads of several are kept.")
    ] = None,
    state: StateOption = None,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Print the head of a log that this witness (--signing-key) cosigned last.

    The log's operator needs it to make the proof that the next head extends it: checkpoint export --since.
    """
    heads = witness_state(context, state)
    origins = heads.origins()
    if origin is None and len(origins) > 1:
        raise InputError(f"{heads.path} keeps heads of several logs; name one: {', '.join(origins)}")
    name = origin or next(iter(origins), "any log")
    note = heads.kept(name)
    if note is None:
        raise InputError(f"{heads.path} keeps no head of {name}")
    data = note.to_bytes()
    if out is not None:
        write_file(out, data, force=force)
    if context.as_json:
        print_json_lines([{**head_content(parse_head(data)[0]), "file": out, "text": data.decode()}])
    elif out is None:
        print(data.decode(), end="")
    else:
        context.out.print(f"{out}: the head of {name} that was cosigned last", markup=False)


def merge(
    context: CommandContext,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="A head, then the same head as witnesses cosigned it, or bare lines."),
    ],
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Put the cosignatures of several witnesses on one head together.

    Each witness cosigns the same head on its own; a verifier that asks for a quorum needs all of them in one file.
    The files after the first are copies of the head, or hold signature lines alone, as a witness returns them.
    Nothing is verified here: expunge verify checkpoint does that.
    """
    from expunge.ledger.note import parse_signature_lines

    head, note = parse_head(read_file(files[0]))
    for file in files[1:]:
        data = read_file(file)
        if data.startswith("\N{EM DASH} ".encode()):
            lines = parse_signature_lines(data)
        else:
            other = parse_head(data)[1]
            if other.text != note.text:
                raise InputError(f"{file} is another head than {files[0]}: cosignatures are on one and the same")
            lines = other.signatures
        for line in lines:
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
        keys = parse_trust(trust or [key.to_text() for key in store.log_keys], origin)
        new, _ = parse_head(_extension(store, kept, *keys.log))
    context.show(
        {"verified": True, "kept": head_content(head), "now": head_content(new)},
        verified_line(f"{new.size} leaves now extend the {head.size} of {file}"),
    )


def open_witness_key(context: CommandContext) -> Signer | MldsaSigningKey:
    """The witness's key, --signing-key, which must be given: a file, or the URI of a signer."""
    from expunge.ledger.mldsa import load_witness_key
    from expunge.ledger.signer_uri import file_of, open_signer

    source = _witness_key(context)
    path = file_of(source)
    return open_signer(source, context.passphrase) if path is None else load_witness_key(path, context.passphrase)


def _witness_key(context: CommandContext) -> str:
    if context.signing_key is None:
        raise InputError("a witness signs with its own key: give --signing-key (expunge keygen makes one)")
    return context.signing_key


def witness_state(context: CommandContext, path: Path | None) -> WitnessState:
    """What the witness of --signing-key keeps: beside its key, unless --state names another file."""
    from expunge.ledger.signer_uri import file_of
    from expunge.ledger.witness_state import WitnessState

    key = file_of(_witness_key(context))
    if path is not None:
        return WitnessState(path)
    if key is None:
        raise InputError("the key is in no file, so the heads cannot lie beside it: name their file with --state")
    return WitnessState(key.with_name(f"{key.name.removesuffix('.pem')}.heads"))


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
