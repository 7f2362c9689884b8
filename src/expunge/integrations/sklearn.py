"""The one-class fit as a scikit-learn estimator that can learn more, and unlearn, without starting again.

`SupportVectorMemory` solves the problem of `sklearn.svm.OneClassSVM` with the RBF kernel, to machine precision. Ours
has Σα = 1 and 0 ≤ α ≤ C = 1/(νn) with κ(a, b) = exp(−‖a − b‖²/σ²); scikit-learn's has Σα = νn and 0 ≤ α ≤ 1 with
exp(−γ‖a − b‖²). So γ = 1/σ², its α is ours over C, its score Σακ likewise, and its offset, where the margin's scores
lie, is (1 − ρ)/(2C).

What an estimator keeps after `remove` tells nothing of the sample but the cap and the width of the fit: the cap is that
of the number of samples, and the default width is rounded to a coarse grid.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, MissingExtra
from expunge.memory.entries import check_ids
from expunge.memory.memory import Memory
from expunge.memory.receipt import Action, Receipt, RecordedOutcome
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
        which `partial_fit` and `remove` keep. `OneClassSVM(nu=...)` on the samples that are left is another problem
        unless their number is that of the fit; the one that is solved here has ``nu_`` for its sparsity.
    gamma : {"scale", "auto"} or float, default "scale"
        1/σ², taken at the fit and kept by `partial_fit` and `remove`. "auto" is 1/d. "scale" differs from
        `OneClassSVM`: it is 1/(d · variance of X) with the width σ rounded to a power of 2^(1/4), so that a sample
        that is removed cannot be computed from it. `OneClassSVM(gamma=memory.gamma_)` has the same kernel.

    Attributes
    ----------
    memory_ : Memory
        What is fitted; certificates, warranties and proofs are its.
    ids_ : tuple of str
        The samples' names, in row order; by default a number that is no other sample's name.
    nu_, gamma_ : float
        1/(Cn) for the n samples there are now, and 1/σ².
    support_, support_vectors_, dual_coef_, intercept_, offset_, n_support_
        As in `OneClassSVM`, for the samples there are now.
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
    # Ids by number of arrival in `fit` and `partial_fit`; None once removed, so that no name outlives its sample here.
    _arrivals: list[str | None]

    def __init__(self, *, nu: float = 0.5, gamma: Literal["scale", "auto"] | float = "scale") -> None:
        self.nu = nu
        self.gamma = gamma

    def fit(self, X: Any, y: Any = None, *, ids: Sequence[str] | None = None) -> Self:
        """Fit to samples X (n, d); `ids` name them."""
        points = self._points(X, reset=True)
        self.memory_ = Memory.fit(points, np.zeros(len(points)), sigma=self._sigma(points), nu=self.nu, ids=ids)
        self._arrivals = list(self.memory_.ids)
        self.receipts_ = []
        return self

    def partial_fit(self, X: Any, y: Any = None, *, ids: Sequence[str] | None = None) -> Self:
        """Admit samples X (m, d) one by one, at the cap of the fit; the first call fits.

        Samples and ids are all checked before the first sample is admitted.
        """
        if not hasattr(self, "memory_"):
            return self.fit(X, ids=ids)
        points = self._points(X, reset=False)
        names = [None] * len(points) if ids is None else self._check_free(check_ids(ids, len(points)))
        for point, name in zip(points, names, strict=True):
            receipt = self.memory_.admit(point, 0.0, id=name)
            self._arrivals.append(receipt.applied[0])
            self.receipts_.append(EditCount.of(receipt))
        return self

    def remove(self, samples: str | SupportsIndex | Iterable[str | SupportsIndex]) -> Receipt:
        """Unlearn samples by id (a string) or by number of arrival (an integer), in one checked transaction.

        Samples are numbered from 0 in the order of `fit` and `partial_fit`, whatever their ids; a number is never
        used again. Afterwards this equals a fresh fit of the others at the same cap. Raises DeletionRefused, with
        nothing changed, where the cap needs more samples than would be left.
        """
        check_is_fitted(self, "memory_")
        given: Any = samples.tolist() if isinstance(samples, np.ndarray) else samples
        wanted = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
        # A later sample under the same id takes it over.
        numbers = {name: number for number, name in enumerate(self._arrivals) if name is not None}
        receipt = self.memory_.delete(
            [name if isinstance(name, str) else self._id_of(name, numbers) for name in wanted]
        )
        for name in receipt.applied:
            if name in numbers:
                self._arrivals[numbers[name]] = None
        self.receipts_.append(EditCount.of(receipt))
        return receipt

    def score_samples(self, X: Any) -> Vector:
        """Σακ(x, x_i) in scikit-learn's scale, (m,): the larger, the more of an inlier."""
        check_is_fitted(self, "memory_")
        points = self._points(X, reset=False)
        found = self.memory_.solution
        return found.similarity(points) / found.problem.cap

    def decision_function(self, X: Any) -> Vector:
        """Signed distance to the boundary, (m,): positive for an inlier."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> IndexArray:
        """1 for an inlier, −1 for an outlier, (m,)."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    @property
    def offset_(self) -> float:
        """Where the scores of the margin lie, less the published tolerance: rounding does not put it outside."""
        return (1.0 - self.memory_.offset - PUBLISHED) / (2.0 * self.memory_.cap)

    @property
    def intercept_(self) -> Vector:
        """−offset, as an array."""
        return np.array([-self.offset_])

    @property
    def support_(self) -> IndexArray:
        """Rows of the samples with a coefficient."""
        return np.flatnonzero(self.memory_.coefficients)

    @property
    def support_vectors_(self) -> Matrix:
        """Their coordinates."""
        return self.memory_.keys[self.support_]

    @property
    def dual_coef_(self) -> Matrix:
        """Their coefficients in scikit-learn's scale, (1, n_support)."""
        return (self.memory_.coefficients[self.support_] / self.memory_.cap)[None, :]

    @property
    def n_support_(self) -> npt.NDArray[np.int32]:
        """How many there are, (1,)."""
        return np.array([self.support_.size], dtype=np.int32)

    @property
    def ids_(self) -> tuple[str, ...]:
        """Names of the samples in row order."""
        return self.memory_.ids

    @property
    def nu_(self) -> float:
        """Sparsity of the problem that is solved now: 1/(Cn)."""
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

    def _points(self, X: Any, *, reset: bool) -> Matrix:
        refuse_masked(X, "samples")
        return as_points(validate_data(self, X, reset=reset, dtype=np.float64), "samples")

    def _sigma(self, points: Matrix) -> float:
        if self.gamma == "auto":
            return math.sqrt(points.shape[1])
        if self.gamma == "scale":
            scale = points.shape[1] * float(points.var())
            # As scikit-learn has it: constant samples get γ = 1. The grid hides what one sample adds to the variance.
            return float(2.0 ** (round(2.0 * math.log2(scale)) / 4.0)) if scale else 1.0
        gamma = math.nan if isinstance(self.gamma, str) else float(self.gamma)
        if not 0.0 < gamma < np.inf:
            raise InputError(f'gamma is "scale", "auto" or a positive number, not {self.gamma!r}')
        return float(gamma**-0.5)

    def __copy__(self) -> Self:
        """With a memory of its own, so that an edit of one is not half an edit of the other."""
        return copy.deepcopy(self)
