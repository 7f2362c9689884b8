"""A memory for agents, over the Model Context Protocol: remember, recall, forget, and prove it.

The tools work on one notebook of a store (:mod:`expunge.integrations.notebook`). Texts are embedded on this machine;
any function from texts to rows will do. Every edit is durable and signed before its tool answers, and the answer names
its leaf of the ledger. Start with `tools.py`; `visibility.py` is what a caller may see, `tool_arguments.py`
checks what clients send, `server.py` and `http_server.py` are the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expunge.errors import MissingExtra
from expunge.integrations.embedding import Embed, Embedder
from expunge.integrations.mcp.answers import (
    ForgetResult,
    ForgetSubjectResult,
    GetResult,
    LeafReceipt,
    ListResult,
    PreviewedNote,
    RecalledNote,
    RecallResult,
    ReceiptCheck,
    RememberResult,
    StoredNote,
    UpdateResult,
    WarrantiesResult,
    WarrantyStatus,
)
from expunge.integrations.mcp.tools import NewNote, Tools
from expunge.integrations.mcp.visibility import Caller
from expunge.store import Store

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

__all__ = [
    "Caller",
    "ForgetResult",
    "ForgetSubjectResult",
    "GetResult",
    "LeafReceipt",
    "ListResult",
    "NewNote",
    "PreviewedNote",
    "RecallResult",
    "RecalledNote",
    "ReceiptCheck",
    "RememberResult",
    "StoredNote",
    "Tools",
    "UpdateResult",
    "WarrantiesResult",
    "WarrantyStatus",
    "make_server",
    "require",
]


def require() -> None:
    """Raise MissingExtra unless the protocol's package is installed."""
    try:
        import mcp.server.lowlevel  # noqa: F401
    except ImportError:
        raise MissingExtra("an MCP server needs the extra: pip install 'expunge[mcp]'") from None


def make_server(
    store: Store,
    *,
    memory: str = "notes",
    embed: Embedder | Embed | None = None,
    sigma: float = 1.0,
    nu: float = 0.5,
    actor: str | None = None,
    subject: str | None = None,
    require_subject: bool = False,
) -> Server[Any]:
    """A server of the tools; the parameters are those of `Tools`.

    Serve it with `expunge.integrations.mcp.server.run_stdio`, or as the application that
    `expunge.integrations.mcp.http_server.http_app` makes of it.
    """
    require()
    from expunge.integrations.mcp.server import make_protocol_server

    return make_protocol_server(
        Tools(
            store,
            memory=memory,
            embed=embed,
            sigma=sigma,
            nu=nu,
            actor=actor,
            subject=subject,
            require_subject=require_subject,
        )
    )
