"""The one-class fit as a scikit-learn estimator that can learn more, and unlearn, without starting again.

`SupportVectorMemory` solves the problem of `sklearn.svm.OneClassSVM` with the RBF kernel, to machine precision. Ours
has Σα = 1 and 0 ≤ α ≤ C = 1/(νn) with κ(a, b) = exp(−‖a − b‖²/σ²); scikit-learn's has Σα = νn and 0 ≤ α ≤ 1 with
exp(−γ‖a − b‖²). So γ = 1/σ², its α is ours over C, its score Σακ likewise, and its offset, where the margin's scores
lie, is (1 − ρ)/(2C).

What an estimator keeps after `remove` tells nothing of the sample but the cap, the width and the scaling of the fit:
the cap is that of the number of samples, and the default width, centres and scales are on coarse grids.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, issparse

from expunge.errors import InputError, MissingExtra
from expunge.memory.entries import check_ids
from expunge.memory.memory import Memory
from expunge.memory.receipt import Action, Receipt, RecordedOutcome
from expunge.memory.version import Version
from expunge.preprocessing.grid import quarter_power
from expunge.preprocessing.preprocessing import Column, Preprocessing, chosen_columns
from expunge.problem.problem import as_points, refuse_masked
from expunge.problem.tolerances import PUBLISHED
from expunge.types import IndexArray, Matrix, Vector

try:
    from sklearn.base import BaseEstimator, OutlierMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtra("the estimator needs the extra: pip install 'expunge[sklearn]'") from None

__all__ = ["EditCount", "SupportVectorMemory"]


@dataclass(frozen=True)
class EditCount:
    """What an edit did and to how many samples; no id, residual or time, which would outlive an erased sample."""

    action: Action
    outcome: RecordedOutcome
    count: int

    @classmethod
    def of(cls, receipt: Receipt) -> EditCount:
        """The part of a receipt that is kept."""
        return cls(receipt.action, receipt.recorded_outcome, len(receipt.applied))


class SupportVectorMemory(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Outlier detection with exact additions and checked deletions.

    Parameters
    ----------
    nu : float in (0, 1], default 0.5
        Bound on the fraction of outliers, and below it of support vectors, *at the fit*: it sets the cap C = 1/(νn),
        which `partial_fit` keeps, and `remove` unless too few samples are left for it. `OneClassSVM(nu=...)` on the
        samples that are left is another problem unless their number is that of the fit; the one that is solved here has
        ``nu_`` for its sparsity.
    gamma : {"scale", "auto"} or float, default "scale"
        1/σ², taken at the fit and kept by `partial_fit` and `remove`. "auto" is 1/d. "scale" differs from
        `OneClassSVM`: it is 1/(d · variance of X) with the width σ rounded to a power of 2^(1/4), so that a sample
        that is removed cannot be computed from it. `OneClassSVM(gamma=memory.gamma_)` has the same kernel.
    contamination : "auto" or float in (0, 0.5], default "auto"
        Where the boundary is. "auto" is the boundary of the fit, as in `OneClassSVM`. A number moves it, so that this
        share of the samples there are now lies outside, as in `IsolationForest` and PyOD.
    scaling : {"auto"} or None, default None
        "auto" subtracts a centre from each column and divides it by a scale. Both are chosen at the fit on a coarse
        grid, and kept by `partial_fit` and `remove`. They are part of `memory_`: of its digest and its save file.

    Attributes
    ----------
    memory_ : Memory
        What is fitted; certificates, warranties and proofs are its.
    ids_ : tuple of str
        The samples' names, in row order; by default a number that is no other sample's name.
    nu_, gamma_ : float
        1/(Cn) for the n samples there are now, and 1/σ².
    columns_ : tuple of Column or None
        Name, centre and scale of each column, with ``scaling="auto"``: the key columns of `memory_`.
    support_, support_vectors_, dual_coef_, intercept_, offset_, n_support_
        As in `OneClassSVM`, for the samples there are now. After a fit to sparse samples, support vectors and
        coefficients are sparse, as there.
    receipts_ : list of EditCount
        Action, outcome and number of samples of each later edit, in order. `remove` returns the whole receipt.

    Examples
    --------
    >>> X = [[0], [0.44], [0.45], [0.46], [1]]
    >>> memory = SupportVectorMemory(gamma="auto").fit(X)
    >>> memory.predict(X).tolist()
    [-1, 1, 1, 1, -1]
    >>> memory.partial_fit([[0.5]], ids=["late"]).remove(["late"]).outcome
    'certified_zero'

    """

    memory_: Memory
    receipts_: list[EditCount]
    n_features_in_: int
    # Whether the samples of the fit were a sparse matrix.
    _sparse: bool
    # Ids by number of arrival in `fit` and `partial_fit`; None once removed, so that no name outlives its sample here.
    _arrivals: list[str | None]

    # The version that a threshold was taken at, and the threshold, with a contamination; of no version but that one.
    _threshold: tuple[Version, float] | None

    def __init__(
        self,
        *,
        nu: float = 0.5,
        gamma: Literal["scale", "auto"] | float = "scale",
        contamination: Literal["auto"] | float = "auto",
        scaling: Literal["auto"] | None = None,
    ) -> None:
        self.nu = nu
        self.gamma = gamma
        self.contamination = contamination
        self.scaling = scaling

    def fit(self, X: Any, y: Any = None, *, ids: Sequence[str] | None = None, **options: Any) -> Self:
        """Fit to samples X (n, d); `ids` name them.

        A sparse matrix is taken, and kept dense: the kernel needs every coordinate.
        Without `ids`, the samples of a pandas DataFrame are named by its index, unless its labels are 0, 1, 2, ... or
        two of them are equal as text.
        Sample weights are refused: every sample has the same cap. Repeat a sample to give it more weight.
        """
        _refuse(options)
        self._check_options()
        names = ids if ids is not None else _labels(X)
        samples = self._samples(X, reset=True)
        self._sparse = issparse(X)
        preprocessing = self._chosen_preprocessing(samples) if self.scaling == "auto" else None
        points = _scaled(samples, preprocessing)
        self.memory_ = Memory.fit(
            points,
            np.zeros(len(points)),
            sigma=self._sigma(points),
            nu=self.nu,
            ids=names,
            preprocessing=preprocessing,
        )
        self._arrivals = list(self.memory_.ids)
        self._threshold = None
        self.receipts_ = []
        return self

    def partial_fit(self, X: Any, y: Any = None, *, ids: Sequence[str] | None = None, **options: Any) -> Self:
        """Admit samples X (m, d) one by one, at the cap, the width and the scaling of the fit; the first call fits.

        Samples and ids are all checked before the first sample is admitted. They are named as in `fit`.
        """
        _refuse(options)
        if not hasattr(self, "memory_"):
            return self.fit(X, ids=ids)
        labels = _labels(X) if ids is None else ids
        points = self._points(X)
        names = [None] * len(points) if labels is None else self._check_free(check_ids(labels, len(points)))
        for point, name in zip(points, names, strict=True):
            receipt = self.memory_.admit(point, 0.0, id=name)
            self._arrivals.append(receipt.applied[0])
            self.receipts_.append(EditCount.of(receipt))
        return self

    def remove(self, samples: Any) -> Receipt:
        """Unlearn samples, in one checked transaction.

        Afterwards this equals a fresh fit of the others at the same cap; where too few are left for it, at the cap
        doubled as often as needed. Without samples there is nothing to score with, and InputError (``memory-empty``)
        says so, until `partial_fit` adds some, at cap 1.

        Parameters
        ----------
        samples : str, int, sequence of str or int, array or sequence of bool, or pandas Index, Series or DataFrame
            An id (a string), or a number of arrival (an integer): samples are numbered from 0 in the order of `fit`
            and `partial_fit`, whatever their ids, and a number is never used again. A mask has one truth value per
            sample there is now, in the order of `ids_`. A pandas Index, the index of a DataFrame, and the index of a
            Series of truth values where they are true name samples by their labels.

        """
        check_is_fitted(self, "memory_")
        # A later sample under the same id takes it over.
        numbers = {name: number for number, name in enumerate(self._arrivals) if name is not None}
        receipt = self.memory_.delete(
            [name if isinstance(name, str) else self._id_of(name, numbers) for name in self._named(samples)]
        )
        for name in receipt.applied:
            if name in numbers:
                self._arrivals[numbers[name]] = None
        self._threshold = None
        self.receipts_.append(EditCount.of(receipt))
        return receipt

    def _named(self, samples: Any) -> list[Any]:
        """Ids and numbers of arrival from whatever names samples."""
        if hasattr(samples, "index") and hasattr(samples, "columns"):
            samples = samples.index
        if hasattr(samples, "index") and hasattr(samples, "iloc"):
            if samples.dtype != bool:
                raise InputError("a Series names samples by truth values; name them by its values in a list otherwise")
            samples = samples.index[samples.to_numpy()]
        if hasattr(samples, "get_indexer"):
            return [str(label) for label in samples]
        given: Any = samples.tolist() if isinstance(samples, np.ndarray) else samples
        wanted = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
        if wanted and all(isinstance(each, bool | np.bool_) for each in wanted):
            if len(wanted) != len(self.memory_):
                raise InputError(f"a mask has one truth value per sample, {len(self.memory_)}, not {len(wanted)}")
            return [name for name, chosen in zip(self.memory_.ids, wanted, strict=True) if chosen]
        return wanted

    def score_samples(self, X: Any) -> Vector:
        """Σακ(x, x_i) in scikit-learn's scale, (m,): the larger, the more of an inlier."""
        check_is_fitted(self, "memory_")
        points = self._points(X)
        version = self.memory_.version
        version.require_entries()
        found = version.solution
        return found.similarity(points) / found.problem.cap

    def decision_function(self, X: Any) -> Vector:
        """Signed distance to the boundary, (m,): positive for an inlier."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> IndexArray:
        """1 for an inlier, −1 for an outlier, (m,)."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    @property
    def offset_(self) -> float:
        """The score of the boundary, less the published tolerance of 1e-9: rounding does not put the margin outside.

        With a contamination, that quantile of the scores of the samples there are now, less as much. Samples that share
        the score of the quantile, as those of the margin do, are all inside.
        """
        if self.contamination == "auto":
            return (1.0 - self.memory_.offset - PUBLISHED) / (2.0 * self.memory_.cap)
        version = self.memory_.version
        if self._threshold is None or self._threshold[0] is not version:
            version.require_entries()
            found = version.solution
            scores = found.similarity(self.memory_.keys) / found.problem.cap
            quantile = float(np.quantile(scores, self.contamination))
            self._threshold = version, quantile - PUBLISHED / (2.0 * found.problem.cap)
        return self._threshold[1]

    @property
    def intercept_(self) -> Vector:
        """−offset, as an array."""
        return np.array([-self.offset_])

    @property
    def support_(self) -> IndexArray:
        """Rows of the samples with a coefficient."""
        return np.flatnonzero(self.memory_.coefficients)

    @property
    def support_vectors_(self) -> Matrix | csr_matrix:
        """Their coordinates, (n_support, d)."""
        return self._like_the_fit(self.memory_.keys[self.support_])

    @property
    def dual_coef_(self) -> Matrix | csr_matrix:
        """Their coefficients in scikit-learn's scale, (1, n_support)."""
        return self._like_the_fit((self.memory_.coefficients[self.support_] / self.memory_.cap)[None, :])

    @property
    def n_support_(self) -> npt.NDArray[np.int32]:
        """How many there are, (1,)."""
        return np.array([self.support_.size], dtype=np.int32)

    @property
    def ids_(self) -> tuple[str, ...]:
        """Names of the samples in row order."""
        return self.memory_.ids

    @property
    def columns_(self) -> tuple[Column, ...] | None:
        """Name, centre and scale of each column; None without ``scaling="auto"``."""
        found = self.memory_.preprocessing
        return None if found is None else found.keys

    @property
    def nu_(self) -> float:
        """Sparsity of the problem that is solved now: 1/(Cn)."""
        self.memory_.version.require_entries()
        return 1.0 / (self.memory_.cap * len(self.memory_))

    @property
    def gamma_(self) -> float:
        """1/σ²."""
        return 1.0 / self.memory_.sigma**2

    def _id_of(self, number: Any, numbers: dict[str, int]) -> str:
        """Id of the sample with a number of arrival."""
        try:
            place = -1 if isinstance(number, bool) else index(number)
        except TypeError:
            place = -1
        if place < 0:
            raise InputError(f"samples are named by their ids, or by their numbers of arrival from 0, not {number!r}")
        if place >= len(self._arrivals):
            raise InputError(f"there is no sample {place}: {len(self._arrivals)} have arrived, numbered from 0")
        name = self._arrivals[place]
        if name is None or numbers[name] != place:
            raise InputError(f"sample {place} was removed already; nothing was deleted")
        return name

    def _check_free(self, names: list[str]) -> list[str]:
        """Names that no sample has, pruned ones included."""
        version = self.memory_.version
        taken = next((name for name in names if version.slot(name) is not None or name in version.warranties), None)
        if taken is not None:
            raise InputError(f"id {taken!r} is taken: remove it first, or use another id; nothing was admitted")
        return names

    def _samples(self, X: Any, *, reset: bool) -> Matrix:
        refuse_masked(X, "samples")
        found: Any = validate_data(self, X, reset=reset, dtype=np.float64, accept_sparse="csr")
        return as_points(found.toarray() if hasattr(found, "toarray") else found, "samples")

    def _like_the_fit(self, found: Matrix) -> Matrix | csr_matrix:
        return csr_matrix(found) if self._sparse else found

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's checks and pipelines ask: sparse samples are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _points(self, X: Any) -> Matrix:
        return _scaled(self._samples(X, reset=False), self.memory_.preprocessing)

    def _chosen_preprocessing(self, samples: Matrix) -> Preprocessing:
        names = getattr(self, "feature_names_in_", None)
        named = [f"x{place}" for place in range(samples.shape[1])] if names is None else [str(name) for name in names]
        columns = chosen_columns(named, samples, scaled=True, filled=False)
        # A value of 0 per sample: a memory has values, an estimator none.
        return Preprocessing(columns, (Column("value"),), learned=True)

    def _check_options(self) -> None:
        share = self.contamination
        if share != "auto" and (isinstance(share, str | bool) or not 0.0 < float(share) <= 0.5):
            raise InputError(f'contamination is "auto" or a number above 0 and up to 0.5, not {share!r}')
        if self.scaling not in (None, "auto"):
            raise InputError(f'scaling is "auto" or None, not {self.scaling!r}')

    def _sigma(self, points: Matrix) -> float:
        if self.gamma == "auto":
            return math.sqrt(points.shape[1])
        if self.gamma == "scale":
            scale = points.shape[1] * float(points.var())
            # As scikit-learn has it: constant samples get γ = 1. The grid hides what one sample adds to the variance.
            return quarter_power(math.sqrt(scale)) if scale else 1.0
        gamma = math.nan if isinstance(self.gamma, str) else float(self.gamma)
        if not 0.0 < gamma < np.inf:
            raise InputError(f'gamma is "scale", "auto" or a positive number, not {self.gamma!r}')
        return float(gamma**-0.5)

    def __copy__(self) -> Self:
        """With a memory of its own, so that an edit of one is not half an edit of the other."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds; the threshold is taken again."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_threshold": None} if "_threshold" in state else state


def _refuse(options: dict[str, Any]) -> None:
    """Raise for arguments that other estimators take."""
    if options.pop("sample_weight", None) is not None:
        raise InputError(
            "sample weights are not supported: every sample has the same cap; repeat a sample to give it more weight"
        )
    if options:
        raise TypeError(f"unexpected arguments: {', '.join(options)}")


def _scaled(samples: Matrix, preprocessing: Preprocessing | None) -> Matrix:
    """Keys (m, d) that samples (m, d) become."""
    return samples if preprocessing is None else as_points(preprocessing.to_keys(samples), "scaled samples")


def _labels(X: Any) -> list[str] | None:
    """Labels of a pandas DataFrame's index as text, where they tell its rows apart and are not just 0, 1, 2, ..."""
    labels = [str(label) for label in X.index] if hasattr(X, "iloc") and hasattr(X, "index") else []
    if labels == [str(place) for place in range(len(labels))]:
        return None
    return labels if labels and len(set(labels)) == len(labels) else None
