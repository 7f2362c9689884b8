"""Tables of one's own: from a file, however it was saved, to the keys, values, ids, subjects and payloads of entries.

`read_table` does all of it: `file_content` (which format, unpacked), `encoding` and the readers (`separated`,
`json_rows`, `arrays`) make a `Frame` of named columns; `cells` says what each column holds; `roles` says what each
column is for; `measurements` fills and scales; `table` puts it together, with the preprocessing that a memory keeps.
It imports `preprocessing`, `problem` and, for payloads, `expunge.memory.entries`. Start with `table.py`.
"""

from __future__ import annotations

from expunge.tables.options import FORMATS, TableOptions
from expunge.tables.roles import OWN_VALUES
from expunge.tables.table import ColumnSummary, Table, read_table

__all__ = ["FORMATS", "OWN_VALUES", "ColumnSummary", "Table", "TableOptions", "read_table"]
