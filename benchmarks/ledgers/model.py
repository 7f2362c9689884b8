"""A plain model of a store that writes receipts and events, without any content: sets of names, and copies of them.

It keeps account in another way than the replay: every edit leaves a copy of its memory, and every forgetting a set of
the entries that its certificates rest on. What `model_steps` writes with it is honest; a lie
uses `World.edit` and `World.note` to say what is not so.
"""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from typing import Any, Final

import numpy as np

from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.commitment import state_digest, weights_digest
from expunge.ledger.encoding import encode_base64
from expunge.ledger.envelope import sign_statement
from expunge.ledger.event import LISTS, Event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import NoteKey
from expunge.ledger.receipt_format import (
    PREDICATE_TYPE,
    Listed,
    Predicate,
    ProblemStated,
    Pruning,
    RequestStated,
    Sizes,
    Solver,
)
from expunge.ledger.signing import SigningKey, VerifyingKey
from expunge.ledger.statement import Statement, Subject

__all__ = ["ORIGIN", "START", "ModelMemory", "Names", "World", "doubled"]

ORIGIN: Final = "ledger.example/model"
START: Final = 1_770_000_000
_SIGNER = SigningKey.from_seed(bytes(range(32)))
_LOGGER = SigningKey.from_seed(bytes(range(1, 33)))

Names = frozenset[str]


@dataclass
class ModelMemory:
    """One memory: what is in it, what its certificates rest on, and a copy of it after every edit."""

    uuid: str
    cap: float
    initial: int | None = None
    width: float = 2.0
    live: Names = frozenset()
    archived: Names = frozenset()
    # Forgotten entries, and the forgetting that their certificates are of; None once these have ended.
    forgotten: dict[str, int | None] = field(default_factory=dict)
    # What the certificates of each forgetting rest on.
    anchors: dict[int, Names] = field(default_factory=dict)
    valid: dict[str, bool] = field(default_factory=dict)
    edit: int = -1
    last: Predicate | None = None
    # What every edit left.
    copies: list[ModelMemory] = field(default_factory=list)
    erased: set[str] = field(default_factory=set)
    ever_forgotten: set[str] = field(default_factory=set)
    dropped: bool = False

    @property
    def digest(self) -> str:
        """The digest of the state: of live entries, cap and width; where there are none, the format's."""
        if not self.live:
            return _empty(self.width)
        return hashlib.sha256(f"{self.cap.hex()} {self.width.hex()} {sorted(self.live)}".encode()).hexdigest()

    @property
    def sizes(self) -> Sizes:
        """Live entries, and pruned ones."""
        return Sizes(len(self.live), len(self.archived) + len(self.forgotten))

    @property
    def everything(self) -> list[str]:
        """Every entry, forgotten ones included."""
        return sorted({*self.live, *self.archived, *self.forgotten})

    @property
    def least(self) -> int:
        """The fewest live entries that the cap allows."""
        return ceil(1 / Fraction(self.cap))

    def resting_on(self, names: Iterable[str]) -> set[str]:
        """Forgotten entries whose certificates end when these entries go."""
        gone = set(names)
        over = {edit for edit, anchor in self.anchors.items() if anchor & gone}
        return {name for name, edit in self.forgotten.items() if edit in over and name not in gone}

    def copy(self) -> ModelMemory:
        """What a backup would have of it."""
        return replace(
            self, forgotten=dict(self.forgotten), anchors=dict(self.anchors), valid=dict(self.valid), copies=[]
        )


def _empty(width: float) -> str:
    weights = weights_digest(0.0, np.zeros(0), bytes(32))
    return state_digest(1.0, width, np.zeros((0, 32), np.uint8), weights)


def doubled(cap: float, entries: int) -> float:
    """The cap of a refit, by the rule."""
    while ceil(1 / Fraction(cap)) > max(entries, 1):
        cap = min(1.0, cap * 2)
    return cap


class World:
    """Memories, holds and requests of one store, and the leaves that it has written."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = START
        self.memories: list[ModelMemory] = []
        self.leaves: list[Predicate | Event] = []
        self.holds: dict[int, tuple[ModelMemory, str | None]] = {}
        self.last_hold = 0
        # The edit of its memory that was the last one when a hold was placed.
        self.held_since: dict[int, int] = {}
        # Requests for erasure by leaf, and receipts of deletions that no summary counts.
        self.requests: dict[int, str] = {}
        self.due: dict[int, int] = {}
        # Case and actor of each request, and of whoever asks now.
        self.asked: dict[int, tuple[str | None, str | None]] = {}
        self._asking: tuple[str | None, str | None] = (None, None)
        self.uncounted: dict[int, tuple[ModelMemory, str, int]] = {}
        # By mirror: the memory that it copies, or None for all, and the erasures that it has not followed, by leaf.
        self.mirrors: dict[str, tuple[ModelMemory | None, dict[int, int]]] = {}
        self.acts: Counter[str] = Counter()
        self.seen: list[tuple[Checkpoint, int]] = []
        self.trusted = [_SIGNER.public]
        self.head_key = _LOGGER.public
        self.log_keys = [NoteKey(ORIGIN, self.head_key)]
        # Keys for heads that were added, and sign none.
        self.spare: list[VerifyingKey] = []
        # What is done to statements before they are signed, by leaf: no program of ours writes such a receipt.
        self.forged: dict[int, Callable[[dict[str, Any]], None]] = {}
        # What is done to the envelopes behind the head's back.
        self.alter: Callable[[list[bytes]], list[bytes]] | None = None
        # Longer lists are given by their roots.
        self.longest = 1 << 60

    def signed(self) -> tuple[list[bytes], bytes]:
        """Every leaf as an envelope, and the head that they lead to."""
        envelopes = [sign_statement(self._statement(at), _SIGNER).to_bytes() for at in range(len(self.leaves))]
        head = sign_checkpoint(_head(envelopes), _LOGGER).to_bytes()
        return (envelopes if self.alter is None else self.alter(envelopes)), head

    def _statement(self, at: int) -> Statement:
        """The statement of a leaf, forged where it is to be."""
        stated = self.leaves[at]
        if at not in self.forged:
            return stated.to_statement()
        if isinstance(stated, Event):
            raise TypeError("a receipt is forged")
        predicate = json.loads(json.dumps(stated.to_json()))
        self.forged[at](predicate)
        return Statement(stated.subjects, PREDICATE_TYPE, predicate)

    def head(self) -> Checkpoint:
        """The head as it is now, not signed."""
        return _head([sign_statement(leaf.to_statement(), _SIGNER).to_bytes() for leaf in self.leaves])

    def add_key(self, key: VerifyingKey | None = None) -> VerifyingKey:
        """Say that a key may sign heads, by default a new one."""
        added = key or SigningKey.from_seed(self.rng.randbytes(32)).public
        facts: dict[str, Any] = {"key": encode_base64(added.raw), "algorithm": "ed25519", "use": "heads"}
        self.note("key_added", None, Subject("key", added.digest), keyid=added.digest, **facts)
        return added

    def revoke_key(self, key: VerifyingKey) -> None:
        """Say that a key signs no more heads."""
        self.note("key_revoked", None, Subject("key", key.digest), keyid=key.digest, use="heads", reason="rotated")

    # What a lie says goes through these two.

    def edit(self, memory: ModelMemory, action: Any, outcome: Any, **stated: Any) -> Predicate:
        """Write a receipt from the last one of a memory to what it is now; any field may be stated otherwise."""
        last, standing = memory.last, outcome in ("refused", "noop", "expired")
        memory.edit += not standing
        lists = {name: self.listed(stated.pop(name, ())) for name in LISTS if name != "entries"}
        receipt = Predicate(
            memory=memory.uuid,
            edit=memory.edit,
            action=action,
            outcome=outcome,
            time=self.time(),
            state_before=None if last is None else last.state_after,
            state_after=memory.digest,
            before=Sizes(0, 0) if last is None else last.after,
            after=memory.sizes,
            applied=Listed(),
            problem=ProblemStated(memory.cap, memory.width, 3, memory.initial),
            solver=Solver("model", "1"),
            request=self.request(),
        )
        receipt = replace(receipt, **{name: listed for name, (listed, _) in lists.items()} | stated)
        self.leaves.append(receipt)
        leaf = len(self.leaves) - 1
        for name, (listed, commitments) in lists.items():
            if listed.root is not None and name not in stated:
                self.parts(name, commitments, receipt.request, memory, receipt.state_after)
        memory.last = receipt
        if not standing:
            memory.copies.append(memory.copy())
        if action == "deletion" and outcome in ("certified_zero", "decrement", "refitted", "emptied"):
            self.uncounted[leaf] = (memory, outcome, receipt.applied.count)
            self.owe(leaf, memory, receipt.applied.count)
        if outcome == "pruned" and receipt.pruning is not None and receipt.pruning.mode == "forget":
            self.owe(leaf, memory, receipt.applied.count)
        return receipt

    def owe(self, leaf: int, memory: ModelMemory, entries: int) -> None:
        """Every mirror of a memory is to follow an erasure."""
        for where, owed in self.mirrors.values():
            if entries and where in (None, memory):
                owed[leaf] = entries

    def note(self, kind: Any, memory: ModelMemory | None, subject: Subject | None = None, **facts: Any) -> int:
        """Write an event about the last state of a memory, or about a subject; return its leaf."""
        if subject is None:
            if memory is None or memory.last is None:
                raise ValueError("an event is about the state of a memory, or about a subject")
            subject = Subject("state", memory.last.state_after)
        name = None if memory is None else memory.uuid
        self.leaves.append(Event(kind, name, self.time(), subject, facts, self.request()))
        return len(self.leaves) - 1

    def time(self) -> str:
        """The next time, by a clock that may run back a little."""
        self.now += self.rng.randint(0, 100)
        return self.at(self.now - self.rng.randint(0, 100))

    def at(self, seconds: int) -> str:
        """A time as receipts spell it."""
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def request(self) -> RequestStated:
        """A request with a random id, of the case and the actor of whoever asks now."""
        return RequestStated(str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), *self._asking)

    @contextmanager
    def asked_by(self, case: str | None, actor: str | None) -> Iterator[None]:
        """Write leaves with these commitments to a case and an actor."""
        self._asking, before = (case, actor), self._asking
        yield
        self._asking = before

    def name(self) -> str:
        """A random commitment."""
        return self.rng.randbytes(32).hex()

    def listed(self, names: Iterable[str]) -> tuple[Listed, tuple[str, ...]]:
        """The list of some entries, by its root where it is long."""
        found = tuple(sorted(names))
        if len(found) > self.longest:
            return Listed.root_of(found), found
        return Listed(found, len(found)), found

    def parts(
        self, name: str, commitments: tuple[str, ...], request: RequestStated, memory: ModelMemory, state: str
    ) -> None:
        """Write a list in parts."""
        size = self.rng.randint(1, len(commitments))
        parts = -(-len(commitments) // size)
        for part in range(parts):
            self.note(
                "listed",
                memory,
                Subject("state", state),
                receipt=request.id,
                list=name,
                part=part + 1,
                parts=parts,
                commitments=commitments[part * size : (part + 1) * size],
            )

    def alive(self) -> list[ModelMemory]:
        """Memories that were not dropped."""
        return [memory for memory in self.memories if not memory.dropped]

    def some(self, names: Iterable[str], most: int = 3) -> Names:
        """One of these names or a few more."""
        found = sorted(names)
        return frozenset(self.rng.sample(found, self.rng.randint(1, min(most, len(found)))))

    def held(self, memory: ModelMemory) -> set[str]:
        """Entries that are under a hold of their own."""
        return {entry for where, entry in self.holds.values() if where is memory and entry is not None}

    # Honest acts; each returns whether it could do anything.

    def create(self, count: int | None = None, cap: float | None = None) -> ModelMemory:
        """A new memory."""
        if count is None:
            count = self.rng.choice([0, *range(4, 12)])
        if cap is None:
            cap = self.rng.choice([0.25, 0.3, 0.5, 0.9, 1.0])
        memory = ModelMemory(
            str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
            cap if count else 1.0,
            self.rng.choice([count, None]),
            live=frozenset(self.name() for _ in range(count)),
        )
        self.memories.append(memory)
        self.edit(memory, "creation", "created", applied=memory.live)
        return memory

    def admit(self, memory: ModelMemory, count: int = 1) -> Predicate:
        """Admit entries; some may come back from the archive, and certificates expire or be renewed."""
        back = self.some(memory.archived) if memory.archived and self.rng.random() < 0.4 else frozenset()
        new = frozenset(self.name() for _ in range(count))
        memory.live |= new | back
        memory.archived -= back
        return self.edit(memory, "admission", "admitted", applied=new, reactivated=back, **self.turn(memory))

    def turn(self, memory: ModelMemory) -> dict[str, Names]:
        """Certificates that expire or are renewed."""
        certified = [name for name, edit in memory.forgotten.items() if edit is not None]
        expired = frozenset(name for name in certified if memory.valid.get(name, True) and self.rng.random() < 0.3)
        renewed = frozenset(name for name in certified if not memory.valid.get(name, True) and self.rng.random() < 0.3)
        memory.valid |= dict.fromkeys(expired, False) | dict.fromkeys(renewed, True)
        return {"expired": expired, "renewed": renewed}

    def delete(self, memory: ModelMemory, names: Iterable[str], **stated: Any) -> Predicate:
        """Delete entries, whatever their status, with the outcome that follows."""
        gone, was_live = frozenset(names), memory.live
        ended = memory.resting_on(gone)
        memory.live -= gone
        memory.archived -= gone
        for name in gone:
            memory.forgotten.pop(name, None)
        memory.erased |= gone
        left, back = memory.live | memory.archived, frozenset[str]()
        weighty = len(gone & was_live) > max(0, len(was_live) - memory.least)
        outcome = "decrement" if gone & was_live and (weighty or self.rng.random() < 0.5) else "certified_zero"
        if was_live and not left:
            outcome, memory.cap = "emptied", 1.0
        elif len(left) < memory.least and left:
            outcome, memory.cap = "refitted", doubled(memory.cap, len(left))
            back, ended = memory.archived, self.certified(memory)
        elif left:
            wanted = max(0, memory.least - len(memory.live))
            back = frozenset(self.rng.sample(sorted(memory.archived), wanted))
        memory.live |= back
        memory.archived -= back
        self.end(memory, ended)
        turned = {} if outcome in ("refitted", "emptied") else self.turn(memory)
        return self.edit(
            memory, "deletion", outcome, **{"applied": gone, "reactivated": back, "ended": ended, **turned, **stated}
        )

    def end(self, memory: ModelMemory, ended: Iterable[str]) -> None:
        """Certificates end."""
        for name in ended:
            memory.forgotten[name] = None
            memory.valid.pop(name, None)

    def certified(self, memory: ModelMemory) -> set[str]:
        """Forgotten entries whose certificates have not ended."""
        return {name for name, edit in memory.forgotten.items() if edit is not None}

    def prune(self, memory: ModelMemory, names: Names, mode: Any) -> Predicate:
        """Archive or forget live entries."""
        ended: set[str] = set()
        if mode == "forget":
            ended = memory.resting_on(names)
            self.end(memory, ended)
            memory.forgotten |= dict.fromkeys(names, memory.edit + 1)
            memory.anchors[memory.edit + 1] = memory.live - names
            memory.ever_forgotten |= names
        else:
            memory.archived |= names
        memory.live -= names
        unproved = self.rng.randint(0, len(memory.live) - memory.least)
        return self.edit(memory, "pruning", "pruned", applied=names, ended=ended, pruning=Pruning(mode, unproved))

    def prunable(self, memory: ModelMemory) -> Names:
        """Live entries that may be pruned together."""
        spare = len(memory.live) - max(1, memory.least)
        free = sorted(memory.live - self.held(memory))
        return frozenset(self.rng.sample(free, max(0, min(spare, self.rng.randint(1, 3), len(free)))))

    def rebuild(self, memory: ModelMemory) -> Predicate:
        """Fit afresh at another cap, at another width, or both."""
        ended, back = self.certified(memory), memory.archived
        memory.live |= back
        memory.archived = frozenset()
        if self.rng.random() < 0.7:
            memory.cap = self.rng.choice([cap for cap in (0.25, 0.5, 0.7, 1.0) if len(memory.live) * cap >= 1])
            memory.initial = len(memory.live)
        if self.rng.random() < 0.5:
            memory.width = self.rng.choice([1.0, 2.0, 5.0])
        self.end(memory, ended)
        return self.edit(memory, "rebuild", "rebuilt", ended=ended, reactivated=back)

    def restore(self, memory: ModelMemory, edit: int) -> Names:
        """Go back to an edit; return what is back that was erased or forgotten since."""
        copy = memory.copies[edit].copy()
        for name in ("cap", "initial", "width", "live", "archived", "forgotten", "anchors", "valid"):
            setattr(memory, name, deepcopy(getattr(copy, name)))
        self.edit(memory, "restoration", "restored", restored_edit=edit)
        content = memory.live | memory.archived
        return frozenset((content | set(memory.forgotten)) & memory.erased | content & memory.ever_forgotten)

    def hold(self, memory: ModelMemory, entry: str | None) -> int:
        """Put an entry or a subject under a hold."""
        self.last_hold += self.rng.randint(1, 3)
        self.note("held", memory, hold=self.last_hold, entry=entry)
        self.holds[self.last_hold] = (memory, entry)
        self.held_since[self.last_hold] = memory.edit
        return self.last_hold

    def release(self, number: int, cause: str = "request") -> None:
        """Release a hold."""
        memory, _ = self.holds.pop(number)
        self.note("released", memory, hold=number, cause=cause)

    def drop(self, memory: ModelMemory, *, named: bool) -> None:
        """Drop a memory, with its entries named or not."""
        entries: Any = None
        listed, names = self.listed(memory.everything)
        if named:
            entries = {"commitments": listed.commitments, "count": listed.count, "root": listed.root}
        leaf = self.note("dropped", memory, live=memory.sizes.live, pruned=memory.sizes.pruned, entries=entries)
        if named and listed.root is not None:
            event = self.leaves[-1]
            self.parts("entries", names, event.request, memory, memory.digest)
        memory.dropped = True
        self.owe(leaf, memory, memory.sizes.total)
        self.holds = {number: held for number, held in self.holds.items() if held[0] is not memory}

    def add_mirror(self, memory: ModelMemory | None) -> str:
        """Copy a memory, or all, to another system; the mirror's commitment."""
        mirror, system = self.name(), self.rng.choice(["chroma", "pgvector", "lancedb", "qdrant"])
        of = None if memory is None else memory.uuid
        self.note("mirror_added", None, Subject("mirror", mirror), system=system, of=of)
        self.mirrors[mirror] = memory, {}
        return mirror

    def check_mirror(self, mirror: str, leaves: Iterable[int]) -> None:
        """Say what is left of some erasures that a mirror was to follow."""
        owed = self.mirrors[mirror][1]
        self.find(mirror, [(leaf, owed.pop(leaf)) for leaf in sorted(leaves)])

    def find(self, mirror: str, erasures: Iterable[tuple[int, int]]) -> int:
        """Write what is left of erasures, given with their entries; the leaf."""
        findings = []
        for leaf, entries in erasures:
            absent = self.rng.randint(0, entries)
            in_files = self.rng.randint(0, entries - absent)
            counts = {"absent": absent, "in_files": in_files, "not_checkable": entries - absent - in_files}
            findings.append({"leaf": leaf, "entries": entries, **counts})
        return self.note("mirror_checked", None, Subject("mirror", mirror), findings=findings)

    def remove_mirror(self, mirror: str) -> None:
        """Give a mirror up, with the erasures that it has not followed."""
        pending = len(self.mirrors.pop(mirror)[1])
        self.note("mirror_removed", None, Subject("mirror", mirror), pending=pending)

    def summarize(self, leaves: Iterable[int], subject: str, requested: int | None = None, failed: int = 0) -> int:
        """Sum up deletions as the erasure of a subject, with some memories where it failed."""
        parts = [(leaf, *self.uncounted.pop(leaf)) for leaf in leaves]
        memories: list[dict[str, Any]] = [
            {"memory": memory.uuid, "outcome": outcome, "leaf": leaf, "entries": count}
            for leaf, memory, outcome, count in parts
        ]
        told = {part["memory"] for part in memories}
        others = [memory for memory in self.alive() if memory.uuid not in told and memory.everything]
        memories += [
            {"memory": memory.uuid, "outcome": "failed", "leaf": None, "entries": 0} for memory in others[:failed]
        ]
        complete = all(part["outcome"] != "failed" for part in memories)
        if requested is not None and complete:
            self.requests.pop(requested)
        about = Subject("subject", subject)
        return self.note("subject_erased", None, about, memories=memories, complete=complete, requested=requested)

    def ask(self) -> int:
        """Ask for an erasure; return the leaf of the request."""
        subject, due = self.name(), self.now + self.rng.randint(1, 30) * 86_400
        case, actor = (self.rng.choice([None, self.name()]) for _ in range(2))
        with self.asked_by(case, actor):
            leaf = self.note("erasure_requested", None, Subject("subject", subject), due=self.at(due))
        self.asked[leaf] = case, actor
        self.requests[leaf], self.due[leaf] = subject, due
        return leaf

    def erase(self, count: int, requested: int | None = None, failed: int = 0) -> int:
        """Delete something in some memories, and sum it up; what was asked for, when it is due."""
        if requested is not None:
            self.now = max(self.now, self.due[requested])
        before = set(self.uncounted)
        free = [memory for memory in self.alive() if set(memory.everything) - self.held(memory)]
        asked = (None, None) if requested is None else self.asked[requested]
        # A case may be erased while its request waits.
        with self.asked_by(*(asked if self.rng.random() < 0.8 else (None, None))):
            for memory in self.rng.sample(free, min(count, len(free))):
                self.delete(memory, self.some(set(memory.everything) - self.held(memory), 2))
            subject = self.name() if requested is None else self.requests[requested]
            found = [leaf for leaf in self.uncounted if leaf not in before]
            return self.summarize(found, subject, requested, failed)


def write_sweep(world: World, parts: list[dict[str, Any]], due: int | None, held: int = 0) -> None:
    """Write the summary of a sweep, or, without a time, of a deletion in several memories."""
    kept = held > 0 or any(part["outcome"] in ("refused", "failed") for part in parts)
    facts = {"memories": parts, "complete": not kept, "held": held}
    world.note("erased", None, Subject("erasure", world.name()), due=None if due is None else world.at(due), **facts)


def _head(envelopes: list[bytes]) -> Checkpoint:
    tree = Frontier()
    for envelope in envelopes:
        tree, _ = tree.append(leaf_hash(envelope))
    return Checkpoint(ORIGIN, tree.size, tree.root)
