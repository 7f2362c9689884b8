"""The same plugin at scikit-learn's own default width, which is not on our grid."""

from __future__ import annotations

import sklearn.svm

from expunge.types import Matrix
from integrations.one_class_as_it_is import OneClass


class TheirWidth(OneClass):
    """Ours without the rounding of the width."""

    def _sigma(self, points: Matrix) -> float:
        return float((points.shape[1] * points.var()) ** 0.5)


sklearn.svm.OneClassSVM = TheirWidth
