"""A collection of Chroma's persistent client, in a folder of this machine.

Chroma 1.5 keeps an entry in three places: rows and a full-text index in ``chroma.sqlite3``, a queue of operations in
the same file, and a vector index in a folder of its own. Deleting marks a vector as deleted and leaves its bytes in the
index for good; ``chroma vacuum`` leaves them there, too. So `delete` writes over an entry before it deletes it, and
`reclaim` has the index written (which empties the queue), merges the full-text index and rewrites the SQLite file.

The index files have room for vectors to come, and Chroma fills it with whatever its memory held before: pieces of
texts, also of deleted ones. After `reclaim` zeros are written over that room, whenever the client is closed.

The index is written anew only when its folder is opened again. `reclaim` cannot do that while the same process has
another client open on the folder; then the check finds the bytes and says so.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import chromadb
import numpy as np
from chromadb.config import Settings
from chromadb.errors import NotFoundError

from expunge.errors import InputError, StoreError
from expunge.mirrors.address import Address
from expunge.mirrors.mirror import Copy, Mirror, split_tag

__all__ = ["ChromaMirror"]

_PAGE = 500
_ALL: Any = ["documents", "metadatas", "embeddings"]
# What a deleted entry is overwritten with; the names of its metadata are kept, as no value can be taken away otherwise.
_BLANK = "-"
# Of an index: version, where its vectors start, for how many there is room, how many there are, bytes of each.
_HEADER = struct.Struct("<i5Q")
# Bytes of a vector's length.
_LENGTH = 4


class ChromaMirror(Mirror):
    """A collection by its name; it is made, for vectors that are given, where it is not there."""

    kind: ClassVar[str] = "chroma"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client: Any = None
        self._reclaimed = False

    @property
    def _file(self) -> Path:
        return self.address.folder / "chroma.sqlite3"

    def write(self, copies: Sequence[Copy]) -> None:
        """Write entries; every one needs a vector."""
        collection = self._collection(make=True)
        for start in range(0, len(copies), _PAGE):
            page = copies[start : start + _PAGE]
            collection.upsert(
                ids=[copy.id for copy in page],
                embeddings=[copy.coordinates for copy in page],
                documents=[copy.text or "" for copy in page],
                metadatas=[copy.tagged or None for copy in page],
            )

    def read(self, ids: Sequence[str]) -> list[Copy]:
        """Entries by id."""
        collection = self._collection()
        if collection is None or not ids:
            return []
        return _copies(collection.get(ids=list(ids), include=_ALL))

    def entries(self) -> Iterator[Copy]:
        """Every entry, a page at a time."""
        collection = self._collection()
        for start in range(0, 0 if collection is None else collection.count(), _PAGE):
            yield from _copies(collection.get(limit=_PAGE, offset=start, include=_ALL))

    def delete(self, ids: Sequence[str]) -> None:
        """Write over entries, then delete them."""
        collection = self._collection()
        if collection is None or not ids:
            return
        there = collection.get(ids=list(ids), include=_ALL)
        if not there["ids"]:
            return
        blank = np.zeros_like(there["embeddings"])
        blank[:, 0] = 1.0
        metadatas = [dict.fromkeys(metadata, _BLANK) if metadata else None for metadata in there["metadatas"]]
        collection.update(
            ids=there["ids"], embeddings=blank, documents=[_BLANK] * len(there["ids"]), metadatas=metadatas
        )
        collection.delete(ids=there["ids"])

    def count(self) -> int:
        """Number of entries."""
        collection = self._collection()
        return 0 if collection is None else int(collection.count())

    def reclaim(self) -> None:
        """Write the vector index, which empties the queue; then merge the full-text index and rewrite the file."""
        collection = self._collection()
        if collection is not None:
            # The queue keeps its last operation, which names an id: let it name nobody.
            collection.update(ids=[_BLANK], metadatas=[{_BLANK: _BLANK}])
            configured = collection.configuration.get("hnsw") or {}
            usual = configured.get("sync_threshold")
            if usual is not None:
                collection.modify(configuration={"hnsw": {"sync_threshold": 2}})
                self.close()
                self._sync()
                self._collection().modify(configuration={"hnsw": {"sync_threshold": usual}})
        self._reclaimed = True
        self.close()
        if not self._file.exists():
            return
        try:
            with closing(sqlite3.connect(self._file, isolation_level=None)) as connection:
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute(
                    "INSERT INTO embedding_fulltext_search(embedding_fulltext_search) VALUES ('optimize')"
                )
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as problem:
            raise StoreError(
                f"chroma.sqlite3 could not be rewritten ({problem}); try again", code="mirror-down"
            ) from None

    def _sync(self) -> None:
        """Ask for a neighbour: this brings the index up to the queue, and writes it."""
        collection = self._collection()
        known = collection.get(limit=1, include=["embeddings"])
        if known["ids"]:
            collection.query(query_embeddings=known["embeddings"], n_results=1)

    def files(self) -> list[Path] | None:
        """Every file in the folder, as it is when the client is closed."""
        self.close()
        return sorted(path for path in self.address.folder.rglob("*") if path.is_file())

    def close(self) -> None:
        """Close the client. Whenever it opens an index it may write it anew, with what its memory holds in the room."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._reclaimed:
            for header in self.address.folder.glob("*/header.bin"):
                _blank_unused(header)

    def _collection(self, *, make: bool = False) -> Any:
        """The collection; None where there is none, unless it is to be made."""
        try:
            if self._client is None:
                if not make and not self._file.exists():
                    raise StoreError(f"there is no Chroma database in {self.address.folder}", code="mirror-down")
                self._client = chromadb.PersistentClient(
                    str(self.address.folder), settings=Settings(anonymized_telemetry=False)
                )
            if make:
                return self._client.get_or_create_collection(self.address.collection, embedding_function=None)
            return self._client.get_collection(self.address.collection, embedding_function=None)
        except NotFoundError:
            return None
        except InputError:
            raise
        except (chromadb.errors.ChromaError, OSError, ValueError) as problem:
            raise StoreError(f"Chroma does not answer: {problem}", code="mirror-down") from problem


def _blank_unused(header: Path) -> None:
    """Write zeros where an index of the layout that is known has room for vectors to come."""
    if header.stat().st_size < _HEADER.size:
        return
    version, start, room, used, each, _ = _HEADER.unpack_from(header.read_bytes())
    for name, width in (("data_level0.bin", each), ("length.bin", _LENGTH)):
        file = header.with_name(name)
        if (version, start) == (1, 0) and used <= room and file.exists() and file.stat().st_size == room * width:
            with file.open("r+b") as stream:
                stream.seek(used * width)
                stream.write(bytes((room - used) * width))
                stream.flush()
                os.fsync(stream.fileno())


def _copies(found: Any) -> list[Copy]:
    copies = []
    columns = found["ids"], found["documents"], found["metadatas"], found["embeddings"]
    for name, document, metadata, vector in zip(*columns, strict=True):
        own, tag = split_tag(metadata)
        copies.append(Copy(name, vector, document, own, tag))
    return copies
