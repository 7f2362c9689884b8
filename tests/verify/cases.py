"""One ledger with a receipt of every kind, made by real memories, and the evidence bundle of each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expunge import Memory, Refused
from expunge.attestation.evidence import Prior, write_evidence
from expunge.attestation.statements import (
    attest,
    attest_creation,
    attest_restoration,
    commitment_of,
    expiry_predicate,
    statements_of,
)
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.envelope import sign_statement
from expunge.ledger.event import Event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import ExtensionProof, InclusionProof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.receipt_format import Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import Statement, Subject
from expunge.memory.receipt import Receipt, RefusalReason
from expunge.memory.version import Version
from expunge.preprocessing import Column, Preprocessing

SIGNER = SigningKey.from_seed(bytes(range(32)))
LOGGER = SigningKey.from_seed(bytes(range(1, 33)))
STRANGER = SigningKey.from_seed(bytes(range(2, 34)))
ORIGIN = "ledger.example/ward"
LOG_KEYS = [NoteKey(ORIGIN, LOGGER.public)]
TRUSTED = [SIGNER.public]
NOW = datetime(2026, 3, 1, 12, 30, 5, 250_000, tzinfo=UTC)
WARD = "6f1c8f1e-6a43-4d0c-9c0a-2b9d4b1f7a11"
EXAMPLE = "0d9f5b1a-8a77-4f57-8f0b-7f3f6f0a9c22"


def clock() -> datetime:
    return NOW


@dataclass(frozen=True)
class Case:
    """One leaf of the log."""

    name: str
    index: int
    statement: Statement
    envelope: bytes
    evidence: bytes
    inclusion: bytes

    @property
    def predicate(self) -> Predicate:
        return parse_predicate(self.statement)


@dataclass
class Ledger:
    """Collects receipts as a store would, and what none of them may hold."""

    folder: Path
    cases: dict[str, Case] = field(default_factory=dict)
    envelopes: list[bytes] = field(default_factory=list)
    heads: list[SignedNote] = field(default_factory=list)
    secrets: set[bytes] = field(default_factory=set)

    def append(
        self,
        name: str,
        statement: Statement,
        before: Version | Prior | None,
        after: Version,
        *,
        prove: bool = False,
    ) -> None:
        envelope = self.sign(statement)
        self.note(after)
        if isinstance(before, Version):
            self.note(before)
        index = len(self.envelopes) - 1
        inclusion = InclusionProof(index, self.tree().inclusion_path(index), self.heads[-1])
        file = self.folder / f"{name}.evidence"
        write_evidence(file, before, after, envelope, prove=prove, inclusion=inclusion)
        self.cases[name] = Case(name, index, statement, envelope, file.read_bytes(), inclusion.to_bytes())

    def sign(self, statement: Statement) -> bytes:
        """Add a leaf, with the head that it leads to."""
        envelope = sign_statement(statement, SIGNER).to_bytes()
        self.envelopes.append(envelope)
        self.heads.append(sign_checkpoint(Checkpoint(ORIGIN, len(self.envelopes), self.tree().root()), LOGGER))
        return envelope

    def tree(self) -> HashTree:
        return HashTree([leaf_hash(envelope) for envelope in self.envelopes])

    def extension(self, old: int) -> bytes:
        return ExtensionProof(old, self.tree().consistency_path(old), self.heads[-1]).to_bytes()

    def note(self, view: Version) -> None:
        """Remember everything that says something about an entry."""
        entries = view.entries
        for slot in view.slots.tolist():
            texts = [entries.ids[slot], entries.subjects[slot]]
            self.secrets |= {text.encode() for text in texts if text is not None}
            if (payload := entries.payloads[slot]) is not None:
                self.secrets.add(payload[2:-1])
            for row in (entries.salts[slot], entries.blinds[slot].tobytes()):
                self.secrets |= {row, row.hex().encode()}
        for number in {*view.keys.ravel().tolist(), *view.values.ravel().tolist()} - {0.0, 1.0, -1.0}:
            raw = np.float64(number).tobytes()
            self.secrets |= {raw, raw.hex().encode(), number.hex().encode()}
            # Short decimals are part of other numbers.
            self.secrets |= {repr(number).encode()} if len(repr(number)) >= 8 else set()
        for share in view.coefficients[view.coefficients > 0].tolist():
            self.secrets |= {share.hex().encode()} if share != view.state.cap else set()


class Journal:
    """What a store puts into `memory.journal`; `next` names the receipt to come."""

    def __init__(self, ledger: Ledger, memory: Memory, uuid: str, label: str) -> None:
        self.ledger, self.memory, self.uuid, self.label = ledger, memory, uuid, label
        self.next, self.options, self.number = "", {}, 0
        self.forgotten: dict[str, bytes] = {}
        self.notices: list[Callable[[], None]] = []
        memory.journal = self
        view = memory.version
        statement, *_ = attest_creation(view, memory=uuid, clock=clock, initial_size=memory.initial_size)
        ledger.append(f"{label}-created", statement, None, view)

    options: dict[str, Any]

    def __call__(self, before: Version, after: Version, receipt: Receipt) -> None:
        self.number += receipt.outcome not in ("refused", "noop")
        rebuilt = receipt.outcome == "rebuilt"
        statement, *_ = attest(
            receipt,
            before,
            after,
            memory=self.uuid,
            edit=self.number,
            clock=clock,
            initial_size=after.size if rebuilt else self.memory.initial_size,
            forgotten=self.forgotten,
        )
        if receipt.details.get("mode") == "forget":
            for name in receipt.applied:
                found = commitment_of(before, name)
                assert found is not None
                self.forgotten[name] = found
        self.ledger.append(self.next, statement, before, after, prove=self.options.get("prove", False))
        if self.options.get("notice"):
            notice, *_ = statements_of(
                expiry_predicate(
                    receipt,
                    before,
                    after,
                    memory=self.uuid,
                    edit=self.number,
                    clock=clock,
                    forgotten=self.forgotten,
                    initial_size=self.memory.initial_size,
                )
            )
            self.ledger.append(f"{self.next}-notice", notice, None, after)

    def do(self, name: str, act: Callable[[], object], **options: Any) -> None:
        self.next, self.options = f"{self.label}-{name}", options
        try:
            act()
        except Refused as problem:
            assert problem.receipt.outcome == "refused"  # noqa: PT017 — others go through


@contextmanager
def broken(*targets: str) -> Iterator[None]:
    """Some solvers fail, with an error whose text holds content."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("cannot solve for ENTRY-3 of PATIENT-1")

    with pytest.MonkeyPatch.context() as patch:
        for target in targets:
            patch.setattr(target, fail)
        yield


PATH = ("expunge.solver.path.drive",)
EVERYTHING = (*PATH, "expunge.memory.pending_edit.fit", "expunge.solver.backends.solve_reference")


def ward_memory() -> Memory:
    rng = np.random.default_rng(7)
    return Memory.fit(
        rng.standard_normal((30, 3)),
        rng.uniform(50.0, 150.0, (30, 2)),
        sigma=2.0,
        nu=0.4,
        ids=[f"ENTRY-{row}" for row in range(30)],
        subjects=[None if row % 3 == 0 else f"PATIENT-{row % 4}" for row in range(30)],
        payloads=[None if row % 5 == 0 else {"NOTE": f"TEXT OF {row}"} for row in range(30)],
    )


def run_ward(ledger: Ledger) -> None:
    memory = ward_memory()
    journal = Journal(ledger, memory, WARD, "ward")

    def pick(*, active: bool) -> str:
        rows = np.flatnonzero((memory.coefficients > 0.0) == active)
        return memory.ids[int(rows[0])]

    def admit(key: Any, name: str) -> Receipt:
        return memory.admit(key, [99.5172839, 101.2529384], id=name, subject="PATIENT-NEW", payload=f"TEXT OF {name}")

    journal.do("admitted", lambda: admit([3.0, 0.5, -2.0], "ENTRY-NEW"), prove=True)
    journal.do("admitted-reserve", lambda: admit(memory.coefficients @ memory.keys, "ENTRY-INSIDE"))
    journal.do("decrement", lambda: memory.delete(pick(active=True)), prove=True)
    journal.do("certified_zero", lambda: memory.delete("ENTRY-INSIDE"), prove=True)
    journal.do("by-subject", lambda: memory.delete(subject="PATIENT-2"))
    with broken(*PATH):
        journal.do("rescued-admission", lambda: admit([-3.0, 2.5, 1.0], "ENTRY-RESCUED"))
        journal.do("rescued-deletion", lambda: memory.delete(pick(active=True)))
    with broken(*EVERYTHING):
        journal.do("refused-no-state", lambda: memory.delete(pick(active=True)))
        journal.do("refused-admission", lambda: admit([9.0, 9.0, 9.0], "ENTRY-NEVER"))
    hold(journal, memory)
    journal.do("noop", lambda: memory.delete([]))
    journal.do("pruned-archive", lambda: memory.prune("archive"))
    journal.do("noop-pruning", lambda: memory.prune("archive"))
    journal.do("delete-archived", lambda: memory.delete(next(iter(memory.version.warranties.archive))))
    journal.do("rebuilt", lambda: memory.rebuild(nu=0.6))


def hold(journal: Journal, memory: Memory) -> None:
    """A refusal that a store makes on its own."""
    view = memory.version
    grounds = RefusalReason("legal_hold", 1.0, 0.0, (57,))
    receipt = Receipt(
        action="deletion",
        outcome="refused",
        applied=(),
        check=view.check,
        attempts=(),
        covers="nothing",
        state_before=view.digest,
        state_after=view.digest,
        seconds=0.0,
        refusal=grounds,
    )
    subject_hold = Event.at(clock, "held", journal.uuid, Subject("state", view.digest), hold=57, entry=None)
    journal.ledger.sign(subject_hold.to_statement())
    statement, *_ = attest(
        receipt,
        view,
        view,
        memory=journal.uuid,
        edit=journal.number,
        clock=clock,
        initial_size=memory.initial_size,
    )
    journal.ledger.append("ward-legal-hold", statement, view, view)


def run_example(ledger: Ledger) -> None:
    """Example 1 of the paper: a certificate that expires, a restoration, an erasure applied again."""
    memory = Memory.fit(
        [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]],
        [1.5172839, 2.5293847, 9.5738291],
        sigma=5.0,
        cap=1.0,
        ids=["ENTRY-A", "ENTRY-B", "ENTRY-C"],
        subjects=["PATIENT-A", "PATIENT-B", "PATIENT-C"],
    )
    journal = Journal(ledger, memory, EXAMPLE, "example")
    far = [0.0, -10.0]
    journal.do("pruned-forget", lambda: memory.prune("forget"))
    journal.do("refused-would-end", lambda: memory.admit(far, 3.5637281, id="ENTRY-D", on_expiry="refuse"))
    journal.do("admitted-expiring", lambda: memory.admit(far, 3.5637281, id="ENTRY-D"), notice=True)
    backup = ledger.folder / "backup"
    memory.save(backup)
    backed_up = journal.number
    journal.do("delete-forgotten", lambda: memory.delete("ENTRY-C"))
    journal.do("delete-live", lambda: memory.delete("ENTRY-D"))

    last = ledger.cases["example-delete-live"].predicate
    prior = Prior.of(memory.version)
    restored = Memory.load(backup)
    # A file does not have it; a store takes it from the ledger.
    restored.initial_size = memory.initial_size
    journal.memory, restored.journal = restored, journal
    journal.number += 1
    statement, *_ = attest_restoration(
        restored.version,
        state_before=last.state_after,
        entries_before=last.after,
        memory=EXAMPLE,
        edit=journal.number,
        restored_edit=backed_up,
        clock=clock,
        initial_size=restored.initial_size,
    )
    ledger.append("example-restored", statement, prior, restored.version)
    journal.do("erased-again", lambda: restored.delete(["ENTRY-C", "ENTRY-D"]))


def run_forgetting(ledger: Ledger) -> None:
    """A certificate that expires, is renewed, and ends with the erasure of an entry that was live at its pruning."""
    rng = np.random.default_rng(5)
    memory = Memory.fit(
        rng.standard_normal((24, 2)),
        rng.standard_normal(24),
        sigma=2.0,
        nu=0.3,
        ids=[f"GONE-{row}" for row in range(24)],
        preprocessing=Preprocessing(
            (Column("pulse", "1/min", centre=80.0, scale=16.0, fill=80.0), Column("SpO₂")), (Column("pressure"),)
        ),
    )
    journal = Journal(ledger, memory, "3f7c7f9e-52a0-4d8e-8a64-0c9f1d6b5e44", "forgetting")
    journal.do("pruned", lambda: memory.prune("forget"))
    journal.do("expired", lambda: memory.admit([0.0, -9.0], 0.25, id="FAR"), notice=True)
    journal.do("renewed", lambda: memory.delete("FAR"))
    journal.do("ended", lambda: memory.delete(memory.ids[0]), notice=True)
    journal.do("grown", lambda: memory.admit([9.0, 0.0], 0.25, id="NEAR"))
    journal.do("later", lambda: memory.delete("NEAR"))


def run_archive(ledger: Ledger) -> None:
    """Entries that come back from the archive."""
    rng = np.random.default_rng(3)
    memory = Memory.fit(
        rng.standard_normal((40, 2)),
        rng.standard_normal(40),
        sigma=1.5,
        nu=0.3,
        ids=[f"COLD-{row}" for row in range(40)],
    )
    journal = Journal(ledger, memory, "7b1e0c52-3a5e-4a53-b7b3-51c2a6a4f033", "archive")
    journal.do("pruned", lambda: memory.prune("archive"))
    for number in range(6):
        key = [4.0 * np.cos(number), 4.0 * np.sin(number)]
        journal.do(f"admitted-{number}", partial(memory.admit, key, 0.25, id=f"WARM-{number}"))


@cache
def ledger() -> Ledger:
    with tempfile.TemporaryDirectory() as folder:
        made = Ledger(Path(folder))
        run_ward(made)
        run_example(made)
        run_forgetting(made)
        run_archive(made)
    return made


def case(name: str) -> Case:
    return ledger().cases[name]
