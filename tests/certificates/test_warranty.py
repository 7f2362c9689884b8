"""Certificates that expire: sound always, lasting where they can, exact in archive mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import expunge
from expunge import AdmissionRefused, InputError, Memory, VerificationError
from expunge.types import Matrix, Vector

KEYS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]])
VALUES = np.array([1.0, 2.0, 9.0])
QUERY = [[0.25, 0.1]]


def example() -> Memory:
    """Example 1 of the paper."""
    return Memory.fit(KEYS, VALUES, sigma=5.0, cap=1.0, ids=["a", "b", "c"], subjects=["u", "v", "w"])


def full_history() -> Memory:
    return Memory.fit(np.vstack([KEYS, [[0.0, -10.0]]]), [*VALUES, 3.0], sigma=5.0, cap=1.0, ids=["a", "b", "c", "d"])


def by_id(memory: Memory) -> dict[str, float]:
    return dict(zip(memory.ids, memory.coefficients.tolist(), strict=True))


def test_the_papers_example_end_to_end_when_forgetting() -> None:
    memory = example()
    assert memory.prove().outcome == "proved"
    assert memory.certificate("c").slack == pytest.approx(0.00817, abs=5e-6)  # type: ignore[union-attr]
    readout, score = memory.read(QUERY), memory.score(QUERY)
    receipt = memory.prune("forget")
    assert receipt.outcome == "pruned"
    assert receipt.applied == ("c",)
    assert receipt.details == {"mode": "forget", "unproved": 0}
    assert np.array_equal(memory.read(QUERY), readout)
    assert np.array_equal(memory.score(QUERY), score)
    assert [row.status for row in memory.warranties()] == ["valid"]
    receipt = memory.admit([0.0, -10.0], 3.0, id="d")
    assert receipt.details["expired"] == ["c"]
    (row,) = memory.warranties()
    assert row.status == "expired"
    assert row.slack == pytest.approx(0.00817, abs=5e-6)
    probes = np.vstack([KEYS, [[0.0, -10.0]], QUERY])
    assert np.abs(memory.score(probes) - full_history().score(probes)).max() == pytest.approx(4.1e-3, abs=5e-5)


def test_the_papers_example_end_to_end_with_an_archive() -> None:
    memory = example()
    memory.prune("archive")
    assert memory.ids == ("a", "b")
    receipt = memory.admit([0.0, -10.0], 3.0, id="d")
    assert receipt.details["reactivated"] == ["c"]
    assert by_id(memory)["c"] == pytest.approx(0.033, abs=5e-4)
    reference = by_id(full_history())
    assert all(abs(weight - reference[name]) < 1e-12 for name, weight in by_id(memory).items())
    assert memory.warranties() == []
    assert memory.subjects[memory.ids.index("c")] == "w"


def test_an_admission_that_would_end_certificates_can_be_refused() -> None:
    for mode in ("forget", "archive"):
        memory = example()
        memory.prune(mode)
        before = memory.digest, memory.warranties()
        with pytest.raises(AdmissionRefused, match="would end 1 certificates") as refused:
            memory.admit([0.0, -10.0], 3.0, on_expiry="refuse")
        assert refused.value.receipt.details == {"would_end": ["c"]}
        assert (memory.digest, memory.warranties()) == before
        receipt = memory.admit([0.1, 0.2], 3.0, on_expiry="refuse")
        assert receipt.outcome == "admitted"


def stream(regime: str, rng: np.random.Generator) -> Vector:
    if regime == "gaussian":
        return rng.standard_normal(4)
    centres = np.random.default_rng(99).standard_normal((6, 4)) * 2
    return np.asarray(centres[rng.integers(6)] + 0.02 * rng.standard_normal(4))


@pytest.mark.parametrize("sketch", [0, 1, 3])
@pytest.mark.parametrize("regime", ["gaussian", "near-duplicate"])
def test_no_key_is_reported_valid_whose_slack_is_negative(regime: str, sketch: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    keys = np.array([stream(regime, rng) for _ in range(90)])
    memory = Memory.fit(keys, np.zeros((90, 1)), sigma=1.5, nu=0.3)
    content: dict[str, Vector] = dict(zip(memory.ids, keys, strict=True))
    pruned: Matrix = np.empty((0, 4))
    names: list[str] = []
    seen_valid = seen_over = 0
    for step in range(80):
        if step % 20 == 0:
            names += memory.prune("forget", sketch=sketch).applied
            pruned = np.array([content[name] for name in names])
        if step % 10 == 9 and memory.deletable > 0:
            memory.delete(str(rng.choice(memory.ids)))
        else:
            key = stream(regime, rng)
            content[f"new-{step}"] = key
            memory.admit(key, 0.0, id=f"new-{step}")
        if step == 37:
            memory.save(tmp_path / "memory.expunge")
            memory = Memory.load(tmp_path / "memory.expunge")
        rows = {row.id: row for row in memory.warranties()}
        slacks = memory.solution.slack(pruned)
        for name, slack in zip(names, slacks.tolist(), strict=True):
            if rows[name].remaining is not None:
                assert rows[name].remaining <= slack + 1e-13
            if rows[name].status == "valid":
                seen_valid += 1
                assert slack >= 0.0
            else:
                seen_over += 1
    assert seen_valid > 50
    assert seen_over > 0


@pytest.mark.parametrize("regime", ["gaussian", "near-duplicate"])
def test_with_an_archive_the_live_memory_equals_the_one_that_never_pruned(regime: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    keys = np.array([stream(regime, rng) for _ in range(60)])
    values = rng.uniform(-1, 1, (60, 2))
    pruning, plain = (Memory.fit(keys, values, sigma=1.5, nu=0.4) for _ in range(2))
    returned, smallest = 0, 1.0
    for step in range(100):
        if step % 15 == 0:
            pruning.prune("archive", sketch=step % 2)
        if rng.random() < 0.5 and plain.deletable > 3:
            victims = [str(name) for name in rng.choice(plain.ids, 2, replace=False)]
            receipt = pruning.delete(victims)
            plain.delete(victims)
        else:
            key, value = stream(regime, rng), rng.uniform(-1, 1, 2)
            receipt = pruning.admit(key, value, id=f"new-{step}")
            plain.admit(key, value, id=f"new-{step}")
        if step == 50:
            pruning.save(tmp_path / "memory.expunge")
            pruning = Memory.load(tmp_path / "memory.expunge")
        returned += len(receipt.details.get("reactivated", ()))
        mine, theirs = by_id(pruning), by_id(plain)
        assert set(mine) <= set(theirs)
        smallest = min(smallest, len(mine) / len(theirs))
        assert max(abs(mine.get(name, 0.0) - weight) for name, weight in theirs.items()) < 1e-10
        probe = stream(regime, rng)
        assert np.abs(pruning.read(probe) - plain.read(probe)).max() < 1e-9
    assert returned > 0
    assert smallest < 0.8


def test_a_rescued_state_is_pruned_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign backend leaves roundings where the exact weight is zero; the published state has none."""
    keys = np.random.default_rng(5).standard_normal((120, 3))
    with monkeypatch.context() as without, expunge.open(f"sqlite:///{tmp_path / 'ward.db'}") as store:
        without.setattr("expunge.memory.first_version.fit", lambda *_, **__: 1 / 0)
        memory = store.create("ward", keys, np.ones(120), sigma=2.0, nu=0.3)
        assert not np.count_nonzero(memory.coefficients[memory.partition.reserve])
        receipt = memory.prune("archive")
        assert receipt.outcome == "pruned"
        assert receipt.details["unproved"] == 0


def test_pruned_entries_can_be_deleted_by_id_and_by_subject() -> None:
    memory = example()
    memory.prune("archive")
    with pytest.raises(InputError, match="is taken"):
        memory.admit([0.5, 0.5], 1.0, id="c")
    receipt = memory.delete(subject="w")
    assert receipt.outcome == "certified_zero"
    assert receipt.applied == ("c",)
    assert memory.warranties() == []
    with pytest.raises(InputError, match="no entry has id 'c'"):
        memory.delete("c")
    memory = example()
    memory.prune("forget")
    assert memory.delete("c").applied == ("c",)
    assert memory.warranties() == []


def two_prunings() -> tuple[Memory, tuple[str, ...], tuple[str, ...]]:
    """A memory that forgot entries twice; an entry of the first pruning's live ones is not among the second's."""
    rng = np.random.default_rng(3)
    memory = Memory.fit(rng.standard_normal((60, 4)), np.zeros((60, 1)), sigma=3.0, nu=0.3, subjects=["u"] * 60)
    first = memory.prune("forget", sketch=2).applied
    for number in range(12):
        memory.admit(0.3 * rng.standard_normal(4), 0.0, id=f"later-{number}", subject="u")
    second = memory.prune("forget", sketch=2).applied
    assert {name for name in second if name.startswith("later")} == set(second)
    return memory, first, second


def test_the_first_erasure_of_an_entry_that_was_live_ends_all_certificates_of_a_pruning() -> None:
    memory, first, second = two_prunings()
    assert {row.status for row in memory.warranties() if row.id in second} == {"valid"}
    receipt = memory.delete(memory.ids[0])
    assert set(receipt.details["ended"]) == {*first, *second}
    assert "expired" not in receipt.details
    rows = memory.warranties()
    assert {row.id for row in rows} == {*first, *second}
    assert {(row.status, row.slack, row.remaining) for row in rows} == {("ended", None, None)}
    for record in memory.version.warranties.forgotten.values():
        assert record.anchor is None
        assert (record.similarity, record.kernels.size, record.neighbours.size, record.subject) == (0.0, 0, 0, "u")


def test_an_erasure_of_an_entry_that_came_later_ends_no_certificate() -> None:
    rng = np.random.default_rng(3)
    memory = Memory.fit(rng.standard_normal((60, 4)), np.zeros((60, 1)), sigma=3.0, nu=0.3)
    memory.prune("forget", sketch=2)
    before = memory.warranties()
    assert {row.status for row in before} == {"valid"}
    memory.admit(4.0 * np.ones(4), 0.0, id="later")
    memory.delete("later")
    after = memory.warranties()
    assert [(row.id, row.status, row.slack) for row in after] == [(row.id, row.status, row.slack) for row in before]


def test_a_certificate_that_an_admission_expired_is_valid_again_without_that_entry() -> None:
    memory = example()
    memory.prune("forget")
    assert memory.admit([0.0, -10.0], 3.0, id="d").details["expired"] == ["c"]
    receipt = memory.delete("d")
    assert receipt.details["renewed"] == ["c"]
    assert [row.status for row in memory.warranties()] == ["valid"]


def test_forgetting_an_entry_that_was_live_ends_an_earlier_prunings_certificates() -> None:
    keys = np.random.default_rng(4).standard_normal((40, 3))
    memory = Memory.fit(keys, np.zeros(40), sigma=2.0, nu=0.3)
    memory.prune("forget")
    far = 6.0 * np.eye(3)
    for number, key in enumerate(np.vstack([far, -far])):
        memory.admit(key, 0.0, id=f"far-{number}")
    before = {row.id for row in memory.warranties()}
    gone = set(memory.prune("forget").applied) & {str(row) for row in range(40)}
    assert gone, "the far keys took no weight from the others"
    assert {row.status for row in memory.warranties() if row.id in before} == {"ended"}


def test_an_archive_keeps_no_anchor_and_outlives_every_erasure(tmp_path: Path) -> None:
    keys = np.random.default_rng(4).standard_normal((60, 3))
    memory = Memory.fit(keys, np.zeros(60), sigma=2.0, nu=0.3)
    memory.prune("archive")
    while memory.deletable > 20:
        memory.delete(memory.ids[0])
        rows = memory.warranties()
        assert {row.status for row in rows} <= {"valid"}
        slacks = memory.solution.slack(np.array([memory.version.warranties.archive[row.id].key for row in rows]))
        for row, slack in zip(rows, slacks.tolist(), strict=True):
            assert row.slack is not None
            assert slack - 1e-12 <= row.slack <= slack + 1e-15
    memory.save(tmp_path / "memory")
    assert not Memory.load(tmp_path / "memory").version.warranties.watches


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"mode": "burn"}, "mode must be"),
        ({"sketch": -1}, "number of neighbours"),
        ({"sketch": 1.5}, "number of neighbours"),
        ({"sketch": np.True_}, "number of neighbours"),
        ({"mode": "forget", "sketch": np.int64(2)}, "the content again"),
        ({"mode": "forget", "sketch": 2}, "the content again"),
    ],
)
def test_bad_arguments_of_prune(keywords: dict[str, object], message: str) -> None:
    memory = example()
    with pytest.raises(InputError, match=message):
        memory.prune(**keywords)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="on_expiry"):
        memory.admit([0.0, 0.0], 1.0, on_expiry="ignore")  # type: ignore[arg-type]


def test_nothing_to_prune_is_a_noop() -> None:
    memory = Memory.fit(np.eye(4), np.zeros(4), sigma=1.0, cap=0.3)
    receipt = memory.prune()
    assert receipt.outcome == "noop"
    assert len(memory) == 4


def test_a_rebuild_is_another_reference_and_ends_certificates() -> None:
    memory = example()
    memory.prune("archive")
    receipt = memory.rebuild(cap=0.5)
    assert receipt.outcome == "rebuilt"
    assert (receipt.details["cap_before"], receipt.details["cap"]) == (1.0, 0.5)
    assert set(memory.ids) == {"a", "b", "c"}
    assert memory.warranties() == []
    fresh = Memory.fit(memory.keys, memory.values, sigma=5.0, cap=0.5)
    assert np.abs(memory.coefficients - fresh.coefficients).max() < 1e-12
    memory = example()
    memory.prune("forget")
    assert memory.rebuild(cap=0.5).details["ended"] == ["c"]
    assert "ended" not in memory.rebuild(cap=0.6).details
    assert [row.status for row in memory.warranties()] == ["ended"]
    with pytest.raises(InputError, match="infeasible"):
        memory.rebuild(cap=0.4)


AFTER_A_REBUILD: dict[str, Callable[[Memory], object]] = {
    "delete": lambda memory: memory.delete(memory.ids[0]),
    "delete many": lambda memory: [memory.delete(name) for name in memory.ids[: memory.deletable]],
    "admit": lambda memory: [memory.admit([far, -far], far, id=f"at {far}") for far in (0.1, 3.0)],
    "archive": lambda memory: (memory.prune("archive", sketch=1), memory.admit([3.0, 3.0], 1.0, id="far")),
    "forget": lambda memory: (memory.prune("forget", sketch=1), memory.admit([3.0, 3.0], 1.0, id="far")),
    "rebuild": lambda memory: memory.rebuild(nu=0.6),
}


@pytest.mark.parametrize("act", list(AFTER_A_REBUILD.values()), ids=list(AFTER_A_REBUILD))
@pytest.mark.parametrize("sketch", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_a_memory_lives_on_after_a_rebuild_that_ends_certificates(
    tmp_path: Path, act: Callable[[Memory], object], sketch: int, seed: int
) -> None:
    """The sites have new numbers: nothing that was kept of a forgotten entry may refer to the old ones."""
    rng = np.random.default_rng(seed)
    memory = Memory.fit(rng.standard_normal((60, 2)), rng.standard_normal(60), sigma=2.0, nu=0.3)
    memory.delete(memory.ids[seed])
    forgotten = memory.prune("forget", sketch=sketch).applied
    for number, far in enumerate((0.5, 1.5, 4.0)):
        memory.admit(far * rng.standard_normal(2), far, id=f"new-{number}")
    receipt = memory.rebuild(nu=0.4)
    assert sorted(receipt.details["ended"]) == sorted(forgotten)

    def ended(memory: Memory) -> None:
        rows = {row.id: row for row in memory.warranties() if row.id in forgotten}
        assert set(rows) == set(forgotten)
        assert {(row.status, row.slack, row.remaining) for row in rows.values()} == {("ended", None, None)}

    ended(memory)
    memory.save(tmp_path / "rebuilt.expunge")
    again = Memory.load(tmp_path / "rebuilt.expunge")
    for one in (memory, again):
        act(one)
        ended(one)
        assert one.check().worst < 1e-12
        assert np.abs(one.coefficients - one.refit().coefficients).max() < 1e-9
        one.save(tmp_path / "later.expunge")
        later = Memory.load(tmp_path / "later.expunge")
        assert later.digest == one.digest
        ended(later)
        later.delete(forgotten)
        assert not set(forgotten) & {row.id for row in later.warranties()}
    assert again.ids == memory.ids
    assert np.abs(again.coefficients - memory.coefficients).max() < 1e-12


def test_a_generated_id_counts_nothing() -> None:
    keys = np.random.default_rng(0).standard_normal((30, 2))
    memory = Memory.fit(keys, np.zeros(30), sigma=1.5, nu=0.2)
    names = [memory.admit([0.1, number], 0.0).applied[0] for number in range(5)]
    assert len(set(names)) == 5
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in names)


@pytest.mark.parametrize("mode", ["forget", "archive"])
@pytest.mark.parametrize("sketch", [1, 2, 4])
def test_a_sketch_names_no_neighbour_twice(mode: str, sketch: int) -> None:
    """Keys on a line, far closer than the width: after a few neighbours nothing is left to explain."""
    line = np.array([-1.9, 0.5, 0.3, 1.3, 2.7, 0.4])
    keys, values = np.zeros((6, 5)), np.arange(6.0)
    keys[:, 0] = line
    pruned, whole = (Memory.fit(keys, values, sigma=500.0, nu=0.6) for _ in range(2))
    pruned.prune(mode, sketch=sketch)  # type: ignore[arg-type]
    for record in pruned.version.warranties.forgotten.values():
        assert np.unique(record.neighbours).size == record.neighbours.size
    new = np.zeros(5)
    new[0] = 100.0
    for memory in (pruned, whole):
        memory.admit(new, 7.0, id="new")
    valid = [row.id for row in pruned.warranties() if row.status == "valid"]
    assert (pruned.solution.slack(keys[[int(name) for name in valid]]) >= 0.0).all()
    if mode == "archive":
        np.testing.assert_allclose(pruned.read(np.zeros(5)), whole.read(np.zeros(5)), rtol=0, atol=1e-9)


def test_a_saved_sketch_that_names_a_neighbour_twice_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    memory = Memory.fit(rng.standard_normal((30, 3)), np.zeros(30), sigma=2.0, nu=0.2)
    memory.prune("forget", sketch=2)
    warranties = memory.version.warranties
    for name, record in warranties.forgotten.items():
        again = np.zeros(2, dtype=np.int64)
        warranties.forgotten[name] = replace(record, neighbours=record.neighbours[again])
    memory.save(tmp_path / "memory.exp")
    with pytest.raises(VerificationError, match="names a neighbour twice"):
        Memory.load(tmp_path / "memory.exp")


@pytest.mark.parametrize("copies", [1, 3])
def test_an_archived_entry_shares_the_weight_of_a_copy(copies: int) -> None:
    pruned, whole = (
        Memory.fit([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], [1.0, 2.0, 9.0], sigma=5.0, cap=1.0, ids=list("abc"))
        for _ in range(2)
    )
    assert pruned.prune("archive").applied == ("c",)
    for memory in (pruned, whole):
        for copy in range(copies):
            memory.admit([0.0, 0.9], -50.0, id=f"copy-{copy}")
        memory.admit([0.0, -10.0], 3.0, id="d")
    assert by_id(pruned) == pytest.approx(by_id(whole), abs=1e-12)
    assert by_id(pruned)["c"] > 0.0
    np.testing.assert_allclose(pruned.read([[0.0, 0.9]]), whole.read([[0.0, 0.9]]), rtol=0, atol=1e-9)


def test_what_remains_of_a_valid_certificate_is_not_negative() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        count, width = int(rng.choice([12, 40])), int(rng.choice([2, 3, 6]))
        keys = rng.standard_normal((count, width))
        memory = Memory.fit(keys, np.zeros(count), sigma=float(rng.choice([3, 10, 30, 100])), nu=0.3)
        memory.prune("forget", sketch=1)
        for step in range(6):
            near = keys[rng.integers(count)] + rng.standard_normal(width) * 10.0 ** -rng.integers(0, 7)
            memory.admit(near, 0.0, id=f"new-{step}")
            rows = [row for row in memory.warranties() if row.status == "valid"]
            left = [row.remaining for row in rows if row.remaining is not None]
            assert len(left) == len(rows)
            assert all(one >= 0.0 for one in left)
            slack = memory.solution.slack(keys[[int(row.id) for row in rows]]) if rows else np.zeros(0)
            assert all(one <= exact + 1e-13 for one, exact in zip(left, slack, strict=True))


def test_a_key_near_the_centre_of_a_tight_cluster_keeps_no_certificate_by_rounding() -> None:
    # 1 − ⟨c, φ⟩²/‖c‖² of the pruned key is 1e−17 here, less than the rounding of its terms.
    memory = Memory.fit([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.2]], np.zeros(3), sigma=2.1e7, cap=1.0, ids=list("abc"))
    assert memory.prune("forget").applied == ("c",)
    memory.admit([0.0, 0.15], 0.0, id="d")
    memory.admit([0.0, -2.1e7], 0.0, id="e")
    whole = Memory.fit([*memory.keys, [0.0, 0.2]], np.zeros(5), sigma=2.1e7, cap=1.0)
    assert whole.prove().outcome == "proved"
    assert whole.coefficients[-1] == pytest.approx(0.5, abs=1e-6)
    assert [row.status for row in memory.warranties()] == ["expired"]


def test_a_sketch_beside_a_key_of_almost_no_weight_proves_no_more_than_its_rounding() -> None:
    # The third key weighs 5e−14 at the pruning, so that its kernel value is known to 1e−3, and 0.05 in the end.
    pruned = [-0.2, -0.3, 0.5]
    keys = [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.7207925999668604, 0.0], pruned]
    memory = Memory.fit(keys, np.zeros(4), sigma=2.0, cap=1.0)
    assert 0.0 < memory.coefficients[2] < 1e-12
    assert memory.prune("forget", sketch=2).applied == ("3",)
    # Beyond the second key in line with the pruned one: there the triangle inequality loses nothing.
    memory.admit([1.0 + 2.117 * 1.2, 2.117 * 0.3, 2.117 * -0.5], 0.0)
    assert memory.solution.slack(np.array([pruned]))[0] < -1e-5
    assert [row.status for row in memory.warranties()] == ["expired"]
