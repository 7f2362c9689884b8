"""A pytest plugin that puts our estimator in the place of scikit-learn's OneClassSVM, before its tests import it."""

from __future__ import annotations

import sklearn.svm

from expunge.integrations.sklearn import SupportVectorMemory


class OneClass(SupportVectorMemory):
    """Takes the kernel as an argument, too."""

    def __init__(self, *, kernel: str = "rbf", nu: float = 0.5, gamma: float | str = "scale") -> None:
        if kernel != "rbf":
            raise ValueError(f"the kernel here is rbf, not {kernel}")
        self.kernel = kernel
        super().__init__(nu=nu, gamma=gamma)  # type: ignore[arg-type]


sklearn.svm.OneClassSVM = OneClass
