"""Commands that ask and change nothing: read, search, show, warranties, prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command import command
from expunge.cli.session import Session, write_file
from expunge.cli.vectors import VECTOR_HELP, parse_vectors
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.store import StoredMemory
    from expunge.types import Matrix

__all__ = ["add"]

PANEL = "Ask"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The memory.")]
At = Annotated[
    list[str] | None, typer.Option("--at", metavar="VECTOR", help=f"Query: {VECTOR_HELP}", show_default=False)
]
Like = Annotated[
    str | None, typer.Option("--like", metavar="ID", help="Use the key of this entry as the query.", show_default=False)
]


def add(app: typer.Typer) -> None:
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
        "show",
        panel=PANEL,
        examples=["expunge show", "expunge show icu-7", "expunge show icu-7 stay-35479615/h016", "expunge show --json"],
    )(show)
    command(
        app,
        "warranties",
        panel=PANEL,
        examples=["expunge warranties icu-7", "expunge warranties icu-7 --status expired", "expunge warranties icu-7 --json"],
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


def read(session: Session, name: Name, at: At = None, like: Like = None) -> None:
    """Read a memory: the weighted mean of its values near a query.

    Prints the readout o(q) = Σακv / Σακ at each query, and the gate score, which is positive where the memory knows
    its way about and negative where it does not.
    """
    with session.store() as store:
        memory = store[name]
        queries = _queries(memory, at, like)
        answers, scores = memory.read(queries), memory.score(queries)
    rows = [{"readout": answer, "score": float(score)} for answer, score in zip(answers, scores, strict=True)]
    if session.as_json:
        session.lines(rows)
        return
    from expunge.cli.render import listing

    cells = [[str(place), ", ".join(f"{x:.6g}" for x in row["readout"]), f"{row['score']:+.4g}"] for place, row in enumerate(rows)]
    session.out.print(listing(["query", "readout", "score"], cells, right=["query", "score"]))


def search(
    session: Session,
    name: Name,
    at: At = None,
    like: Like = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="How many entries to list.", min=1)] = 5,
) -> None:
    """List the entries that carry the answer at a query, by their share of it."""
    with session.store() as store:
        memory = store[name]
        queries = _queries(memory, at, like)
        if len(queries) != 1:
            raise InputError(f"search takes one query, not {len(queries)}")
        hits = memory.search(queries[0], count)
    if session.as_json:
        session.lines(
            {"id": hit.id, "share": hit.share, "similarity": hit.similarity, "value": hit.value, "subject": hit.subject, "payload": hit.payload}
            for hit in hits
        )
        return
    from expunge.cli.render import listing, snippet

    cells = [[f"{hit.share:.1%}", f"{hit.similarity:.3f}", hit.id, hit.subject or "", snippet(hit.payload)] for hit in hits]
    columns = ["share", "similarity", "id", "subject", "payload"]
    session.out.print(listing(columns, cells, right=columns[:2]))


def show(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The memory; every memory without it.", show_default=False)] = None,
    entry: Annotated[str | None, typer.Argument(metavar="[ID]", help="One of its entries.", show_default=False)] = None,
) -> None:
    """Show the store, a memory, or one entry with its certificate.

    A memory's check is made anew, from its keys. An entry's certificate says what removing it now would be: no
    change at all, or a fresh fit of the others at the same cap.
    """
    with session.store() as store:
        if name is None:
            _show_store(session, store)
        elif entry is None:
            _show_memory(session, name, store[name])
        else:
            _show_entry(session, store[name], entry)


def warranties(
    session: Session,
    name: Name,
    status: Annotated[
        str | None, typer.Option("--status", metavar="valid|expired", help="Only those.", show_default=False)
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="How many to list; all with --json.", min=1)] = 20,
) -> None:
    """List pruned entries, and how long their certificates still hold.

    The slack is what an entry had when it was pruned; what remains is proved from a few numbers, without the
    content. At zero the certificate expires, or an archived entry is checked again and comes back if it must.
    """
    if status not in (None, "valid", "expired"):
        raise InputError(f"--status is valid or expired, not {status!r}")
    with session.store() as store:
        rows = [row for row in store[name].warranties() if status in (None, row.status)]
    rows.sort(key=lambda row: (row.status == "valid", row.remaining))
    if session.as_json:
        session.lines(vars(row) for row in rows)
        return
    from rich.text import Text

    from expunge.cli.render import listing

    valid = sum(row.status == "valid" for row in rows)
    session.out.print(f"{len(rows)} pruned entries: {valid} valid, {len(rows) - valid} expired")
    cells = [
        [
            row.id,
            row.mode,
            Text(row.status, style="green" if row.status == "valid" else "yellow"),
            f"{row.slack:.3g}",
            f"{row.remaining:.3g}",
            "" if row.expired_at is None else f"edit {row.expired_at}",
        ]
        for row in rows[:count]
    ]
    if cells:
        session.out.print(listing(["id", "mode", "status", "slack", "remaining", "ended by"], cells, right=["slack", "remaining"]))
    if len(rows) > count:
        session.note(f"{len(rows) - count} more: --count {len(rows)}, or --json")


def prove(
    session: Session,
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the proof here.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.", show_default=False)] = False,
) -> None:
    """Prove which entries weigh nothing, in ball arithmetic.

    Takes the stored keys as exact numbers and proves the partition into margin, bound and reserve, so that a reserve
    weight is exactly zero and not just small. Exits with 1 if the proof fails.
    """
    with session.store() as store, session.progress(f"Proving {name}", None):
        proof = store[name].prove()
    if out is not None:
        write_file(out, proof.to_bytes(), force=force)
    groups = {"margin": int(proof.margin.size), "bound": int(proof.bound.size), "reserve": int(proof.reserve.size)}
    proved = proof.outcome == "proved"
    content = {"outcome": proof.outcome, "reason": proof.reason, "bits": proof.bits, **groups, "seconds": proof.seconds, "file": out}
    from expunge.cli.render import fields, seconds

    session.show(
        content,
        fields(
            [
                ("outcome", proof.outcome if proved else f"{proof.outcome}: {proof.reason}"),
                ("method", proof.method),
                ("weights", f"{groups['margin']} strictly between 0 and the cap, {groups['bound']} at the cap, {groups['reserve']} exactly zero"),
                ("took", seconds(proof.seconds)),
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


def _show_store(session: Session, store: Any) -> None:
    rows = []
    for name in store.names():
        memory = store[name]
        rows.append({"name": name, "entries": len(memory), "pruned": len(memory.warranties()), "dimension": memory.dimension, "subjects": len(set(memory.subjects) - {None}), "deletable": memory.deletable})
    if session.as_json:
        session.lines(rows)
        return
    from expunge.cli.render import listing

    if not rows:
        session.note(f"{session.url} holds no memory yet: expunge create NAME FILE --sigma S --nu N")
        return
    columns = list(rows[0])
    session.out.print(listing(columns, [[str(row[column]) for column in columns] for row in rows], right=columns[1:]))


def _show_memory(session: Session, name: str, memory: StoredMemory) -> None:
    check, groups = memory.check(), memory.partition
    pruned = memory.warranties()
    valid = sum(row.status == "valid" for row in pruned)
    content = {
        "name": name,
        "entries": len(memory),
        "margin": int(groups.margin.size),
        "bound": int(groups.bound.size),
        "reserve": int(groups.reserve.size),
        "pruned": len(pruned),
        "warranties_valid": valid,
        "dimension": memory.dimension,
        "value_dimension": int(memory.values.shape[1]),
        "subjects": len(set(memory.subjects) - {None}),
        "cap": memory.cap,
        "sigma": memory.sigma,
        "offset": memory.offset,
        "deletable": memory.deletable,
        "digest": memory.digest,
        "check": {"mass": check.mass, "box": check.box, "stationarity": check.stationarity, "passed": check.passed},
    }
    from expunge.cli.render import fields

    session.show(
        content,
        fields(
            [
                ("memory", name),
                ("entries", f"{len(memory)} of {content['subjects']} subjects: {content['margin']} margin, {content['bound']} bound, {content['reserve']} reserve"),
                ("pruned", f"{len(pruned)}, {valid} under a valid warranty" if pruned else "none"),
                ("shape", f"keys of {memory.dimension} coordinates, values of {content['value_dimension']}"),
                ("cap, width", f"{memory.cap:.6g}, {memory.sigma:g}"),
                ("deletable", f"{memory.deletable} more entries at this cap"),
                ("check", f"{'passed' if check.passed else 'FAILED'}, worst error {check.worst:.1e} (allowed {check.tolerance:.0e}), made now from the keys"),
                ("state", memory.digest),
            ]
        ),
    )
    if not check.passed:
        raise typer.Exit(1)


def _show_entry(session: Session, memory: StoredMemory, entry: str) -> None:
    from dataclasses import asdict

    from expunge.certificate import ReserveCertificate
    from expunge.cli.render import fields, snippet

    pruned = next((row for row in memory.warranties() if row.id == entry), None)
    if pruned is not None:
        session.show(
            {"id": entry, "pruned": True, **vars(pruned)},
            fields(
                [
                    ("entry", entry),
                    ("pruned", f"{pruned.mode}, in edit {pruned.issued_at}"),
                    ("warranty", pruned.status + ("" if pruned.expired_at is None else f" since edit {pruned.expired_at}")),
                    ("slack", f"{pruned.slack:.4g} when pruned, {pruned.remaining:.4g} proved to remain"),
                ]
            ),
        )
        return
    certificate = memory.certificate(entry)
    row = memory.ids.index(entry)
    weight = float(memory.coefficients[row])
    where = "reserve" if weight == 0.0 else "bound" if weight >= memory.cap else "margin"
    content = {"id": entry, "pruned": False, "subject": memory.subjects[row], "coefficient": weight, "group": where, "key": memory.keys[row], "value": memory.values[row], "payload": memory.payload(entry), "certificate": asdict(certificate)}
    if isinstance(certificate, ReserveCertificate):
        says = f"removing it changes no readout (slack {certificate.slack:.4g}, {'proved' if certificate.proved else 'not proved'})"
    else:
        says = f"removing it gives a fresh fit of the others at the same cap ({certificate.duplicates} equal keys, smallest eigenvalue {certificate.smallest_eigenvalue:.3g})"
    session.show(
        content,
        fields(
            [
                ("entry", entry),
                ("subject", memory.subjects[row] or "none"),
                ("weight", f"{weight:.6g} of at most {memory.cap:.6g}: {where}"),
                ("certificate", says),
                ("value", ", ".join(f"{x:.6g}" for x in memory.values[row])),
                ("payload", snippet(content["payload"], 2000) or "none"),
            ]
        ),
    )
