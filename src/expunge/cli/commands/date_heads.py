"""``expunge checkpoint timestamp``: a head dated by a time-stamping authority."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, print_json_lines, read_file, write_file
from expunge.cli.head_files import head_content, parse_head, stamp_content, stamp_line
from expunge.cli.options import ForceOption
from expunge.cli.trust_options import TsaRootOption, check_timestamp
from expunge.errors import InputError

__all__ = ["TimeoutOption", "register"]

TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for an answer.", min=0.1, max=600)
]


def register(checkpoint: typer.Typer) -> None:
    """Register the command below ``expunge checkpoint``."""
    command(
        checkpoint,
        "timestamp",
        examples=[
            "expunge checkpoint timestamp head.txt \\\n--tsa https://tsa.example/tsr --tsa-root tsa-root.pem",
            "expunge checkpoint timestamp head.txt --tsa http://tsa.example \\\n--tsa-root tsa-root.pem --out head.tsr",
        ],
    )(timestamp)


def timestamp(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A head, or an extension proof.")],
    tsa: Annotated[str, typer.Option("--tsa", metavar="URL", help="Address of the time-stamping authority.")],
    tsa_root: TsaRootOption = None,
    timeout: TimeoutOption = 10.0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where the time stamp goes; else beside FILE (.tsr).")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Have a head dated by a time-stamping authority (RFC 3161), and keep its answer beside the head.

    The stamp is over the head's text, so it holds for every cosigned copy. It shows that the head existed at that time,
    whatever the log's own clock says. The authority learns a hash and nothing else. Without --tsa-root the answer is
    kept unverified.
    """
    from expunge.verify.timestamp import parse_timestamp
    from expunge.witnessing.timestamp_request import request_timestamp

    head, note = parse_head(read_file(file))
    target = out or file.with_suffix(".tsr")
    if target == file:
        raise InputError(f"{target} is the head itself; give another name with --out")
    if target.exists() and not force:
        raise InputError(f"{target} exists; choose another name, or --force to replace it")
    answer = request_timestamp(note.to_bytes(), tsa, timeout=timeout)
    write_file(target, answer, force=force)
    stamp = check_timestamp(note.to_bytes(), target, tsa_root) if tsa_root else None
    stated = parse_timestamp(answer).tst_info.gen_time
    if context.as_json:
        told = {**head_content(head), "file": target, "verified": stamp is not None, "stated": stated.isoformat()}
        print_json_lines([{**told, **stamp_content(stamp)}])
        return
    said = stamp_line(stamp) or f", stated {stated:%Y-%m-%d %H:%M:%S} UTC (not verified)"
    context.out.print(f"{target}: head of {head.origin} at {head.size} leaves{said}", markup=False)
