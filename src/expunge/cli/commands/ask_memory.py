"""Commands that ask and change nothing: read, search, warranties, prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, print_json_lines, write_file
from expunge.cli.options import MemoryArgument
from expunge.cli.vector_arguments import VECTOR_HELP, parse_vectors
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.store import StoredMemory
    from expunge.types import Matrix

__all__ = ["register"]

PANEL = "Ask"

AtOption = Annotated[list[str] | None, typer.Option("--at", metavar="VECTOR", help=f"Query: {VECTOR_HELP}")]
LikeOption = Annotated[str | None, typer.Option("--like", metavar="ID", help="Use the key of this entry as the query.")]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "read",
        panel=PANEL,
        examples=[
            "expunge read icu-7 --at 0.1,-0.4,0.2,1.1,0.3,-0.2",
            "expunge read icu-7 --at @queries.npy --json",
            "expunge read icu-7 --like stay-35479615/h016",
        ],
    )(read)
    command(
        app,
        "search",
        panel=PANEL,
        examples=[
            "expunge search notes --at @question.npy",
            "expunge search icu-7 --at 0.1,-0.4,0.2,1.1,0.3,-0.2 -n 10",
            "expunge search notes --like susan/2023-04-27/03 --json",
        ],
    )(search)
    command(
        app,
        "warranties",
        panel=PANEL,
        examples=[
            "expunge warranties icu-7",
            "expunge warranties icu-7 --status expired",
            "expunge warranties icu-7 --json",
        ],
    )(warranties)
    command(
        app,
        "prove",
        panel=PANEL,
        examples=[
            "expunge prove icu-7",
            "expunge prove icu-7 --out icu-7.proof",
            "expunge verify proof icu-7.proof --memory icu-7",
        ],
    )(prove)


def read(context: CommandContext, name: MemoryArgument, at: AtOption = None, like: LikeOption = None) -> None:
    """Read a memory: the mean of its values near a query.

    Prints the readout o(q) = Σακv / Σακ at each query, and the gate score, which is positive where the memory knows
    its way about and negative where it does not.
    """
    with context.store() as store:
        memory = store[name]
        queries = _queries(memory, at, like)
        answers, scores = memory.read(queries), memory.score(queries)
    rows = list(zip(answers.tolist(), scores.tolist(), strict=True))
    if context.as_json:
        print_json_lines({"readout": readout, "score": score} for readout, score in rows)
        return
    from expunge.cli.output import listing

    cells = [
        [str(place), ", ".join(f"{x:.6g}" for x in row), f"{score:+.4g}"] for place, (row, score) in enumerate(rows)
    ]
    context.out.print(listing(["query", "readout", "score"], cells, right=["query", "score"]))


def search(
    context: CommandContext,
    name: MemoryArgument,
    at: AtOption = None,
    like: LikeOption = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="How many entries to list.", min=1)] = 5,
) -> None:
    """List the entries that carry the answer at a query.

    The share is an entry's part in the weighted mean that `read` gives; similarity is the kernel's, from 0 to 1.
    """
    with context.store() as store:
        memory = store[name]
        queries = _queries(memory, at, like)
        if len(queries) != 1:
            raise InputError(f"search takes one query, not {len(queries)}")
        hits = memory.search(queries[0], count)
    if context.as_json:
        print_json_lines(
            {
                "id": hit.id,
                "share": hit.share,
                "similarity": hit.similarity,
                "value": hit.value,
                "subject": hit.subject,
                "payload": hit.payload,
            }
            for hit in hits
        )
        return
    from expunge.cli.output import listing, snippet

    cells = [
        [f"{hit.share:.1%}", f"{hit.similarity:.3f}", hit.id, hit.subject or "", snippet(hit.payload)] for hit in hits
    ]
    columns = ["share", "similarity", "id", "subject", "payload"]
    context.out.print(listing(columns, cells, right=columns[:2]))


def warranties(
    context: CommandContext,
    name: MemoryArgument,
    status: Annotated[str | None, typer.Option("--status", metavar="valid|expired|ended", help="Only those.")] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", help="How many to list; all with --json.", min=1)
    ] = 20,
) -> None:
    """List pruned entries, and how their certificates stand.

    The slack is what an entry had when it was pruned; what remains is proved from a few numbers, without the
    content. Below zero a forgotten entry's certificate is expired; it may be valid again after a later edit. It has
    ended, for good, once an entry is erased that was live when it was pruned. An archived entry is checked from its key
    at every edit, and comes back when it would weigh something.
    """
    if status not in (None, "valid", "expired", "ended"):
        raise InputError(f"--status is valid, expired or ended, not {status!r}")
    with context.store() as store:
        rows = [row for row in store[name].warranties() if status in (None, row.status)]
    rows.sort(key=lambda row: (row.status == "valid", row.remaining or 0.0))
    if context.as_json:
        print_json_lines(vars(row) for row in rows)
        return
    from rich.text import Text

    from expunge.cli.output import counted, listing

    valid = sum(row.status == "valid" for row in rows)
    context.out.print(f"{counted(len(rows), 'pruned entry')}: {valid} valid, {len(rows) - valid} expired or ended")
    cells: list[list[str | Text]] = [
        [
            row.id,
            row.mode,
            Text(row.status, style="green" if row.status == "valid" else "yellow"),
            "" if row.slack is None else f"{row.slack:.3g}",
            "" if row.remaining is None else f"{row.remaining:.3g}",
        ]
        for row in rows[:count]
    ]
    if cells:
        context.out.print(listing(["id", "mode", "status", "slack", "remaining"], cells, right=["slack", "remaining"]))
    if len(rows) > count:
        context.note(f"{len(rows) - count} more: --count {len(rows)}, or --json")


def prove(
    context: CommandContext,
    name: MemoryArgument,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the proof here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Prove which entries weigh nothing, and every other weight, in ball arithmetic.

    Takes the stored keys as exact numbers and proves the partition into margin, bound and reserve, so that a reserve
    weight is exactly zero and not just small, and that every weight and the offset are the doubles nearest to those of
    the exact optimum. Exits with 1 if the proof fails.
    """
    from expunge.cli.output import duration_text, fields, group_sizes

    with context.store() as store, context.progress(f"Proving {name}", None):
        proof = store[name].prove()
    if out is not None:
        write_file(out, proof.to_bytes(), force=force)
    groups = group_sizes(proof)
    proved = proof.outcome == "proved"
    content = {
        "outcome": proof.outcome,
        "reason": proof.reason,
        "bits": proof.bits,
        **groups,
        "seconds": proof.seconds,
        "file": out,
    }
    weights = (
        f"{groups['margin']} between 0 and the cap, {groups['bound']} at the cap, {groups['reserve']} exactly zero"
    )
    context.show(
        content,
        fields(
            [
                ("outcome", proof.outcome if proved else f"{proof.outcome}: {proof.reason}"),
                ("method", proof.method),
                ("weights" if proved else "not proved", weights),
                ("took", duration_text(proof.seconds)),
                *([("file", str(out))] if out else []),
            ]
        ),
    )
    if not proved:
        raise typer.Exit(1)


def _queries(memory: StoredMemory, at: list[str] | None, like: str | None) -> Matrix:
    import numpy as np

    if bool(at) == (like is not None):
        raise InputError("say where to ask: --at VECTOR, or --like ID, and one of them")
    if like is not None:
        if like not in memory.ids:
            raise InputError(f"no live entry has id {like!r}")
        return np.asarray(memory.keys[memory.ids.index(like)])[None, :]
    parts = [parse_vectors(text, "--at") for text in at or []]
    if len({part.shape[1] for part in parts}) > 1:
        raise InputError("--at: the queries differ in their number of coordinates")
    return np.vstack(parts)
