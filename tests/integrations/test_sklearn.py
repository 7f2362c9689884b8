"""The estimator beside `OneClassSVM`, in scikit-learn's own checks, and through additions and deletions."""

from __future__ import annotations

import copy
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import check_estimator

import one_class_agreement
from expunge import InputError, Memory
from expunge.integrations.sklearn import SupportVectorMemory
from expunge.preprocessing.preprocessing import Column, Preprocessing
from expunge.types import Matrix

# The example of OneClassSVM's own documentation, with the scores printed there.
DOCUMENTED = [[0.0], [0.44], [0.45], [0.46], [1.0]]
DOCUMENTED_SCORES = [1.7798, 2.0547, 2.0556, 2.0561, 1.7332]


def accuracy(tol: float, mass: float) -> float:
    """How far LIBSVM may be off: `tol` bounds its gradient, which is of coefficients that sum to `mass` and of kernel
    values that it keeps in single precision.
    """
    return 2.0 * (tol + float(np.finfo(np.float32).eps) * mass)


def blobs(count: int = 100) -> Matrix:
    """Training data of scikit-learn's example of a non-linear one-class SVM."""
    around = 0.3 * np.random.default_rng(42).standard_normal((count, 2))
    return np.concatenate([around + 2, around - 2])


def rings(count: int = 150) -> Matrix:
    rng = np.random.default_rng(7)
    angle = rng.uniform(0, 2 * np.pi, count)
    return np.stack([np.cos(angle), np.sin(angle), 0.1 * rng.standard_normal(count)], axis=1)


def scale_on_the_grid(samples: Matrix) -> float:
    """The γ of "scale" here: the width √(d · variance), rounded to a power of 2^(1/4)."""
    steps = round(4 * math.log2(math.sqrt(samples.shape[1] * float(samples.var()))))
    return float(2.0 ** (-steps / 2))


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn() -> None:
    done = check_estimator(SupportVectorMemory(), on_skip=None, on_fail=None)
    assert {result["check_name"]: result["status"] for result in done if result["status"] == "failed"} == {}
    assert sum(result["status"] == "passed" for result in done) > 40


def test_the_documented_example() -> None:
    memory = SupportVectorMemory(gamma="auto").fit(DOCUMENTED)
    assert memory.predict(DOCUMENTED).tolist() == [-1, 1, 1, 1, -1]
    assert np.allclose(memory.score_samples(DOCUMENTED), DOCUMENTED_SCORES, atol=1e-4)


@pytest.mark.parametrize(
    ("samples", "options"),
    [
        (np.array(DOCUMENTED), {"nu": 0.5, "gamma": "auto"}),
        (blobs(), {"nu": 0.1, "gamma": 0.1}),
        (blobs(40), {"nu": 0.5, "gamma": scale_on_the_grid(blobs(40))}),
        (rings(), {"nu": 0.25, "gamma": scale_on_the_grid(rings())}),
        (rings(), {"nu": 0.03, "gamma": 2.0}),
        (np.repeat(rings(30), 2, axis=0), {"nu": 0.4, "gamma": 1.0}),
    ],
)
@pytest.mark.parametrize("tol", [1e-3, 1e-10])
def test_it_agrees_with_one_class_svm_to_that_ones_tolerance(
    samples: Matrix, options: dict[str, Any], tol: float
) -> None:
    memory, theirs = SupportVectorMemory(**options).fit(samples), OneClassSVM(tol=tol, **options).fit(samples)
    rng = np.random.default_rng(0)
    points = np.r_[samples, samples.mean(axis=0) + 3 * rng.standard_normal((200, samples.shape[1]))]
    assert memory.gamma_ == pytest.approx(theirs._gamma, rel=1e-14)
    allowed = accuracy(tol, options["nu"] * len(samples))
    assert np.max(np.abs(memory.score_samples(points) - theirs.score_samples(points))) < allowed
    assert abs(memory.offset_ - theirs.offset_[0]) < allowed
    clear = np.abs(theirs.decision_function(points)) > 2 * allowed
    assert np.array_equal(memory.predict(points)[clear], theirs.predict(points)[clear])
    assert memory.dual_coef_.sum() == pytest.approx(options["nu"] * len(samples), rel=1e-12)
    assert memory.support_vectors_.shape[0] == memory.n_support_[0] == memory.support_.size
    assert memory.intercept_[0] == -memory.offset_


@pytest.mark.parametrize("samples", [blobs(40), rings(), 1e-9 * rings(), 1e9 * blobs(5), 1e-100 * rings(4)])
def test_the_width_of_scale_is_on_a_grid(samples: Matrix) -> None:
    """Within half a step of scikit-learn's, and the same problem as at that number."""
    memory = SupportVectorMemory(nu=0.4).fit(samples)
    steps = 4 * math.log2(memory.memory_.sigma)
    assert steps == pytest.approx(round(steps), abs=1e-9)
    scale = samples.shape[1] * float(samples.var())
    assert abs(math.log2(memory.gamma_ * scale)) <= 0.25 + 1e-6
    explicit = SupportVectorMemory(nu=0.4, gamma=scale_on_the_grid(samples)).fit(samples)
    assert explicit.gamma_ == pytest.approx(memory.gamma_, rel=1e-14)
    assert np.allclose(explicit.dual_coef_.sum(), memory.dual_coef_.sum())
    assert SupportVectorMemory().fit(np.ones((3, 2))).gamma_ == 1.0


@pytest.mark.parametrize("dimension", [1, 3])
def test_the_width_does_not_tell_which_sample_was_removed(dimension: int) -> None:
    """Whoever holds the other samples tries every candidate: there are one or two widths, and one in most worlds."""
    fewest, alike = 10**9, 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        others, candidates = rng.standard_normal((60, dimension)), rng.standard_normal((200, dimension))
        # The bound of the guide: this far out, a sample moves the width over one boundary at most.
        within = np.mean((candidates - others.mean()) ** 2, axis=1) <= 0.41 * 60 * others.var()
        assert within.all()
        memory = SupportVectorMemory(nu=0.3).fit(np.vstack([others, candidates[:1]]))
        memory.remove(60)
        widths = [SupportVectorMemory()._sigma(np.vstack([others, candidate])) for candidate in candidates]
        assert len(set(widths)) <= 2
        left = widths.count(memory.memory_.sigma)
        fewest, alike = min(fewest, left), alike + (left == len(candidates))
    assert fewest > 1
    assert alike > 25


def test_receipts_and_pickles_keep_nothing_of_a_sample_that_was_removed() -> None:
    """Two samples that were in reserve, each in a copy of one fit: the bytes are the same."""
    samples, pickles = blobs(40), []
    fitted = SupportVectorMemory(nu=0.2, gamma=0.5).fit(samples)
    idle = samples[np.setdiff1d(np.arange(len(samples)), fitted.support_)]
    for name, sample in (("patient-4711", idle[0]), ("patient-0815", idle[1])):
        memory = copy.deepcopy(fitted).partial_fit([sample + 1e-3], ids=[name])
        assert memory.remove(name).applied == (name,)
        pickles.append(pickle.dumps(memory))
        assert name.encode() not in pickles[-1]
        assert [vars(done) for done in memory.receipts_] == [
            {"action": "admission", "outcome": "admitted", "count": 1},
            {"action": "deletion", "outcome": "certified_zero", "count": 1},
        ]
    assert pickles[0] == pickles[1]


def test_learning_more_and_unlearning_is_fitting_the_rest_at_the_same_cap() -> None:
    samples = rings()
    memory = SupportVectorMemory(nu=0.3, gamma=1.5).fit(samples[:100]).partial_fit(samples[100:])
    # Samples of a fit are named by their numbers, later ones at random.
    assert memory.ids_[:100] == tuple(map(str, range(100)))
    assert len(set(memory.ids_)) == 150
    gone = [0, 3, 50, 120]
    names = {memory.ids_[number] for number in gone}
    receipt = memory.remove(gone)
    assert set(receipt.applied) == names
    rest = np.delete(samples, gone, axis=0)
    # The same problem in scikit-learn's words: its ν is the one that gives this cap for this many.
    theirs = OneClassSVM(nu=memory.nu_, gamma=1.5, tol=1e-10).fit(rest)
    assert memory.nu_ == pytest.approx(0.3 * 100 / 146, rel=1e-12)
    assert np.max(np.abs(memory.score_samples(samples) - theirs.score_samples(samples))) < accuracy(1e-10, 30.0)
    assert abs(memory.offset_ - theirs.offset_[0]) < accuracy(1e-10, 30.0)
    assert len(memory.receipts_) == 51
    assert [done.outcome for done in memory.receipts_[:50]] == ["admitted"] * 50
    assert memory.receipts_[50].count == 4
    back = memory.partial_fit(samples[[3]], ids=["again"])
    assert back.ids_[-1] == "again"
    assert memory.remove("again").applied == ("again",)


def test_an_inlier_that_goes_changes_nothing() -> None:
    samples = blobs(40)
    memory = SupportVectorMemory(nu=0.2).fit(samples)
    idle = int(np.setdiff1d(np.arange(len(samples)), memory.support_)[0])
    before = memory.decision_function(samples)
    assert memory.remove(idle).outcome == "certified_zero"
    assert np.array_equal(memory.decision_function(samples), before)


def test_bad_input() -> None:
    memory = SupportVectorMemory()
    with pytest.raises(NotFittedError):
        memory.predict([[1.0]])
    with pytest.raises(NotFittedError):
        memory.remove("0")
    for options in ({"nu": 0.0}, {"nu": 1.5}, {"gamma": -1.0}, {"gamma": "wide"}, {"gamma": float("inf")}):
        with pytest.raises(ValueError, match=r"nu|gamma"):
            SupportVectorMemory(**options).fit(DOCUMENTED)
    memory.fit(DOCUMENTED, ids=list("abcde"))
    for wrong in ("nobody", ["a", "a"], ["a", 0], [True], np.array([True]), [1.5], np.array([0.0]), b"\0", None, -1, 5):
        with pytest.raises(InputError):
            memory.remove(wrong)
    for samples, ids in (
        ([[1.0], [2.0]], ["f"]),
        ([[1.0]], ["a"]),
        ([[1.0], [2.0], [3.0]], ["x", "y", "x"]),
        ([[1.0], [2.0]], ["x", "e"]),
        ([[1.0], [2.0]], ["x", ""]),
        ([[1.0], [1e200]], ["x", "y"]),
    ):
        with pytest.raises(InputError):
            memory.partial_fit(samples, ids=ids)
    assert memory.receipts_ == []
    with pytest.raises(InputError, match="masked"):
        SupportVectorMemory().fit(np.ma.masked_equal(DOCUMENTED, 0.44))
    with pytest.raises(InputError, match="1e150"):
        SupportVectorMemory().fit([[1e200, 0.0], [0.0, 1.0], [2.0, 3.0]])
    assert memory.ids_ == tuple("abcde")


def test_every_sample_can_be_removed_and_others_come_after() -> None:
    memory = SupportVectorMemory(nu=0.9, gamma=0.5).fit(DOCUMENTED, ids=list("abcde"))
    assert memory.remove(list("abcd")).outcome == "refitted"
    assert memory.nu_ == 1.0
    assert memory.remove("e").outcome == "emptied"
    for ask in (lambda: memory.predict(DOCUMENTED), lambda: memory.nu_):
        with pytest.raises(InputError, match="empty"):
            ask()
    assert memory.partial_fit(DOCUMENTED).predict(DOCUMENTED).tolist() == [1] * len(DOCUMENTED)


def names_left(memory: SupportVectorMemory, samples: Matrix) -> list[int]:
    """Rows of `samples` that the memory still holds."""
    return [int(np.flatnonzero((samples == key).all(axis=1))[0]) for key in memory.memory_.keys]


def test_numbers_of_arrival_do_not_depend_on_ids() -> None:
    samples = rings(12)
    memory = SupportVectorMemory(nu=0.3).fit(samples[:5])
    memory.partial_fit(samples[5:6], ids=["late"]).partial_fit(samples[6:7])
    assert memory.remove(5).applied == ("late",)
    assert names_left(memory, samples) == [0, 1, 2, 3, 4, 6]
    with pytest.raises(InputError, match="sample 5 was removed already"):
        memory.remove([1, 5])
    with pytest.raises(InputError, match="no sample 7: 7 have arrived"):
        memory.remove(7)
    # An id may come back, its number does not.
    memory.partial_fit(samples[7:8], ids=["late"])
    with pytest.raises(InputError, match="sample 5 was removed already"):
        memory.remove(5)
    assert memory.remove(np.int64(7)).applied == ("late",)
    assert names_left(memory, samples) == [0, 1, 2, 3, 4, 6]
    # Names that look like numbers stay names.
    memory.fit(samples[:8], ids=[str(number) for number in reversed(range(8))])
    assert memory.remove(0).applied == ("7",)
    assert memory.remove("0").applied == ("0",)
    assert names_left(memory, samples) == [1, 2, 3, 4, 5, 6]
    assert set(memory.remove(np.array([1, 2])).applied) == {"6", "5"}
    assert names_left(memory, samples) == [3, 4, 5, 6]


def test_numbers_of_arrival_when_the_memory_is_edited_itself() -> None:
    samples = rings(12)
    memory = SupportVectorMemory(nu=0.3).fit(samples[:10], ids=list("abcdefghij"))
    memory.memory_.delete("a")
    with pytest.raises(InputError, match="no entry has id 'a'"):
        memory.remove(0)
    memory.partial_fit(samples[10:11], ids=["a"])
    with pytest.raises(InputError, match="sample 0 was removed already"):
        memory.remove(0)
    pruned = memory.memory_.prune("archive").applied[0]
    with pytest.raises(InputError, match="is taken"):
        memory.partial_fit(samples[10:12], ids=["new", pruned])
    assert "new" not in memory.ids_
    assert memory.remove("abcdefghij".index(pruned)).applied == (pruned,)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])  # noqa: S301
def test_numbers_of_arrival_are_copied(how: Any) -> None:
    samples = rings(12)
    memory = SupportVectorMemory(nu=0.3).fit(samples[:8], ids=list("hgfedcba"))
    memory.remove(3)
    again = how(memory)
    memory.partial_fit(samples[8:9], ids=["late"]).remove(0)
    assert again.ids_ == tuple("hgfdcba")
    with pytest.raises(InputError, match="sample 3 was removed already"):
        again.remove(3)
    assert again.remove(0).applied == ("h",)
    assert len(again.receipts_) == 2
    assert again.partial_fit(samples[8:9]).remove(8).outcome
    assert clone(again).fit(samples[:5]).remove(4).applied == ("4",)


def test_in_a_pipeline_pickled_and_cloned() -> None:
    samples = blobs(30)
    line = make_pipeline(StandardScaler(), SupportVectorMemory(nu=0.2)).fit(samples)
    again = pickle.loads(pickle.dumps(line))  # noqa: S301 — our own bytes
    assert np.array_equal(line.decision_function(samples), again.decision_function(samples))
    again[-1].remove(1)
    assert len(again[-1].memory_) == len(line[-1].memory_) - 1
    assert clone(line[-1]).get_params() == {"contamination": "auto", "gamma": "scale", "nu": 0.2, "scaling": None}
    assert not hasattr(clone(line[-1]), "memory_")
    assert set(SupportVectorMemory(nu=0.2).fit_predict(samples)) <= {-1, 1}


def test_samples_are_removed_by_mask_and_by_the_labels_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    samples = blobs(30)
    labels = [f"patient-{number}" for number in range(len(samples))]
    frame = pandas.DataFrame(samples, index=labels, columns=["a", "b"])
    chosen = np.zeros(len(samples), dtype=bool)
    chosen[[2, 5, 11]] = True
    for named in (
        chosen,
        chosen.tolist(),
        frame.index[chosen],
        frame[chosen],
        pandas.Series(chosen, index=labels),
        [f"patient-{number}" for number in (2, 5, 11)],
    ):
        memory = SupportVectorMemory(nu=0.3).fit(frame)
        assert memory.ids_ == tuple(labels)
        assert sorted(memory.remove(named).applied) == ["patient-11", "patient-2", "patient-5"]
    # Rows there are now: a mask is over them, and not over all that ever came.
    assert memory.remove(np.arange(len(samples) - 3) == 0).applied == ("patient-0",)
    for wrong in (chosen, [True], pandas.Series([1.0, 2.0])):
        with pytest.raises(InputError):
            memory.remove(wrong)
    # Labels that are numbers: an Index names labels, a list of integers numbers of arrival.
    numbered = pandas.DataFrame(samples, index=np.arange(len(samples))[::-1])
    memory = SupportVectorMemory(nu=0.3).fit(numbered)
    assert memory.remove(pandas.Index([0])).applied == ("0",)
    assert memory.remove([0]).applied == (str(len(samples) - 1),)
    # A frame that counts from 0 names nothing, so a second one is no repetition of the first.
    plain = pandas.DataFrame(samples)
    assert len(SupportVectorMemory(nu=0.3).fit(plain).partial_fit(plain + 9.0).ids_) == 2 * len(samples)


def test_weights_are_refused_with_what_to_do() -> None:
    samples = blobs(20)
    with pytest.raises(InputError, match="repeat a sample"):
        SupportVectorMemory().fit(samples, sample_weight=np.ones(len(samples)))
    memory = SupportVectorMemory().fit(samples, sample_weight=None)
    with pytest.raises(InputError, match="repeat a sample"):
        memory.partial_fit(samples, sample_weight=np.ones(len(samples)))
    with pytest.raises(TypeError, match="weight"):
        memory.fit(samples, weight=1)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.5])
def test_a_contamination_puts_that_share_outside(share: float) -> None:
    samples = rings(400)
    memory = SupportVectorMemory(nu=0.1, contamination=share).fit(samples)

    def outside_and_tied() -> tuple[float, float]:
        here = memory.decision_function(memory.memory_.keys)
        return float(np.mean(memory.predict(memory.memory_.keys) == -1)), float(np.mean(np.abs(here) < 1e-7))

    for edit in (None, range(200)):
        # After an edit it is the share of those that are left. Samples that share the score are all inside.
        if edit is not None:
            memory.remove(edit)
        outside, tied = outside_and_tied()
        assert outside <= share + 1 / len(memory.ids_)
        assert outside + tied >= share - 1 / len(memory.ids_)
    for wrong in (0.0, 0.6, -1.0, "some", True):
        with pytest.raises(InputError, match="contamination"):
            SupportVectorMemory(contamination=wrong).fit(samples)  # type: ignore[arg-type]


def test_scaling_is_chosen_once_on_a_grid() -> None:
    samples = rings() * [1.0, 1000.0, 1e-3] + [5.0, -2e4, 0.0]
    memory = SupportVectorMemory(nu=0.2, scaling="auto").fit(samples[:100])
    columns = memory.columns_
    assert columns is not None
    for column in columns:
        assert math.log2(column.scale) == round(math.log2(column.scale))
        assert column.centre / (column.scale / 2) == round(column.centre / (column.scale / 2))
    memory.partial_fit(samples[100:]).remove([0, 120])
    assert memory.columns_ == columns
    scaled = (samples - [column.centre for column in columns]) / [column.scale for column in columns]
    plain = SupportVectorMemory(nu=0.2).fit(scaled[:100]).partial_fit(scaled[100:])
    plain.remove([0, 120])
    assert np.array_equal(memory.decision_function(samples), plain.decision_function(scaled))
    assert 0 < np.mean(memory.predict(samples) == -1) <= memory.nu_
    with pytest.raises(InputError, match="scaling"):
        SupportVectorMemory(scaling="standard").fit(samples)  # type: ignore[arg-type]


def test_scaled_columns_belong_to_the_memory(tmp_path: Path) -> None:
    """They are in its digest and its save file, take measurements by name, and are told when they are outdated."""
    pandas = pytest.importorskip("pandas")
    samples = rings() * [1.0, 1000.0, 1e-3] + [5.0, -2e4, 0.0]
    frame = pandas.DataFrame(samples, columns=["hr", "volume", "lactate"])
    memory = SupportVectorMemory(nu=0.2, scaling="auto").fit(frame[:100])
    kept = memory.memory_.preprocessing
    assert kept is not None
    assert [column.name for column in kept.keys] == ["hr", "volume", "lactate"]
    assert kept.learned
    assert memory.columns_ == kept.keys
    # The same keys without the columns are another state.
    bare = SupportVectorMemory(nu=0.2, gamma=memory.gamma_).fit(memory.memory_.keys, ids=memory.ids_)
    assert bare.columns_ is None
    other = [Column(column.name, None, column.centre, 2.0 * column.scale) for column in kept.keys]
    assert kept.digest() != Preprocessing(tuple(other), kept.values, learned=True).digest() != b""
    # Save file: what was saved scales as before.
    memory.memory_.save(tmp_path / "memory.expunge")
    loaded = Memory.load(tmp_path / "memory.expunge")
    assert loaded.preprocessing == kept
    assert loaded.digest == memory.memory_.digest
    assert np.array_equal(loaded.score(frame.iloc[[3]]), memory.memory_.score(frame.iloc[[3]]))
    assert loaded.judge(frame)[0] == memory.memory_.judge(frame)[0]
    # Online: later samples are scaled as the first ones were, and the memory says where it would choose otherwise.
    assert not list(memory.memory_.outdated)
    memory.partial_fit(frame[100:] * 8.0)
    assert memory.memory_.preprocessing == kept
    assert ("scale", "hr") in [(choice["what"], choice["column"]) for choice in memory.memory_.outdated]
    assert np.allclose(kept.to_measurements(memory.memory_.keys[100:]), samples[100:] * 8.0, rtol=1e-12)
    memory.remove(range(100, 150))
    assert not list(memory.memory_.outdated)
    assert pickle.loads(pickle.dumps(memory)).columns_ == kept.keys  # noqa: S301 — our own bytes


def test_agreement_over_many_fits() -> None:
    """Where the margin is empty the boundary is an interval, and the two choose other places in it: counted apart."""
    counted = one_class_agreement.compare(range(120), whole=False)
    assert (counted.fits, counted.empty_margins) == (120, 0)
    assert counted.score < 1e-6
    assert counted.boundary < 1e-6
    counted = one_class_agreement.compare(range(200), whole=True)
    assert counted.score < 1e-6
    assert counted.boundary < 1e-6
    assert 0 < counted.empty_margins < 20
    assert 1e-3 < counted.boundary_of_empty_margins < 0.1


@pytest.mark.long
@pytest.mark.parametrize(
    ("tests", "plugin", "count"),
    [
        # It compares the boundary at scikit-learn's own width, to three digits: ours is rounded to the grid.
        ("svm/tests/test_svm.py::test_oneclass", "at_their_width", 1),
        ("svm/tests/test_svm.py::test_oneclass_decision_function", "as_it_is", 1),
        ("svm/tests/test_svm.py::test_oneclass_score_samples", "as_it_is", 1),
        ("svm/tests/test_svm.py::test_n_support[OneClass]", "as_it_is", 1),
        ("linear_model/tests/test_sgd.py::test_ocsvm_vs_sgdocsvm", "as_it_is", 1),
        # Four tables in four kinds of sparse matrices.
        ("svm/tests/test_sparse.py::test_sparse_oneclasssvm", "as_it_is", 16),
    ],
)
def test_the_tests_of_one_class_svm(tests: str, plugin: str, count: int, tmp_path: Path) -> None:
    """All tests of scikit-learn that fit a `OneClassSVM` with the RBF kernel, with our class in the place of theirs."""
    theirs = Path(sklearn.__file__).parent
    here = Path(__file__).parent.parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", f"integrations.one_class_{plugin}", "-p", "no:cacheprovider"]
    # Other kernels are parameters of the same tests.
    kernels = ["-k", "rbf or not test_sparse_oneclasssvm"]
    done = subprocess.run(  # noqa: S603
        [*command, *kernels, "-c", os.devnull, "--rootdir", str(tmp_path), f"{theirs}/{tests}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout


@pytest.mark.parametrize("scaling", [None, "auto"])
def test_sparse_samples_are_the_dense_ones(scaling: Any) -> None:
    samples = np.where(rings() > 0.2, rings(), 0.0)
    dense = SupportVectorMemory(nu=0.3, scaling=scaling).fit(samples[:100]).partial_fit(samples[100:])
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_matrix):
        memory = SupportVectorMemory(nu=0.3, scaling=scaling).fit(form(samples[:100])).partial_fit(form(samples[100:]))
        assert np.array_equal(memory.decision_function(form(samples)), dense.decision_function(samples))
        assert memory.remove([0, 120]).applied[0] == "0"
        assert sparse.issparse(memory.support_vectors_)
        assert sparse.issparse(memory.dual_coef_)
        assert memory.support_vectors_.shape == (memory.n_support_[0], 3)
        # A fit to an array is one again.
        again: Any = memory.fit(samples).support_vectors_
        assert np.array_equal(
            again, SupportVectorMemory(nu=0.3, scaling=scaling).fit(samples).memory_.keys[memory.support_]
        )
