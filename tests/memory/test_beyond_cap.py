"""Erasures that leave too few entries for the cap, or none: always done, in one edit, with nothing left behind."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement import assert_sound, snapshot
from expunge import Memory, Receipt
from expunge.certificates.certificate import DecrementCertificate
from expunge.memory.snapshot import pack
from expunge.memory.version import Version
from expunge.problem.kernel import kernel_block
from expunge.problem.problem import cap_from, fewest_keys, widened_cap

SIZE = 20
IDS = [f"e{row}" for row in range(SIZE)]


def content(size: int = SIZE, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((size, 3)), rng.standard_normal((size, 2))


def ward(nu: float = 0.6, seed: int = 0) -> Memory:
    keys, values = content(seed=seed)
    subjects = ["ada" if row < 12 else "bob" for row in range(SIZE)]
    return Memory.fit(keys, values, sigma=2.0, nu=nu, ids=IDS, subjects=subjects, payloads=[f"note {i}" for i in IDS])


def fixed_salts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same salt for every entry, so that memories that hold the same entries have the same bytes."""
    monkeypatch.setattr("expunge.memory.memory.new_salts", lambda count: b"\x07" * 32 * count)
    monkeypatch.setattr("expunge.memory.entries.new_salts", lambda count: b"\x07" * 32 * count)


@given(
    st.integers(1, 400),
    st.floats(0.01, 1.0),
    st.lists(st.integers(0, 400), max_size=8),
)
def test_the_cap_after_deletions_depends_on_the_first_cap_and_the_last_count_alone(
    size: int, nu: float, lefts: list[int]
) -> None:
    cap = first = cap_from(size, nu=nu)
    for left in sorted((left for left in lefts if 0 < left <= size), reverse=True):
        cap = widened_cap(cap, left)
        assert cap == widened_cap(first, left)
        assert fewest_keys(cap) <= left
        # Half of it would not do, unless it was enough from the start.
        assert cap == first or fewest_keys(cap / 2) > left or cap == 1.0 > 2.0 * first
        assert cap <= 1.0
    assert widened_cap(cap, 0) == 1.0


def test_what_remains_is_fitted_afresh_in_one_edit() -> None:
    memory = ward()
    before, edit = memory.cap, memory.version.edit
    assert memory.deletable == 8
    receipt = memory.delete(subject="ada")
    assert (receipt.action, receipt.outcome, receipt.applied) == ("deletion", "refitted", tuple(IDS[:12]))
    assert receipt.details == {"cap_before": before, "cap": memory.cap}
    assert memory.cap == 2 * before
    assert (memory.ids, memory.version.edit, receipt.state_after) == (tuple(IDS[12:]), edit + 1, memory.digest)
    assert memory.payload("e13") == "note e13"
    assert memory.refit().digest == memory.digest
    assert receipt.check.passed
    assert memory.outcomes == {"refitted": 1}
    assert_sound(memory)
    assert "larger cap" in receipt.covers


def test_nothing_remains() -> None:
    memory = ward()
    receipt = memory.delete(IDS)
    assert (receipt.outcome, set(receipt.applied)) == ("emptied", set(IDS))
    assert receipt.details["cap"] == memory.cap == 1.0
    assert (len(memory), memory.deletable, memory.search([0.0, 0.0, 0.0])) == (0, 0, [])


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("left", [0, 1, 2, 3, 5, 7, 11, 19])
def test_any_order_and_grouping_end_with_the_same_bytes(nu: float, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_salts(monkeypatch)
    rng = np.random.default_rng(left)
    kept, found = IDS[:left], set()
    for trial in range(4):
        memory, gone = ward(nu), list(rng.permutation(IDS[left:]))
        cuts = sorted({0, len(gone), *rng.integers(0, len(gone) + 1, size=trial).tolist()})
        for start, end in pairwise(cuts):
            memory.delete(gone[start:end])
        assert memory.ids == tuple(kept)
        found.add(pack(memory))
    assert len(found) == 1
    assert memory.refit().digest == memory.digest


def test_an_emptied_memory_is_one_that_never_held_an_entry(tmp_path: Path) -> None:
    emptied, never = ward(), Memory.fit(np.empty((0, 3)), np.empty((0, 2)), sigma=2.0, cap=0.01)
    emptied.prune("archive")
    emptied.delete(subject="ada")
    emptied.delete(subject="bob")
    emptied.admit([1.0, 2.0, 3.0], [0.0, 0.0], id="passing")
    emptied.delete("passing")
    assert emptied.digest == never.digest
    assert pack(emptied) == pack(never)
    for memory, name in ((emptied, "a"), (never, "b")):
        memory.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def pruned_ward() -> tuple[Memory, tuple[str, ...], tuple[str, ...]]:
    """A memory with forgotten and archived entries."""
    memory = ward(nu=0.3)
    forgotten = memory.prune("forget").applied
    for number in range(6):
        memory.admit([0.05 * number, 0.1, 0.0], [0.0, 0.0], id=f"inner-{number}", subject="ada")
    archived = memory.prune("archive").applied
    assert forgotten
    assert archived
    return memory, forgotten, archived


def test_archived_entries_come_back_and_certificates_of_forgotten_ones_end() -> None:
    memory, forgotten, archived = pruned_ward()
    kept = (memory.ids[0], archived[0])
    receipt = memory.delete([name for name in (*memory.ids, *archived) if name not in kept])
    assert receipt.outcome == "refitted"
    assert set(memory.ids) == set(kept)
    assert receipt.details["reactivated"] == [archived[0]]
    assert set(receipt.details["ended"]) == set(forgotten)
    assert not memory.version.warranties.archive
    assert {row.status for row in memory.warranties()} == {"ended"}
    assert memory.refit().digest == memory.digest


def test_forgotten_entries_outlast_the_last_live_one_and_can_be_deleted_then() -> None:
    memory, forgotten, archived = pruned_ward()
    assert memory.delete([*memory.ids, *archived]).outcome == "emptied"
    assert [row.id for row in memory.warranties()] == list(forgotten)
    digest = memory.digest
    assert memory.delete(forgotten[0]).outcome == "certified_zero"
    assert memory.delete(subject="ada").applied
    memory.delete([row.id for row in memory.warranties()])
    assert memory.warranties() == []
    assert memory.digest == digest
    assert pack(memory) == pack(Memory.fit(np.empty((0, 3)), np.empty((0, 2)), sigma=2.0, nu=1.0))


def test_a_certificate_names_the_cap_that_a_removal_leads_to() -> None:
    memory = Memory.fit(*content(3), sigma=2.0, nu=1.0, ids=list("abc"))
    for name, cap in (("a", 2 * memory.cap), ("b", 1.0), ("c", 1.0)):
        certificate = memory.certificate(name)
        assert isinstance(certificate, DecrementCertificate)
        memory.delete(name)
        assert certificate.cap == memory.cap == cap


def test_copies_count_as_entries() -> None:
    memory = Memory.fit(np.ones((6, 2)), np.zeros(6), sigma=1.0, nu=1.0, ids=list("abcdef"))
    assert memory.delete(list("abc")).outcome == "refitted"
    assert memory.coefficients.tolist() == [1 / 3] * 3
    assert memory.refit().digest == memory.digest


def arrays_of(thing: object, seen: set[int]) -> list[np.ndarray[Any, Any]]:
    """Every array that can be reached from an object of the package, with the arrays that it is a view of."""
    if id(thing) in seen or isinstance(thing, type):
        return []
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return [thing, *arrays_of(thing.base, seen)]
    parts: list[object] = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts = list(thing)
    elif type(thing).__module__.startswith("expunge"):
        parts = list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    return [array for part in parts for array in arrays_of(part, seen)]


def holds_bytes(thing: object, needle: bytes) -> bool:
    return any(needle in array.tobytes() for array in arrays_of(thing, set()))


def holds_number(thing: object, numbers: Any) -> bool:
    """Whether most of these numbers stand in one array."""
    for array in arrays_of(thing, set()):
        if array.dtype == np.float64 and array.size:
            found = [bool(np.any(np.abs(array - number) < 1e-12)) for number in numbers]
            if sum(found) > len(found) // 2:
                return True
    return False


@pytest.mark.parametrize("left", [0, 1, 8])
def test_nothing_that_the_memory_reaches_holds_an_erased_entry(left: int) -> None:
    memory = ward()
    assert memory.prune("archive").applied
    old = memory.version
    keys = dict(zip(memory.ids, memory.keys.copy(), strict=True))
    keys |= {name: entry.key for name, entry in old.warranties.archive.items()}
    gone = [name for name in IDS if name in keys][left:]
    members = old.state.gram.keys[old.state.margin.members].copy()
    erased = max((name for name in gone if name in memory), key=lambda name: float(keys[name][0]))
    kernels = [value for value in kernel_block(keys[erased][None, :], members, 2.0)[0] if 1e-6 < value < 1 - 1e-6]
    needles = [keys[name].tobytes() for name in gone]
    assert holds_bytes(memory, needles[0])
    assert memory.delete(gone).outcome == ("refitted" if left else "emptied")
    for needle in needles:
        assert not holds_bytes(memory, needle)
        assert needle not in memory.version.site_of_key
    assert not holds_number(memory, kernels)
    # The buffers of the version before are not the memory's any more, and were overwritten.
    buffers = (old.state.gram, old.state.margin, old.entries, old.state.slack)
    live = [keys[name].tobytes() for name in gone if old.slot(name) is not None]
    for part in buffers:
        assert not any(holds_bytes(part, needle) for needle in live)
        assert not holds_number(part, kernels)
    assert not set(gone) & {name for name in old.entries.ids if name is not None}
    assert not set(gone) & set(old.entries.slot_of)
    assert not old.site_of_key


def test_a_version_that_a_reader_holds_shows_what_remains_and_nothing_of_the_rest() -> None:
    memory = ward()
    old = memory.version
    kept = content()[0][12:]
    memory.delete(subject="ada")
    assert old.ids == ("",) * 12 + tuple(IDS[12:])
    assert np.array_equal(old.keys[12:], kept)
    assert not old.keys[:12].any()


@pytest.mark.parametrize("part", ["gram.rewind", "entries.wipe"])
def test_overwriting_that_was_interrupted_is_taken_up_again(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ward()
    old, (keys, _) = memory.version, content()
    name, method = part.split(".")
    owner = type(old.state.gram if name == "gram" else old.entries)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            memory.delete(subject="ada")
    assert memory.ids == tuple(IDS[12:])
    assert holds_bytes(old.entries, content()[1][0].tobytes())
    memory.settle()
    for row in range(12):
        assert not holds_bytes(old.state.gram, keys[row].tobytes())
        assert not holds_bytes(old.entries, content()[1][row].tobytes())
    memory.admit([1.0, 2.0, 3.0], [0.0, 0.0])
    assert memory.refit().digest == memory.digest


@pytest.mark.parametrize("count", [12, 20])
def test_the_guard_comes_first_and_the_journal_sees_both_versions(count: int) -> None:
    memory = ward()
    seen: list[tuple[str, object]] = []
    memory.guard = lambda version, names: seen.append(("guard", (version is memory.version, names)))

    def journal(before: Version, after: Version, receipt: Receipt) -> None:
        # What is erased can still be named while the edit is made durable.
        assert before.ids == tuple(IDS)
        assert before.keys.any(axis=1).all()
        seen.append(("journal", (after.ids, receipt.outcome)))

    memory.journal = journal
    memory.delete(IDS[:count])
    outcome = "refitted" if count < SIZE else "emptied"
    assert seen == [("guard", (True, tuple(IDS[:count]))), ("journal", (tuple(IDS[count:]), outcome))]


@pytest.mark.parametrize("count", [12, 20])
@pytest.mark.parametrize("failing", ["journal", "guard"])
def test_a_journal_or_guard_that_raises_stops_the_edit(count: int, failing: str) -> None:
    memory = ward()
    before, file = snapshot(memory), pack(memory)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    setattr(memory, failing, fail)
    with pytest.raises(OSError, match="no space"):
        memory.delete(IDS[:count])
    assert snapshot(memory) == before
    setattr(memory, failing, None)
    assert pack(memory) == file
    memory.settle()
    assert snapshot(memory) == before
    memory.delete(IDS[:count])
    assert memory.refit().digest == memory.digest


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 25), st.sampled_from([0.05, 0.2, 0.5, 0.8, 1.0]))
def test_every_history_ends_in_the_canonical_state_and_no_deletion_is_refused(seed: int, size: int, nu: float) -> None:
    rng = np.random.default_rng(seed)

    def keys_of(count: int) -> Any:
        keys = rng.standard_normal((count, 2))
        # Copies, halves and near-copies, too.
        return np.where(rng.random((count, 1)) < 0.3, np.round(keys), keys)

    def subjects_of(count: int) -> list[str | None]:
        return [("ada", "bob", None)[number] for number in rng.integers(0, 3, size=count).tolist()]

    nothing = pack(Memory.fit(np.empty((0, 2)), np.empty((0, 1)), sigma=1.5, nu=1.0))
    memory = Memory.fit(keys_of(size), np.zeros(size), sigma=1.5, nu=nu, subjects=subjects_of(size))
    for _ in range(10):
        pruned = memory.version.warranties
        names = [*memory.ids, *pruned.archive, *pruned.forgotten]
        act = int(rng.integers(8))
        cap = memory.cap
        if act == 0:
            count = int(rng.integers(1, 13))
            memory.admit_many(keys_of(count), np.zeros(count), subjects=subjects_of(count))
            assert memory.cap == cap
        elif act == 1:
            memory.admit(keys_of(1)[0], 0.0)
            assert memory.cap == cap
        elif act == 2:
            memory.prune("archive" if rng.random() < 0.6 else "forget")
        elif act == 3 and len(memory):
            memory.rebuild(nu=float(rng.choice([0.1, 0.5, 1.0])))
        elif names:
            share = [0.2, 0.6, 0.9, 1.0][act - 4] if act >= 4 else 1.0
            gone = [name for name in names if rng.random() < share] or names[:1]
            live = len(memory) + len(pruned.archive) - sum(name not in pruned.forgotten for name in gone)
            outcome = memory.delete(gone).outcome
            assert memory.cap == (widened_cap(cap, live) if outcome in ("refitted", "emptied") else cap)
            assert len(memory) + len(memory.version.warranties.archive) == live
        assert memory.refit().digest == memory.digest
        assert memory.check().passed
        if not len(memory) and not memory.warranties():
            assert pack(memory) == nothing
