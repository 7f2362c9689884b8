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
    from expunge.store import StateSummary, Store, StoredMemory
    from expunge.store.mirroring.attached_mirror import AttachedMirror

__all__ = ["register"]

# Entries up to which a memory is loaded and checked without being asked to: a second or two.
LOADED = 10_000
EMPTY = "none: the memory is empty (expunge admit, or import, puts entries in)"


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
            "expunge show icu-7 --check",
            "expunge show icu-7 stay-35479615/h016",
        ],
    )(show)


def show(
    context: CommandContext,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A memory; the whole store without it.")] = None,
    entry: Annotated[str | None, typer.Argument(metavar="ID", help="One of its entries.")] = None,
    verifier_key: Annotated[
        bool,
        typer.Option("--verifier-key", help="Print what to give to --trust, and nothing else."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Load and check every entry, however many there are.")] = False,
) -> None:
    """Show the store, a memory, or an entry.

    Of a store with up to 10,000 entries every entry is opened and every digest recomputed; a memory of that size is
    loaded, and its weights are checked anew from the keys. Beyond that, and for the weights of every memory, there is
    --check; without it sizes and digest are those of the stored state, and no entry is opened. A memory that is damaged
    is named, and ends in 1. An entry's certificate says what removing it now would be: no change at all, or a fresh fit
    of the others at the same cap.
    """
    if verifier_key and name is not None:
        raise InputError("the verifier key is the store's; leave NAME out")
    with context.store() as store:
        if verifier_key:
            _show_verifier_key(context, store)
        elif name is None:
            _show_store(context, store, check)
        elif entry is None:
            _show_memory(context, name, store[name], check)
        else:
            _show_entry(context, store, store[name], entry)


def _show_verifier_key(context: CommandContext, store: Store) -> None:
    """The key that its log verifies under, and in PEM the one of its receipts, where that is another."""
    key = store.log_key.to_text()
    pem = "" if store.public_key == store.head_key else store.public_key.to_pem().decode()
    context.show({"verifier_key": key, "public_key": pem or None}, "\n".join([key, *pem.splitlines()]))


def _show_store(context: CommandContext, store: Store, check: bool) -> None:
    from expunge.cli.output import counted, fields, listing

    rows: list[dict[str, Any]] = []
    damaged: dict[str, str] = {}
    sizes = {summary.name: summary.size for summary in store.memories()}
    opened = check or sum(sizes.values()) <= LOADED
    for name in sorted(sizes):
        try:
            memory = store[name]
            rows.append(_whole_summary(name, memory) if check else _brief_summary(name, memory.summary(entries=opened)))
        except VerificationError as problem:
            damaged[name] = str(problem)
    about = {"origin": store.origin, "verifier_key": store.log_key.to_text(), "leaves": store.size}
    mirrors = store.mirrors()
    columns = ["name", "entries", "pruned", "dimension", *(["subjects"] if opened else []), "deletable"]
    parts = [listing(columns, [[str(row[column]) for column in columns] for row in rows], right=columns[1:])]
    context.show(
        {"store": context.displayed_url, **about, "memories": rows, "damaged": damaged}
        | {"mirrors": [mirror.to_json() for mirror in mirrors]},
        *(parts if rows else []),
        fields(
            [
                ("store", context.displayed_url),
                ("ledger", f"{counted(store.size, 'leaf', 'leaves')} of {about['origin']}"),
                ("verifies under", f"{about['verifier_key']}"),
                (
                    "checked",
                    "each entry and the digests; the weights, too, with --check" if opened and not check else "",
                ),
                *(("mirror", _mirror_text(mirror)) for mirror in mirrors),
                *(("DAMAGED", f"{name}: {what}") for name, what in damaged.items()),
            ]
        ),
    )
    if damaged:
        raise typer.Exit(1)
    if rows and not opened:
        context.note("Read from the stored states; no entry was loaded or checked. --check does both.")
    if not rows:
        context.note("No memory yet: expunge create NAME FILE")


def _mirror_text(mirror: AttachedMirror) -> str:
    """A mirror, and what it does not have yet."""
    from expunge.cli.output import counted

    owed = [f"{counted(mirror.erasures, 'erasure')} PENDING"] if mirror.erasures else []
    owed += [f"{counted(mirror.writes, 'edit')} to be written"] if mirror.writes else []
    owed += [f"did not answer {counted(mirror.failures, 'time')}"] if mirror.failures else []
    return f"{mirror.leaf}: {mirror.url}, " + (", ".join(owed) or "in step")


def _whole_summary(name: str, memory: StoredMemory) -> dict[str, Any]:
    """One memory among others."""
    return {
        "name": name,
        "entries": len(memory),
        "pruned": len(memory.warranties()),
        "dimension": memory.dimension,
        "subjects": len(set(memory.subjects) - {None}),
        "deletable": memory.deletable,
        "checked": "all entries",
    }


def _brief_summary(name: str, found: StateSummary) -> dict[str, Any]:
    """Likewise, from the stored state; subjects are encrypted with the entries, and known where these were opened."""
    return {
        "name": name,
        "entries": found.entries,
        "pruned": found.archived + found.forgotten,
        "dimension": found.dimension,
        "subjects": found.subjects,
        "deletable": found.deletable,
        "checked": found.checked,
    }


def _show_state(context: CommandContext, name: str, found: StateSummary) -> None:
    """A memory from its stored state alone."""
    from expunge.cli.output import column_listing, fields

    groups = {"margin": found.margin, "bound": found.bound, "reserve": found.reserve}
    content = {
        **_brief_summary(name, found),
        **groups,
        "warranties_valid": None,
        "fit": None,
        "value_dimension": found.value_dimension,
        "cap": found.cap,
        "sigma": found.sigma,
        "offset": found.offset,
        "boundary": 1.0 - 2.0 * found.offset,
        "preprocessing": None if found.preprocessing is None else found.preprocessing.to_json(),
        "ending": None,
        "first_end": None,
        "due": None,
        "digest": found.digest,
        "check": None,
    }
    sizes = ", ".join(f"{count} {group}" for group, count in groups.items())
    pruned = f"{found.archived} archived, {found.forgotten} forgotten" if found.archived + found.forgotten else "none"
    context.show(
        content,
        fields(
            [
                ("memory", name),
                ("entries", f"{found.entries}: {sizes}"),
                ("pruned", pruned),
                ("shape", f"keys of {found.dimension} coordinates, values of {found.value_dimension}"),
                ("cap, width", f"{found.cap:.6g}, {found.sigma:g}"),
                ("deletable", f"{found.deletable} more before the cap changes"),
                ("check", f"of the stored state alone; with more than {LOADED} entries --check loads and checks them"),
                ("state", found.digest),
            ]
        ),
        *([] if found.preprocessing is None else [column_listing(found.preprocessing)]),
    )


def _show_memory(context: CommandContext, name: str, memory: StoredMemory, whole: bool) -> None:
    from expunge.cli.output import column_listing, counted, fields, group_sizes

    if not whole and (found := memory.summary()).entries > LOADED:
        _show_state(context, name, found)
        return

    check, groups, report = memory.check(), group_sizes(memory.partition), memory.report()
    pruned, columns = memory.warranties(), memory.preprocessing
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
        "boundary": memory.boundary,
        "deletable": memory.deletable,
        "fit": report.to_json(),
        "preprocessing": None if columns is None else columns.to_json(),
        **_ends(memory),
        "digest": memory.digest,
        "checked": "all entries",
        "check": {
            "mass": check.mass,
            "box": check.box,
            "stationarity": check.stationarity,
            "passed": check.passed,
            "faults": list(check.faults),
        },
    }
    sizes = ", ".join(f"{count} {group}" for group, count in groups.items())
    verdict = "passed" if check.passed else "FAILED"
    owners = f" of {counted(content['subjects'], 'subject')}" if content["subjects"] else ""
    context.show(
        content,
        fields(
            [
                ("memory", name),
                ("entries", f"{len(memory)}{owners}: {sizes}" if len(memory) else EMPTY),
                ("pruned", f"{len(pruned)}, {valid} under a valid warranty" if pruned else "none"),
                ("shape", f"keys of {memory.dimension} coordinates, values of {content['value_dimension']}"),
                ("cap, width", f"{memory.cap:.6g}, {memory.sigma:g}"),
                ("ends", _ends_text(content)),
                ("fit", "\n".join(report.lines()) if len(memory) else ""),
                ("check", f"{verdict}: worst error {check.worst:.0e}, allowed {check.tolerance:.0e}; made now"),
                ("state", memory.digest),
            ]
        ),
        *([] if columns is None else [column_listing(columns)]),
    )
    if not check.passed:
        raise typer.Exit(1)


def _show_entry(context: CommandContext, store: Store, memory: StoredMemory, entry: str) -> None:
    from expunge.cli.output import fields, judgement_line, snippet, value_text

    pruned = next((row for row in memory.warranties() if row.id == entry), None)
    if pruned is not None:
        stated = _attributes(store, memory, entry) if pruned.mode == "archive" else {}
        ends = [("ends", stated["expires"] or ""), ("made from", ", ".join(stated["derived_from"]))] if stated else []
        context.show({"pruned": True, **vars(pruned), **stated}, fields([*_warranty_fields(pruned), *ends]))
        return
    certificate = memory.certificate(entry)
    row = memory.ids.index(entry)
    weight, subject = float(memory.coefficients[row]), memory.subjects[row]
    group = next(name for name in ("margin", "bound", "reserve") if row in getattr(memory.partition, name))
    judgement = memory.judge(memory.keys[row])[0]
    content = {
        "id": entry,
        "pruned": False,
        "subject": subject,
        "coefficient": weight,
        "group": group,
        **vars(judgement),
        "key": memory.keys[row],
        "value": memory.values[row],
        "payload": memory.payload(entry),
        **_attributes(store, memory, entry),
        "certificate": asdict(certificate),
    }
    context.show(
        content,
        fields(
            [
                ("entry", entry),
                ("subject", subject or "none"),
                ("weight", f"{weight:.6g} of at most {memory.cap:.6g}: {group}"),
                ("where", judgement_line(judgement)),
                ("ends", content["expires"] or ""),
                ("made from", ", ".join(content["derived_from"])),
                ("certificate", _certificate_text(certificate)),
                ("value", value_text(memory.values[row].tolist(), memory.preprocessing)),
                ("payload", snippet(content["payload"], 2000) or "none"),
            ]
        ),
    )


def _ends(memory: StoredMemory) -> dict[str, Any]:
    """How many entries end, the first end, and how many have ended and wait for a sweep."""
    ends = memory.look(lambda version: [end for _, end in version.ends])
    first = min(ends).isoformat().replace("+00:00", "Z") if ends else None
    return {"ending": len(ends), "first_end": first, "due": len(memory.due())}


def _ends_text(content: dict[str, Any]) -> str:
    from expunge.cli.output import counted

    if not content["ending"]:
        return ""
    due = f"; {counted(content['due'], 'entry')} for expunge retain" if content["due"] else ""
    return f"{counted(content['ending'], 'entry')}, the first at {content['first_end']}{due}"


def _attributes(store: Store, memory: StoredMemory, entry: str) -> dict[str, Any]:
    """When an entry ends, and what it was made from; other memories by their names."""
    stated = memory.attributes(entry)
    sources = [
        source if isinstance(source, str) else f"{source[1]} of {store.name_of(source[0]) or source[0]}"
        for source in stated.derived_from
    ]
    ends = None if stated.expires is None else stated.expires.isoformat().replace("+00:00", "Z")
    return {"expires": ends, "derived_from": sources}


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
