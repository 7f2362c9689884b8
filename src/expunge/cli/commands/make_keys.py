"""Signing keys: ``keygen``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, write_file
from expunge.errors import InputError, StoreError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "keygen",
        panel="Set up",
        examples=[
            "expunge keygen ward.pem",
            "EXPUNGE_PASSPHRASE='long and random' expunge keygen ward.pem",
            "expunge keygen w1.pem --witness witness.example/w1",
            "expunge keygen w2.pem --witness witness.example/w2 --ml-dsa",
            "expunge --signing-key ward.pem create icu-7 hours.csv --sigma 2 --nu 0.4",
        ],
    )(keygen)


def keygen(
    context: CommandContext,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Where the private key goes; the public one goes beside it, as .pub.")
    ],
    witness: Annotated[
        str | None,
        typer.Option(
            "--witness",
            metavar="NAME",
            help="A witness of this name will cosign with it: write its verifier key too, as .vkey.",
        ),
    ] = None,
    ml_dsa: Annotated[
        bool,
        typer.Option(
            "--ml-dsa", help="With --witness: an ML-DSA-44 key, which new witnesses should have, not Ed25519."
        ),
    ] = False,
) -> None:
    """Make a signing key for receipts, or for a witness of a log.

    The private key is a new file that only you can read (mode 0600); an existing file is never replaced. It is
    encrypted if $EXPUNGE_PASSPHRASE is set. Give the public key, and its id over another channel, to whoever verifies.
    """
    from expunge.ledger.note import NoteAlgorithm, NoteKey
    from expunge.ledger.signing import SigningKey, save_signing_key, save_verifying_key

    if ml_dsa:
        _make_ml_dsa(context, path, witness)
        return
    public = path.parent / f"{path.name.removesuffix('.pem')}.pub"
    verifier = public.with_suffix(".vkey") if witness is not None else None
    for file in filter(None, (path, public, verifier)):
        # All or none: a private key whose public half is missing would only be in the way.
        if os.path.lexists(file):
            raise StoreError(f"{file} exists; a key is never overwritten", code="signing-key-exists")
    passphrase = context.passphrase
    key = SigningKey.generate()
    named = None if witness is None else NoteKey(witness, key.public, NoteAlgorithm.COSIGNATURE_V1).to_text()
    save_signing_key(key, path, passphrase)
    save_verifying_key(key.public, public)
    if verifier is not None and named is not None:
        write_file(verifier, f"{named}\n".encode())
    context.show(
        {
            "private": path,
            "public": public,
            "key_id": key.key_id,
            "encrypted": passphrase is not None,
            "witness": named,
            "verifier": verifier,
        },
        f"private  {path}  (keep it; mode 0600{', encrypted' if passphrase else ''})",
        f"public   {public}  (give it to whoever verifies)",
        f"key id   {key.key_id}",
        *([] if verifier is None else [f"witness  {verifier}  (goes with --witness)"]),
    )


def _make_ml_dsa(context: CommandContext, path: Path, witness: str | None) -> None:
    """A witness's ML-DSA-44 key; its public half has no file but the verifier key."""
    from expunge.ledger.checkpoint import Witness
    from expunge.ledger.mldsa import MldsaSigningKey
    from expunge.ledger.signing import write_key_file

    if witness is None:
        raise InputError("--ml-dsa goes with --witness: receipts and heads are not signed with ML-DSA")
    verifier = path.parent / f"{path.name.removesuffix('.pem')}.vkey"
    for file in (path, verifier):
        if os.path.lexists(file):
            raise StoreError(f"{file} exists; a key is never overwritten", code="signing-key-exists")
    passphrase = context.passphrase
    key = MldsaSigningKey.generate()
    named = Witness(witness, key).verifier.to_text()
    write_key_file(path, key.to_pem(passphrase), 0o600)
    write_file(verifier, f"{named}\n".encode())
    context.show(
        {"private": path, "encrypted": passphrase is not None, "witness": named, "verifier": verifier},
        f"private  {path}  (keep it; mode 0600{', encrypted' if passphrase else ''})",
        f"witness  {verifier}  (goes with --witness)",
    )
