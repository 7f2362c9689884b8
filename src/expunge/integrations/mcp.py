"""A memory for agents, over the Model Context Protocol: remember, recall, forget, and prove it.

Six tools over one notebook of a store (:mod:`expunge.integrations.notebook`). Texts are embedded on this machine; any
function from texts to rows will do. Every edit is durable and signed before its tool answers, and the answer names its
leaf of the ledger. What goes wrong is told to the client as a tool error that begins with the error's name; an
unforeseen failure tells it nothing but that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from expunge.errors import ExpungeError, InputError, MissingExtra, VerificationError
from expunge.integrations.embedding import Embed, embedded, words
from expunge.integrations.notebook import Notebook, Step
from expunge.store import Store

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["Forgetting", "Forgotten", "Held", "Recalled", "Receipt", "Remembered", "Tools", "make_server"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

LONGEST = 100_000
MOST = 100

INSTRUCTIONS = """A durable memory with signed receipts. Use remember for what should outlive this conversation, with
the subject it is about (a user's id) where there is one; recall before answering from memory; forget or forget_subject
when somebody asks for it, and give them the leaf numbers of the receipts."""


@dataclass(frozen=True)
class Receipt:
    """One leaf of the ledger: what was done, and the number that finds its signed receipt."""

    outcome: str
    leaf: int

    @classmethod
    def of(cls, step: Step) -> Receipt:
        """Of one step."""
        return cls(step.outcome, step.index)


@dataclass(frozen=True)
class Remembered:
    """What remember answers; a second receipt is that of a rebuild at the cap for the new size."""

    id: str
    notes: int
    receipts: list[Receipt]


@dataclass(frozen=True)
class Recalled:
    """One note: similarity is the kernel's, in [0, 1]; weight is its coefficient in the fit, often zero."""

    id: str
    text: str
    subject: str | None
    similarity: float
    weight: float


@dataclass(frozen=True)
class Forgotten:
    """What forget answers: the notes are gone from the database, and the receipts say so."""

    ids: list[str]
    notes: int
    receipts: list[Receipt]


@dataclass(frozen=True)
class Forgetting:
    """What forget_subject answers. Where complete is false, some memory of the store refused, and says why."""

    complete: bool
    entries: int
    receipts: list[Receipt]
    refused: list[str]
    summary_leaf: int | None
    summary_salt: str | None


@dataclass(frozen=True)
class Held:
    """One pruned entry: what is proved to remain of its slack, and whether its certificate holds."""

    id: str
    mode: str
    status: str
    remaining: float
    issued_at_edit: int
    expired_at_edit: int | None


@dataclass(frozen=True)
class Checked:
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

    def remember(self, text: str, subject: str | None = None, id: str | None = None) -> Remembered:  # noqa: A002
        """Keep a text. subject says whose it is (a user's id), so that everything of theirs can be erased later."""
        key = embedded(self._embed, [_text(text)], self.notebook.dimension)[0]
        steps = self.notebook.write(key, id=id, subject=subject, payload=text)
        return Remembered(steps[0].applied[0], len(self.notebook), [Receipt.of(step) for step in steps])

    def recall(self, query: str, k: int = 5) -> list[Recalled]:
        """Find the kept texts that are nearest to a query, nearest first."""
        if not 1 <= k <= MOST:
            raise InputError(f"k is 1 to {MOST}, not {k}")
        dimension = self.notebook.dimension
        if dimension is None:
            return []
        point = embedded(self._embed, [_text(query)], dimension)[0]
        return [
            Recalled(note.id, str(note.payload), note.subject, note.similarity, note.weight)
            for note in self.notebook.nearest(point, k)
        ]

    def forget(self, ids: list[str]) -> Forgotten:
        """Erase texts by id, for good: content, embedding and salt leave the database."""
        steps = self.notebook.erase(ids)
        return Forgotten(list(steps[-1].applied), len(self.notebook), [Receipt.of(step) for step in steps])

    def forget_subject(self, subject: str) -> Forgetting:
        """Erase everything of one subject, in every memory of the store, with one signed summary."""
        done = self.notebook.erase_subject(subject)
        parts = () if done.summary is None else done.summary.memories
        receipts = [Receipt.of(step) for step in done.steps]
        receipts += [Receipt(part.outcome, part.receipt.index) for part in parts if part.receipt is not None]
        return Forgetting(
            complete=done.complete,
            entries=done.count,
            receipts=receipts,
            refused=[f"{part.memory}: {part.reason}" for part in parts if part.outcome in ("refused", "failed")],
            summary_leaf=None if done.summary is None else done.summary.index,
            summary_salt=None if done.summary is None else done.summary.salt.hex(),
        )

    def warranties(self) -> list[Held]:
        """Tell where the certificates of pruned entries stand: valid, or expired and by which edit."""
        memory = self.notebook.memory
        rows = [] if memory is None else memory.warranties()
        return [Held(row.id, row.mode, row.status, row.remaining, row.issued_at, row.expired_at) for row in rows]

    def verify_receipt(self, leaf: int | None = None, receipt: str | None = None) -> Checked:
        """Check a receipt, by its leaf number or as text: signature, form, and its place in the ledger."""
        from expunge.verify import verify_inclusion

        if (leaf is None) == (receipt is None):
            raise InputError("give the number of a leaf, or the text of a receipt, and one of them")
        key = self.store.log_key.to_text()
        given = (receipt or "").encode("utf-8", "surrogatepass")
        envelope = given if leaf is None else self.store.leaf(leaf).envelope
        try:
            kind, stated = self._opened(envelope)
            index = self._place_of(envelope) if leaf is None else leaf
            proof = self.store.inclusion(index).to_bytes()
            verify_inclusion(envelope, proof, [self.store.log_key], self.store.origin)
        except VerificationError as problem:
            return Checked(False, f"{problem.code}: {problem}", None, None, None, None, None, key)
        return Checked(True, None, kind, *stated, envelope.decode(), proof.decode(), key)

    def _opened(self, envelope: bytes) -> tuple[str, tuple[str, int | None]]:
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

    def _place_of(self, envelope: bytes) -> int:
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

    def told(tool: Callable[Given, Answer]) -> Callable[Given, Answer]:
        @functools.wraps(tool)
        def told_tool(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
            try:
                return tool(*args, **kwargs)
            except ExpungeError as problem:
                raise ToolError(f"{problem.code}: {problem}") from None

        return told_tool

    tools = Tools(store, memory=memory, embed=embed, sigma=sigma, nu=nu)
    server: MCPServer[Any] = MCPServer(
        "expunge", instructions=INSTRUCTIONS, version=expunge.__version__, log_level="WARNING"
    )
    looks = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    adds = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    takes = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
    for tool, hints in (
        (tools.remember, adds),
        (tools.recall, looks),
        (tools.forget, takes),
        (tools.forget_subject, takes),
        (tools.warranties, looks),
        (tools.verify_receipt, looks),
    ):
        server.add_tool(told(tool), annotations=hints)
    return server


def _text(text: str) -> str:
    if not text.strip() or len(text) > LONGEST:
        raise InputError(f"a text has 1 to {LONGEST} characters that are not all blank")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("a text must be valid Unicode") from None
    return text
