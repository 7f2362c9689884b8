"""A mirror in one JSON file, in the place of Qdrant, whose engine takes longer to open than a history to play.

It keeps what is deleted until it is made to let go of it. A file beside it says that it is down, or that it keeps all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from expunge.errors import StoreError
from expunge.mirrors import Copy, Mirror

__all__ = ["STAND_IN", "FileMirror"]

# What `expunge.mirrors.address.ADAPTERS` is patched with.
STAND_IN = {"qdrant": (__name__, "FileMirror", "")}


class FileMirror(Mirror):
    """Entries by id in the file `content` of the address's folder, with those that are deleted.

    While the file `down` is there, every call fails; while `keeps` is there, nothing that is deleted is let go of.
    """

    kind: ClassVar[str] = "qdrant"

    def write(self, copies: Sequence[Copy]) -> None:
        """Write entries."""
        entries, deleted = self._load()
        for copy in copies:
            fields = {"vector": copy.coordinates, "text": copy.text, "metadata": dict(copy.metadata), "tag": copy.tag}
            entries[copy.id] = fields
        self._save(entries, deleted)

    def read(self, ids: Sequence[str]) -> list[Copy]:
        """The entries with these ids."""
        wanted = set(ids)
        return [copy for copy in self.entries() if copy.id in wanted]

    def entries(self) -> Iterator[Copy]:
        """Every entry that is not deleted."""
        for name, found in self._load()[0].items():
            yield Copy(name, found["vector"] or None, found["text"], found["metadata"], found["tag"])

    def delete(self, ids: Sequence[str]) -> None:
        """Answer with these no more, and keep their bytes."""
        entries, deleted = self._load()
        deleted += [{name: entries.pop(name)} for name in ids if name in entries]
        self._save(entries, deleted)

    def count(self) -> int:
        """How many entries are not deleted."""
        return len(self._load()[0])

    def reclaim(self) -> None:
        """Let go of what was deleted, unless it keeps all."""
        entries, deleted = self._load()
        self._save(entries, deleted if (self.address.folder / "keeps").exists() else [])

    def files(self) -> list[Path] | None:
        """The file."""
        return [path for path in (self._file,) if path.exists()]

    def close(self) -> None:
        """Nothing is open."""

    @property
    def _file(self) -> Path:
        return self.address.folder / "content"

    def _load(self) -> tuple[dict[str, Any], list[Any]]:
        if (self.address.folder / "down").exists():
            raise StoreError("the mirror is down", code="mirror-down")
        if not self._file.exists():
            return {}, []
        entries, deleted = json.loads(self._file.read_text(encoding="utf-8"))
        return entries, deleted

    def _save(self, entries: dict[str, Any], deleted: list[Any]) -> None:
        self._file.write_text(json.dumps([entries, deleted]), encoding="utf-8")
