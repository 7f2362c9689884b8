"""``expunge show``: the store, a memory, an entry."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command
from expunge.cli.context import CommandContext
from expunge.errors import InputError, VerificationError

if TYPE_CHECKING:
    from expunge.certificates.certificate import Certificate
    from expunge.certificates.warranty import Warranty
    from expunge.store import Store, StoredMemory

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(
        app,
        "show",
        panel="Ask",
        examples=[
            "expunge show",
            "expunge show --verifier-key > log.vkey",
            "expunge show icu-7",
            "expunge show icu-7 stay-35479615/h016",
        ],
    )(show)


def show(
    context: CommandContext,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A memory; the whole store without it.")] = None,
    entry: Annotated[str | None, typer.Argument(metavar="ID", help="One of its entries.")] = None,
    verifier_key: Annotated[
        bool,
        typer.Option("--verifier-key", help="Print the key that its log verifies under, and nothing else."),
    ] = False,
) -> None:
    """Show the store, a memory, or an entry.

    A memory's check is made anew, from its keys; a memory that is damaged is named, and ends in 1. An entry's
    certificate says what removing it now would be: no change at all, or a fresh fit of the others at the same cap.
    """
    if verifier_key and name is not None:
        raise InputError("the verifier key is the store's; leave NAME out")
    with context.store() as store:
        if verifier_key:
            key = store.log_key.to_text()
            context.show({"verifier_key": key}, key)
        elif name is None:
            _show_store(context, store)
        elif entry is None:
            _show_memory(context, name, store[name])
        else:
            _show_entry(context, store[name], entry)


def _show_store(context: CommandContext, store: Store) -> None:
    from expunge.cli.output import counted, fields, listing

    rows: list[dict[str, Any]] = []
    damaged: dict[str, str] = {}
    for name in store.names():
        try:
            rows.append(_memory_summary(name, store[name]))
        except VerificationError as problem:
            damaged[name] = str(problem)
    about = {"origin": store.origin, "verifier_key": store.log_key.to_text(), "leaves": store.size}
    columns = ["name", "entries", "pruned", "dimension", "subjects", "deletable"]
    parts = [listing(columns, [[str(row[column]) for column in columns] for row in rows], right=columns[1:])]
    context.show(
        {"store": context.displayed_url, **about, "memories": rows, "damaged": damaged},
        *(parts if rows else []),
        fields(
            [
                ("store", context.displayed_url),
                ("ledger", f"{counted(store.size, 'leaf', 'leaves')} of {about['origin']}"),
                ("verifies under", f"{about['verifier_key']}"),
                *(("DAMAGED", f"{name}: {what}") for name, what in damaged.items()),
            ]
        ),
    )
    if damaged:
        raise typer.Exit(1)
    if not rows:
        context.note("No memory yet: expunge create NAME FILE --sigma S --nu N")


def _memory_summary(name: str, memory: StoredMemory) -> dict[str, Any]:
    """One memory among others."""
    return {
        "name": name,
        "entries": len(memory),
        "pruned": len(memory.warranties()),
        "dimension": memory.dimension,
        "subjects": len(set(memory.subjects) - {None}),
        "deletable": memory.deletable,
    }


def _show_memory(context: CommandContext, name: str, memory: StoredMemory) -> None:
    from expunge.cli.output import fields, group_sizes

    check, groups = memory.check(), group_sizes(memory.partition)
    pruned = memory.warranties()
    valid = sum(row.status == "valid" for row in pruned)
    content: dict[str, Any] = {
        "name": name,
        "entries": len(memory),
        **groups,
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
    sizes = ", ".join(f"{count} {group}" for group, count in groups.items())
    verdict = "passed" if check.passed else "FAILED"
    context.show(
        content,
        fields(
            [
                ("memory", name),
                ("entries", f"{len(memory)} of {content['subjects']} subjects: {sizes}"),
                ("pruned", f"{len(pruned)}, {valid} under a valid warranty" if pruned else "none"),
                ("shape", f"keys of {memory.dimension} coordinates, values of {content['value_dimension']}"),
                ("cap, width", f"{memory.cap:.6g}, {memory.sigma:g}"),
                ("deletable", f"{memory.deletable} more at this cap"),
                ("check", f"{verdict}: worst error {check.worst:.0e}, allowed {check.tolerance:.0e}; made now"),
                ("state", memory.digest),
            ]
        ),
    )
    if not check.passed:
        raise typer.Exit(1)


def _show_entry(context: CommandContext, memory: StoredMemory, entry: str) -> None:
    from expunge.cli.output import fields, snippet

    pruned = next((row for row in memory.warranties() if row.id == entry), None)
    if pruned is not None:
        context.show({"pruned": True, **vars(pruned)}, fields(_warranty_fields(pruned)))
        return
    certificate = memory.certificate(entry)
    row = memory.ids.index(entry)
    weight, subject = float(memory.coefficients[row]), memory.subjects[row]
    group = next(name for name in ("margin", "bound", "reserve") if row in getattr(memory.partition, name))
    content = {
        "id": entry,
        "pruned": False,
        "subject": subject,
        "coefficient": weight,
        "group": group,
        "key": memory.keys[row],
        "value": memory.values[row],
        "payload": memory.payload(entry),
        "certificate": asdict(certificate),
    }
    context.show(
        content,
        fields(
            [
                ("entry", entry),
                ("subject", subject or "none"),
                ("weight", f"{weight:.6g} of at most {memory.cap:.6g}: {group}"),
                ("certificate", _certificate_text(certificate)),
                ("value", ", ".join(f"{x:.6g}" for x in memory.values[row])),
                ("payload", snippet(content["payload"], 2000) or "none"),
            ]
        ),
    )


def _warranty_fields(row: Warranty) -> list[tuple[str, str]]:
    return [
        ("entry", row.id),
        ("pruned", row.mode),
        ("warranty", row.status),
        (
            "slack",
            "erased" if row.slack is None else f"{row.slack:.4g} when pruned, {row.remaining:.4g} proved to remain",
        ),
    ]


def _certificate_text(certificate: Certificate) -> str:
    from expunge.certificates.certificate import ReserveCertificate

    if isinstance(certificate, ReserveCertificate):
        proved = "proved" if certificate.proved else "not proved"
        return f"removing it changes no readout (slack {certificate.slack:.4g}, {proved})"
    firmness = f"smallest eigenvalue {certificate.smallest_eigenvalue:.3g}, {certificate.duplicates} equal keys"
    return f"removing it gives a fresh fit of the others at the same cap ({firmness})"
