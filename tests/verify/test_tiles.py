"""A log as tiles: written at once or in steps, read by the specification's own formula, and with every file damaged."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expunge.errors import StoreError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tiles import join_bundle, split_bundle, tile_path, write_tiles
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteKey, SignedNote, parse_note
from expunge.ledger.signing import SigningKey
from expunge.verify.tiles import read_entries, verify_tiles

KEY = SigningKey.from_seed(b"\x01" * 32)
ORIGIN = "log.example"
KEYS = [NoteKey(ORIGIN, KEY.public)]
SIZE = 2 * 65536 // 256 + 70
LEAVES = [b"leaf %d" % number for number in range(SIZE)]
TREE = HashTree(map(leaf_hash, LEAVES))


def head(size: int) -> SignedNote:
    return sign_checkpoint(Checkpoint(ORIGIN, size, TREE.root(size)), KEY)


def leaves_from(start: int) -> Iterator[bytes]:
    yield from LEAVES[start:]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(folder: Path, *sizes: int, source: Callable[[int], Iterator[bytes]] = leaves_from) -> int:
    written = 0
    for size in sizes:
        published = folder / "checkpoint"
        kept = parse_note(published.read_bytes()) if published.exists() else None
        written = write_tiles(folder, head(size), source, kept=kept)
    return written


def code_of(folder: Path) -> str:
    with pytest.raises(VerificationError) as caught:
        verify_tiles(folder, KEYS, ORIGIN)
    return caught.value.code


def test_paths_are_the_specifications() -> None:
    assert tile_path(0, 1234067) == "tile/0/x001/x234/067"
    assert tile_path(0, 273, 112) == "tile/0/273.p/112"
    assert tile_path("entries", 0) == "tile/entries/000"
    assert tile_path(3, 1000, 1) == "tile/3/x001/000.p/1"


def test_tiles_are_the_hashes_of_the_formula(tmp_path: Path) -> None:
    """The n-th tile at level l has MTH(D[(n·256 + i)·256^l : (n·256 + i + 1)·256^l]), by RFC 6962's recursion."""

    def mth(data: list[bytes]) -> bytes:
        if len(data) == 1:
            return hashlib.sha256(b"\0" + data[0]).digest()
        half = 1 << (len(data) - 1).bit_length() - 1
        return hashlib.sha256(b"\1" + mth(data[:half]) + mth(data[half:])).digest()

    write(tmp_path, SIZE)
    found = files(tmp_path)
    assert set(found) == {
        "checkpoint",
        *(f"tile/{kind}/{name}" for kind in ("0", "entries") for name in ("000", "001", f"002.p/{SIZE - 512}")),
        "tile/1/000.p/2",
    }
    for name, level, number in (("tile/0/001", 0, 1), ("tile/1/000.p/2", 1, 0)):
        unit = 256**level
        rows = [LEAVES[at * unit : (at + 1) * unit] for at in range(number * 256, (number + 1) * 256)]
        assert found[name] == b"".join(mth(row) for row in rows if len(row) == unit)
    assert verify_tiles(tmp_path, KEYS, ORIGIN)[0].size == SIZE
    assert list(read_entries(tmp_path, SIZE)) == LEAVES


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 255, 256, 257, 300, 511, 512, 513, SIZE]), min_size=1, max_size=4))
def test_in_steps_or_at_once(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    steps, whole = tmp_path_factory.mktemp("steps"), tmp_path_factory.mktemp("whole")
    sizes = sorted(sizes)
    write(steps, *sizes)
    write(whole, sizes[-1])
    # Partial tiles of earlier heads stay; everything that the last head needs is the same.
    assert files(whole).items() <= files(steps).items()
    assert verify_tiles(steps, KEYS, ORIGIN)[0].size == sizes[-1]


def test_only_what_is_new_is_written(tmp_path: Path) -> None:
    write(tmp_path, 300)
    # Two tiles of the edge, the bundle, and the head; then nothing.
    assert write(tmp_path, 301) == 3
    assert write(tmp_path, 301) == 0
    assert verify_tiles(tmp_path, KEYS, ORIGIN)[0].size == 301


@pytest.mark.slow
def test_three_levels(tmp_path: Path) -> None:
    """Past 65,536 leaves there is a level above the second."""
    leaves = [number.to_bytes(4, "big") for number in range(65536 + 300)]
    tree = HashTree(map(leaf_hash, leaves))
    for size in (65535, len(leaves)):
        published = tmp_path / "checkpoint"
        kept = parse_note(published.read_bytes()) if published.exists() else None
        note = sign_checkpoint(Checkpoint(ORIGIN, size, tree.root(size)), KEY)
        write_tiles(tmp_path, note, lambda start: iter(leaves[start:]), kept=kept)
        assert verify_tiles(tmp_path, KEYS, ORIGIN)[0].size == size
    assert (tmp_path / "tile/2/000.p/1").stat().st_size == 32


def test_leaves_of_every_length() -> None:
    for entries in ([b""], [b"", b"x" * 65535], [b"x" * 65536, b""], [b"x" * 70000] * 3):
        kind, data = join_bundle(entries)
        assert kind == ("entries" if max(map(len, entries)) < 65536 else "entries-u32")
        assert list(split_bundle(data, wide=kind == "entries-u32")) == entries
    for broken in (b"\0", b"\0\2x", b"\0\1xy"):
        with pytest.raises(VerificationError) as caught:
            list(split_bundle(broken))
        assert caught.value.code == "tiles-bundle-malformed"


def test_a_large_leaf_changes_its_bundle_alone(tmp_path: Path) -> None:
    leaves = [*LEAVES[:300], b"x" * 70_000, *LEAVES[300:400]]
    tree = HashTree(map(leaf_hash, leaves))
    note = sign_checkpoint(Checkpoint(ORIGIN, len(leaves), tree.root()), KEY)
    write_tiles(tmp_path, note, lambda start: iter(leaves[start:]))
    assert {name for name in files(tmp_path) if "entries" in name} == {
        "tile/entries/000",
        "tile/entries-u32/001.p/145",
    }
    assert verify_tiles(tmp_path, KEYS, ORIGIN)[0].size == 401
    assert list(read_entries(tmp_path, 401)) == leaves


def test_every_file_is_needed(tmp_path: Path) -> None:
    write(tmp_path / "whole", SIZE)
    for name, data in files(tmp_path / "whole").items():
        folder = tmp_path / "damaged"
        shutil.copytree(tmp_path / "whole", folder)
        (folder / name).unlink()
        assert code_of(folder) == "tiles-missing"
        changed = bytearray(data)
        changed[-3] ^= 1
        (folder / name).write_bytes(changed)
        expected = {"checkpoint": "note-", "tile/entries": "tiles-hash-mismatch"}
        assert code_of(folder).startswith(
            next((code for start, code in expected.items() if name.startswith(start)), "tiles-hash-mismatch")
        )
        shutil.rmtree(folder)
    shutil.copytree(tmp_path / "whole", tmp_path / "short")
    write(tmp_path / "other", 300)
    (tmp_path / "short" / "checkpoint").write_bytes(head(SIZE - 1).to_bytes())
    assert code_of(tmp_path / "short") == "tiles-missing"
    bundle = tmp_path / "whole" / "tile/entries/001"
    bundle.write_bytes(join_bundle(LEAVES[256:511])[1])
    assert code_of(tmp_path / "whole") == "tiles-bundle-malformed"


def test_other_leaves_or_tiles_do_not_replace_the_head(tmp_path: Path) -> None:
    def rewritten(start: int) -> Iterator[bytes]:
        yield from [*LEAVES[:10], b"another", *LEAVES[11:]][start:]

    write(tmp_path, 5)
    with pytest.raises(VerificationError) as caught:
        write(tmp_path, 300, source=rewritten)
    assert caught.value.code == "tiles-root-mismatch"
    with pytest.raises(VerificationError):
        write(tmp_path, 300, source=lambda start: iter(LEAVES[start:200]))
    assert verify_tiles(tmp_path, KEYS, ORIGIN)[0].size == 5
    write(tmp_path, 300)
    (tmp_path / "tile/1/000.p/1").write_bytes(bytes(32))
    with pytest.raises(VerificationError):
        write(tmp_path, 600 - 60)
    (tmp_path / "tile/1/000.p/1").unlink()
    with pytest.raises(StoreError):
        write(tmp_path, 600 - 60)
