"""``expunge witness serve``: a witness for other people's logs, over HTTP."""

from __future__ import annotations

import signal
import sys
import threading
from ipaddress import ip_address
from typing import Annotated

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.commands.sign_heads import StateOption, open_witness_key, witness_state
from expunge.cli.context import CommandContext
from expunge.errors import InputError, StoreError

__all__ = ["register"]

PANEL = "Serve"


def register(app: typer.Typer) -> None:
    """Register the commands."""
    witness = group(
        "witness",
        summary="Cosign the heads of others' logs, over HTTP.",
        examples=["expunge witness serve --name witness.example/w1 \\\n--signing-key w1.pem --log log.vkey"],
    )
    command(
        witness,
        "serve",
        examples=[
            "expunge keygen w1.pem --witness witness.example/w1 --ml-dsa",
            "expunge witness serve --name witness.example/w1 \\\n--signing-key w1.pem --log log.vkey",
            "expunge witness serve --name witness.example/w1 --signing-key w1.pem \\\n"
            "--log log.vkey --state /var/lib/witness/w1.heads --port 8731",
        ],
    )(serve)
    app.add_typer(witness, rich_help_panel=PANEL)


def serve(
    context: CommandContext,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="The witness's name.")],
    log: Annotated[
        list[str],
        typer.Option("--log", metavar="KEY", help="Verifier key of a log, or file of them. Repeat for several."),
    ],
    state: StateOption = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="Port; 0 takes a free one.", min=0, max=65535)
    ] = 8731,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen to other machines without TLS: a proxy in front has it.")
    ] = False,
) -> None:
    """Run a witness (C2SP tlog-witness): cosign a log's head if it extends the last one that was cosigned.

    Needs no store: a key (--signing-key), the verifier keys of the logs, and one file that remembers heads. Lose that
    file, and the witness could cosign a rewritten history: keep it, with the key. Listens to this machine only, unless
    --insecure is given; put a proxy with TLS in front.
    """
    from expunge.cli.trust_options import read_verifier_keys
    from expunge.ledger.checkpoint import Witness, check_not_log
    from expunge.ledger.note import NoteKey
    from expunge.witnessing.witness_server import WitnessService, make_server

    logs: dict[str, list[NoteKey]] = {}
    for key in read_verifier_keys(log):
        logs.setdefault(key.name, []).append(key)
    witness = Witness(name, open_witness_key(context))
    check_not_log([witness.verifier], [key for keys in logs.values() for key in keys])
    if not insecure and not _is_loopback(host):
        raise InputError(f"{host} is not this machine alone: put a proxy with TLS in front, and say --insecure")
    service = WitnessService(witness_state(context, state), witness, logs)
    # A state that cannot be read is known before the first request.
    for origin in logs:
        service.state.kept(origin)
    try:
        server = make_server(service, host, port, log=lambda line: print(line, file=sys.stderr, flush=True))
    except OSError as problem:
        raise StoreError(f"cannot listen at {host} port {port}: {problem.strerror or problem}") from None
    verifier = witness.verifier.to_text()
    with server:
        url = f"http://{host}:{server.server_port}"
        context.show(
            {"url": url, "witness": verifier, "logs": sorted(logs), "state": service.state.path},
            f"{name} witnesses {', '.join(sorted(logs))} at {url}",
            f"witness key: {verifier}",
        )
        sys.stdout.flush()
        if threading.current_thread() is threading.main_thread():
            # shutdown waits for serve_forever, which this handler interrupts.
            signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
