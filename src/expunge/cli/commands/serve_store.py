"""``expunge serve`` and ``token``: a store over HTTP, and the tokens of its clients."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.context import CommandContext, make_console, print_json_lines
from expunge.cli.openid_options import OidcAudienceOption, OidcClaimOption, OidcIssuerOption, openid_of
from expunge.cli.options import parse_duration

if TYPE_CHECKING:
    from expunge.service.tokens import Token

__all__ = ["register"]

PANEL = "Serve"
DEMO_FOLDER = Path("expunge-demo")


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "serve",
        panel=PANEL,
        examples=[
            "expunge serve --demo",
            "expunge serve --store sqlite:///ward.db",
            "expunge serve --store postgresql://ward@db/ward \\\n--signing-key ward.pem --workers 4",
            "expunge serve --host 0.0.0.0 --tls-cert ward.crt --tls-key ward.key",
        ],
    )(serve)
    tokens = group(
        "token",
        summary="Make, list and revoke tokens for the service.",
        examples=["expunge token create --scope read", "expunge token list", "expunge token revoke 5b3f9a0c12de"],
    )
    command(
        tokens,
        "create",
        examples=[
            "expunge token create --scope read --scope write",
            "expunge token create --scope erase --memory icu-7 --expires 30d \\\n--note 'erasure desk'",
        ],
    )(create)
    command(tokens, "list", examples=["expunge token list", "expunge token list --json"])(list_tokens)
    command(tokens, "revoke", examples=["expunge token revoke 5b3f9a0c12de"])(revoke)
    app.add_typer(tokens, rich_help_panel=PANEL)


def serve(
    context: CommandContext,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="Port; 0 takes a free one.", min=0, max=65_535)
    ] = 8000,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="Processes.", min=1, max=64)] = 1,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve the demo's store, made if need be, with a token.")
    ] = False,
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where the demo is.")] = DEMO_FOLDER,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="PATH", help="Audit report to show: a file or folder."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key (PEM).")] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen to other machines without TLS."),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="N", help="Seconds that an edit waits for another.", min=0.1, max=3600)
    ] = 30.0,
    keep_cases: Annotated[
        int | None,
        typer.Option("--keep-cases", metavar="DAYS", help="Erase cases and actors that are older.", min=1),
    ] = None,
    retain_every: Annotated[
        float,
        typer.Option("--retain-every", metavar="SECONDS", help="Erase what has ended; 0 leaves it to expunge retain."),
    ] = 60.0,
    body_bytes: Annotated[int, typer.Option("--max-body", metavar="N", help="Bytes of a body.", min=1024)] = 8 << 20,
    dimension: Annotated[
        int, typer.Option("--max-dimension", metavar="N", help="Coordinates of a vector.", min=1)
    ] = 4096,
    batch: Annotated[int, typer.Option("--max-batch", metavar="N", help="Entries of a batch.", min=1)] = 1000,
    memory_budget: Annotated[
        str | None,
        typer.Option("--memory-budget", metavar="SIZE", help="Bytes for loaded memories, per worker, as in 3G."),
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="PATH", help="Path of a proxy below which it is, as in /memories.")
    ] = "",
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy", metavar="ADDRESS", help="Proxy whose X-Forwarded-For and -Proto count; repeat for more."
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", metavar="N", help="Requests a second of a token, per worker; 0: any.", min=0),
    ] = 0.0,
    bad_tokens: Annotated[
        int,
        typer.Option("--bad-tokens", metavar="N", help="Bad tokens a minute before an address is locked out.", min=0),
    ] = 30,
    oidc_issuer: OidcIssuerOption = None,
    oidc_audience: OidcAudienceOption = None,
    oidc_claim: OidcClaimOption = "scope",
    oidc_client: Annotated[
        str | None,
        typer.Option("--oidc-client", metavar="ID", help="Client id: people sign in to the page at /login."),
    ] = None,
) -> None:
    """Serve the store over HTTP, with the page.

    Listens to this machine only, unless there is TLS. Nothing but health and the page's own files is open without a
    token. Logs are JSON lines on standard error, without content. SIGTERM finishes what is in flight.
    """
    from expunge.service import require

    require()
    from expunge.service.address import Address
    from expunge.service.openid import require_openid
    from expunge.service.server import serve as run
    from expunge.service.settings import Limits, Settings, report_page
    from expunge.store import byte_count

    address = Address(host, port, tls_cert, tls_key, insecure).resolved()
    page = None if report is None else report_page(report).resolve()
    if demo:
        context = _demo_context(context, folder)
    if oidc_issuer is not None:
        require_openid()
    token = _demo_token(context, demo)
    settings = Settings(
        url=context.url,
        signing_key=context.signing_key,
        head_key=context.head_key,
        pepper=context.pepper,
        origin=context.ledger_name,
        timeout=timeout,
        report=page,
        tls=address.tls,
        keep_cases=keep_cases,
        retain_seconds=max(0.0, retain_every),
        memory_budget=byte_count(memory_budget),
        prefix=prefix,
        openid=openid_of(oidc_issuer, oidc_audience, oidc_claim, oidc_client),
        rate=rate,
        bad_tokens=bad_tokens,
        trusted_proxies=tuple(trusted_proxy or ()),
        limits=Limits(body_bytes=body_bytes, dimension=dimension, batch=batch),
    )
    link = address.url if token is None else f"{address.url}#token={token}"
    context.show({"url": address.url, "token": token, "workers": workers}, f"expunge serves {link}")
    sys.stdout.flush()
    run(settings, address, workers)


def create(
    context: CommandContext,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="read, write, erase, audit, admin, or all; repeat for more."),
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="NAME", help="Only for this memory.")] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="Ends after so long: 90m, 12h, 30d."),
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Whose it is.")] = "",
) -> None:
    """Make a token for the service.

    It is printed once and stored only as a hash. Scopes: read (content and questions), write (create and admit), erase
    (delete, prune, erase subjects), audit (ledger, checks, metrics; no content), admin (drop, rebuild, holds, vacuum).
    """
    from expunge.service.tokens import SCOPES, Tokens, check_scopes

    # What cannot be made should not leave an empty store behind.
    wanted = check_scopes(SCOPES if "all" in (scope or []) else scope or [])
    lifetime = _lifetime(expires)
    with context.store(create=memory is None) as store:
        text, token = Tokens(store).create(wanted, memory=memory, note=note, lifetime=lifetime)
    context.show({"token": text, **_token_content(token)}, text)
    context.note(f"{token.name} may {', '.join(sorted(token.scopes))}; the token is not shown again")


def list_tokens(context: CommandContext) -> None:
    """List the tokens, without their secrets."""
    from expunge.cli.output import listing
    from expunge.service.tokens import Tokens

    with context.store() as store:
        tokens = Tokens(store).all()
    if context.as_json:
        print_json_lines(_token_content(token) for token in tokens)
        return
    now = datetime.now(UTC).timestamp()
    cells = [
        [
            token.name,
            " ".join(sorted(token.scopes)),
            token.memory or "",
            _time_text(token.expires) or "",
            "good" if token.live(now) else "expired" if token.revoked is None else "revoked",
            token.note,
        ]
        for token in tokens
    ]
    context.out.print(listing(["token", "scopes", "memory", "expires (UTC)", "state", "note"], cells, right=[]))


def revoke(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="TOKEN", help="Its name, as in the list.")],
) -> None:
    """End a token at once, for every worker."""
    from expunge.service.tokens import Tokens

    with context.store() as store:
        token = Tokens(store).revoke(name)
    context.show(_token_content(token), f"{token.name} is revoked")


def _demo_context(context: CommandContext, folder: Path) -> CommandContext:
    """The context of the demo's store, which is made unless it is there."""
    file = folder / "expunge.db"
    if not file.exists():
        from expunge.demo import run as run_demo

        console = make_console()
        console.quiet = True
        context.note(f"Making the demo in {folder} (a few seconds) …")
        run_demo(folder, console=console)
    demo = CommandContext(f"sqlite:///{file}", None, context.as_json)
    from expunge.service.server import add_demo_memory

    with demo.store() as store:
        add_demo_memory(store)
    return demo


def _demo_token(context: CommandContext, demo: bool) -> str | None:
    """A token for the demo; for other stores a hint where there is none."""
    from expunge.service.tokens import SCOPES, Tokens

    with context.store() as store:
        tokens = Tokens(store)
        if demo:
            return tokens.create(SCOPES, note="demo", lifetime=86_400.0)[0]
        now = datetime.now(UTC).timestamp()
        if not any(token.live(now) for token in tokens.all()):
            context.note("this store has no token yet: expunge token create --scope read")
    return None


def _lifetime(text: str | None) -> float | None:
    if text is None:
        return None
    return parse_duration("--expires", text).total_seconds()


def _token_content(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "scopes": sorted(token.scopes),
        "memory": token.memory,
        "note": token.note,
        "created": _time_text(token.created),
        "expires": _time_text(token.expires),
        "revoked": _time_text(token.revoked),
    }


def _time_text(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
