"""``expunge mcp``."""

from __future__ import annotations

from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import Session
from expunge.errors import InputError

__all__ = ["add"]


def add(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "mcp",
        panel="Serve",
        examples=[
            "expunge mcp",
            "expunge --store sqlite:///agent.db mcp --embed minilm",
            "expunge mcp --transport http --port 8000",
            "expunge mcp --embed my_package.vectors:embed --sigma 0.8",
        ],
    )(mcp)


def mcp(
    session: Session,
    memory: Annotated[str, typer.Option("--memory", metavar="NAME", help="The memory to keep notes in.")] = "notes",
    embed: Annotated[
        str,
        typer.Option("--embed", metavar="words|minilm|MODULE:FUNCTION", help="What turns texts into keys."),
    ] = "words",
    sigma: Annotated[float, typer.Option("--sigma", metavar="S", help="Width of the kernel.")] = 1.0,
    nu: Annotated[float, typer.Option("--nu", metavar="N", help="Sparsity in (0, 1].")] = 0.5,
    transport: Annotated[str, typer.Option("--transport", metavar="stdio|http", help="How clients connect.")] = "stdio",
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="With http: where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="With http: on which port.", min=1, max=65535)
    ] = 8000,
) -> None:
    """Serve a memory to agents over MCP.

    The tools remember, recall, forget, forget_subject, warranties and verify_receipt, over standard input and output or
    HTTP (at /mcp, without authentication: for this machine only). Texts are embedded here: by hashed words, by the
    offline model minilm (extra: embeddings), or by a function of yours. The memory begins with nothing; its cap follows
    its size in recorded rebuilds.
    """
    if transport not in ("stdio", "http"):
        raise InputError(f"--transport is stdio or http, not {transport!r}")
    from expunge.integrations.embedding import find_embedding
    from expunge.integrations.mcp import make_server
    from expunge.problem.problem import Problem

    # What cannot be served should not leave an empty store behind.
    Problem.of([[0.0]], sigma=sigma, nu=nu)
    function = find_embedding(embed)
    with session.store(create=True) as store:
        server = make_server(store, memory=memory, embed=function, sigma=sigma, nu=nu)
        if transport == "stdio":
            server.run()
        else:
            session.note(f"http://{host}:{port}/mcp")
            server.run("streamable-http", host=host, port=port)
