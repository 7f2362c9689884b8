"""``expunge mirror`` and ``expunge scan``: copies in other systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expunge.cli.command_definition import command, group
from expunge.cli.context import CommandContext, print_json_lines
from expunge.cli.options import ActorOption, CaseOption
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.mirrors.scan import Scan
    from expunge.store.mirroring.attached_mirror import AttachedMirror
    from expunge.store.mirroring.mirror_pass import MirrorPass

__all__ = ["register"]

_MOST_LIKE = 4 << 20
_SHOWN = 10

MirrorArgument = Annotated[
    int, typer.Argument(metavar="MIRROR", help="Its number: the leaf that added it (see: expunge mirror list).", min=0)
]
AddressArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="chroma:///folder#collection, postgresql://host/db#pgvector:table, lancedb:///folder#table, "
        "qdrant:///folder",
    ),
]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    mirrors = group(
        "mirror",
        summary="Keep copies in other systems, and erase there, too.",
        examples=[
            "expunge mirror add chroma:///srv/chroma#notes \\\n--memory notes",
            "expunge mirror list",
            "expunge mirror sync",
            "expunge mirror check 17",
            "expunge mirror remove 17",
        ],
    )
    command(
        mirrors,
        "add",
        examples=[
            "expunge mirror add chroma:///srv/chroma#notes \\\n--memory notes",
            "expunge mirror add 'postgresql://db/app#pgvector:notes' \\\n--text body",
        ],
    )(add)
    command(mirrors, "list", examples=["expunge mirror list", "expunge mirror list --json"])(list_mirrors)
    command(mirrors, "sync", examples=["expunge mirror sync", "expunge mirror sync 17"])(sync)
    command(mirrors, "check", examples=["expunge mirror check 17", "expunge mirror check 17 --delete"])(check)
    command(mirrors, "remove", examples=["expunge mirror remove 17"])(remove)
    app.add_typer(mirrors, rich_help_panel="Keep")
    command(
        app,
        "scan",
        panel="Ask",
        examples=[
            "expunge scan chroma:///srv/chroma#notes \\\n--subject ann@example.org",
            "expunge scan lancedb:///srv/lance#docs --like notes.txt",
        ],
    )(scan)


def add(
    context: CommandContext,
    url: AddressArgument,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="NAME", help="Copy this memory alone; else all of them.")
    ] = None,
    vector: Annotated[str, typer.Option("--vector", metavar="key|value", help="What the vector is.")] = "key",
    text: Annotated[
        str | None, typer.Option("--text", metavar="FIELD", help="Field of the payload that is the text.")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="FIELD", help="Copy this field as metadata. Repeat for several; else all."),
    ] = None,
    subject: Annotated[
        str, typer.Option("--subject-field", metavar="FIELD", help="Where the subject goes; empty: nowhere.")
    ] = "subject",
    case: CaseOption = None,
    actor: ActorOption = None,
) -> None:
    """Keep a copy in another system.

    What is in the store is written there, and what is admitted and erased from now on follows. An edit never waits for
    the other system: what that does not take is tried again by later edits, by sync, and by the service. After each
    erasure its files are searched, and the ledger says what was found. The URL is kept in the store; a password in it
    is refused: leave it to the environment (PGPASSWORD, PGPASSFILE).
    """
    given: dict[str, Any] = {"vector": vector, "text": text, "subject": subject}
    given |= {} if field is None else {"metadata": field}
    with context.store() as store:
        mirror = store.mirror(url, memory=memory, map=given, case=case, actor=actor)
    _show_mirror(context, mirror, f"{mirror.url} is mirror {mirror.leaf}")


def list_mirrors(context: CommandContext) -> None:
    """List the mirrors, and what is still owed to each.

    Pending erasures are those that a mirror has not followed yet: copies of erased entries may still be there.
    """
    with context.store() as store:
        mirrors = store.mirrors()
    if context.as_json:
        print_json_lines([mirror.to_json() for mirror in mirrors])
        return
    from expunge.cli.output import listing

    if not mirrors:
        context.note("No mirror yet: expunge mirror add URL")
        return
    columns = ("mirror", "url", "memory", "to write", "to erase", "failures")
    rows = [
        (str(one.leaf), one.url, _memory_of(one), str(one.writes), str(one.erasures), str(one.failures))
        for one in mirrors
    ]
    context.out.print(listing(columns, rows, right=("mirror", "to write", "to erase", "failures")))


def sync(
    context: CommandContext,
    mirror: Annotated[
        int | None, typer.Argument(metavar="MIRROR", help="Its number (see: expunge mirror list); else all.", min=0)
    ] = None,
) -> None:
    """Do now what is owed to mirrors.

    One mirror, or all. What was put off because a system did not answer is tried at once. The command ends in 4 where
    something is still owed.
    """
    with context.store() as store:
        passes = store.sync_mirrors(mirror)
    if context.as_json:
        print_json_lines([done.to_json() for done in passes])
    else:
        for done in passes:
            context.show(done.to_json(), *_pass_lines(done))
        if not passes:
            context.note("Nothing is owed to a mirror.")
    if not all(done.complete for done in passes):
        raise typer.Exit(4)


def check(
    context: CommandContext,
    mirror: MirrorArgument,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete copies of entries that were erased in the store.")
    ] = False,
) -> None:
    """Compare a mirror with the store.

    Every copy is looked at. Copies of entries that were erased here are stale: somebody has restored the other system,
    or the store. Ends in 1 where copies are missing or stale. Nothing is changed without --delete.
    """
    from expunge.cli.output import counted, fields

    with context.store() as store:
        found = store.check_mirror(mirror, delete=delete)
    deleted = f", {found.deleted} of them deleted now" if found.deleted else ""
    context.show(
        found.to_json(),
        f"mirror {found.mirror}: " + ("agrees with the store" if found.agrees else "differs from the store"),
        fields(
            [
                ("entries", str(found.entries)),
                ("copies", str(found.copies)),
                ("missing", _ids(found.missing)),
                ("stale", f"{_ids(found.stale)}{deleted}" if found.stale else ""),
                ("of others", str(found.foreign or "")),
                ("pending", counted(found.pending, "edit") if found.pending else ""),
            ]
        ),
    )
    if not found.agrees:
        raise typer.Exit(1)


def remove(context: CommandContext, mirror: MirrorArgument, case: CaseOption = None, actor: ActorOption = None) -> None:
    """Stop keeping a mirror in step.

    What is there stays there, erasures that it has not followed included; the ledger says how many. Nobody deletes
    these copies any more.
    """
    with context.store() as store:
        known = next((one for one in store.mirrors() if one.leaf == mirror), None)
        leaf = store.remove_mirror(mirror, case=case, actor=actor)
    given_up = 0 if known is None else known.erasures
    context.show(
        {"mirror": mirror, "index": leaf.index, "erasures_given_up": given_up},
        f"{mirror} is no mirror any more (leaf {leaf.index})",
    )
    if given_up:
        context.note(f"{given_up} erasures have not reached it, and will not: delete the copies there by hand.")


def scan(
    context: CommandContext,
    url: AddressArgument,
    subject: Annotated[str | None, typer.Option("--subject", metavar="NAME", help="Whose entries to look for.")] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like", metavar="FILE", help="Texts, lists of numbers, or objects with text, vector, id; one per line."
        ),
    ] = None,
) -> None:
    """Search another system for what is left of somebody.

    No store is needed, and nothing is changed there: a folder is copied before it is opened. Searched are the entries
    with the subject in metadata, text or id; those most like what FILE gives; and the raw bytes of the files, where
    what was deleted often still is. Ends in 1 where something is found. SQLite files are sqlite:///file.
    """
    from expunge.mirrors.scan import parse_like
    from expunge.mirrors.scan import scan as search

    given = parse_like(_read_like(like)) if like is not None else []
    found = search(url, subject=subject, like=given)
    context.show(found.to_json(), *_scan_lines(found))
    if found.too_short:
        context.note("The name is shorter than 8 bytes: it was not searched for in the raw bytes of the files.")
    if found.found:
        raise typer.Exit(1)


def _scan_lines(found: Scan) -> list[Any]:
    from expunge.cli.output import counted, fields

    alike = [f"{one.id} ({one.by} {one.similarity:.2f})" for one in found.alike]
    files = "could not be reached from here" if found.searched is None else "nothing"
    if found.in_files:
        parts = ", ".join(f"{count} of {what}" for what, count in sorted(found.in_files.items()))
        files = f"{parts}, in {counted(len(found.where), 'file')}: {', '.join(sorted(found.where)[:3])}"
    headline = "FOUND" if found.found else "nothing was found"
    return [
        f"{headline}: {found.system}, {counted(found.entries, 'entry')}"
        + ("" if found.searched is None else f", {counted(found.searched, 'file')} searched"),
        fields(
            [
                ("of the subject", _ids(found.of_subject) or "no entry"),
                ("alike", _ids(tuple(alike)) or "no entry"),
                ("pieces in files", files),
            ]
        ),
    ]


def _read_like(path: Path) -> str:
    from expunge.cli.context import read_file

    try:
        return read_file(path, limit=_MOST_LIKE).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text in UTF-8") from None


def _show_mirror(context: CommandContext, mirror: AttachedMirror, headline: str) -> None:
    from expunge.cli.output import counted, fields

    context.show(
        mirror.to_json(),
        headline,
        fields(
            [
                ("copies of", _memory_of(mirror)),
                ("still to be done", counted(mirror.pending, "edit") if mirror.pending else ""),
            ]
        ),
    )
    if mirror.pending:
        context.note("It did not take everything: expunge mirror sync says why, and tries again.")


def _pass_lines(done: MirrorPass) -> list[str]:
    """What one pass did, for people."""
    from expunge.cli.output import counted

    found = ", ".join(f"{done.found[word]} {text}" for word, text in _FOUND_TEXT.items() if done.found[word])
    lines = [f"mirror {done.mirror}: {counted(done.written, 'copy', 'copies')} written"]
    lines += [f"  of erased entries: {found} (leaf {done.leaf})"] if found else []
    lines += [f"  still there: {done.still_there}"] if done.still_there else []
    lines += ["  another process is at work on it"] if done.waits else []
    lines += [f"  {done.problem}"] if done.problem else []
    return [*lines, *([f"  {counted(done.pending, 'edit')} still owed"] if done.pending else [])]


_FOUND_TEXT = {
    "absent": "absent",
    "in_files": "deleted, with bytes still in the files",
    "not_checkable": "deleted, and not checkable",
}


def _memory_of(mirror: AttachedMirror) -> str:
    return "all memories" if mirror.uuid is None else mirror.memory or f"{mirror.uuid} (dropped)"


def _ids(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
