"""A real store whose random history is played: its databases one after another, keys, clock, and written ledgers."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict
from unittest.mock import patch

from sqlalchemy.util import LRUCache

import expunge
from expunge.ledger.note import NoteKey
from expunge.ledger.receipt_format import MAX_LISTED
from expunge.ledger.signing import SigningKey
from expunge.ledger.verifying_key import VerifyingKey
from expunge.mirrors.address import ADAPTERS
from expunge.store import Store, StoredMemory
from expunge.verify import verify_ledger
from expunge.verify.ledger import LedgerSummary

from .file_mirror import STAND_IN

__all__ = ["SUBJECTS", "Asked", "StoreHistory", "WrittenLedger"]

SIGNING_KEY = SigningKey.from_seed(bytes(range(32)))
_COMPILED: Any = LRUCache(500)
SUBJECTS = ("ada", "bo", "cy", None)
# Entries that a receipt has room for, in a history with long lists.
SHORT = 3
# Long ago: no delay of a history ends in the future.
START = datetime(2015, 1, 1, tzinfo=UTC)


class Asked(TypedDict, total=False):
    """Under which case an edit is asked for, and by whom."""

    case: str
    actor: str


@dataclass(frozen=True)
class WrittenLedger:
    """A ledger that a store wrote, with what it is verified with."""

    kinds: tuple[str, ...]
    envelopes: tuple[bytes, ...]
    head: bytes
    keys: tuple[VerifyingKey, ...]
    log_keys: tuple[NoteKey, ...]
    origin: str
    now: int

    def verify(self) -> LedgerSummary:
        """Replay it; VerificationError where that is refused."""
        return verify_ledger(self.envelopes, self.head, self.keys, self.log_keys, self.origin, now=self.now)


@dataclass
class StoreHistory:
    """A store in a folder, what was done to it, and the backup that it can be restored from.

    ``new_url`` makes the address of an empty database; by default it is a file in the folder.
    """

    folder: Path
    rng: random.Random
    new_url: Callable[[], str] | None = None
    acts: Counter[str] = field(default_factory=Counter)
    store: Store = field(init=False)
    backup: Path | None = None
    made: int = 0
    now: datetime = START
    key: SigningKey = SIGNING_KEY
    head_key: SigningKey = SIGNING_KEY
    url: str = ""
    longest: int = MAX_LISTED
    left: list[WrittenLedger] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.rng.random() < 0.125:
            self.longest = SHORT
        self.open_new()

    @contextmanager
    def patched(self) -> Iterator[None]:
        """The length of lists in receipts, and the stand-in for mirrors, while the history is played."""
        with ExitStack() as stack:
            for module in ("attestation.statements", "ledger.event"):
                stack.enter_context(patch(f"expunge.{module}.MAX_LISTED", self.longest))
            stack.enter_context(patch.dict(ADAPTERS, STAND_IN))
            yield

    def ledgers(self) -> list[WrittenLedger]:
        """Every ledger of the history, the present one last."""
        return [*self.left, self.written()]

    def written(self) -> WrittenLedger:
        """The present ledger."""
        leaves, store = self.store.receipts(), self.store
        return WrittenLedger(
            tuple(leaf.kind for leaf in leaves),
            tuple(leaf.envelope for leaf in leaves),
            store.checkpoint().to_bytes(),
            store.public_keys,
            store.log_keys,
            store.origin,
            int(self.now.timestamp()),
        )

    def open_new(self) -> None:
        """Open an empty store; with a file, that of another key than the first excepted, it is a copy of one."""
        if self.new_url is not None:
            self.url = self.new_url()
        else:
            file = self.folder / f"ward-{self.number()}.db"
            empty = self.folder.parent / f"empty-{self.folder.name.partition('-')[0]}.db"
            if self.key is self.head_key is SIGNING_KEY:
                if not empty.exists():
                    expunge.open(f"sqlite:///{empty}", SIGNING_KEY, clock=self.clock).close()
                shutil.copy(empty, file)
            self.url = f"sqlite:///{file}"
        self.open_store()

    def open_store(self) -> None:
        """Open the store, as another process would after a crash."""
        pepper = self.folder / "pepper"
        self.store = expunge.open(self.url, self.key, head_key=self.head_key, pepper=pepper, clock=self.clock)
        # Statements are compiled once for all histories.
        engine: Any = self.store._database.engine
        engine._compiled_cache = _COMPILED

    def clock(self) -> datetime:
        """The time, of every process; it goes on by a second at least."""
        self.now += timedelta(seconds=self.rng.randint(1, 100))
        return self.now

    def asked(self) -> Asked:
        """A case and an actor, or none."""
        if self.rng.random() < 0.7:
            return {}
        return {"case": f"DSR-{self.rng.randint(1, 9)}", "actor": self.rng.choice(["ida", "jo"])}

    def number(self) -> int:
        """A number that nothing else has."""
        self.made += 1
        return self.made

    def memory(self) -> StoredMemory:
        """One of the memories."""
        return self.store[self.rng.choice(list(self.store))]

    def sources(self) -> list[tuple[str, str]]:
        """What an entry is made from: often nothing, or entries of any memory."""
        if self.rng.random() < 0.6:
            return []
        there = [(name, one) for name in self.store for one in self.store[name].ids]
        return self.rng.sample(there, min(len(there), self.rng.randint(1, 2)))

    def ids(self, memory: StoredMemory) -> list[str]:
        """Every entry, pruned ones included."""
        return [*memory.ids, *(row.id for row in memory.warranties())]
