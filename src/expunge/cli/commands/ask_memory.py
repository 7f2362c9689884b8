"""Commands that ask and change nothing: read, search, nearest, warranties, prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext, print_json_lines, write_file
from expunge.cli.options import MemoryArgument
from expunge.cli.vector_arguments import VECTOR_HELP, KeyArguments, parse_keys
from expunge.errors import InputError
from expunge.problem.tolerances import NEARBY

if TYPE_CHECKING:
    from expunge.preprocessing import Preprocessing
    from expunge.store import StoredMemory
    from expunge.types import Matrix

__all__ = ["register"]

PANEL = "Ask"

AtOption = Annotated[list[str] | None, typer.Option("--at", metavar="VECTOR", help=f"Query: {VECTOR_HELP}")]
LikeOption = Annotated[str | None, typer.Option("--like", metavar="ID", help="Use the key of this entry as the query.")]


CountOption = Annotated[int, typer.Option("--count", "-n", metavar="N", help="How many entries to list.", min=1)]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app,
        "read",
        panel=PANEL,
        examples=[
            "expunge read icu-7 --at HR=80,SpO2=97",
            "expunge read vectors --at 0.1,-0.4,0.2,1.1,0.3,-0.2",
            "expunge read vectors --at @queries.npy --json",
            "expunge read icu-7 --like stay-35479615/h016",
        ],
    )(read)
    command(
        app,
        "search",
        panel=PANEL,
        examples=[
            "expunge search notes --at @question.npy",
            "expunge search icu-7 --at HR=80,SpO2=97 -n 10",
            "expunge search notes --like susan/2023-04-27/03 --json",
        ],
    )(search)
    command(
        app,
        "nearest",
        panel=PANEL,
        examples=[
            "expunge nearest icu-7 --at HR=80,SpO2=97",
            "expunge nearest notes --like susan/2023-04-27/03 -n 10",
            "expunge nearest notes --at @question.npy --live --json",
        ],
    )(nearest)
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

    Prints the readout o(q) = Σακv / Σακ at each query, and whether the query is inside the boundary of what the memory
    knows: the distance is that of the gate score to the boundary 1 − 2ρ, positive inside. Where no entry is nearby
    (every similarity is below 0.001) the readout is a mean of values that are all far away, and says little.

    Of a memory with more than 10,000 entries only those that have a weight are loaded and checked; "checked" says so
    with --json. `verify store` checks every entry.
    """
    with context.store() as store:
        memory = store[name]
        queries, filled = _queries(context, memory, at, like)
        answers, judgements, preprocessing, checked = memory.ask(
            lambda active: (active.read(queries).tolist(), active.judge(queries), active.columns, active.checked)
        )
    rows = list(zip(answers, judgements, strict=True))
    if context.as_json:
        print_json_lines(
            {"readout": readout, **_by_name(readout, names, preprocessing), **vars(judgement), "checked": checked}
            for (readout, judgement), names in zip(rows, filled, strict=True)
        )
        return
    from expunge.cli.output import fields, judgement_line, judgement_text, listing, value_lines, value_text

    if len(rows) == 1:
        (readout, judgement), *_ = rows
        context.out.print(
            fields([("query", judgement_line(judgement)), ("readout", value_lines(readout, preprocessing))])
        )
        return
    cells = [
        [str(place), judgement_text(judgement), f"{judgement.distance:+.4g}", value_text(readout, preprocessing)]
        for place, (readout, judgement) in enumerate(rows)
    ]
    columns = ["query", "where", "distance", "readout"]
    context.out.print(listing(columns, cells, right=["query", "distance"], whole=True))


def search(
    context: CommandContext,
    name: MemoryArgument,
    at: AtOption = None,
    like: LikeOption = None,
    count: CountOption = 5,
) -> None:
    """List the entries that carry the answer at a query.

    The share is an entry's part in the weighted mean that `read` gives; similarity is the kernel's, from 0 to 1.
    Entries without weight have no share and are left out, however near they are. `nearest` lists every entry by
    distance instead.
    """
    with context.store() as store:
        memory = store[name]
        query = _one_query(context, memory, at, like)
        hits = memory.search(query, count)
        judgement = memory.judge(query)[0] if hits else None
    if context.as_json:
        print_json_lines({**vars(hit), "nearby": hit.similarity >= NEARBY} for hit in hits)
        return
    if judgement is None:
        context.note(f"{name!r} is empty: there is nothing to find")
        return
    from expunge.cli.output import judgement_line, listing, similarity_text, snippet

    context.out.print(f"query: {judgement_line(judgement)}")
    # Far from everything a share is a ratio of two numbers that are both nil.
    columns = [*(["share"] if judgement.nearby else []), "similarity", "id", "subject", "payload"]
    cells = [
        [f"{hit.share:.1%}", similarity_text(hit.similarity), hit.id, hit.subject or "", snippet(hit.payload)]
        for hit in hits
    ]
    rows = [row[-len(columns) :] for row in cells]
    context.out.print(listing(columns, rows, right=["share", "similarity"]))


def nearest(
    context: CommandContext,
    name: MemoryArgument,
    at: AtOption = None,
    like: LikeOption = None,
    count: CountOption = 5,
    live: Annotated[bool, typer.Option("--live", help="Leave archived entries out.")] = False,
) -> None:
    """List the entries whose keys are nearest to a query.

    Every entry counts, whatever it weighs, and archived ones too; `search` lists those that carry the answer instead.
    The distance is Euclidean, in key coordinates, and equal distances are ordered by id. Certificates speak of `read`
    and `search`, not of this list: an entry whose removal changes no answer still goes from here.
    """
    with context.store() as store:
        memory = store[name]
        found = memory.nearest(_one_query(context, memory, at, like), count, archived=not live)
    if context.as_json:
        print_json_lines(vars(one) for one in found)
        return
    if not found:
        context.note(f"{name!r} is empty: there is nothing to find")
        return
    from expunge.cli.output import listing, similarity_text, snippet

    if found[0].similarity < NEARBY:
        context.out.print("no entry nearby: these are the nearest, and far")
    cells = [
        [
            f"{one.distance:.4g}",
            similarity_text(one.similarity),
            "archived" if one.archived else f"{one.weight:.3g}",
            one.id,
            one.subject or "",
            snippet(one.payload),
        ]
        for one in found
    ]
    columns = ["distance", "similarity", "weight", "id", "subject", "payload"]
    context.out.print(listing(columns, cells, right=columns[:3]))


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
    """Prove every weight, and which are exactly zero, in balls.

    Takes the stored keys as exact numbers and proves the partition into margin, bound and reserve, so that a reserve
    weight is exactly zero and not just small, and that every weight and the offset are the doubles nearest to those of
    the exact optimum. Exits with 1 if the proof fails.
    """
    from expunge.cli.output import duration_text, fields, group_sizes

    with context.store() as store, context.stages(f"Proving {name}") as told:
        proof = store[name].prove(progress=lambda bits, left: told(f"{left} entries at {bits} bits", 0, left))
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


def _queries(
    context: CommandContext,
    memory: StoredMemory,
    at: list[str] | None,
    like: str | None,
) -> KeyArguments:
    if bool(at) == (like is not None):
        raise InputError("say where to ask: --at VECTOR, or --like ID, and one of them")
    if like is not None:
        keys, (_, ids, *_) = memory.version.columns(archived=True)
        if like not in ids:
            raise InputError(f"no entry has id {like!r}, live or archived")
        return KeyArguments(keys[[ids.index(like)]], [[]])
    columns, dimension = memory.ask(lambda active: (active.columns, active.dimension))
    found = parse_keys(at or [], "--at", columns, dimension)
    used = found.note(columns)
    if used is not None:
        context.note(used)
    return found


def _one_query(context: CommandContext, memory: StoredMemory, at: list[str] | None, like: str | None) -> Matrix:
    queries = _queries(context, memory, at, like).keys
    if len(queries) != 1:
        raise InputError(f"one query at a time, not {len(queries)}")
    return queries


def _by_name(readout: list[float], filled: list[str], preprocessing: Preprocessing | None) -> dict[str, Any]:
    """A readout by the names of the value columns, and which key columns were filled; nothing without columns."""
    if preprocessing is None:
        return {}
    names = [column.name for column in preprocessing.values]
    return {"values": dict(zip(names, readout, strict=True)), "filled": filled}
