"""Types used in signatures: arrays, whose shapes are stated where the names are used, a callback of long work, and
workers that long work is spread over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["AnyArray", "IndexArray", "Made", "Matrix", "Progress", "Rows", "StatusArray", "Vector", "Workers"]

Vector: TypeAlias = npt.NDArray[np.float64]
Matrix: TypeAlias = npt.NDArray[np.float64]
IndexArray: TypeAlias = npt.NDArray[np.int64]
StatusArray: TypeAlias = npt.NDArray[np.int8]
AnyArray: TypeAlias = npt.NDArray[Any]
# Coordinates, or measurements by column name; a data frame counts as an array here.
Rows: TypeAlias = npt.ArrayLike | Mapping[str, float | None] | Sequence[Mapping[str, float | None]]
Made = TypeVar("Made")
# Told what is under way, how much of it is done, and of how much. What it raises ends the work, with nothing changed.
Progress: TypeAlias = Callable[[str, int, int], None]


class Workers(Protocol):
    """Processes that make parts of a computation, elsewhere perhaps."""

    def __call__(
        self, make: Callable[[int, int], Made], parts: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, int, Made]]:
        """What `make` returns for each part (start, stop), in any order; `make` must be picklable, and change nothing.

        What `make` raises is raised here.
        """
        ...
