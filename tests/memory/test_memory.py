"""The public contract of `Memory` (docs/guides/library.md): what it shows, what edits return, what deletions leave."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from agreement import assert_sound, by_id, fitted, readout, snapshot
from expunge import AdmissionRefused, DeletionRefused, InputError, Memory, Refused, SolveError
from expunge.certificates.certificate import DOES_NOT_COVER
from expunge.memory.receipt import Receipt
from expunge.types import Matrix, Vector
from problems import PROBLEMS

IDS = [f"entry-{row}" for row in range(30)]
SUBJECTS = [None if row % 3 == 0 else f"patient-{row % 4}" for row in range(30)]
PAYLOADS: list[Any] = [None if row % 5 == 0 else {"row": row, "text": "ü" * row} for row in range(30)]


def draw(size: int = 30, dimension: int = 3, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((size, dimension))


def ward() -> Memory:
    return Memory.fit(draw(), draw(30, 2, 1), sigma=2.0, nu=0.4, ids=IDS, subjects=SUBJECTS, payloads=PAYLOADS)


def inner_key(memory: Memory) -> Vector:
    """A key that stays in reserve."""
    key: Vector = memory.coefficients @ memory.keys
    return key


def test_what_it_shows() -> None:
    memory = ward()
    assert memory.ids == tuple(IDS)
    assert memory.subjects == tuple(SUBJECTS)
    assert np.array_equal(memory.keys, draw())
    assert np.array_equal(memory.values, draw(30, 2, 1))
    assert (memory.sigma, memory.dimension, memory.nu, memory.initial_size) == (2.0, 3, 0.4, 30)
    # Twelve times fl(1/12) falls short of 1.
    assert memory.cap == np.nextafter(1 / 12, 1.0)
    assert len(memory) == 30
    assert "entry-3" in memory
    assert "entry-30" not in memory
    assert 3 not in memory
    assert [memory.payload(name) for name in IDS] == PAYLOADS
    assert repr(memory).startswith("<Memory of 30 entries, d=3:")


@pytest.mark.parametrize("name", ["keys", "values", "coefficients"])
def test_arrays_are_read_only(name: str) -> None:
    memory = ward()
    before = snapshot(memory)
    array = getattr(memory, name)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        array += 1.0
    assert snapshot(memory) == before


@pytest.mark.parametrize("name", ["keys", "values", "coefficients", "inverse"])
def test_no_array_leads_into_the_state(name: str) -> None:
    """Even a caller who lifts the flag must not reach the solver's buffers."""
    memory, same = ward(), ward()
    array = getattr(memory, name)
    array.flags.writeable = True
    array[:] = 7.0
    state, entries = memory.version.state, memory.version.entries
    assert np.array_equal(state.alpha[: state.sites], same.version.state.alpha[: state.sites])
    assert np.array_equal(state.gram.keys[: state.sites], draw())
    assert np.array_equal(entries.values[:30], draw(30, 2, 1))


def test_the_callers_arrays_are_copied() -> None:
    keys, values = draw(), draw(30, 2, 1)
    memory = Memory.fit(keys, values, sigma=2.0, nu=0.4)
    key, value = draw(1, 3, 5)[0], np.array([1.0, 2.0])
    memory.admit(key, value, id="new")
    digest = memory.digest
    for array in (keys, values, key, value):
        array[:] = np.nan
    assert memory.digest == digest
    assert memory.check().passed
    assert memory.values[-1].tolist() == [1.0, 2.0]


def test_ids_of_a_fit_are_row_numbers_and_those_of_admissions_are_random() -> None:
    """A counter would tell how many entries there were."""
    memory = Memory.fit(draw(), draw(), sigma=2.0, nu=0.4)
    assert memory.ids == tuple(map(str, range(30)))
    names = {memory.admit(draw(1)[0], draw(1)[0]).applied[0] for _ in range(4)}
    assert len(names) == 4
    assert all(len(name) == 16 and name not in map(str, range(100)) for name in names)


def test_ids_never_shift() -> None:
    memory = ward()
    values = dict(zip(memory.ids, memory.values.tolist(), strict=True))
    for name in ("entry-3", "entry-29", "entry-0"):
        memory.delete(name)
        assert dict(zip(memory.ids, memory.values.tolist(), strict=True)) == {
            i: v for i, v in values.items() if i in memory.ids
        }
    memory.admit([0.0, 0.0, 0.0], [1.0, 2.0], id="entry-3", subject="patient-9", payload=b"\x00\xff")
    assert memory.ids[-1] == "entry-3"
    assert memory.subjects[-1] == "patient-9"
    assert memory.payload("entry-3") == b"\x00\xff"


@pytest.mark.parametrize("payload", [b"", b"\x00bytes", "", "text", 0, 1.5, True, [], {}, {"a": [1, None, {"b": "ü"}]}])
def test_payloads_come_back_as_they_were(payload: Any) -> None:
    memory = ward()
    memory.admit([0.0, 0.0, 0.0], [0.0, 0.0], id="x", payload=payload)
    assert memory.payload("x") == payload
    assert type(memory.payload("x")) is type(payload)


def test_bytes_of_any_kind_are_bytes() -> None:
    memory = ward()
    memory.admit([0.0, 0.0, 0.0], [0.0, 0.0], id="a", payload=bytearray(b"ab"))
    memory.admit([0.0, 0.0, 0.0], [0.0, 0.0], id="b", payload=memoryview(b"abcd")[::2])
    assert (memory.payload("a"), memory.payload("b")) == (b"ab", b"ac")


def test_scalar_values() -> None:
    memory = Memory.fit(draw(), np.arange(30), sigma=2.0, nu=0.4)
    assert memory.values.shape == (30, 1)
    memory.admit([0.0, 0.0, 0.0], 5)
    memory.admit([0.0, 0.0, 0.0], [6.0])
    assert memory.values[-2:].tolist() == [[5.0], [6.0]]
    assert memory.read([0.0, 0.0, 0.0]).shape == (1, 1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_read_is_the_papers_formula(name: str) -> None:
    problem = PROBLEMS[name]
    memory = fitted(problem)
    expected = readout(memory.keys, memory.values, memory.coefficients, memory.sigma, problem.keys)
    scale = float(np.max(np.abs(problem.values)))
    assert np.max(np.abs(memory.read(problem.keys) - expected)) <= 1e-13 * scale


def test_read_shapes() -> None:
    memory = ward()
    queries = draw(7, 3, 9)
    assert memory.read(queries).shape == (7, 2)
    assert memory.read(queries.tolist()).shape == (7, 2)
    assert memory.read(queries[0]).shape == (1, 2)
    assert memory.score(queries).shape == (7,)
    assert memory.score(queries[0]).shape == (1,)
    one_by_one = np.vstack([memory.read(query) for query in queries])
    assert np.max(np.abs(memory.read(queries) - one_by_one)) <= 1e-15


@pytest.mark.parametrize("distance", [1e2, 1e6, 1e100, 1e150])
def test_a_far_query_gets_the_limit_not_a_nan(distance: float) -> None:
    memory = ward()
    direction = np.array([1.0, 0.0, 0.0])
    seen = memory.read(distance * direction)
    assert np.all(np.isfinite(seen))
    active = np.flatnonzero(memory.coefficients)
    lowest, highest = memory.values[active].min(axis=0), memory.values[active].max(axis=0)
    assert np.all((seen >= lowest - 1e-12) & (seen <= highest + 1e-12))
    if distance == 1e6:
        nearest = active[np.argmax(memory.keys[active] @ direction)]
        assert np.max(np.abs(seen[0] - memory.values[nearest])) <= 1e-6
    assert np.all(np.isfinite(memory.score(distance * direction)))


@pytest.mark.parametrize("sigma", [1e-150, 1e-3, 1e150])
def test_extreme_widths_read_and_search(sigma: float) -> None:
    memory = Memory.fit(draw(), draw(), sigma=sigma, nu=0.4)
    for query in (draw()[0], draw()[0] + 0.5, [1e5, 0.0, 0.0]):
        assert np.all(np.isfinite(memory.read(query)))
        assert np.all(np.isfinite(memory.score(query)))
        assert np.isfinite(memory.search(query, k=1)[0].share)


def test_search_ranks_by_share_of_the_readout() -> None:
    memory = ward()
    query = np.array([0.2, -0.1, 0.4])
    hits = memory.search(query, k=100)
    assert len(hits) == np.count_nonzero(memory.coefficients)
    shares = [hit.share for hit in hits]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0, abs=1e-14)
    weights = by_id(memory)
    total = sum(weights[hit.id] * hit.similarity for hit in hits)
    seen = np.zeros(2)
    for hit in hits:
        row = memory.ids.index(hit.id)
        assert hit.similarity == pytest.approx(float(np.exp(-np.sum((query - memory.keys[row]) ** 2) / 4.0)))
        assert hit.share == pytest.approx(weights[hit.id] * hit.similarity / total)
        assert np.array_equal(hit.value, memory.values[row])
        assert hit.subject == SUBJECTS[row]
        assert hit.payload == PAYLOADS[row]
        seen += hit.share * hit.value
    assert np.max(np.abs(seen - memory.read(query)[0])) <= 1e-14
    assert [hit.id for hit in memory.search(query)] == [hit.id for hit in hits[:5]]
    assert [hit.id for hit in memory.search(query, k=np.int64(2))] == [hit.id for hit in hits[:2]]
    with pytest.raises(FrozenInstanceError):
        hits[0].share = 1.0  # type: ignore[misc]


def test_search_values_do_not_lead_into_the_state() -> None:
    memory = ward()
    value = memory.search([0.0, 0.0, 0.0])[0].value
    assert not value.flags.writeable


def test_deletable_counts_down() -> None:
    memory = ward()
    assert memory.deletable == 30 - 12
    memory.delete(IDS[:18])
    assert (len(memory), memory.deletable) == (12, 0)
    assert memory.delete("entry-20").outcome == "refitted"
    assert (len(memory), memory.deletable) == (11, 5)


def test_delete_by_id_ids_and_subject() -> None:
    memory = ward()
    assert memory.delete("entry-0").applied == ("entry-0",)
    assert memory.delete(["entry-7", "entry-4"]).applied == ("entry-4", "entry-7")
    assert memory.delete(name for name in ("entry-9",)).applied == ("entry-9",)
    mine = tuple(name for name, owner in zip(memory.ids, memory.subjects, strict=True) if owner == "patient-2")
    assert memory.delete(subject="patient-2").applied == mine
    assert "patient-2" not in memory.subjects
    assert_sound(memory)
    with pytest.raises(InputError, match="no entry belongs to subject 'patient-2'; nothing was deleted"):
        memory.delete(subject="patient-2")


def test_nothing_asked_is_a_noop() -> None:
    memory = ward()
    before = snapshot(memory)
    receipt = memory.delete([])
    assert (receipt.outcome, receipt.applied, receipt.attempts) == ("noop", (), ())
    assert receipt.state_before == receipt.state_after == memory.digest
    assert snapshot(memory) == before


def test_a_receipt_says_what_happened() -> None:
    memory = ward()
    start = memory.digest
    admitted = memory.admit([3.0, 0.0, 0.0], [0.0, 0.0], id="far", payload="secret words")
    deleted = memory.delete("far")
    assert (admitted.outcome, admitted.applied) == ("admitted", ("far",))
    assert (deleted.outcome, deleted.applied) == ("decrement", ("far",))
    assert admitted.state_before == start
    assert admitted.state_after == deleted.state_before
    assert deleted.state_after == memory.digest
    for receipt in (admitted, deleted):
        assert receipt.check.passed
        assert receipt.check.worst <= 1e-12
        assert len(receipt.attempts) == 1
        assert receipt.attempts[0].passed
        assert receipt.attempts[0].check == receipt.check
        assert 0.0 < receipt.attempts[0].seconds <= receipt.seconds < 10.0
        assert receipt.pivots >= 1
        assert "fresh fit" in receipt.covers
        assert receipt.does_not_cover == DOES_NOT_COVER
        assert "secret" not in repr(receipt)
        with pytest.raises(FrozenInstanceError):
            receipt.outcome = "noop"  # type: ignore[misc]
    assert memory.outcomes == {"admitted": 1, "decrement": 1}


def test_a_zero_coefficient_is_certified() -> None:
    memory = ward()
    memory.admit(inner_key(memory), [0.0, 0.0], id="inner")
    seen = memory.read(draw(20, 3, 8)).tobytes()
    receipt = memory.delete("inner")
    assert receipt.outcome == "certified_zero"
    assert "exactly zero" in receipt.covers
    assert memory.read(draw(20, 3, 8)).tobytes() == seen


def test_a_refusal_carries_its_receipt_and_changes_nothing() -> None:
    memory = Memory.fit([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], [1.0, 2.0, 9.0], sigma=5.0, cap=1.0)
    memory.prune("archive")
    before, pruned = snapshot(memory), memory.outcomes.copy()
    with pytest.raises(AdmissionRefused, match="would end 1 certificates") as caught:
        memory.admit([0.0, -10.0], 3.0, on_expiry="refuse")
    refused = caught.value
    assert isinstance(refused, Refused)
    assert refused.reason == str(refused)
    assert (refused.receipt.outcome, refused.receipt.applied) == ("refused", ())
    assert refused.receipt.state_before == refused.receipt.state_after == memory.digest
    assert refused.receipt.refusal is not None
    assert (refused.measured, refused.allowed) == (1.0, 0.0)
    assert (refused.receipt.refusal.measured, refused.receipt.refusal.allowed) == (1.0, 0.0)
    assert snapshot(memory) == before
    assert memory.outcomes - pruned == {"refused": 1}


def test_no_path_left_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("deliberate")

    memory = ward()
    before = snapshot(memory)
    with monkeypatch.context() as patch:
        patch.setattr("expunge.solver.path.drive", fail)
        patch.setattr("expunge.memory.pending_edit.fit", fail)
        patch.setattr("expunge.solver.backends.solve_reference", fail)
        with pytest.raises(AdmissionRefused, match="no solver reached an acceptable state") as admission:
            memory.admit([9.0, 9.0, 9.0], [0.0, 0.0], id="new")
        with pytest.raises(DeletionRefused, match="no solver reached an acceptable state"):
            memory.delete(memory.ids[int(memory.partition.bound[0])])
    assert isinstance(admission.value.receipt, Receipt)
    attempts = admission.value.receipt.attempts
    assert [attempt.path for attempt in attempts] == ["path", "cold", "daqp", "proxqp"]
    assert all(attempt.error == "RuntimeError: deliberate" and not attempt.passed for attempt in attempts)
    assert admission.value.measured == np.inf
    assert snapshot(memory) == before
    assert memory.admit([9.0, 9.0, 9.0], [0.0, 0.0], id="new").outcome == "admitted"
    assert_sound(memory)


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_rescue_is_never_silent(
    broken: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from expunge.solver import backends as reference

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("deliberate")

    original = reference.solve_reference

    def only_proxqp(*args: Any, backend: str, **rest: Any) -> Any:
        return fail() if backend == "daqp" else original(*args, backend=backend, **rest)

    memory = ward()
    with monkeypatch.context() as patch:
        patch.setattr("expunge.solver.path.drive", fail)
        if broken >= 2:
            patch.setattr("expunge.memory.pending_edit.fit", fail)
        if broken >= 3:
            patch.setattr("expunge.solver.backends.solve_reference", only_proxqp)
        receipt = memory.admit([9.0, 9.0, 9.0], [0.0, 0.0], id="new")
    assert receipt.outcome == "rescued"
    assert [attempt.path for attempt in receipt.attempts] == ["path", "cold", "daqp", "proxqp"][: broken + 1]
    assert [attempt.passed for attempt in receipt.attempts] == [False] * broken + [True]
    assert memory.outcomes == {"rescued": 1}
    assert "rescued by" in caplog.text
    assert memory.check().passed
    # The canonical state of a foreign backend's coefficients is a starting point like any other.
    for _ in range(2):
        active = memory.ids[int(np.argmax(memory.coefficients[:-1] > 0.0))]
        assert memory.delete(active).attempts[-1].path == "path"
    assert_sound(memory)


def test_a_fit_that_nothing_solves_is_a_solve_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("deliberate")

    monkeypatch.setattr("expunge.memory.first_version.fit", fail)
    monkeypatch.setattr("expunge.solver.backends.solve_reference", fail)
    with pytest.raises(SolveError, match="no solver reached an acceptable state"):
        ward()


def test_digests_cover_everything_and_repeat() -> None:
    memory = ward()
    assert memory.digest == memory.digest
    assert len(memory.digest) == 64
    # Salts are fresh: equal content does not give equal digests.
    assert memory.digest != ward().digest
    seen = {memory.digest}
    for name in ("x", "entry-5", "y"):
        if name in memory:
            memory.delete(name)
        else:
            memory.admit([0.0, 0.0, 0.0], [0.0, 0.0], id=name)
        assert memory.digest not in seen
        seen.add(memory.digest)


def test_refit_is_the_same_memory_solved_afresh() -> None:
    memory = ward()
    memory.delete(["entry-3", "entry-8"])
    before = snapshot(memory)
    fresh = memory.refit()
    assert snapshot(memory) == before
    assert (fresh.ids, fresh.subjects) == (memory.ids, memory.subjects)
    assert [fresh.payload(name) for name in fresh.ids] == [memory.payload(name) for name in memory.ids]
    assert np.array_equal(fresh.keys, memory.keys)
    assert np.array_equal(fresh.values, memory.values)
    assert (fresh.cap, fresh.sigma, fresh.nu, fresh.initial_size) == (memory.cap, memory.sigma, 0.4, 30)
    assert np.max(np.abs(fresh.coefficients - memory.coefficients)) <= 1e-13
    assert fresh.partition == memory.partition
    fresh.delete("entry-5")
    assert snapshot(memory) == before


def test_a_refit_has_the_digest_of_an_equal_state(tmp_path: Any) -> None:
    """Same entries, same salts: a refit that finds the same bits has the same digest, and survives a file."""
    fresh = ward().refit()
    again = fresh.refit()
    assert again.coefficients.tobytes() == fresh.coefficients.tobytes()
    assert again.digest == fresh.digest
    again.save(tmp_path / "memory")
    assert Memory.load(tmp_path / "memory").digest == fresh.digest


def held(root: Any) -> list[bytes]:
    """Raw bytes of every array, string and byte string that can be reached from an object."""
    found: list[bytes] = []
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            whole = item if item.base is None or not isinstance(item.base, np.ndarray) else item.base
            found.append(whole.tobytes())
        elif isinstance(item, bytes | bytearray):
            found.append(bytes(item))
        elif isinstance(item, str):
            found.append(item.encode("utf-8", "surrogatepass"))
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += list(item)
        elif is_dataclass(item) and not isinstance(item, type):
            waiting += [getattr(item, each.name) for each in fields(item)]
        if hasattr(item, "__dict__") and not isinstance(item, type):
            waiting += list(vars(item).values())
    return found


@pytest.mark.parametrize("kind", ["margin", "bound", "reserve", "copy"])
@pytest.mark.parametrize("compacting", [False, True])
def test_deleted_content_is_nowhere_in_the_memory(kind: str, compacting: bool) -> None:
    rng = np.random.default_rng(0)
    size = 200 if compacting else 30
    keys, values = rng.standard_normal((size, 3)), rng.standard_normal((size, 2))
    ids = [f"<entry {row}>" for row in range(size)]
    subjects = [f"<subject {row}>" for row in range(size)]
    payloads = [f"payload of {row}!" for row in range(size)]
    memory = Memory.fit(keys, values, sigma=2.0, nu=0.4, ids=ids, subjects=subjects, payloads=payloads)
    groups = memory.partition
    row = int({"margin": groups.margin, "bound": groups.bound, "reserve": groups.reserve}.get(kind, groups.margin)[0])
    if kind == "copy":
        memory.admit(keys[row], rng.standard_normal(2), id="copy")
    salt = memory.version.entries.salts[row]
    secrets = [
        values[row].tobytes(),
        ids[row].encode(),
        subjects[row].encode(),
        payloads[row].encode(),
        salt,
    ]
    if kind != "copy":
        secrets.append(keys[row].tobytes())
    present = held(memory)
    assert all(any(secret in buffer for buffer in present) for secret in secrets)
    memory.delete(ids[row])
    if compacting:
        memory.delete([name for name in memory.ids if name != "copy"][:100])
    left = held(memory)
    for secret in secrets:
        assert not any(secret in buffer for buffer in left), secret
    assert (keys[row].tobytes() in memory.keys.tobytes()) == (kind == "copy")
    assert_sound(memory)


def test_kernel_values_of_a_deleted_key_are_gone() -> None:
    memory = ward()
    row = int(memory.partition.margin[0])
    keys = memory.keys
    others = np.delete(keys, row, axis=0)
    values = np.exp(-np.sum((others - keys[row]) ** 2, axis=1) / 4.0)
    gram = memory.version.state.gram

    def held_values() -> int:
        rows = gram.rows[: gram.rows.shape[0], : gram.sites]
        return sum(bool(np.any(np.abs(rows - value) <= 1e-15)) for value in values)

    assert held_values() == len(values)
    memory.delete(memory.ids[row])
    assert held_values() == 0


def test_edits_do_not_copy_the_whole_gram() -> None:
    """Buffers grow by doubling and are kept: an edit adds or drops single rows and columns."""
    memory = Memory.fit(draw(100), draw(100), sigma=2.0, nu=0.4)
    buffers = set()
    for row in range(300):
        memory.admit(2.0 * draw(1, 3, row)[0], [0.0, 0.0, 0.0])
        buffers.add(memory.version.state.gram.rows.__array_interface__["data"][0])
    assert len(buffers) <= 8
    gram = memory.version.state.gram
    assert gram.count == memory.partition.margin.size
    assert gram.rows.shape[0] < len(memory)


def test_a_long_lived_memory_does_not_grow_with_its_past() -> None:
    memory = Memory.fit(draw(40), draw(40), sigma=2.0, nu=0.4)
    for k in range(400):
        memory.admit(draw(1, 3, k)[0], [0.0, 0.0, 0.0], id=f"new-{k}", subject="visitor")
        memory.delete(memory.ids[0] if k % 2 else f"new-{k}")
    assert len(memory) == 40
    view = memory.version
    assert view.state.gram.capacity <= 512
    assert len(view.entries.ids) <= 256
    assert len(view.site_of_key) <= 256
    assert_sound(memory)


COPIES: dict[str, Callable[[Memory], Memory]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda memory: pickle.loads(pickle.dumps(memory)),  # noqa: S301 — our own bytes
}


def used_ward() -> Memory:
    memory = ward()
    memory.delete("entry-3")
    memory.admit([1.0, 1.0, 1.0], [0.5, 0.5])
    memory.prune("archive", sketch=1)
    return memory


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_equal_and_independent(how: str) -> None:
    memory = used_ward()
    memory.journal = lambda before, after, receipt: None
    again = COPIES[how](memory)
    assert again.journal is None
    assert (again.digest, again.ids, again.subjects) == (memory.digest, memory.ids, memory.subjects)
    assert [again.payload(name) for name in again.ids] == [memory.payload(name) for name in memory.ids]
    # Nothing that counts the past goes along.
    assert (dict(again.outcomes), again.nu, again.initial_size) == ({}, None, None)
    assert again.warranties() == memory.warranties()
    assert again.warranties()
    # Each goes its own way, and the other stays as it is to the bit.
    for one, other in ((memory, again), (COPIES[how](memory), memory)):
        before = snapshot(other)
        one.delete(list(one.ids[:5]))
        one.admit([0.0, -9.0, 0.0], [3.0, 3.0])
        one.rebuild(nu=0.5)
        assert snapshot(other) == before
        assert_sound(one)
        assert_sound(other)


@pytest.mark.parametrize("how", COPIES)
def test_edits_of_a_copy_end_like_those_of_the_original(how: str) -> None:
    memory = used_ward()
    again = COPIES[how](memory)
    active = memory.ids[int(memory.partition.margin[0])]
    edits: list[Callable[[Memory], Receipt]] = [
        lambda each: each.admit([3.0, 0.0, -1.0], [0.0, 0.0], id="new"),
        lambda each: each.delete(active),
        lambda each: each.delete(subject="patient-2"),
        lambda each: each.prune("forget"),
    ]
    for edit in edits:
        one, other = edit(memory), edit(again)
        assert (one.outcome, one.applied, one.details) == (other.outcome, other.applied, other.details)
        weights, others = by_id(memory), by_id(again)
        assert list(weights) == list(others)
        assert max(abs(weights[name] - others[name]) for name in weights) < 1e-12
        assert_sound(again)
