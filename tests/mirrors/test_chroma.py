"""What Chroma's index files hold beside vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from expunge.mirrors import open_mirror
from mirrors.contract import random_copies


def test_the_room_for_vectors_to_come_holds_nothing(new_url: Callable[[str], str]) -> None:
    """Chroma fills it with what its memory held, and writes it anew when it opens a folder."""
    url = new_url("chroma")
    with open_mirror(url) as mirror:
        copies = random_copies(15)
        mirror.write(copies)
        mirror.delete([copy.id for copy in copies])
        mirror.reclaim()
        assert mirror.count() == 0
        folder = mirror.address.folder
    files = [*folder.rglob("data_level0.bin"), *folder.rglob("length.bin")]
    assert [_room(file).strip(b"\0") for file in files] == [b"", b""]


def _room(file: Path) -> bytes:
    """What is behind the 15 vectors of an index for 100."""
    content = file.read_bytes()
    assert len(content) % 100 == 0
    return content[len(content) * 15 // 100 :]
