"""What every stored memory promises, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from expunge import AdmissionRefused, DeletionRefused, InputError, Memory, StoreError
from expunge.attestation.statements import commitment_of
from expunge.ledger.envelope import open_statement
from expunge.ledger.merkle.proof_file import verify_inclusion_proof
from expunge.ledger.receipt_format import Listed, Refusal
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.memory.receipt import RefusalReason
from expunge.store import (
    Conflict,
    Store,
    StoredMemory,
)
from expunge.verify.ledger import verify_ledger

from .conftest import Place
from .sample_memory import SAMPLE_EDITS, SIGMA, appearance, arrival, entries, fill, leaf_of, reloaded, row_counts


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_handle_is_not_copied(store: Store, how: Callable[[Any], Any]) -> None:
    fill(store)
    with pytest.raises(StoreError, match="not copied or pickled"):
        how(store["icu"])


def test_every_edit_is_a_signed_leaf_that_verifies(place: Place) -> None:
    store = place.open(origin="ledger.example/ward")
    memory = fill(store)
    receipts = [SAMPLE_EDITS[name](memory) for name in ("admit-outlier", "delete-several", "prune-forget", "admit-far")]
    for receipt in receipts:
        leaf = store.leaf(receipt.index)
        assert leaf.envelope == receipt.envelope
        assert (leaf.kind, leaf.memory, leaf.edit) == (receipt.outcome, memory.uuid, receipt.edit)
        stated = parse_predicate(open_statement(receipt.envelope, [store.public_key]))
        assert (stated.state_before, stated.state_after) == (receipt.state_before, receipt.state_after)
        assert stated.outcome == receipt.outcome
        assert stated.applied.count == len(receipt.applied) == len(stated.applied.commitments)
        assert stated.problem.initial_entries == 40
        proof = store.inclusion(receipt.index)
        verify_inclusion_proof(proof, receipt.envelope, [store.log_key], "ledger.example/ward")
    envelopes = [leaf.envelope for leaf in store.receipts()]
    head = store.checkpoint().to_bytes()
    verify_ledger(envelopes, head, [store.public_key], [store.log_key], store.origin)
    assert [leaf.kind for leaf in store.receipts("icu")][:3] == ["created", "admitted", receipts[1].outcome]
    assert [leaf.index for leaf in store.receipts(start=2, limit=2)] == [2, 3]


def test_ended_certificates_have_a_notice_of_their_own(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    forgotten = memory.prune("forget").applied
    receipt = memory.delete(memory.ids[0])
    edit, notice = store.receipts("icu")[-2:]
    assert [edit.kind, notice.kind] == [receipt.outcome, "expired"]
    stated = [parse_predicate(leaf.statement) for leaf in (edit, notice)]
    assert stated[0].ended == stated[1].ended
    assert stated[0].ended.count == len(stated[0].ended.commitments) == len(forgotten)
    assert (stated[1].applied.count, stated[1].expired.count) == (0, 0)
    assert {row.status for row in reloaded(place).warranties()} == {"ended"}
    store.verify()


def test_expired_certificates_have_a_notice_of_their_own(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    memory.prune("forget")
    ended: list[str] = []
    for number in range(20):
        ended += memory.admit(**arrival(number, far=3.0)).details.get("expired", [])
        if ended:
            break
    assert ended
    notice = store.receipts("icu")[-1]
    stated = parse_predicate(notice.statement)
    assert notice.kind == stated.outcome == "expired"
    assert stated.expired.count == len(ended) == len(stated.expired.commitments)
    assert [row.status for row in reloaded(place).warranties() if row.id in ended] == ["expired"] * len(ended)
    # A forgotten entry is still named by its commitment when it is deleted.
    receipt = memory.delete(ended[0])
    stated = parse_predicate(open_statement(receipt.envelope, [store.public_key]))
    assert len(stated.applied.commitments) == 1
    store.verify()


def test_a_refused_edit_changes_nothing_but_the_ledger(place: Place) -> None:
    store = place.open()
    memory = store.create("icu", **entries(), sigma=SIGMA, nu=0.9)
    store.hold("icu", "e3", reason="court")
    before, rows = appearance(memory), row_counts(store)
    with pytest.raises(DeletionRefused, match="court") as refused:
        memory.delete(list(memory.ids[:20]))
    assert refused.value.receipt.outcome == "refused"
    assert leaf_of(store, refused.value).kind == "refused"
    assert appearance(memory) == before == appearance(reloaded(place))
    after = row_counts(store)
    assert after["expunge_leaves"] == rows["expunge_leaves"] + 1
    assert {name: after[name] for name in rows if name not in ("expunge_leaves", "expunge_nodes")} == {
        name: rows[name] for name in rows if name not in ("expunge_leaves", "expunge_nodes")
    }
    store.release(store.holds()[0])
    memory.prune("forget")
    ending = 0
    while not memory.admit(**arrival(ending, far=3.0), dry_run=True).expired:
        memory.admit(**arrival(ending, far=3.0))
        ending += 1
    with pytest.raises(AdmissionRefused, match="would end"):
        memory.admit(**arrival(ending, far=3.0), on_expiry="refuse")
    store.verify()


def test_a_noop_is_recorded(store: Store) -> None:
    memory = fill(store)
    receipt = memory.delete([])
    assert receipt.outcome == "noop"
    assert memory.edit == 0
    memory.prune()
    assert memory.prune().outcome == "noop"
    assert [leaf.kind for leaf in store.receipts()] == ["created", "noop", "pruned", "noop"]
    store.verify()


def test_a_sketch_may_be_an_integer_of_numpy(store: Store) -> None:
    memory = fill(store)
    first = memory.prune("forget", sketch=np.int64(1), idempotency_key="one")
    assert first.outcome == "pruned"
    assert memory.prune("forget", sketch=1, idempotency_key="one") == first


def test_bad_input_is_not_recorded(store: Store) -> None:
    memory = fill(store)
    rows, before = row_counts(store), appearance(memory)
    for wrong in (
        lambda: memory.delete("nobody"),
        lambda: memory.delete(["e1", "e1"]),
        lambda: memory.delete(subject="nobody"),
        lambda: memory.delete(),
        lambda: memory.admit([math.nan] * 4, [0.0, 0.0]),
        lambda: memory.admit([0.0] * 3, [0.0, 0.0]),
        lambda: memory.admit([0.0] * 4, [0.0, 0.0], id="e1"),
        lambda: memory.admit([0.0] * 4, [0.0, 0.0], subject=""),
        lambda: memory.prune("burn"),  # type: ignore[call-overload]
        lambda: memory.rebuild(),
        lambda: memory.rebuild(nu=2.0),
        lambda: memory.delete("e1", idempotency_key=""),
        lambda: memory.delete("e1", idempotency_key="x" * 1001),
        lambda: memory.delete("e1", idempotency_key=7),  # type: ignore[call-overload]
        lambda: memory.delete("e1", idempotency_key="\ud800"),
        lambda: memory.read([0.0]),
        lambda: memory.search([[0.0] * 4] * 2),
        lambda: memory.payload("nobody"),
        lambda: memory.certificate("nobody"),
    ):
        with pytest.raises(InputError):
            wrong()
    assert row_counts(store) == rows
    assert appearance(memory) == before
    assert memory.delete("e1").applied == ("e1",)


def test_what_comes_back_is_counted_alike_before_and_after(place: Place) -> None:
    """By the dry run, by the receipt in hand and by the signed one: called back for the cap, or active again."""
    memory = fill(place.open())
    memory.prune("archive")
    outlier = arrival(10, far=1.5)

    def most(names: Iterable[str]) -> list[str]:
        return list(names)[:-2]

    edits: list[Callable[[bool], Any]] = [
        lambda dry_run: memory.admit(**outlier, dry_run=dry_run),
        lambda dry_run: memory.delete(memory.ids[: len(memory) - 8], dry_run=dry_run),
        lambda dry_run: memory.prune("archive", dry_run=dry_run),
        lambda dry_run: memory.delete(most(memory.ids) + most(memory.version.warranties.archive), dry_run=dry_run),
    ]
    for edit in edits:
        told, archived = edit(True), set(memory.version.warranties.archive)
        receipt = edit(False)
        back = [name for name in memory.ids if name in archived]
        assert memory.cap == told.cap
        if receipt.outcome == "pruned":
            continue
        assert back, "the edit should bring something back"
        assert sorted(told.reactivated) == sorted(receipt.details["reactivated"]) == sorted(back)
        signed = parse_predicate(place.open().leaf(receipt.index).statement)
        assert signed.reactivated.count == len(back)
        assert (told.outcome, told.applied, told.size) == (receipt.outcome, receipt.applied, len(memory))
    assert receipt.outcome == "refitted"
    for number in range(20, 40):
        memory.admit(**arrival(number))
    memory.prune("archive")
    archived = set(memory.version.warranties.archive)
    rebuilt = memory.rebuild(nu=0.5)
    assert set(rebuilt.details["reactivated"]) == archived
    assert archived


def test_a_refusal_states_both_sides_of_the_comparison(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    holds = [store.hold("icu", name, reason="court") for name in ("e4", "e2")]
    with pytest.raises(DeletionRefused) as refused:
        memory.delete(memory.ids[:35])
    receipt = refused.value.receipt
    numbers = tuple(hold.number for hold in holds)
    assert receipt.refusal == RefusalReason("legal_hold", 2.0, 0.0, numbers)
    stated = parse_predicate(leaf_of(store, refused.value).statement)
    assert (stated.action, stated.refusal) == ("deletion", Refusal("legal_hold", 2, 0, numbers))
    for hold in holds:
        store.release(hold)
    memory.prune("forget")
    arrivals = (arrival(number, far=3.0) for number in range(40))
    ends = next(item for item in arrivals if memory.admit(**item, dry_run=True).expired)
    with pytest.raises(AdmissionRefused) as ending:
        memory.admit(**ends, on_expiry="refuse")
    ended = len(ending.value.receipt.details["would_end"])
    assert parse_predicate(leaf_of(store, ending.value).statement).refusal == Refusal("would_end_warranties", ended, 0)
    held = store.hold("icu", memory.ids[0], reason="court")
    with pytest.raises(DeletionRefused) as forbidden:
        memory.delete(memory.ids[0])
    assert parse_predicate(leaf_of(store, forbidden.value).statement).refusal == Refusal(
        "legal_hold", 1, 0, (held.number,)
    )
    store.release(held)
    for leaf in store.receipts():
        if leaf.kind == "refused":
            stated = parse_predicate(leaf.statement)
            assert stated.refusal is not None
            assert None not in (stated.refusal.measured, stated.refusal.allowed)


def test_a_stored_memory_has_every_verb_of_a_memory(store: Store) -> None:
    """Whatever a Memory offers, a stored one does, with the same parameters at least."""
    import inspect

    # A store locks a memory, groups edits, follows those of other processes, settles and lets go of rows by itself.
    own = {
        "begin_group",
        "end_group",
        "fit",
        "follow",
        "held",
        "journal",
        "load",
        "newest",
        "outcomes",
        "release",
        "settle",
    }
    public = {name for name in dir(Memory) if not name.startswith("_")} - own
    memory = fill(store)
    for name in public:
        assert hasattr(StoredMemory, name), name
        method = getattr(Memory, name)
        if callable(method):
            theirs, ours = (inspect.signature(getattr(cls, name)).parameters for cls in (Memory, StoredMemory))
            assert set(theirs) <= set(ours), name
    assert memory.score(memory.keys[:3]).shape == (3,)
    assert memory.search(memory.keys[0], k=2)[0].id in memory
    assert memory.bounds() is not None
    assert memory.inverse.shape[0] == memory.partition.margin.size + 1
    assert memory.solution.offset == memory.offset
    assert memory.certificate("e1") is not None
    assert memory.dimension == 4
    assert "e1" in memory


def test_a_stored_memory_cannot_be_edited_behind_its_store(store: Store) -> None:
    memory = fill(store)
    with pytest.raises(StoreError, match="through its store"):
        memory._current().delete("e1")
    assert "e1" in memory
    memory.delete("e1")
    store.verify()


def test_several_entries_are_admitted_in_one_edit(place: Place) -> None:
    """One transaction, one receipt that names all of them; the same rows as one by one."""
    store = place.open()
    memory = fill(store)
    rows = [arrival(number) for number in range(4)]
    many: dict[str, Any] = {f"{field}s": [row[field] for row in rows] for field in rows[0]}
    told = memory.admit_many(**many, dry_run=True)
    assert (told.outcome, told.applied, told.size) == ("admitted", tuple(many["ids"]), 44)
    before = store.size
    receipt = memory.admit_many(**many, expected=memory.digest)
    assert (receipt.outcome, receipt.applied, receipt.edit, store.size) == ("admitted", told.applied, 1, before + 1)
    stated = parse_predicate(store.leaf(receipt.index).statement)
    assert stated.applied == Listed.of(commitment_of(memory.version, name) or b"" for name in receipt.applied)
    assert [memory.payload(name) for name in receipt.applied] == many["payloads"]
    assert memory.digest == memory.refit().digest == reloaded(place).digest
    assert memory.admit_many(np.empty((0, 4)), np.empty((0, 2))).outcome == "noop"
    with pytest.raises(Conflict):
        memory.admit_many(**many, expected="0" * 64)
    size = store.size
    for wrong in (
        {},
        {"ids": ["x", "x", "y", "z"]},
        {"ids": ["x"]},
        {"keys": [[0.0]] * 4},
        {"values": [[0.0]] * 4},
        {"subjects": [""] * 4},
        {"payloads": "four"},
        {"payloads": [object()] * 4},
    ):
        with pytest.raises(InputError):
            memory.admit_many(**many | wrong)
    assert (store.size, len(memory)) == (size, 44)
    store.verify()


def test_an_empty_memory_is_stored_like_any_other(place: Place) -> None:
    store = place.open()
    memory = store.create("icu", np.empty((0, 4)), np.empty((0, 2)), sigma=SIGMA, nu=0.3)
    assert [summary.size for summary in store.memories()] == [0]
    for one in (memory, reloaded(place)):
        assert (len(one), one.dimension, one.cap, one.deletable, one.search([0.0] * 4)) == (0, 4, 1.0, 0, [])
        with pytest.raises(InputError, match="admit an entry first"):
            one.read([0.0] * 4)
    assert memory.delete([]).outcome == memory.prune().outcome == memory.rebuild(nu=0.5).outcome == "noop"
    with pytest.raises(InputError, match="no entry has id"):
        memory.delete("nobody")
    hold = store.hold("icu", subject="patient-1", reason="to come")
    told = memory.admit(**arrival(1), dry_run=True)
    assert (told.outcome, told.size, told.probes, told.readout_change) == ("admitted", 1, 0, 0.0)
    memory.admit(**arrival(1))
    with pytest.raises(DeletionRefused, match="to come"):
        memory.delete("new-1")
    store.release(hold)
    told = memory.delete("new-1", dry_run=True)
    assert (told.outcome, told.size, told.cap, told.probes) == ("emptied", 0, 1.0, 0)
    assert memory.delete("new-1").outcome == "emptied"
    assert store.verify().entries == 0
    memory.save(place.key.with_name("copy"))
    assert len(Memory.load(place.key.with_name("copy"))) == 0
    assert store.drop("icu").kind == "dropped"
    store.verify()
