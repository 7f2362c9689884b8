"""A shard of Qdrant's engine in a folder of this machine, by ``qdrant-edge-py``.

The engine marks points as deleted and drops them when it rewrites a segment, by default once a fifth of a segment of a
thousand is deleted; `reclaim` asks for it at the first one. Its write-ahead log is written over from its beginning only
when it is full: a shard that was made with a log keeps texts and metadata there, and the check says so. Shards that
this adapter makes have none, and are flushed after every write instead.

A shard that is open in two programs keeps what the last one of them has, and loses what the other wrote. So its folder
is locked while it is open here.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import qdrant_edge as engine

from expunge.errors import StoreError
from expunge.mirrors.address import Address
from expunge.mirrors.mirror import Copy, Mirror, split_tag

__all__ = ["QdrantMirror"]

_PAGE = 500
_ID, _TEXT = "id", "text"
# Seconds to wait for another program to close the shard.
_WAIT = 10.0
_EAGER = {"deleted_threshold": 1e-9, "vacuum_min_vector_number": 1}


class QdrantMirror(Mirror):
    """A shard. A point's number is a UUID made from the entry's id, which is a field of the payload."""

    kind: ClassVar[str] = "qdrant"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._shard: Any = None
        self._lock: int | None = None

    def write(self, copies: Sequence[Copy]) -> None:
        """Insert or replace points."""
        if not copies:
            return
        shard = self._opened(len(copies[0].coordinates))
        points = [
            engine.Point(_number(copy.id), copy.coordinates, {**copy.tagged, _ID: copy.id, _TEXT: copy.text or ""})
            for copy in copies
        ]
        for start in range(0, len(points), _PAGE):
            shard.update(engine.UpdateOperation.upsert_points(points[start : start + _PAGE]))
        shard.flush()

    def read(self, ids: Sequence[str]) -> list[Copy]:
        """Points by the ids of their entries."""
        if not ids:
            return []
        found = self._opened().retrieve([_number(name) for name in ids], with_payload=True, with_vector=True)
        return [_copy(point) for point in found]

    def entries(self) -> Iterator[Copy]:
        """Every point, a page at a time."""
        offset = None
        while True:
            page = engine.ScrollRequest(offset=offset, limit=_PAGE, with_payload=True, with_vector=True)
            points, offset = self._opened().scroll(page)
            yield from map(_copy, points)
            if offset is None:
                return

    def delete(self, ids: Sequence[str]) -> None:
        """Delete points."""
        if ids:
            self._opened().update(engine.UpdateOperation.delete_points([_number(name) for name in ids]))
            self._opened().flush()

    def count(self) -> int:
        """Number of points."""
        return int(self._opened().count(engine.CountRequest(exact=True)))

    def reclaim(self) -> None:
        """Rewrite every segment that has a deleted point; segments that were replaced go when the shard is closed."""
        self._close_shard()
        file = self.address.folder / "edge_config.json"
        if not file.exists():
            return
        self._lock_folder()
        # The engine takes other thresholds with the whole configuration alone, which this adapter need not understand.
        usual = file.read_bytes()
        settings = json.loads(usual)
        settings["optimizers"] = {**(settings.get("optimizers") or {}), **_EAGER}
        file.write_text(json.dumps(settings), encoding="utf-8")
        try:
            self._opened().optimize()
            self._opened().flush()
        finally:
            self._close_shard()
            file.write_bytes(usual)

    def files(self) -> list[Path] | None:
        """Every file in the shard's folder."""
        if self._shard is not None:
            self._shard.flush()
        return sorted(path for path in self.address.folder.rglob("*") if path.is_file())

    def close(self) -> None:
        """Close the shard."""
        self._close_shard()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _close_shard(self) -> None:
        if self._shard is not None:
            self._shard.close()
            self._shard = None

    def _lock_folder(self) -> None:
        """Keep other programs from the folder until it is closed here."""
        if self._lock is not None:
            return
        # POSIX alone has it.
        import fcntl

        self._lock = os.open(self.address.folder, os.O_RDONLY | os.O_CLOEXEC)
        ends = time.monotonic() + _WAIT
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > ends:
                    self.close()
                    told = f"another program has the shard in {self.address.folder} open; try again"
                    raise StoreError(told, code="mirror-down") from None
                time.sleep(0.05)
            else:
                return

    def _opened(self, dimension: int | None = None) -> Any:
        """The shard, made for vectors of a dimension where it is not there."""
        if self._shard is not None:
            return self._shard
        folder = self.address.folder
        try:
            if dimension is not None:
                folder.mkdir(parents=True, exist_ok=True)
            elif not folder.is_dir():
                raise StoreError(f"there is no shard of Qdrant in {folder}", code="mirror-down")
            self._lock_folder()
            if (folder / "edge_config.json").exists():
                self._shard = engine.EdgeShard.load(str(folder))
            elif dimension is None:
                raise StoreError(f"there is no shard of Qdrant in {folder}", code="mirror-down")
            else:
                vectors = engine.EdgeVectorParams(size=dimension, distance=engine.Distance.Cosine)
                self._shard = engine.EdgeShard.create(
                    str(folder), engine.EdgeConfig(vectors=vectors, wal_enabled=False)
                )
        except StoreError:
            raise
        except Exception as problem:
            # The engine raises nothing narrower.
            raise StoreError(f"Qdrant does not answer: {problem}", code="mirror-down") from problem
        return self._shard


def _number(name: str) -> str:
    """The UUID of an entry: its id itself where that is one."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def _copy(point: Any) -> Copy:
    payload, tag = split_tag(point.payload)
    name, text = payload.pop(_ID, None), payload.pop(_TEXT, None)
    vector = point.vector if isinstance(point.vector, list) else None
    return Copy(str(name or point.id), vector, None if text is None else str(text), payload, tag)
