"""The log as static files: C2SP tlog-tiles (c2sp.org/tlog-tiles), written incrementally and read back.

Format: ``docs/formats/tiles.md``. A tile is up to 256 hashes of one level; a level is 8 levels of the tree. Full tiles
never change, so a later export writes only what is new, and the signed head last, when all that it needs is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from expunge.errors import StoreError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint
from expunge.ledger.file_writing import new_file
from expunge.ledger.merkle.hashing import EMPTY_ROOT, HASH_SIZE, leaf_hash, node_hash
from expunge.ledger.note import SignedNote

__all__ = [
    "BUNDLES",
    "LARGEST_ENTRY",
    "TILE_WIDTH",
    "WIDE_BUNDLES",
    "join_bundle",
    "split_bundle",
    "tile_path",
    "tile_root",
    "write_tiles",
]

TILE_WIDTH = 256
LARGEST_ENTRY = 0xFFFF
BUNDLES = "entries"
# Where a bundle goes that has an entry beyond 65,535 bytes. The specification has no place for it.
WIDE_BUNDLES = "entries-u32"


def tile_path(level: int | str, number: int, width: int = TILE_WIDTH) -> str:
    """The path of a tile, below the log's prefix: ``tile/0/x001/067`` or ``tile/0/x001/067.p/112``."""
    parts = [f"{number % 1000:03d}"]
    while number := number // 1000:
        parts.append(f"x{number % 1000:03d}")
    return f"tile/{level}/{'/'.join(reversed(parts))}{f'.p/{width}' if width < TILE_WIDTH else ''}"


def join_bundle(entries: Sequence[bytes]) -> tuple[str, bytes]:
    """The kind and the bytes of a bundle: big-endian lengths of 16 bits, or of 32 where an entry needs them."""
    wide = max(map(len, entries)) > LARGEST_ENTRY
    size = 4 if wide else 2
    return WIDE_BUNDLES if wide else BUNDLES, b"".join(len(e).to_bytes(size, "big") + e for e in entries)


def split_bundle(data: bytes, *, wide: bool = False) -> Iterator[bytes]:
    """The entries of a bundle; bytes that are none raise ``tiles-bundle-malformed``."""
    size = 4 if wide else 2
    at = 0
    while at < len(data):
        end = at + size + int.from_bytes(data[at : at + size], "big")
        if at + size > len(data) or end > len(data):
            raise VerificationError("an entry bundle ends within an entry", code="tiles-bundle-malformed")
        yield data[at + size : end]
        at = end


def tile_root(hashes: Sequence[bytes]) -> bytes:
    """The root over a full tile's hashes, or over any power of two of them."""
    row = list(hashes)
    while len(row) > 1:
        row = [node_hash(row[at], row[at + 1]) for at in range(0, len(row), 2)]
    return row[0]


def write_tiles(
    folder: Path, head: SignedNote, leaves_from: Callable[[int], Iterable[bytes]], *, kept: SignedNote | None = None
) -> int:
    """Write tiles, entry bundles and at last the head into a folder; return how many files were written.

    Parameters
    ----------
    folder
        Where the log is published; made if it is not there.
    head
        The signed head that the tiles lead to.
    leaves_from
        Returns the leaves from an index on; more of them than the head has are not read.
    kept
        The head that lies in the folder, whose tiles are continued. The caller has verified that `head` extends it.

    Raises
    ------
    VerificationError
        ``tiles-root-mismatch``: the leaves, or the tiles that lie in the folder, do not lead to the head. The head in
        the folder stays as it was.
    StoreError
        A file cannot be read or written.

    """
    size = parse_checkpoint(head.text).size
    old = 0 if kept is None else parse_checkpoint(kept.text).size
    writer = _TileWriter(folder, old)
    start = old - old % TILE_WIDTH
    for leaf in islice(leaves_from(start), size - start):
        writer.append(leaf)
    writer.finish()
    if writer.size != size or writer.root() != parse_checkpoint(head.text).root:
        raise VerificationError(
            f"the leaves and the tiles in {folder} do not lead to the head; export into an empty folder",
            code="tiles-root-mismatch",
        )
    writer.write("checkpoint", head.to_bytes())
    return writer.written


class _TileWriter:
    """The incomplete tile of each level and the incomplete bundle; what becomes full is written and dropped."""

    def __init__(self, folder: Path, size: int) -> None:
        """Continue what was written for a head of `size` leaves, from its last full tile of leaves on."""
        self.folder, self.written = folder, 0
        self.size = size - size % TILE_WIDTH
        self._bundle: list[bytes] = []
        self._rows: list[list[bytes]] = [[]]
        level = 1
        while size >> 8 * level:
            count = (size >> 8 * level) % TILE_WIDTH
            self._rows.append(self._read(level, size >> 8 * (level + 1), count) if count else [])
            level += 1

    def append(self, leaf: bytes) -> None:
        self._bundle.append(leaf)
        if len(self._bundle) == TILE_WIDTH:
            self._write_bundle()
        self._add(0, leaf_hash(leaf))
        self.size += 1

    def finish(self) -> None:
        """Write the tiles and the bundle at the right edge, which are not full."""
        if self._bundle:
            self._write_bundle()
        for level, row in enumerate(self._rows):
            if row:
                self.write(tile_path(level, self.size >> 8 * (level + 1), len(row)), b"".join(row))

    def root(self) -> bytes:
        """The root over all leaves, from the incomplete tiles alone."""
        root: bytes | None = None
        for row in self._rows:
            # The row's complete subtrees, from right to left and so from narrow to wide.
            end = len(row)
            while end:
                width = end & -end
                subtree = tile_root(row[end - width : end])
                root = subtree if root is None else node_hash(subtree, root)
                end -= width
        return EMPTY_ROOT if root is None else root

    def write(self, path: str, data: bytes) -> None:
        target = self.folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_file() and target.read_bytes() == data:
                return
        except OSError as problem:
            raise StoreError(f"cannot write {target}: {problem.strerror or problem}") from None
        with new_file(target, replace=True) as file:
            file.write(data)
        self.written += 1

    def _add(self, level: int, digest: bytes) -> None:
        if level == len(self._rows):
            self._rows.append([])
        row = self._rows[level]
        row.append(digest)
        if len(row) == TILE_WIDTH:
            self.write(tile_path(level, self.size >> 8 * (level + 1)), b"".join(row))
            self._rows[level] = []
            self._add(level + 1, tile_root(row))

    def _write_bundle(self) -> None:
        kind, data = join_bundle(self._bundle)
        first = self.size - self.size % TILE_WIDTH
        self.write(tile_path(kind, first // TILE_WIDTH, len(self._bundle)), data)
        self._bundle = []

    def _read(self, level: int, number: int, width: int) -> list[bytes]:
        path = self.folder / tile_path(level, number, width)
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
        return [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)]
