"""What every store promises, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from expunge import AdmissionRefused, DeletionRefused, InputError, Memory, SolveError, StoreError
from expunge.certificates.warranty import Mode
from expunge.ledger.envelope import open_statement
from expunge.ledger.merkle.proof_file import verify_inclusion_proof
from expunge.ledger.receipt_format import Refusal
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.memory.receipt import RefusalReason
from expunge.store import (
    Conflict,
    Preview,
    Store,
    StoredMemory,
    parse_event,
    subject_commitment,
)
from expunge.store.backends import tables
from expunge.verify.ledger import verify_log

from .conftest import Place
from .ward import NU, SIGMA, appearance, arrival, entries, fill, fitted, leaf_of, reloaded


def counts(store: Store) -> dict[str, int]:
    """Rows of every table."""
    with store._database.reading() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables.metadata.sorted_tables
        }


EDITS: dict[str, Callable[[Any], Any]] = {
    "admit-outlier": lambda memory: memory.admit(**arrival(1, far=4.0)),
    "admit-reserve": lambda memory: memory.admit(**arrival(2, far=0.05)),
    "admit-copy": lambda memory: memory.admit(memory.keys[3], [1.0, 2.0], id="copy"),
    "admit-unnamed": lambda memory: memory.admit([3.0, 3.0, 0.0, 0.0], [1.0, 2.0]),
    "delete-active": lambda memory: memory.delete(memory.ids[int(memory.partition.bound[0])]),
    "delete-margin": lambda memory: memory.delete(memory.ids[int(memory.partition.margin[0])]),
    "delete-reserve": lambda memory: memory.delete(memory.ids[int(memory.partition.reserve[0])]),
    "delete-one-of-a-pair": lambda memory: memory.delete("e0"),
    "delete-several": lambda memory: memory.delete(["e3", "e7", "e20"]),
    "delete-subject": lambda memory: memory.delete(subject="patient-3"),
    "prune-archive": lambda memory: memory.prune("archive"),
    "prune-archive-sketch": lambda memory: memory.prune("archive", sketch=2),
    "prune-forget": lambda memory: memory.prune("forget", sketch=2),
    "rebuild": lambda memory: memory.rebuild(nu=0.5),
    "rebuild-all": lambda memory: memory.rebuild(nu=1),
}

SEQUENCES: dict[str, list[str]] = {
    "admissions": ["admit-outlier", "admit-reserve", "admit-copy", "admit-unnamed"],
    "deletions": ["delete-one-of-a-pair", "delete-active", "delete-margin", "delete-reserve", "delete-subject"],
    "archive, then boundary moves": ["prune-archive-sketch", "admit-outlier", "delete-active", "admit-unnamed"],
    "archive, delete archived": ["prune-archive", "delete-several", "delete-subject", "admit-outlier"],
    "forget, then expiries": ["prune-forget", "admit-outlier", "admit-unnamed", "delete-active", "delete-subject"],
    "archive, forget, rebuild": ["prune-archive", "admit-outlier", "delete-active", "prune-forget", "rebuild"],
    "forget, rebuild, then all": [
        "prune-forget",
        "rebuild",
        "delete-margin",
        "admit-outlier",
        "prune-archive-sketch",
        "delete-subject",
        "rebuild",
        "prune-forget",
        "rebuild",
        "delete-margin",
    ],
    "rebuild, then all": [
        "rebuild-all",
        "rebuild",
        "delete-margin",
        "admit-outlier",
        "prune-archive",
        "delete-subject",
    ],
}


@pytest.mark.parametrize("sequence", list(SEQUENCES.values()), ids=list(SEQUENCES))
def test_a_stored_memory_is_the_memory_it_stores(place: Place, sequence: list[str]) -> None:
    """Same edits, same receipts, same states as a memory without a store; and the same after reopening."""
    store = place.open()
    stored, plain = fill(store), fitted()
    for name in sequence:
        ours, theirs = EDITS[name](stored), EDITS[name](plain)
        assert (ours.outcome, ours.applied, ours.covers) == (theirs.outcome, theirs.applied, theirs.covers)
        assert ours.details == theirs.details
        assert appearance(stored) == appearance(plain)
        again = reloaded(place)
        assert appearance(again) == appearance(stored)
        assert again.digest == stored.digest == ours.state_after
        assert again.edit == stored.edit
        assert again.check().worst < 1e-12
        assert again.payload(again.ids[0]) == plain.payload(plain.ids[0])
    assert stored.refit().digest
    store.verify()


def test_edits_go_on_from_a_reloaded_memory(place: Place) -> None:
    """Each edit by a process of its own, so to speak: same result as one memory that never left."""
    fill(place.open())
    plain = fitted()
    for name in ("prune-archive-sketch", "admit-outlier", "delete-active", "admit-copy", "delete-subject", "rebuild"):
        ours, theirs = EDITS[name](reloaded(place)), EDITS[name](plain)
        assert (ours.outcome, ours.applied) == (theirs.outcome, theirs.applied)
        again = reloaded(place)
        assert again.ids == plain.ids
        assert np.abs(again.coefficients - plain.coefficients).max() < 1e-13
        assert [row.status for row in again.warranties()] == [row.status for row in plain.warranties()]
    place.open().verify()


@pytest.mark.parametrize("seed", range(2))
def test_random_histories_survive_reopening(place: Place, seed: int) -> None:
    """A few dozen random edits by two handles in turns: each sees the other's, and the ledger tells it all."""
    rng = np.random.default_rng(seed)
    first, second = place.open(), place.open()
    fill(first, seed=seed)
    plain = fitted(seed=seed)
    for step in range(25):
        memory = (first if rng.random() < 0.5 else second)["icu"]
        choice = rng.random()
        if choice < 0.5:
            entry = arrival(1000 * seed + step, far=float(rng.choice([0.3, 1.0, 3.0])))
            assert memory.admit(**entry).outcome == plain.admit(**entry).outcome
        elif choice < 0.9 and plain.deletable > 3:
            names = rng.choice(plain.ids, size=int(rng.integers(1, 3)), replace=False).tolist()
            assert memory.delete(names).outcome == plain.delete(names).outcome
        else:
            mode: Mode = "archive" if rng.random() < 0.7 else "forget"
            sketch = int(rng.integers(0, 3))
            assert memory.prune(mode, sketch=sketch).applied == plain.prune(mode, sketch=sketch).applied
        assert memory.ids == plain.ids
        assert np.abs(memory.coefficients - plain.coefficients).max() < 1e-12
    assert first["icu"].digest == second["icu"].digest
    verified = first.verify()
    assert verified.leaves == first.size >= 26


@pytest.mark.parametrize("sketch", [0, 1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_a_store_reopens_after_a_rebuild_that_ends_certificates(place: Place, seed: int, sketch: int) -> None:
    store = place.open()
    memory = fill(store, seed=seed)
    forgotten = memory.prune("forget", sketch=sketch).applied
    for number in range(3):
        memory.admit(**arrival(number, far=2.0))
    memory.rebuild(nu=0.5)
    # In turns by the handle that has rebuilt it and by another.
    for step, act in enumerate(("delete-margin", "admit-unnamed", "delete-margin", "prune-archive-sketch", "rebuild")):
        EDITS[act](reloaded(place) if step % 2 else memory)
        again = reloaded(place)
        rows = [row for row in again.warranties() if row.id in forgotten]
        assert len(rows) == len(forgotten)
        assert {row.status for row in rows} == {"expired"}
        assert appearance(again) == appearance(memory)
    receipt = reloaded(place).delete(forgotten)
    stated = parse_predicate(open_statement(receipt.envelope, [store.public_key]))
    assert len(stated.applied.commitments) == len(forgotten)
    store.verify()


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_handle_is_not_copied(store: Store, how: Callable[[Any], Any]) -> None:
    fill(store)
    with pytest.raises(StoreError, match="not copied or pickled"):
        how(store["icu"])


def test_many_deletions_compact_the_memory_and_the_numbers_follow(place: Place) -> None:
    store = place.open()
    memory = store.create("wide", **entries(150, 3), sigma=SIGMA, cap=0.2)
    for row in range(2, 110, 6):
        memory.delete([f"e{row + k}" for k in range(6)])
    assert memory.version.count < 120
    memory.admit(**arrival(5))
    memory.delete("e120")
    assert appearance(reloaded(place, "wide")) == appearance(memory)
    store.verify()


def test_a_state_rescued_by_another_backend_is_stored_as_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its coefficients follow from no partition, so all of them are kept."""
    memory = fill(place.open())

    def broken(*_: Any, **__: Any) -> None:
        raise SolveError("injected")

    with monkeypatch.context() as patch:
        patch.setattr("expunge.solver.path.remove", broken)
        patch.setattr("expunge.memory.pending_edit.fit", broken)
        receipt = memory.delete(memory.ids[int(memory.partition.bound[0])])
    assert receipt.outcome == "rescued"
    assert not memory.version.state.exact
    again = reloaded(place)
    assert again.coefficients.tobytes() == memory.coefficients.tobytes()
    assert again.digest == memory.digest
    assert again.delete(again.ids[-1]).outcome in ("decrement", "certified_zero")
    place.open().verify()


def test_loading_solves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fill(place.open())
    memory.prune("archive")
    digest = memory.digest

    def solved(*_: Any, **__: Any) -> None:
        raise AssertionError("a stored memory was solved again")

    for target in (
        "expunge.memory.first_version.fit",
        "expunge.memory.pending_edit.fit",
        "expunge.solver.path.admit",
        "expunge.memory.first_version.first_accepted",
    ):
        monkeypatch.setattr(target, solved)
    assert reloaded(place).digest == digest


def test_every_edit_is_a_signed_leaf_that_verifies(place: Place) -> None:
    store = place.open(origin="ledger.example/ward")
    memory = fill(store)
    receipts = [EDITS[name](memory) for name in ("admit-outlier", "delete-several", "prune-forget", "admit-unnamed")]
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
    verify_log(envelopes, head, [store.public_key], [store.log_key], store.origin)
    assert [leaf.kind for leaf in store.receipts("icu")][:3] == ["created", "admitted", receipts[1].outcome]
    assert [leaf.index for leaf in store.receipts(start=2, limit=2)] == [2, 3]


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
    before, rows = appearance(memory), counts(store)
    with pytest.raises(DeletionRefused, match="needs at least") as refused:
        memory.delete(list(memory.ids[:20]))
    assert refused.value.receipt.outcome == "refused"
    assert leaf_of(store, refused.value).kind == "refused"
    assert appearance(memory) == before == appearance(reloaded(place))
    after = counts(store)
    assert after["expunge_leaves"] == rows["expunge_leaves"] + 1
    assert {name: after[name] for name in rows if name not in ("expunge_leaves", "expunge_nodes")} == {
        name: rows[name] for name in rows if name not in ("expunge_leaves", "expunge_nodes")
    }
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
    rows, before = counts(store), appearance(memory)
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
    assert counts(store) == rows
    assert appearance(memory) == before
    assert memory.delete("e1").applied == ("e1",)


def test_what_comes_back_is_counted_alike_before_and_after(place: Place) -> None:
    """By the dry run, by the receipt in hand and by the signed one: called back for the cap, or active again."""
    memory = fill(place.open())
    memory.prune("archive")
    outlier = arrival(10, far=1.5)
    edits: list[Callable[[bool], Any]] = [
        lambda dry_run: memory.admit(**outlier, dry_run=dry_run),
        lambda dry_run: memory.delete(memory.ids[: len(memory) - 8], dry_run=dry_run),
    ]
    for edit in edits:
        told, archived = edit(True), set(memory.version.warranties.archive)
        receipt = edit(False)
        back = [name for name in memory.ids if name in archived]
        assert back, "the edit should bring something back"
        assert sorted(told.reactivated) == sorted(receipt.details["reactivated"]) == sorted(back)
        signed = parse_predicate(place.open().leaf(receipt.index).statement)
        assert signed.reactivated.count == len(back)
        assert (told.outcome, told.applied, told.size) == (receipt.outcome, receipt.applied, len(memory))
    memory.prune("archive")
    archived = set(memory.version.warranties.archive)
    rebuilt = memory.rebuild(nu=0.5)
    assert set(rebuilt.details["reactivated"]) == archived
    assert archived


def test_a_refusal_states_both_sides_of_the_comparison(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    with pytest.raises(DeletionRefused) as refused:
        memory.delete(memory.ids[:35])
    receipt = refused.value.receipt
    assert receipt.refusal == RefusalReason("too_few_entries", 35.0, float(memory.deletable))
    stated = parse_predicate(leaf_of(store, refused.value).statement)
    assert (stated.action, stated.refusal) == ("deletion", Refusal("too_few_entries", 35.0, float(memory.deletable)))
    memory.prune("forget")
    arrivals = (arrival(number, far=3.0) for number in range(40))
    ends = next(item for item in arrivals if memory.admit(**item, dry_run=True).expired)
    with pytest.raises(AdmissionRefused) as ending:
        memory.admit(**ends, on_expiry="refuse")
    ended = float(len(ending.value.receipt.details["would_end"]))
    assert parse_predicate(leaf_of(store, ending.value).statement).refusal == Refusal(
        "would_end_warranties", ended, 0.0
    )
    held = store.hold("icu", memory.ids[0], reason="court")
    with pytest.raises(DeletionRefused) as forbidden:
        memory.delete(memory.ids[0])
    assert parse_predicate(leaf_of(store, forbidden.value).statement).refusal == Refusal("legal_hold", 1.0, 0.0)
    store.release(held)
    for leaf in store.receipts():
        if leaf.kind == "refused":
            stated = parse_predicate(leaf.statement)
            assert stated.refusal is not None
            assert None not in (stated.refusal.measured, stated.refusal.allowed)


def test_a_dry_run_tells_and_writes_nothing(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    bound = memory.ids[int(memory.partition.bound[0])]
    reserve = memory.ids[int(memory.partition.reserve[0])]
    rows, before, outcomes = counts(store), appearance(memory), memory._current().outcomes.copy()
    told = memory.delete(bound, dry_run=True)
    assert isinstance(told, Preview)
    assert (told.outcome, told.applied, told.size) == ("decrement", (bound,), 39)
    assert told.deletable == memory.deletable - 1
    assert told.changed_coefficients > 0
    assert 0 < told.readout_change < 1
    calm = memory.delete(reserve, dry_run=True)
    assert (calm.outcome, calm.changed_coefficients, calm.readout_change) == ("certified_zero", 0, 0.0)
    refused = memory.delete(list(memory.ids[:35]), dry_run=True)
    assert refused.outcome == "refused"
    assert "needs at least" in (refused.reason or "")
    assert memory.prune(dry_run=True).outcome == "pruned"
    assert memory.admit(**arrival(1, far=3.0), dry_run=True).outcome == "admitted"
    assert memory.admit([3.0, 3.0, 0.0, 0.0], [1.0, 2.0], dry_run=True).applied == ("40",)
    assert "new-1" not in memory
    assert memory.delete([], dry_run=True).outcome == "noop"
    with pytest.raises(InputError):
        memory.delete("nobody", dry_run=True)
    with pytest.raises(Conflict):
        memory.delete(bound, dry_run=True, expected="0" * 64)
    assert counts(store) == rows
    assert appearance(memory) == before
    assert memory._current().outcomes == outcomes
    # It was not far from the truth.
    receipt = memory.delete(bound)
    assert (receipt.outcome, receipt.applied, len(memory)) == (told.outcome, told.applied, told.size)
    assert memory.deletable == told.deletable
    store.verify()


def test_a_subject_is_erased_everywhere_with_one_summary(place: Place) -> None:
    store = place.open()
    for name, seed in (("cardiology", 1), ("icu", 0), ("neurology", 2)):
        fill(store, name, seed=seed)
    fill(store, "elsewhere", seed=3, patients=2)
    store["icu"].prune("archive")
    store["neurology"].prune("forget")
    told = store.erase_subject("patient-3", dry_run=True)
    assert list(told) == ["cardiology", "icu", "neurology"]
    expected = {name: preview.applied for name, preview in told.items()}
    done = store.erase_subject("patient-3")
    assert done.complete
    assert done.applied == expected
    for name in store:
        assert "patient-3" not in store[name].subjects
    with pytest.raises(InputError, match="nothing was deleted"):
        store.erase_subject("patient-3")
    event = parse_event(store.leaf(done.index).statement)
    assert event.kind == "subject_erased"
    assert event.subject.sha256 == subject_commitment(done.salt, "patient-3")
    listed = event.facts["memories"]
    assert isinstance(listed, tuple)
    assert [part["leaf"] for part in listed] == [part.receipt.index for part in done.memories if part.receipt]
    assert b"patient" not in store.leaf(done.index).envelope
    store.verify()
    for wrong in ("", None, 3):
        with pytest.raises(InputError):
            store.erase_subject(wrong)  # type: ignore[arg-type]


def test_a_memory_that_cannot_erase_a_subject_does_not_stop_the_others(store: Store) -> None:
    fill(store, "free")
    store.create("tight", **entries(seed=1), sigma=SIGMA, nu=1.0)
    fill(store, "held", seed=2)
    hold = store.hold("held", subject="patient-3", reason="coroner")
    before = {name: store[name].digest for name in store}
    done = store.erase_subject("patient-3", idempotency_key="k")
    assert {part.memory: part.outcome for part in done.memories} == {
        "free": "decrement",
        "tight": "refused",
        "held": "refused",
    }
    assert not done.complete
    reasons = {part.memory: part.reason for part in done.memories}
    assert "coroner" in (reasons["held"] or "")
    assert "needs at least" in (reasons["tight"] or "")
    assert all(part.receipt is not None for part in done.memories)
    assert store["held"].digest == before["held"]
    assert store["tight"].digest == before["tight"]
    # The same request gets the same answer; a new one tries again.
    store.release(hold)
    assert store.erase_subject("patient-3", idempotency_key="k") == done
    with pytest.raises(Conflict):
        store.erase_subject("patient-4", idempotency_key="k")
    again = store.erase_subject("patient-3")
    assert {part.memory: part.outcome for part in again.memories} == {"tight": "refused", "held": "decrement"}
    store.verify()


def test_a_memory_is_dropped_with_a_receipt(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    memory.prune("archive")
    fill(store, "other", seed=1)
    other = place.open()["icu"]
    assert len(other) == len(memory)
    leaf = store.drop("icu", idempotency_key="k")
    assert store.drop("icu", idempotency_key="k") == leaf
    assert parse_event(leaf.statement).memory == memory.uuid
    assert store.names() == ["other"]
    assert "icu" not in store
    for handle in (memory, other):
        with pytest.raises(StoreError, match="dropped"):
            handle.read([0.0] * 4)
        with pytest.raises(StoreError, match="dropped"):
            handle.delete("e1")
    with pytest.raises(InputError, match="no memory"):
        store.drop("icu")
    again = fill(store, "icu", seed=5)
    assert again.uuid != memory.uuid
    assert store["icu"] is again
    store.verify()


def test_the_store_is_a_collection_of_names(place: Place) -> None:
    store = place.open()
    assert (list(store), len(store), "icu" in store) == ([], 0, False)
    fill(store)
    fill(store, "älter ☃", seed=1)
    assert list(store) == store.names() == ["icu", "älter ☃"]
    assert "älter ☃" in place.open()
    assert 3 not in store
    assert store["icu"] is store["icu"]
    for wrong in ("", "a\nb", "x" * 201, None, 3, "\ud800"):
        with pytest.raises(InputError):
            fill(store, wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            store[wrong]  # type: ignore[index]
    with pytest.raises(InputError, match="already"):
        fill(store)
    with pytest.raises(InputError, match="already"):
        fill(place.open())
    with pytest.raises(InputError, match="sigma"):
        store.create("bad", [[0.0]], [0.0], sigma=-1.0, nu=0.5)
    assert len(store) == 2
    assert "StoredMemory 'icu'" in repr(store["icu"])
    assert store.origin in repr(store)


def test_a_stored_memory_has_every_verb_of_a_memory(store: Store) -> None:
    """Whatever a Memory offers, a stored one does, with the same parameters at least."""
    import inspect

    own = {"fit", "load", "journal", "outcomes"}
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
    assert memory.nu == NU
    assert "e1" in memory


def test_a_stored_memory_cannot_be_edited_behind_its_store(store: Store) -> None:
    memory = fill(store)
    with pytest.raises(StoreError, match="through its store"):
        memory._current().delete("e1")
    assert "e1" in memory
    memory.delete("e1")
    store.verify()


def test_a_closed_store_says_so(place: Place) -> None:
    with place.open() as store:
        fill(store)
    store.close()
    for call in (store.names, store.verify, store.checkpoint, lambda: store["icu"], lambda: fill(store, "x")):
        with pytest.raises(StoreError, match="closed"):
            call()
    assert place.open().names() == ["icu"]


def test_a_memory_is_dropped_only_as_it_was_seen(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    seen = memory.digest
    place.open()["icu"].admit(**arrival(1, far=3.0))
    with pytest.raises(Conflict, match="somebody edited it"):
        store.drop("icu", expected=seen)
    assert "new-1" in memory
    store.drop("icu", expected=memory.digest)
    assert "icu" not in store
