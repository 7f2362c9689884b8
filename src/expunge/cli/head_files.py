"""Signed heads in files: a checkpoint by itself, or the newer one of an extension proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.ledger.checkpoint import Checkpoint
    from expunge.ledger.note import SignedNote
    from expunge.verify.timestamp import Timestamp

__all__ = ["head_content", "kept_head", "parse_head", "require_extension", "stamp_content", "stamp_line"]


def parse_head(data: bytes) -> tuple[Checkpoint, SignedNote]:
    """The head in a checkpoint or in an extension proof; not verified."""
    from expunge.ledger.checkpoint import parse_checkpoint
    from expunge.ledger.merkle.proof_file import parse_extension_proof
    from expunge.ledger.note import parse_note

    note = parse_extension_proof(data).checkpoint if data.startswith(b"old ") else parse_note(data)
    return parse_checkpoint(note.text), note


def kept_head(data: bytes) -> bytes:
    """The signed head in a file that was kept: the file itself, or the newer head of an extension proof."""
    return parse_head(data)[1].to_bytes()


def require_extension(data: bytes, file: Path) -> bytes:
    """The same bytes, if they are an extension proof."""
    if not data.startswith(b"old "):
        raise InputError(f"{file} is a head; with --older it takes what expunge checkpoint export --since writes")
    return data


def head_content(head: Checkpoint) -> dict[str, Any]:
    """A checkpoint as ``--json`` prints it."""
    return {"origin": head.origin, "size": head.size, "root": head.root.hex()}


def stamp_content(stamp: Timestamp | None) -> dict[str, Any]:
    """A time stamp as ``--json`` prints it; nothing where none was verified."""
    if stamp is None:
        return {}
    return {"stamped": stamp.time.isoformat().replace("+00:00", "Z"), "authority": stamp.authority}


def stamp_line(stamp: Timestamp | None) -> str:
    """A time stamp at the end of a line about its head."""
    return "" if stamp is None else f", stamped {stamp.time:%Y-%m-%d %H:%M:%S} UTC by {stamp.authority}"
