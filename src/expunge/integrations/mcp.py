"""A memory for agents, over the Model Context Protocol: remember, recall, forget, and prove it.

Six tools over one notebook of a store (:mod:`expunge.integrations.notebook`). Texts are embedded on this machine; any
function from texts to rows will do. Every edit is durable and signed before its tool answers, and the answer names its
leaf of the ledger. What goes wrong reaches the client as a tool error that begins with the error's code; an
unforeseen failure says nothing but that it happened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from expunge.errors import ExpungeError, InputError, MissingExtra, VerificationError
from expunge.integrations.embedding import Embed, embed_texts, words
from expunge.integrations.notebook import Notebook, NotebookEdit
from expunge.store import Store

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = [
    "ForgetResult",
    "ForgetSubjectResult",
    "LeafReceipt",
    "RecalledNote",
    "RememberResult",
    "Tools",
    "WarrantyStatus",
    "make_server",
]

Params = ParamSpec("Params")
Result = TypeVar("Result")

MAX_TEXT = 100_000
MAX_RESULTS = 100

INSTRUCTIONS = """A durable memory with signed receipts. Use remember for what should outlive this conversation, with
the subject it is about (a user's id) where there is one; recall before answering from memory; forget or forget_subject
when somebody asks for it, and give them the leaf numbers of the receipts."""


@dataclass(frozen=True)
class LeafReceipt:
    """The outcome of an edit, and the leaf of the ledger with its signed receipt."""

    outcome: str
    leaf: int

    @classmethod
    def of(cls, edit: NotebookEdit) -> LeafReceipt:
        """The receipt of one edit."""
        return cls(edit.outcome, edit.index)


@dataclass(frozen=True)
class RememberResult:
    """What remember answers; a second receipt is that of a rebuild at the cap for the new size."""

    id: str
    notes: int
    receipts: list[LeafReceipt]


@dataclass(frozen=True)
class RecalledNote:
    """One note: similarity is the kernel's, in [0, 1]; weight is its coefficient in the fit, often zero."""

    id: str
    text: str
    subject: str | None
    similarity: float
    weight: float


@dataclass(frozen=True)
class ForgetResult:
    """What forget answers: the notes are gone from the database, and the receipts say so.

    A second receipt is that of a rebuild at the cap for the new size.
    Where waiting is not null, it says why the database's files still hold what was erased.
    """

    ids: list[str]
    notes: int
    receipts: list[LeafReceipt]
    waiting: str | None


@dataclass(frozen=True)
class ForgetSubjectResult:
    """What forget_subject answers. Where complete is false, some memory of the store refused, and says why.

    Where waiting is not null, it says why the database's files still hold what was erased.
    """

    complete: bool
    entries: int
    receipts: list[LeafReceipt]
    refused: list[str]
    summary_leaf: int | None
    summary_salt: str | None
    waiting: str | None


@dataclass(frozen=True)
class WarrantyStatus:
    """One pruned entry: what is proved to remain of its slack, and whether its certificate holds."""

    id: str
    mode: str
    status: str
    remaining: float | None


@dataclass(frozen=True)
class ReceiptCheck:
    """What verify_receipt answers. For a check that does not rest on this server, use the three texts offline."""

    verified: bool
    problem: str | None
    outcome: str | None
    time: str | None
    entries: int | None
    signed_receipt: str | None
    inclusion_proof: str | None
    log_key: str


class Tools:
    """The six tools, as methods: usable without a server."""

    def __init__(
        self, store: Store, *, memory: str = "notes", embed: Embed = words, sigma: float = 1.0, nu: float = 0.5
    ) -> None:
        self.store = store
        self.notebook = Notebook(store, memory, sigma=sigma, nu=nu)
        self._embed = embed

    def remember(self, text: str, subject: str | None = None, id: str | None = None) -> RememberResult:  # noqa: A002
        """Keep a text. subject says whose it is (a user's id), so that everything of theirs can be erased later."""
        key = embed_texts(self._embed, [_check_text(text)], self.notebook.dimension)[0]
        edits = self.notebook.write(key, id=id, subject=subject, payload=text)
        return RememberResult(edits[0].applied[0], len(self.notebook), [LeafReceipt.of(edit) for edit in edits])

    def recall(self, query: str, k: int = 5) -> list[RecalledNote]:
        """Find the kept texts that are nearest to a query, nearest first."""
        if not 1 <= k <= MAX_RESULTS:
            raise InputError(f"k is 1 to {MAX_RESULTS}, not {k}")
        dimension = self.notebook.dimension
        if dimension is None:
            return []
        point = embed_texts(self._embed, [_check_text(query)], dimension)[0]
        return [
            RecalledNote(note.id, str(note.payload), note.subject, note.similarity, note.weight)
            for note in self.notebook.nearest(point, k)
        ]

    def forget(self, ids: list[str]) -> ForgetResult:
        """Erase texts by id, for good: content, embedding and salt leave the database.

        Certificates of entries that were pruned for good while one of the texts was there end with it.
        """
        edits = self.notebook.erase(ids)
        receipts = [LeafReceipt.of(edit) for edit in edits]
        erased = [name for edit in edits for name in edit.applied]
        return ForgetResult(erased, len(self.notebook), receipts, self.store.waiting())

    def forget_subject(self, subject: str) -> ForgetSubjectResult:
        """Erase everything of one subject, in every memory of the store, with one signed summary."""
        done = self.notebook.erase_subject(subject)
        parts = () if done.summary is None else done.summary.memories
        receipts = [LeafReceipt.of(edit) for edit in done.edits]
        receipts += [LeafReceipt(part.outcome, part.receipt.index) for part in parts if part.receipt is not None]
        return ForgetSubjectResult(
            complete=done.complete,
            entries=done.count,
            receipts=sorted(receipts, key=lambda receipt: receipt.leaf),
            refused=[f"{part.memory}: {part.reason}" for part in parts if part.outcome in ("refused", "failed")],
            summary_leaf=None if done.summary is None else done.summary.index,
            summary_salt=None if done.summary is None else done.summary.salt.hex(),
            waiting=self.store.waiting(),
        )

    def warranties(self) -> list[WarrantyStatus]:
        """Tell where the certificates of pruned entries stand.

        A certificate is valid, expired under the present entries, or ended for good by an erasure.
        """
        memory = self.notebook.memory
        rows = [] if memory is None else memory.warranties()
        return [WarrantyStatus(row.id, row.mode, row.status, row.remaining) for row in rows]

    def verify_receipt(self, leaf: int | None = None, receipt: str | None = None) -> ReceiptCheck:
        """Check a receipt, by its leaf number or as text: signature, form, and its place in the ledger."""
        from expunge.verify import verify_inclusion

        if (leaf is None) == (receipt is None):
            raise InputError("give the number of a leaf, or the text of a receipt, and one of them")
        key = self.store.log_key.to_text()
        given = (receipt or "").encode("utf-8", "surrogatepass")
        envelope = given if leaf is None else self.store.leaf(leaf).envelope
        try:
            kind, stated = self._open_receipt(envelope)
            index = self._find_leaf(envelope) if leaf is None else leaf
            proof = self.store.inclusion(index).to_bytes()
            verify_inclusion(envelope, proof, [self.store.log_key], self.store.origin)
        except VerificationError as problem:
            return ReceiptCheck(False, f"{problem.code}: {problem}", None, None, None, None, None, key)
        return ReceiptCheck(True, None, kind, *stated, envelope.decode(), proof.decode(), key)

    def _open_receipt(self, envelope: bytes) -> tuple[str, tuple[str, int | None]]:
        """Outcome, time and number of entries of a receipt, or of an event of the store, once it is verified."""
        from expunge.ledger.envelope import open_statement, parse_envelope
        from expunge.ledger.receipt_format import PREDICATE_TYPE
        from expunge.ledger.receipt_parsing import parse_predicate
        from expunge.ledger.statement import parse_statement
        from expunge.store import EVENT_TYPE, parse_event

        claimed = parse_statement(parse_envelope(envelope).payload).predicate_type
        wanted = EVENT_TYPE if claimed == EVENT_TYPE else PREDICATE_TYPE
        statement = open_statement(envelope, [self.store.public_key], wanted)
        if wanted == EVENT_TYPE:
            event = parse_event(statement)
            return event.kind, (event.time, None)
        stated = parse_predicate(statement)
        return stated.outcome, (stated.time, stated.applied.count)

    def _find_leaf(self, envelope: bytes) -> int:
        for leaf in self.store.receipts():
            if leaf.envelope == envelope:
                return leaf.index
        raise VerificationError("this receipt is signed by this store's key, and not in its ledger")


def make_server(
    store: Store, *, memory: str = "notes", embed: Embed = words, sigma: float = 1.0, nu: float = 0.5
) -> MCPServer[Any]:
    """A server of the six tools. Run it with ``server.run()`` (stdio) or ``server.run("streamable-http")``."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError:
        raise MissingExtra("an MCP server needs the extra: pip install 'expunge[mcp]'") from None
    import expunge

    def with_tool_errors(tool: Callable[Params, Result]) -> Callable[Params, Result]:
        @functools.wraps(tool)
        def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            try:
                return tool(*args, **kwargs)
            except ExpungeError as problem:
                raise ToolError(f"{problem.code}: {problem}") from None

        return wrapped

    tools = Tools(store, memory=memory, embed=embed, sigma=sigma, nu=nu)
    server: MCPServer[Any] = MCPServer(
        "expunge", instructions=INSTRUCTIONS, version=expunge.__version__, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    adds = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    erases = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
    for tool, hints in (
        (tools.remember, adds),
        (tools.recall, reads),
        (tools.forget, erases),
        (tools.forget_subject, erases),
        (tools.warranties, reads),
        (tools.verify_receipt, reads),
    ):
        server.add_tool(with_tool_errors(tool), annotations=hints)
    return server


def _check_text(text: str) -> str:
    if not text.strip() or len(text) > MAX_TEXT:
        raise InputError(f"a text has 1 to {MAX_TEXT} characters that are not all blank")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("a text must be valid Unicode") from None
    return text
