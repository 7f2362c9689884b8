"""``expunge mcp``: a memory for agents, over the Model Context Protocol."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext
from expunge.cli.openid_options import OidcAudienceOption, OidcClaimOption, OidcIssuerOption, openid_of
from expunge.cli.options import ActorOption
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.integrations.mcp import Caller
    from expunge.service.openid import OpenIdProvider
    from expunge.service.tokens import Tokens

__all__ = ["register"]

# Seconds that requests in flight have to finish when the server stops, and that a connection is kept without any:
# longer than clients keep theirs, so that none sends a request into a connection that is being closed.
_SHUTDOWN_SECONDS = 5
_IDLE_SECONDS = 75


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "mcp",
        panel="Serve",
        examples=[
            "expunge mcp",
            "expunge --store sqlite:///agent.db mcp --subject ann",
            "expunge mcp --transport http --port 8000 --require-subject",
            "expunge mcp --transport http --host 10.0.0.7 \\\n--tls-cert notes.crt --tls-key notes.key",
            "expunge mcp --embed my_package.vectors:embed --sigma 0.8",
        ],
    )(mcp)


def mcp(
    context: CommandContext,
    memory: Annotated[str, typer.Option("--memory", metavar="NAME", help="The memory to keep notes in.")] = "notes",
    subject: Annotated[
        str | None,
        typer.Option("--subject", metavar="ID", help="Bind the server to one person: it sees only their notes."),
    ] = None,
    require_subject: Annotated[
        bool, typer.Option("--require-subject", help="Refuse calls that do not say whose notes they are about.")
    ] = False,
    embed: Annotated[
        str | None,
        typer.Option(
            "--embed",
            metavar="words|minilm|MODULE:FUNCTION",
            help="What turns texts into keys; else that of the notes, else minilm if installed, else words.",
        ),
    ] = None,
    sigma: Annotated[float, typer.Option("--sigma", metavar="S", help="Width of the kernel.")] = 1.0,
    nu: Annotated[float, typer.Option("--nu", metavar="N", help="Sparsity in (0, 1].")] = 0.5,
    transport: Annotated[str, typer.Option("--transport", metavar="stdio|http", help="How clients connect.")] = "stdio",
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="With http: where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="With http: port; 0 takes a free one.", min=0, max=65_535)
    ] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="With http: a name that clients call it by; repeat for more."
        ),
    ] = None,
    require_token: Annotated[
        bool, typer.Option("--require-token", help="With http: ask clients on this machine for a token, too.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key (PEM).")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to other machines without TLS.")] = False,
    memory_budget: Annotated[
        str | None,
        typer.Option("--memory-budget", metavar="SIZE", help="Bytes for loaded memories, as in 3G."),
    ] = None,
    oidc_issuer: OidcIssuerOption = None,
    oidc_audience: OidcAudienceOption = None,
    oidc_claim: OidcClaimOption = "scope",
    actor: ActorOption = None,
) -> None:
    """Serve a memory to agents over MCP.

    The tools are remember, recall, get, list, update, forget, forget_subject, warranties and verify_receipt, over
    standard input and output or HTTP (at /mcp). With --subject the server sees and touches one person's notes alone;
    with --require-subject each call names the person. Without either, every client reads every note.

    Over HTTP, a client on this machine needs no token, and any other does: expunge token create, with the scopes read
    (recall, get, list), write (remember) and erase (forget, with read; update takes all three). A request under
    another name than the address it reached, or from a page of another site, is refused.

    forget with about erases nothing: it answers with a preview and a token, which erases what was shown within ten
    minutes. Notes that have ended are erased once a minute, in every memory of the store, as expunge retain does. Texts
    are embedded here. The memory begins with nothing; its cap follows its size in recorded rebuilds.
    """
    if transport not in ("stdio", "http"):
        raise InputError(f"--transport is stdio or http, not {transport!r}")
    if subject is not None and require_subject:
        raise InputError("--subject names the one person, so that no call has to: leave out --require-subject")
    from expunge.integrations.embedding import find_embedding
    from expunge.integrations.mcp import Tools, require
    from expunge.memory.entries import check_subject
    from expunge.problem.problem import Problem

    require()
    from expunge.integrations.mcp.background import working
    from expunge.integrations.mcp.http_server import http_app
    from expunge.integrations.mcp.server import make_protocol_server, run_stdio
    from expunge.service.address import Address
    from expunge.service.openid import OpenIdProvider
    from expunge.service.tokens import Tokens

    # What cannot be served should not leave an empty store behind.
    Problem.of([[0.0]], sigma=sigma, nu=nu)
    check_subject(subject)
    function = None if embed is None else find_embedding(embed)
    openid = openid_of(oidc_issuer, oidc_audience, oidc_claim)
    provider = None if openid is None else OpenIdProvider(openid)
    address = Address(host, port, tls_cert, tls_key, insecure)
    if transport == "http":
        address = address.resolved()
    with context.store(create=True, memory_budget=memory_budget) as store, working(store):
        tools = Tools(
            store,
            memory=memory,
            embed=function,
            sigma=sigma,
            nu=nu,
            actor=actor,
            subject=subject,
            require_subject=require_subject,
        )
        if transport == "stdio":
            run_stdio(make_protocol_server(tools))
            return
        import uvicorn

        tokens = None if address.loopback and not require_token and provider is None else Tokens(store)
        context.note(f"{address.url}mcp")
        if tokens is None:
            context.note("every program on this machine may use it; --require-token asks for a token")
        elif provider is None and not any(token.live(datetime.now(UTC).timestamp()) for token in tokens.all()):
            context.note("this store has no token yet: expunge token create --scope read --scope write --scope erase")
        uvicorn.run(
            http_app(
                make_protocol_server(tools, callers=tokens is not None),
                host=host,
                names=allow_host or [],
                find_caller=None if tokens is None else lambda text: _caller(tokens, provider, text, memory),
            ),
            host=address.host,
            port=address.port,
            ssl_certfile=None if address.certificate is None else str(address.certificate),
            ssl_keyfile=None if address.private_key is None else str(address.private_key),
            # It takes the blanks off a header's value, as HTTP wants.
            http="h11",
            # Another loop may read into a buffer of its own, which keeps the last messages.
            loop="asyncio",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )


def _caller(tokens: Tokens, provider: OpenIdProvider | None, text: str, memory: str) -> Caller | None:
    """Who a token stands for; None for one that is not good, or for another memory."""
    from expunge.integrations.mcp import Caller

    token = tokens.find(text)
    if token is None and provider is not None:
        token = provider.find(text)
    if token is None or not token.covers(memory):
        return None
    return Caller(token.name, frozenset(token.scopes), whole_store=token.memory is None)
