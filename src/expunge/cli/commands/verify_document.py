"""``expunge verify certificate``: a certificate document, HTML or PDF, against keys that did not come with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, read_file
from expunge.cli.trust_options import (
    MaxAgeOption,
    OriginOption,
    PolicyOption,
    QuorumOption,
    TrustOption,
    TsaRootOption,
    WitnessOption,
    parse_trust,
    parse_witnesses,
    timestamp_check,
)
from expunge.errors import InputError

__all__ = ["register"]


def register(verify: typer.Typer) -> None:
    """Register the command below ``expunge verify``."""
    command(
        verify,
        "certificate",
        examples=[
            "expunge verify certificate erasure.html --trust log.vkey",
            "expunge verify certificate erasure.pdf --trust ward.pub \\\n--origin ledger.example/ward",
        ],
    )(certificate)


def certificate(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The document, HTML or PDF.")],
    trust: TrustOption = None,
    origin: OriginOption = None,
    witness: WitnessOption = None,
    quorum: QuorumOption = 0,
    max_age: MaxAgeOption = None,
    policy: PolicyOption = None,
    tsa_root: TsaRootOption = None,
) -> None:
    """Verify a certificate document: who signed it, its place in the ledger, and what its page says.

    The page of HTML must be the one that the signed data make. The page of a PDF is not compared: go by the facts that
    this prints.
    """
    from expunge.cli.output import fields, show_verified
    from expunge.verify.certificate_document import MAX_FILE_BYTES, verify_certificate

    trusted = parse_trust(trust, origin)
    witness_keys, needed = parse_witnesses(witness, quorum, max_age, policy)
    found = verify_certificate(
        read_file(file, limit=MAX_FILE_BYTES),
        trusted.keys,
        *trusted.log,
        witnesses=witness_keys,
        quorum=needed,
        now=int(time.time()),
        max_age=max_age,
        check_timestamp=timestamp_check(tsa_root),
    )
    if tsa_root and not found.timestamps:
        raise InputError("the document has no time stamp to hold against --tsa-root; leave the option out")
    opened, page = found.contents, found.facts
    checked = ["signature", "form", "inclusion", *(["cosignatures"] if witness_keys else [])]
    checked += ["timestamp"] if found.timestamps else []
    checked += ["receipts"] if opened.counted else []
    checked += list(opened.contents.revealed or ())
    checked += [word for word, done in (("page", found.page), ("QR code", found.qr)) if done]
    context.show(
        {
            "verified": True,
            "checked": checked,
            "erasure": page.tone == "erased",
            "title": page.title,
            "statement": page.lead,
            "index": opened.leaf.index,
            "origin": opened.head.origin,
            "facts": dict(page.facts),
            "memories": [dict(zip(page.columns, row, strict=True)) for row in page.memories],
        },
        fields([("document", page.title), ("says", page.lead), *((label.lower(), text) for label, text in page.facts)]),
    )
    show_verified(context, checked)
    if not found.page:
        context.note("The page of a PDF is not compared with its data: go by what is printed here.")
    elif not found.qr:
        context.note("The QR code was not compared (pip install 'expunge[certificate]').")
    if opened.contents.timestamps and not found.timestamps:
        context.note(f"{len(opened.contents.timestamps)} time stamps inside were not verified.")
