"""Checks a log that was published as tiles: every entry, every tile, up to the root of the signed head.

Format: ``docs/formats/tiles.md``. The tree is recomputed from the entries; what a tile says is compared, never used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Checkpoint, parse_checkpoint, verify_checkpoint
from expunge.ledger.merkle.hashing import EMPTY_ROOT, leaf_hash, node_hash
from expunge.ledger.merkle.tiles import BUNDLES, TILE_WIDTH, WIDE_BUNDLES, split_bundle, tile_path
from expunge.ledger.note import NoteKey, SignedNote, parse_note

__all__ = ["read_entries", "verify_tiles"]

_MAX_NOTE = 1 << 20


def verify_tiles(
    folder: Path, log_keys: Iterable[NoteKey], origin: str, *, step: Callable[[], None] = lambda: None
) -> tuple[Checkpoint, SignedNote]:
    """Check every tile and every entry of a published log, and return its head.

    Parameters
    ----------
    folder
        Where the log is published: ``checkpoint`` and ``tile/`` lie in it.
    log_keys, origin
        The keys of the log and its name.
    step
        Called once per entry.

    Raises
    ------
    VerificationError
        The head is not signed by the log (``note-*``, ``checkpoint-*``); a file is missing (``tiles-missing``); a tile
        is not that of the entries (``tiles-hash-mismatch``), nor a bundle of that number of entries
        (``tiles-bundle-malformed``); or all of it leads to another root (``tiles-root-mismatch``).

    """
    note = parse_note(_read(folder, "checkpoint")[:_MAX_NOTE])
    verify_checkpoint(note, log_keys, origin)
    head = parse_checkpoint(note.text)
    row = [leaf_hash(entry) for entry in _counted(read_entries(folder, head.size), step)]
    roots: list[bytes] = []
    level = 0
    while row:
        for first in range(0, len(row), TILE_WIDTH):
            tile = row[first : first + TILE_WIDTH]
            path = tile_path(level, first // TILE_WIDTH, len(tile))
            if _read(folder, path) != b"".join(tile):
                raise VerificationError(f"{path} is not the tile of the entries", code="tiles-hash-mismatch")
        full = len(row) - len(row) % TILE_WIDTH
        roots += _subtrees(row[full:])
        row = [_fold(row[first : first + TILE_WIDTH]) for first in range(0, full, TILE_WIDTH)]
        level += 1
    root = roots[0] if roots else EMPTY_ROOT
    for subtree in roots[1:]:
        root = node_hash(subtree, root)
    if root != head.root:
        raise VerificationError("the tiles lead to another root than the head's", code="tiles-root-mismatch")
    return head, note


def read_entries(folder: Path, size: int) -> Iterator[bytes]:
    """The first `size` entries of a published log, in order, from its bundles; nothing is verified."""
    for first in range(0, size, TILE_WIDTH):
        width = min(TILE_WIDTH, size - first)
        path = tile_path(BUNDLES, first // TILE_WIDTH, width)
        wide = not (folder / path).is_file()
        path = tile_path(WIDE_BUNDLES, first // TILE_WIDTH, width) if wide else path
        entries = list(split_bundle(_read(folder, path), wide=wide))
        if len(entries) != width:
            raise VerificationError(
                f"{path} has {len(entries)} entries instead of {width}", code="tiles-bundle-malformed"
            )
        yield from entries


def _subtrees(row: list[bytes]) -> Iterator[bytes]:
    """The roots of a row's complete subtrees, from right to left."""
    end = len(row)
    while end:
        width = end & -end
        yield _fold(row[end - width : end])
        end -= width


def _fold(row: list[bytes]) -> bytes:
    if len(row) == 1:
        return row[0]
    half = len(row) // 2
    return node_hash(_fold(row[:half]), _fold(row[half:]))


def _counted(entries: Iterable[bytes], step: Callable[[], None]) -> Iterator[bytes]:
    for entry in entries:
        yield entry
        step()


def _read(folder: Path, path: str) -> bytes:
    try:
        return (folder / path).read_bytes()
    except OSError as problem:
        raise VerificationError(f"cannot read {path}: {problem.strerror or problem}", code="tiles-missing") from None
