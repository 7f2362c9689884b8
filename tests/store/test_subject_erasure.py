"""A data subject is erased in every memory, with one summary."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from expunge import InputError
from expunge.attestation.statements import commitment_of
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.store import (
    Conflict,
    Store,
    StoredMemory,
    parse_event,
    subject_commitment,
)

from .conftest import Place
from .sample_memory import SIGMA, entries, fill


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
    size = store.size
    again = store.erase_subject("patient-3")
    assert (again.complete, again.memories, again.index) == (True, (), None)
    assert store.size == size
    assert done.index is not None
    event = parse_event(store.leaf(done.index).statement)
    assert event.kind == "subject_erased"
    assert done.salt is not None
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
        "tight": "refitted",
        "held": "refused",
    }
    assert not done.complete
    reasons = {part.memory: part.reason for part in done.memories}
    assert "coroner" in (reasons.pop("held") or "")
    assert set(reasons.values()) == {None}
    assert all(part.receipt is not None for part in done.memories)
    assert store["held"].digest == before["held"]
    # The same request gets the same answer; a new one tries again.
    store.release(hold)
    assert store.erase_subject("patient-3", idempotency_key="k") == done
    with pytest.raises(Conflict):
        store.erase_subject("patient-4", idempotency_key="k")
    again = store.erase_subject("patient-3")
    assert {part.memory: part.outcome for part in again.memories} == {"held": "decrement"}
    assert again.complete
    store.verify()


def of_subject(memory: StoredMemory, subject: str) -> set[bytes]:
    """Commitments of a subject's entries."""
    found = [
        commitment_of(memory.version, name)
        for name, owner in zip(memory.ids, memory.subjects, strict=True)
        if owner == subject
    ]
    return {digest for digest in found if digest is not None}


def test_no_size_and_no_cap_stands_in_the_way(place: Place) -> None:
    """The only subject, the only entry, 12 of 20 at the smallest cap, all that were pruned: each receipt names all."""
    store = place.open()
    rows = entries(20, patients=1, dimension=3)

    def create(name: str, owners: Sequence[str | None], nu: float) -> None:
        columns = {field: column[: len(owners)] for field, column in rows.items()}
        store.create(name, **columns | {"subjects": owners}, sigma=SIGMA, nu=nu)

    create("one entry", ["ann"], 0.5)
    create("one subject", ["ann"] * 20, 0.3)
    create("12 of 20", ["ann"] * 12 + ["bob"] * 8, 1.0)
    create("all but one", ["bob"] + ["ann"] * 19, 0.1)
    create("with an archive", ["ann"] * 9 + ["bob"] + ["ann"] * 10, 0.4)
    create("with records", ["ann"] * 20, 0.4)
    digests = {name: of_subject(store[name], "ann") for name in store}
    assert len(digests["12 of 20"]) == 12
    store["with an archive"].prune("archive")
    store["with records"].prune("forget")
    told = store.erase_subject("ann", dry_run=True)
    done = store.erase_subject("ann", idempotency_key="k")
    outcomes = {part.memory: part.outcome for part in done.memories}
    assert outcomes == {name: preview.outcome for name, preview in told.items()}
    assert outcomes == {
        "one entry": "emptied",
        "one subject": "emptied",
        "12 of 20": "refitted",
        "all but one": "refitted",
        "with an archive": "refitted",
        "with records": "emptied",
    }
    assert done.complete
    for part in done.memories:
        assert part.receipt is not None
        stated = parse_predicate(store.leaf(part.receipt.index).statement)
        erased = {bytes.fromhex(digest) for digest in stated.applied.commitments}
        assert len(erased) == stated.applied.count == len(part.applied)
        assert erased == digests[part.memory]
        assert (len(store[part.memory]), stated.problem.cap) == (told[part.memory].size, told[part.memory].cap)
    assert done.index is not None
    event = parse_event(store.leaf(done.index).statement)
    assert event.facts["complete"] is True
    for handle in (store, place.open()):
        assert {name: handle[name].ids for name in handle} == {
            name: tuple(f"e{row}" for row in found)
            for name, found in {
                "one entry": [],
                "one subject": [],
                "12 of 20": range(12, 20),
                "all but one": [0],
                "with an archive": [9],
                "with records": [],
            }.items()
        }
    assert store.erase_subject("ann", idempotency_key="k") == done
    assert store.erase_subject("bob").complete
    assert sum(memory.size for memory in store.memories()) == 0
    assert store.verify().entries == 0
    # An empty memory goes on like any other.
    again = place.open()
    for name in again:
        assert again[name].admit_many(rows["keys"][:3], rows["values"][:3]).outcome == "admitted"
    again.verify()
