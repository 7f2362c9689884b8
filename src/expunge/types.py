"""Array types used in signatures. Shapes are stated where the names are used."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["AnyArray", "IndexArray", "Matrix", "StatusArray", "Vector"]

Vector: TypeAlias = npt.NDArray[np.float64]
Matrix: TypeAlias = npt.NDArray[np.float64]
IndexArray: TypeAlias = npt.NDArray[np.int64]
StatusArray: TypeAlias = npt.NDArray[np.int8]
AnyArray: TypeAlias = npt.NDArray[Any]
