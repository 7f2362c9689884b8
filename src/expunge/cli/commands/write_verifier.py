"""``expunge verifier``: the verifier that is one HTML file, for whoever receives a receipt or a certificate."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import typer

import expunge
from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, write_file
from expunge.cli.options import ForceOption

__all__ = ["VERIFIER", "register"]

# Found by its path: the service, whose page it is part of, is an extra.
VERIFIER = Path(expunge.__file__).parent / "service" / "frontend" / "static" / "verifier.html"


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "verifier",
        panel="Account",
        examples=["expunge verifier --out verifier.html"],
    )(verifier)


def verifier(
    context: CommandContext,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the file goes.")],
    force: ForceOption = False,
) -> None:
    """Write the verifier that is one HTML file.

    It verifies receipts, certificates and ledgers in a browser, from the disk and without a network, against keys that
    one pastes. Its SHA-256 is the same for everybody who has this version.
    """
    data = VERIFIER.read_bytes()
    write_file(out, data, force=force)
    digest = hashlib.sha256(data).hexdigest()
    context.show(
        {"file": out, "sha256": digest, "version": expunge.__version__},
        f"{out}: the verifier of expunge {expunge.__version__}, {len(data):,} bytes",
        f"SHA-256 {digest}",
    )
