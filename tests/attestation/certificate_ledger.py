"""A ledger with one leaf of every kind that a certificate document can be about, and some that it cannot."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cosigning import cosign_checkpoint
from expunge.attestation.certificate_document import certificate_contents
from expunge.ledger.certificate.contents import OpenContents, Revealed, What
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.commitment import new_salts
from expunge.ledger.encoding import Json
from expunge.ledger.envelope import sign_statement
from expunge.ledger.event import Event, Kind, actor_commitment, case_commitment, mirror_commitment, subject_commitment
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteAlgorithm, NoteKey, SignedNote
from expunge.ledger.receipt_format import (
    Action,
    Listed,
    Outcome,
    Predicate,
    ProblemStated,
    Pruning,
    Refusal,
    RequestStated,
    Sizes,
    Solver,
)
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import Statement, Subject

SIGNER = SigningKey.from_seed(bytes(range(32)))
WITNESS = SigningKey.from_seed(bytes(range(1, 33)))
STRANGER = SigningKey.from_seed(bytes(range(2, 34)))
ORIGIN = "ledger.example/ward"
LOG_KEY = NoteKey(ORIGIN, SIGNER.public)
WITNESS_KEY = NoteKey("witness.example/w1", WITNESS.public, NoteAlgorithm.COSIGNATURE_V1)
SALT = bytes(range(100, 132))
PERSON, CASE, ACTOR = "Ada & <b>Lovelace</b> {entries}", "DSR-2026-0117", "M. Noether, data protection"
SHOWN: dict[What, Revealed] = {
    "subject": Revealed(PERSON, SALT),
    "case": Revealed(CASE, SALT),
    "actor": Revealed(ACTOR, SALT),
}
TIME = "2026-03-01T12:30:05Z"
BEFORE, AFTER = "a" * 64, "b" * 64


@dataclass(frozen=True)
class Leaf:
    index: int
    kind: str
    memory: str | None
    envelope: bytes


@dataclass
class Ledger:
    """What `certificate_contents` reads."""

    signer: SigningKey = SIGNER
    texts: Mapping[What, Revealed] = field(default_factory=lambda: SHOWN)
    leaves: list[Leaf] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    kept: dict[int, dict[What, Revealed]] = field(default_factory=dict)

    def leaf(self, index: int) -> Leaf:
        return self.leaves[index]

    def newest_leaves(self, *, kinds: Any = None) -> Sequence[Leaf]:
        return [leaf for leaf in reversed(self.leaves) if kinds is None or leaf.kind in kinds]

    def _tree(self) -> HashTree:
        return HashTree(leaf_hash(leaf.envelope) for leaf in self.leaves)

    def checkpoint(self) -> SignedNote:
        tree = self._tree()
        note = sign_checkpoint(Checkpoint(ORIGIN, len(tree), tree.root()), self.signer)
        return cosign_checkpoint(note, "witness.example/w1", WITNESS, 1_772_000_000)

    def inclusion(self, index: int, head: SignedNote | None = None) -> InclusionProof:
        return InclusionProof(index, self._tree().inclusion_path(index), head or self.checkpoint())

    def name_of(self, uuid: str) -> str | None:
        return self.names.get(uuid)

    def revealed(self, index: int) -> Mapping[What, Revealed]:
        return self.kept.get(index, {})

    def append(self, statement: Statement, kind: str, memory: str | None) -> int:
        envelope = sign_statement(statement, self.signer).to_bytes()
        self.leaves.append(Leaf(len(self.leaves), kind, memory, envelope))
        return len(self.leaves) - 1

    def edit(self, action: Action, outcome: Outcome, memory: str | None = None, **fields: Any) -> int:
        """A receipt; a deletion takes two of five entries."""
        memory = memory or str(uuid.UUID(int=len(self.leaves)))
        known: dict[str, Any] = {
            "before": Sizes(5, 0),
            "after": Sizes(5, 0),
            "applied": Listed(),
            "state_before": BEFORE,
            "state_after": BEFORE if outcome in ("refused", "noop") else AFTER,
            "request": RequestStated.new(
                case_commitment(SALT, self.texts["case"].text), actor_commitment(SALT, self.texts["actor"].text)
            ),
        }
        if outcome in ("certified_zero", "decrement", "refitted", "emptied"):
            size = 5 if outcome == "emptied" else 2
            known |= {"applied": _listed(size), "after": Sizes(5 - size, 0)}
        predicate = Predicate(
            **known | fields,
            memory=memory,
            edit=3,
            action=action,
            outcome=outcome,
            time=TIME,
            problem=ProblemStated(1.0, 2.0, 3, None),
            solver=Solver("expunge", "0.1.0"),
        )
        return self.append(predicate.to_statement(), outcome, memory)

    def event(self, kind: Kind, memory: str | None, subject: str, digest: str, **facts: Json) -> int:
        request = RequestStated.new(
            case_commitment(SALT, self.texts["case"].text), actor_commitment(SALT, self.texts["actor"].text)
        )
        event = Event(kind, memory, TIME, Subject(subject, digest), facts, request)
        return self.append(event.to_statement(), kind, memory)

    def dropped(self) -> int:
        """The drop of a memory with four entries."""
        memory = str(uuid.UUID(int=77 + len(self.leaves)))
        return self.event("dropped", memory, "state", AFTER, live=3, pruned=1, entries=None)

    def mirror(self) -> str:
        """A mirror of all memories; the commitment to its address."""
        commitment = mirror_commitment(new_salts(1), "chroma:///folder#notes")
        self.event("mirror_added", None, "mirror", commitment, system="chroma", of=None)
        return commitment

    def summary(self, *outcomes: str, requested: int | None = None) -> int:
        """A summary over one memory for each outcome."""
        parts: list[Json] = []
        for number, outcome in enumerate(outcomes):
            memory = str(uuid.UUID(int=1000 * len(self.leaves) + number))
            index: int | None = None
            if outcome == "refused":
                index = self.edit("deletion", "refused", memory, refusal=Refusal("legal_hold", 2, 0, (7,)))
            elif outcome not in ("failed", "noop"):
                index = self.edit("deletion", outcome, memory)  # type: ignore[arg-type]
            entries = {"refused": 0, "failed": 0, "noop": 0, "emptied": 5}.get(outcome, 2)
            parts.append({"memory": memory, "outcome": outcome, "leaf": index, "entries": entries})
            self.names[memory] = f"memory {number}"
        return self.event(
            "subject_erased",
            None,
            "subject",
            subject_commitment(SALT, self.texts["subject"].text),
            memories=parts,
            complete=not {"refused", "failed"} & set(outcomes),
            requested=requested,
        )


def _listed(size: int) -> Listed:
    return Listed.of(new_salts(1) for _ in range(size))


def full_ledger(signer: SigningKey = SIGNER, texts: Mapping[What, Revealed] = SHOWN) -> tuple[Ledger, dict[str, int]]:
    """A ledger, and its leaves that documents can be about, by name."""
    ledger = Ledger(signer, texts)
    digest = subject_commitment(SALT, texts["subject"].text)
    asked = ledger.event("erasure_requested", None, "subject", digest, due=TIME)
    found = {
        "created": ledger.edit(
            "creation", "created", state_before=None, before=Sizes(0, 0), after=Sizes(5, 0), applied=_listed(5)
        ),
        "admitted": ledger.edit("admission", "admitted", after=Sizes(6, 0), applied=_listed(1)),
        "pruned": ledger.edit(
            "pruning", "pruned", after=Sizes(4, 1), applied=_listed(1), pruning=Pruning("archive", 0)
        ),
        "rebuilt": ledger.edit("rebuild", "rebuilt"),
        "restored": ledger.edit("restoration", "restored", restored_edit=1),
        "certified_zero": ledger.edit("deletion", "certified_zero"),
        "decrement": ledger.edit("deletion", "decrement"),
        "refitted": ledger.edit("deletion", "refitted"),
        "emptied": ledger.edit("deletion", "emptied"),
        "refused": ledger.edit("deletion", "refused", refusal=Refusal("legal_hold", 2, 0, (7,))),
        "noop": ledger.edit("deletion", "noop"),
        "dropped": ledger.dropped(),
        "complete": ledger.summary("certified_zero", "decrement", "noop", "emptied"),
        "requested": ledger.summary("decrement", requested=asked),
        "incomplete": ledger.summary("decrement", "refused", "failed"),
        "nothing": ledger.summary("noop"),
        "many": ledger.summary(*["decrement"] * 9, "refused"),
    }
    return ledger, found | _mirrored(ledger)


def _mirrored(ledger: Ledger) -> dict[str, int]:
    """Erasures that two mirrors were to follow: one has, the other has followed one of two, and one that is over."""
    first, second = (ledger.mirror() for _ in range(2))
    ledger.event("mirror_removed", None, "mirror", ledger.mirror(), pending=0)
    found = {"copies": ledger.summary("decrement", "emptied"), "copies_dropped": ledger.dropped()}
    one, other = found["copies"] - 2, found["copies"] - 1
    ledger.event("mirror_checked", None, "mirror", first, findings=[_finding(one, 2, 0, 0), _finding(other, 3, 2, 0)])
    ledger.event("mirror_checked", None, "mirror", second, findings=[_finding(one, 0, 0, 2)])
    return found


def _finding(leaf: int, absent: int, in_files: int, not_checkable: int) -> dict[str, Json]:
    entries = absent + in_files + not_checkable
    return {"leaf": leaf, "entries": entries, "absent": absent, "in_files": in_files, "not_checkable": not_checkable}


TONES = {
    **dict.fromkeys(
        (
            *("certified_zero", "decrement", "refitted", "emptied", "dropped", "complete", "requested"),
            *("copies", "copies_dropped"),
        ),
        "erased",
    ),
    **dict.fromkeys(("incomplete", "many"), "incomplete"),
    **dict.fromkeys(("noop", "nothing"), "nothing"),
    "refused": "refused",
    **dict.fromkeys(("created", "admitted", "pruned", "rebuilt", "restored"), "edit"),
}
SUMMARIES = ("complete", "requested", "incomplete", "nothing", "many", "copies")


def document(ledger: Ledger, name: str, index: int, *, shown: bool = True) -> OpenContents:
    """The data of the document about a leaf, with everything revealed that can be."""
    revealed = {what: text for what, text in ledger.texts.items() if what != "subject" or name in SUMMARIES}
    return certificate_contents(ledger, index, revealed=revealed if shown else {}, names=shown)
