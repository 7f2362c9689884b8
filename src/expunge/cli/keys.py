"""Signing keys: ``keygen``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command import command
from expunge.cli.failure import PASSPHRASE
from expunge.cli.session import Session

__all__ = ["add"]


def add(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "keygen",
        panel="Set up",
        examples=[
            "expunge keygen ward.pem",
            "EXPUNGE_PASSPHRASE='long and random' expunge keygen ward.pem",
            "expunge --key ward.pem create icu-7 hours.csv --sigma 2 --nu 0.4",
        ],
    )(keygen)


def keygen(
    session: Session,
    path: Annotated[Path, typer.Argument(help="Where the private key goes; the public one goes beside it, as .pub.")],
) -> None:
    """Make a signing key for receipts.

    The private key is a new file that only you can read (mode 0600); an existing file is never replaced. It is
    encrypted if $EXPUNGE_PASSPHRASE is set. Give the public key, and its id over another channel, to whoever verifies.
    """
    from expunge.ledger.errors import SigningKeyExists
    from expunge.ledger.signing import SigningKey, save_signing_key, save_verifying_key

    public = path.parent / f"{path.name.removesuffix('.pem')}.pub"
    for file in (path, public):
        # Both or neither: a private key whose public half is missing would only be in the way.
        if os.path.lexists(file):
            raise SigningKeyExists(f"{file} exists; a key is never overwritten")
    passphrase = os.environ.get(PASSPHRASE) or None
    key = SigningKey.generate()
    save_signing_key(key, path, passphrase)
    save_verifying_key(key.public, public)
    session.show(
        {"private": path, "public": public, "key_id": key.key_id, "encrypted": passphrase is not None},
        f"private  {path}  (keep it; mode 0600{', encrypted' if passphrase else ''})",
        f"public   {public}  (give it to whoever verifies)",
        f"key id   {key.key_id}",
    )
