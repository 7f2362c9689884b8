"""From columns as people have them to keys: units, centre, scale and fill, which belong to a memory.

Imports `problem`, `types` and `errors`. Start with `preprocessing.py`.
"""

from expunge.preprocessing.embedder_identity import EmbedderIdentity
from expunge.preprocessing.measurements import as_key_rows
from expunge.preprocessing.preprocessing import Column, Preprocessing, chosen_columns

__all__ = ["Column", "EmbedderIdentity", "Preprocessing", "as_key_rows", "chosen_columns"]
