"""How much a packed file may unpack to: a few megabytes must not become gigabytes before anything is checked."""

from __future__ import annotations

import zipfile

__all__ = ["check_unpacked", "unpacked_limit"]

_ALWAYS, _RATIO = 1 << 28, 32


def unpacked_limit(size: int) -> int:
    """Bytes that a packed file of some size may unpack to: 256 MB, or 32 times the size, whichever is more."""
    return max(_ALWAYS, _RATIO * size)


def check_unpacked(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError where an archive in a file of some size states more; none of its members unpacks to more."""
    limit = unpacked_limit(size)
    if sum(member.file_size for member in archive.infolist()) > limit:
        raise ValueError(f"it unpacks to more than {limit >> 20} MB")
