"""A table of LanceDB in a folder of this machine.

LanceDB writes versions: a deletion adds a file that hides rows, and keeps the statement that named them. The rows go
with the versions that had them: `reclaim` writes every row anew, compacts the table, and removes every version but the
last.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import lancedb
import pyarrow as pa

from expunge.errors import StoreError
from expunge.mirrors.address import Address
from expunge.mirrors.mirror import Copy, Mirror, split_tag

__all__ = ["LanceMirror"]

_PAGE = 500


class LanceMirror(Mirror):
    """A table by its name, made where it is not there; metadata is one column of JSON."""

    kind: ClassVar[str] = "lancedb"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._table: Any = None
        names = {"id": "id", "vector": "vector", "text": "text", "metadata": "metadata"}
        self._names = {name: address.option(name, column) for name, column in names.items()}

    def write(self, copies: Sequence[Copy]) -> None:
        """Insert or replace rows."""
        if not copies:
            return
        names = self._names
        schema = pa.schema(
            [
                pa.field(names["id"], pa.string()),
                pa.field(names["vector"], pa.list_(pa.float32(), len(copies[0].coordinates))),
                pa.field(names["text"], pa.string()),
                pa.field(names["metadata"], pa.string()),
            ]
        )
        rows = [
            dict(zip(names.values(), (copy.id, copy.coordinates, copy.text, json.dumps(copy.tagged)), strict=True))
            for copy in copies
        ]
        table = self._opened(schema)
        data = pa.Table.from_pylist(rows, schema=schema)
        table.merge_insert(names["id"]).when_matched_update_all().when_not_matched_insert_all().execute(data)

    def read(self, ids: Sequence[str]) -> list[Copy]:
        """Rows by id."""
        found: list[Copy] = []
        for start in range(0, len(ids), _PAGE):
            found += self._select(_one_of(self._names["id"], ids[start : start + _PAGE]))
        return found

    def entries(self) -> Iterator[Copy]:
        """Every row."""
        yield from self._select(None)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows."""
        table = self._opened()
        for start in range(0, 0 if table is None else len(ids), _PAGE):
            table.delete(_one_of(self._names["id"], ids[start : start + _PAGE]))

    def count(self) -> int:
        """Number of rows."""
        table = self._opened()
        return 0 if table is None else int(table.count_rows())

    def reclaim(self) -> None:
        """Write every row anew, compact, and remove every version but the last."""
        table = self._opened()
        if table is not None:
            with warnings.catch_warnings():
                # That readers of older versions fail, which is the intention.
                warnings.simplefilter("ignore", UserWarning)
                # A compaction leaves files of which less than a tenth is deleted. An update writes every row anew, and
                # the last version, which keeps the statement that made it, names nobody then.
                table.update(values_sql={self._names["id"]: self._names["id"]})
                table.delete("false")
                table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def files(self) -> list[Path] | None:
        """Every file in the table's folder."""
        return sorted(path for path in self.address.folder.rglob("*") if path.is_file())

    def close(self) -> None:
        """Forget the table."""
        self._table = None

    def _select(self, where: str | None) -> Iterator[Copy]:
        table = self._opened()
        if table is None:
            return
        names = self._names
        query = table.search().select([name for name in names.values() if name in table.schema.names])
        for row in (query if where is None else query.where(where)).limit(table.count_rows()).to_list():
            own, tag = split_tag(_as_mapping(row.get(names["metadata"])))
            yield Copy(str(row[names["id"]]), row.get(names["vector"]), row.get(names["text"]), own, tag)

    def _opened(self, schema: pa.Schema | None = None) -> Any:
        """The table as it is now; None where there is none, unless it is to be made by a schema."""
        folder, name = self.address.folder, self.address.collection
        if schema is None and not folder.is_dir():
            raise StoreError(f"there is no LanceDB database in {folder}", code="mirror-down")
        try:
            if self._table is None:
                database = lancedb.connect(str(folder))
                if name in database.list_tables().tables:
                    self._table = database.open_table(name)
                elif schema is not None:
                    self._table = database.create_table(name, schema=schema)
            if self._table is not None:
                self._table.checkout_latest()
        except (OSError, ValueError, RuntimeError) as problem:
            raise StoreError(f"LanceDB does not answer: {problem}", code="mirror-down") from problem
        return self._table


def _one_of(column: str, ids: Sequence[str]) -> str:
    listed = ", ".join("'" + name.replace("'", "''") + "'" for name in ids)
    return f"{column} IN ({listed})"


def _as_mapping(found: Any) -> dict[str, Any]:
    if isinstance(found, str):
        try:
            parsed = json.loads(found)
        except ValueError:
            return {"metadata": found}
        return parsed if isinstance(parsed, dict) else {"metadata": found}
    return found if isinstance(found, dict) else {}
