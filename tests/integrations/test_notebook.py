"""A notebook works from its first note to its last, and every edit is in the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import expunge
from expunge import DeletionRefused, InputError, Memory
from expunge.integrations.notebook import Notebook
from expunge.memory.version import Version
from expunge.store import Store, StoredMemory
from expunge.types import Matrix


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'notes.db'}") as store:
        yield store


def keys(count: int, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((count, 5))


def fill(notebook: Notebook, count: int) -> list[str]:
    outcomes = []
    for number, key in enumerate(keys(count)):
        edits = notebook.write(key, id=f"n{number}", subject=f"user-{number % 3}", payload={"text": str(number)})
        outcomes.append(" ".join(edit.outcome for edit in edits))
    return outcomes


def test_it_grows_from_nothing_and_its_cap_follows(store: Store) -> None:
    notebook = Notebook(store, "notes", sigma=2.0, nu=0.5)
    assert (len(notebook), notebook.notes(), notebook.dimension, notebook.memory) == (0, (), None, None)
    assert notebook.nearest(keys(1)[0], 3) == []
    outcomes = fill(notebook, 33)
    assert outcomes[0] == "created"
    rebuilt = [number + 1 for number, outcome in enumerate(outcomes) if outcome == "admitted rebuilt"]
    assert rebuilt == [4, 8, 16, 32]
    assert notebook.memory is not None
    assert notebook.memory.cap == 1.0 / (0.5 * 32)
    # It is the memory that one would fit to all of them at this cap.
    fresh = Memory.fit(keys(33), keys(33), sigma=2.0, cap=notebook.memory.cap)
    assert np.allclose(notebook.memory.coefficients, fresh.coefficients, atol=1e-12)
    assert [note.id for note in notebook.notes()] == [f"n{number}" for number in range(33)]
    store.verify()


@pytest.mark.parametrize("nu", [0.07, 0.3, 0.5, 1.0])
def test_the_cap_is_that_of_the_notes_there_are(store: Store, nu: float) -> None:
    """Up and down by one, by several, and by subject: at every size the cap of a notebook that grew to it."""
    grown, caps = Notebook(store, "grown", sigma=2.0, nu=nu), {}
    for number, key in enumerate(keys(20)):
        grown.write(key)
        assert grown.memory is not None
        caps[number + 1] = grown.memory.cap
    assert len(set(caps.values())) > (nu > 0.07)
    notebook = Notebook(store, "notes", sigma=2.0, nu=nu)
    fill(notebook, 20)
    rng = np.random.default_rng(3)
    for take in (1, 3, 1, 1, 5, 1, 2, 1, 1, 1, 1):
        names = [note.id for note in notebook.notes()]
        notebook.erase([str(name) for name in rng.choice(names, take, replace=False)])
        assert notebook.memory is not None
        assert notebook.memory.cap == caps[len(notebook)]
    assert len(notebook) == 2
    for number, key in enumerate(keys(9, seed=1)):
        notebook.write(key, subject="ann" if number % 2 else "bob")
    done = notebook.erase_subject("bob")
    assert (done.complete, done.count, len(notebook)) == (True, 5, 6)
    assert store["notes"].cap == caps[6]
    store.verify()


def test_certificates_outlive_the_next_note(store: Store) -> None:
    """Pruned entries count for the cap while their certificates hold: pruning does not call for a rebuild."""
    notebook = Notebook(store, "notes", sigma=3.0, nu=0.1)
    fill(notebook, 33)
    memory = notebook.memory
    assert memory is not None
    assert memory.prune("forget").applied
    assert len(notebook) < 32
    notebook.write(keys(34)[33], id="late")
    assert [row.status for row in memory.warranties() if row.status == "ended"] == []
    assert [edit.outcome for edit in notebook.erase("late")] in (["decrement"], ["certified_zero"])
    # The erasure of a note that was live at the pruning ends them, and the cap is that of the notes that are left.
    assert notebook.erase(notebook.notes()[0].id)[-1].outcome == "rebuilt"
    assert {row.status for row in memory.warranties()} == {"ended"}
    assert memory.cap == 1.0 / (0.1 * 2 ** (len(notebook).bit_length() - 1)) or memory.cap == 1.0


@pytest.mark.parametrize("order", ["first", "last", "random", "all at once"])
def test_it_shrinks_to_nothing_and_begins_again(store: Store, order: str) -> None:
    notebook = Notebook(store, "notes", sigma=2.0, nu=0.5)
    fill(notebook, 9)
    names = [note.id for note in notebook.notes()]
    if order == "last":
        names.reverse()
    elif order == "random":
        np.random.default_rng(1).shuffle(names)
    if order == "all at once":
        edits = notebook.erase(names)
        assert [edit.outcome for edit in edits] == ["emptied"]
        assert sorted(edits[0].applied) == sorted(names)
    else:
        for left, name in zip(range(8, -1, -1), names, strict=True):
            edits = notebook.erase(name)
            assert [edit.applied for edit in edits if edit.outcome != "rebuilt"] == [(name,)]
            assert len(notebook) == left
            # At 8 notes the cap is 1/4, at 4 it is 1/2, below that 1.
            assert sum(edit.outcome == "rebuilt" for edit in edits) == (left in (7, 3))
        assert edits[-1].outcome == "emptied"
    assert store.leaf(edits[-1].index).kind == "emptied"
    assert (len(store["notes"]), notebook.dimension, notebook.notes(), notebook.nearest(keys(1)[0], 3)) == (
        0,
        None,
        (),
        [],
    )
    with pytest.raises(InputError, match="no entry has id"):
        notebook.erase("n1")
    assert notebook.erase("n1", missing_ok=True) == ()
    assert [edit.outcome for edit in notebook.write(keys(1)[0], id="n1")] == ["admitted"]
    assert store.verify().entries == 1


@pytest.mark.parametrize(("sigma", "dimension"), [(2.0, 3), (1.0, 5), (1.0, 3)])
def test_an_empty_notebook_takes_notes_of_another_dimension_or_width(
    store: Store, sigma: float, dimension: int
) -> None:
    """The empty memory is replaced; while there is a note, another dimension is an error."""
    notebook = Notebook(store, "notes", sigma=2.0)
    notebook.write(keys(1)[0], id="n0")
    with pytest.raises(InputError, match="coordinates"):
        notebook.write(np.ones(dimension + 1))
    first = store["notes"].uuid
    notebook.erase("n0")
    other = Notebook(store, "notes", sigma=sigma)
    assert [edit.outcome for edit in other.write(np.ones(dimension), id="n0")] == ["created"]
    assert (other.dimension, store["notes"].sigma) == (dimension, sigma)
    assert store["notes"].uuid != first
    assert [leaf.kind for leaf in store.receipts()] == ["created", "emptied", "dropped", "created"]
    store.verify()


def test_several_notes_in_one_edit(store: Store) -> None:
    notebook = Notebook(store, "notes", sigma=2.0)
    many = list(keys(9))
    names = [f"n{number}" for number in range(9)]
    assert [edit.outcome for edit in notebook.write_many(many[:5], ids=names[:5], subjects=["ann"] * 5)] == ["created"]
    assert store["notes"].cap == 0.5
    edits = notebook.write_many(many[5:], ids=names[5:], payloads=["a", "b", "c", "d"])
    assert [(edit.outcome, edit.applied) for edit in edits] == [("admitted", tuple(names[5:])), ("rebuilt", ())]
    assert store["notes"].cap == 0.25
    before = store.size
    for wrong in ({"ids": ["x", "x"]}, {"ids": ["x", "n1"]}, {"ids": ["x"]}, {"subjects": ["ann"]}):
        with pytest.raises(InputError):
            notebook.write_many(many[:2], **wrong)  # type: ignore[arg-type]
    assert store.size == before
    assert {note.id for note in notebook.notes()} == set(names)


def test_a_subject_is_erased_wherever_it_is(store: Store) -> None:
    notebook = Notebook(store, "notes", sigma=2.0, nu=0.5)
    fill(notebook, 9)
    store.create("other", keys(6), np.ones(6), sigma=2.0, cap=1.0, subjects=["user-0"] * 2 + [None] * 4)
    done = notebook.erase_subject("user-0")
    assert done.complete
    assert done.count == 5
    assert len(notebook) == 6
    assert notebook.erase_subject("user-1").count == 3
    last = notebook.erase_subject("user-2")
    assert (last.edits, last.complete, last.count) == ((), True, 3)
    assert [part.outcome for part in last.summary.memories] == ["emptied"]
    assert last.summary.index is not None
    assert store.leaf(last.summary.index).kind == "subject_erased"
    again = notebook.erase_subject("user-2")
    assert (again.complete, again.count, again.summary.index) == (True, 0, None)
    assert len(store["other"]) == 4
    store.verify()


def test_a_hold_is_kept_to(store: Store) -> None:
    notebook = Notebook(store, "notes", sigma=2.0)
    fill(notebook, 2)
    hold = store.hold("notes", "n0", reason="court")
    for ids in ("n0", ["n0", "n1"]):
        with pytest.raises(DeletionRefused, match="court"):
            notebook.erase(ids)
    assert len(notebook) == 2
    store.release(hold)
    assert notebook.erase(["n0", "n1"])[-1].outcome == "emptied"


def test_the_cap_stays_where_a_hold_forbids_the_erasure(store: Store) -> None:
    notebook = Notebook(store, "notes", sigma=2.0)
    fill(notebook, 9)
    store.hold("notes", "n0", reason="court")
    digest = store["notes"].digest
    with pytest.raises(DeletionRefused, match="court"):
        notebook.erase([f"n{number}" for number in range(8)])
    assert store["notes"].digest == digest
    assert store.receipts("notes")[-1].kind == "refused"


def test_a_hold_on_somebody_who_is_yet_to_come_keeps_no_note(store: Store) -> None:
    """The memory of the last note stays, and its hold with it."""
    notebook = Notebook(store, "notes", sigma=2.0)
    notebook.write(keys(1)[0], subject="ann")
    store.create("other", keys(6), np.ones(6), sigma=2.0, cap=1.0, subjects=["ann"] * 2 + [None] * 4)
    store.hold("notes", subject="bob", reason="court")
    done = notebook.erase_subject("ann")
    assert (done.complete, done.count, len(notebook)) == (True, 3, 0)
    assert [hold.subject for hold in store.holds("notes")] == ["bob"]


@pytest.mark.parametrize("others", [0, 3])
def test_a_held_notebook_does_not_keep_a_subject_in_other_memories(store: Store, others: int) -> None:
    notebook = Notebook(store, "notes", sigma=2.0)
    notebook.write(keys(1)[0], id="n0", subject="ann")
    for number in range(others):
        notebook.write(keys(4)[number] + 1.0, subject="bob")
    store.create("other", keys(6), np.ones(6), sigma=2.0, cap=1.0, subjects=["ann"] * 2 + [None] * 4)
    store.hold("notes", subject="ann", reason="court")
    digest = store["notes"].digest
    done = notebook.erase_subject("ann")
    assert not done.complete
    assert done.count == 2
    assert [(part.memory, len(part.applied)) for part in done.summary.memories] == [("notes", 0), ("other", 2)]
    assert "court" in (done.summary.memories[0].reason or "")
    assert store["notes"].digest == digest
    store.verify()


def test_archived_notes_are_still_notes(store: Store) -> None:
    notebook = Notebook(store, "notes", sigma=3.0, nu=0.3)
    fill(notebook, 30)
    assert notebook.memory is not None
    pruned = notebook.memory.prune("archive").applied
    assert pruned
    assert len(notebook) == 30
    assert sorted(note.id for note in notebook.notes()) == sorted(f"n{number}" for number in range(30))
    number = int(pruned[0][1:])
    (nearest,) = notebook.nearest(keys(30)[number], 1)
    assert (nearest.id, nearest.weight, nearest.payload) == (pruned[0], 0.0, {"text": str(number)})
    assert nearest.similarity == 1.0
    assert notebook.erase(pruned[0])[-1].applied == (pruned[0],)
    assert len(notebook) == 29


def test_what_is_wrong_is_refused_before_anything_is_touched(store: Store) -> None:
    bad: list[dict[str, Any]] = [{"sigma": 0.0}, {"nu": 0.0}, {"nu": 2.0}, {"sigma": float("nan")}]
    for options in bad:
        with pytest.raises(InputError):
            Notebook(store, "notes", **options)
    notebook = Notebook(store, "notes")
    with pytest.raises(InputError):
        notebook.write(np.array([1.0, np.nan]))
    with pytest.raises(InputError):
        notebook.write(np.array([1.0]), id="")
    assert store.size == 0
    fill(notebook, 3)
    before = store.size
    for wrong in (["n0", "n0"], ["n0", "nobody"], "nobody", [""]):
        with pytest.raises(InputError):
            notebook.erase(wrong)
    with pytest.raises(InputError):
        notebook.write(keys(1)[0], id="n0")
    with pytest.raises(InputError):
        notebook.write(np.ones(4))
    assert store.size == before


def test_many_hands_on_one_notebook(store: Store, tmp_path: Path) -> None:
    """Threads of this process and of others' handles: nothing is lost, though the memory comes and goes."""
    problems: list[BaseException] = []

    def work(hand: int) -> None:
        try:
            with expunge.open(f"sqlite:///{tmp_path / 'notes.db'}") as mine:
                notebook = Notebook(mine, "notes", sigma=2.0, nu=0.5)
                for number, key in enumerate(keys(6, seed=hand)):
                    notebook.write(key, id=f"h{hand}-{number}")
                    if number % 2:
                        notebook.erase(f"h{hand}-{number - 1}")
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(hand,)) for hand in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    notebook = Notebook(store, "notes")
    assert sorted(note.id for note in notebook.notes()) == [f"h{hand}-{n}" for hand in range(4) for n in (1, 3, 5)]
    store.verify()


@pytest.mark.parametrize(("at", "taken"), [(9, ["n1"]), (9, ["n1", "n2"]), (3, ["n1"]), (3, ["n0", "n1", "n2"])])
def test_somebody_else_erases_it_at_the_same_moment(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, taken: list[str]
) -> None:
    """Between looking and erasing another handle is quicker: what is gone is gone, the rest is erased."""
    notebook = Notebook(store, "notes", sigma=2.0, nu=0.5)
    fill(notebook, at)
    quick = [taken]
    look = StoredMemory.look

    def slow(self: StoredMemory, seen: Callable[[Version], Any]) -> Any:
        found = look(self, seen)
        if quick:
            names = quick.pop()
            with expunge.open(f"sqlite:///{tmp_path / 'notes.db'}") as other:
                Notebook(other, "notes", sigma=2.0, nu=0.5).erase(names)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(StoredMemory, "look", slow)
        notebook.erase(["n1", "n2"], missing_ok=True)
    assert quick == []
    left = {f"n{number}" for number in range(at)} - {"n1", "n2", *taken}
    assert {note.id for note in notebook.notes()} == left
    assert notebook.erase(["n1", "n2"], missing_ok=True) == ()
    with pytest.raises(InputError):
        notebook.erase(["n1", "n2"])
    store.verify()


def test_nearest_ranks_by_distance_however_far_the_notes_are(store: Store) -> None:
    """Unit vectors times 40: most similarities are exp(−700), the least there is, while distances differ."""
    notebook = Notebook(store, "far", sigma=1.0, nu=0.5)
    rng = np.random.default_rng(7)
    units = rng.standard_normal((40, 16))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    notebook.write_many(list(40.0 * units), ids=[f"n{number:02d}" for number in range(40)])
    for query in rng.standard_normal((10, 16)):
        point = 40.0 * query / np.linalg.norm(query)
        by_cosine = np.argsort(-(units @ point))
        found = notebook.nearest(point, 40)
        assert [note.id for note in found] == [f"n{number:02d}" for number in by_cosine.tolist()]
        assert [note.distance for note in found] == sorted(note.distance for note in found)
        assert found[0].distance == pytest.approx(np.linalg.norm(point - 40.0 * units[by_cosine[0]]))
