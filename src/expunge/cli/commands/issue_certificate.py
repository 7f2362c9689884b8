"""``expunge certificate``: the page that a data subject or a regulator gets about an edit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, read_file, write_file
from expunge.cli.head_files import parse_head
from expunge.cli.options import ForceOption
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.ledger.certificate.contents import Revealed, What

__all__ = ["register"]

Format = Literal["html", "pdf"]


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "certificate",
        panel="Account",
        examples=[
            "expunge certificate 12 --out erasure.html",
            "expunge certificate 12 --out erasure.pdf --subject patient-17 --salt 5f0c…",
            "expunge verify certificate erasure.html --trust log.vkey",
        ],
    )(certificate)


def certificate(
    context: CommandContext,
    leaf: Annotated[int, typer.Argument(metavar="LEAF", help="Number of the edit's leaf (see: expunge log).", min=0)],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the document goes.")],
    kind: Annotated[
        Format | None, typer.Option("--format", metavar="html|pdf", help="The format; else by the ending of FILE.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Show whose data it was, with --salt.")
    ] = None,
    salt: Annotated[
        str | None, typer.Option("--salt", metavar="HEX", help="What erase-subject printed, with --subject.")
    ] = None,
    case: Annotated[
        str | None,
        typer.Option("--case", metavar="TEXT", help="Case number, with --case-salt, if the store has it no more."),
    ] = None,
    case_salt: Annotated[
        str | None, typer.Option("--case-salt", metavar="HEX", help="The salt of the case, with --case.")
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="TEXT", help="Who asked, with --actor-salt, likewise.")
    ] = None,
    actor_salt: Annotated[
        str | None, typer.Option("--actor-salt", metavar="HEX", help="The salt of the actor, with --actor.")
    ] = None,
    without_case: Annotated[bool, typer.Option("--without-case", help="Do not show the case number.")] = False,
    without_actor: Annotated[bool, typer.Option("--without-actor", help="Do not show who asked.")] = False,
    names: Annotated[bool, typer.Option("--names", help="Show the names of memories. They are not signed.")] = False,
    head: Annotated[
        Path | None,
        typer.Option("--head", metavar="FILE", help="Lead the proofs to this head, which witnesses cosigned."),
    ] = None,
    timestamp: Annotated[
        list[Path] | None,
        typer.Option("--timestamp", metavar="FILE", help="RFC 3161 time stamp of --head. Repeat for several."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a certificate of erasure for people.

    One page as HTML or PDF, with receipts and proofs inside.

    LEAF is a deletion, a dropped memory, or the summary of erase-subject, the usual case. Any other edit gives a record
    that says it is no certificate of erasure. The document shows whose data it was only with --subject and --salt; it
    shows the case number and who asked unless --without-case and --without-actor withhold them.
    """
    from expunge.attestation.certificate_document import certificate_contents, certificate_html, certificate_pdf
    from expunge.ledger.certificate.contents import MAX_TIMESTAMP_BYTES
    from expunge.ledger.certificate.page import page_of

    chosen = kind or _format_of(out)
    if timestamp and head is None:
        raise InputError("a time stamp is of one head: give that with --head")
    revealed = _revealed({"subject": (subject, salt), "case": (case, case_salt), "actor": (actor, actor_salt)})
    withheld: dict[What, bool] = {"case": without_case, "actor": without_actor}
    known = [what for what, hidden in withheld.items() if not hidden]
    if out.exists() and not force:
        raise InputError(f"{out} exists; choose another name, or --force to replace it")
    with context.store() as store:
        opened = certificate_contents(
            store,
            leaf,
            revealed=revealed,
            known=known,
            names=names,
            timestamps=[read_file(path, limit=MAX_TIMESTAMP_BYTES) for path in timestamp or ()],
            head=None if head is None else parse_head(read_file(head))[1],
        )
    write_file(out, certificate_html(opened) if chosen == "html" else certificate_pdf(opened), force=force)
    page = page_of(opened)
    context.show(
        {"file": out, "format": chosen, "index": leaf, "title": page.title, "erasure": page.tone == "erased"},
        f"{out}: {page.title}",
        f"{page.lead}",
        f"verify: expunge verify certificate {out} --trust KEY",
    )
    shown = list(opened.contents.revealed or ())
    if shown:
        context.note(f"It shows {', '.join(shown)}: hand it to nobody else.")


def _format_of(out: Path) -> Format:
    ending = out.suffix.lower()
    if ending in (".html", ".htm"):
        return "html"
    if ending == ".pdf":
        return "pdf"
    raise InputError(f"{out} ends in neither .html nor .pdf: give --format")


def _revealed(given: dict[What, tuple[str | None, str | None]]) -> dict[What, Revealed]:
    from expunge.ledger.certificate.contents import Revealed
    from expunge.ledger.commitment import SALT_BYTES

    found: dict[What, Revealed] = {}
    for what, (text, digits) in given.items():
        option = "--salt" if what == "subject" else f"--{what}-salt"
        if (text is None) != (digits is None):
            raise InputError(f"--{what} and {option} go together")
        if text is None or digits is None:
            continue
        try:
            secret = bytes.fromhex(digits)
        except ValueError:
            secret = b""
        if len(secret) != SALT_BYTES:
            raise InputError(f"{option} is {2 * SALT_BYTES} hexadecimal digits, not {digits[:40]!r}")
        found[what] = Revealed(text, secret)
    return found
