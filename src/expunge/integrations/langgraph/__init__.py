"""A LangGraph store whose deletions come with receipts, and LangGraph's own checkpointers with threads to be erased.

One item is one entry of a notebook: its key is the item's first vector (or, for what is not indexed, its hashed words).
Of a thread the notebook has one entry, which says that the checkpointer may have it. The guide lists where both differ
from LangGraph's own. They may import the notebook, the mirrors, the store and the memory. Start with `store.py`, or
with `checkpointer.py`.
"""

from expunge.errors import MissingExtra

try:
    import langgraph.store.base  # noqa: F401
except ImportError:
    raise MissingExtra("a LangGraph store needs the extra: pip install 'expunge[langgraph]'") from None

from expunge.integrations.langgraph.checkpointer import ErasableCheckpointer
from expunge.integrations.langgraph.store import (
    DistanceIndexConfig,
    EmbedderIndexConfig,
    ExpungeStore,
    ItemReceipt,
    second_label,
)
from expunge.integrations.langgraph.thread_list import ThreadErasure

__all__ = [
    "DistanceIndexConfig",
    "EmbedderIndexConfig",
    "ErasableCheckpointer",
    "ExpungeStore",
    "ItemReceipt",
    "ThreadErasure",
    "second_label",
]
