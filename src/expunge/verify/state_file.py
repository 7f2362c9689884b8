"""What a saved memory claims of its live entries: keys, coefficients, offset, cap and width, read for verification.

The format is that of `Memory.save`: a ZIP of arrays and a JSON header with their digests. This reader shares no code
with the one that loads memories, and takes no more from the file than a state has.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from expunge.errors import StoreError, VerificationError
from expunge.ledger.packed_files import check_unpacked
from expunge.types import Matrix, Vector

__all__ = ["SavedState", "read_state"]

FORMAT: Final = "expunge/memory/v2"
_NEEDED: Final = ("keys", "alpha", "archived")


@dataclass(frozen=True, eq=False)
class SavedState:
    """Keys (n, d) and coefficients (n,) of the live entries of a saved memory, in its order, with the three scalars."""

    keys: Matrix
    coefficients: Vector
    offset: float
    cap: float
    sigma: float


def read_state(path: str | os.PathLike[str]) -> SavedState:
    """Read the state of a file that `Memory.save` wrote; ``state-file-invalid`` for anything else."""
    try:
        data = Path(path).read_bytes()
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
    try:
        header, arrays = _content(data)
        live = arrays["archived"] == 0
        if arrays["keys"].ndim != 2 or not arrays["alpha"].shape == live.shape == arrays["keys"].shape[:1]:
            raise VerificationError(f"the arrays of {path} differ in length", code="state-file-invalid")
        if np.any(arrays["alpha"][~live]):
            raise VerificationError(f"an archived entry of {path} has a weight", code="state-file-invalid")
        scalars = {name: float.fromhex(header[name]) for name in ("offset", "cap", "sigma")}
        return SavedState(arrays["keys"][live], arrays["alpha"][live], **scalars)
    except (
        *(KeyError, TypeError, ValueError, AttributeError, OverflowError, EOFError, OSError),
        *(MemoryError, RecursionError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error),
    ) as problem:
        raise VerificationError(f"{path} is not a saved memory ({problem})", code="state-file-invalid") from None


def _content(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header, and the arrays that a state needs, each with the digest that the header lists."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_unpacked(archive, len(data))
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members["header.json"]
    header = json.loads(text)
    if header["format"] != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    if hashlib.sha256(text).hexdigest().encode() != members["header.sha256"]:
        raise ValueError("its header does not have its digest")
    arrays = {}
    for name in _NEEDED:
        content = members[f"{name}.npy"]
        if hashlib.sha256(content).hexdigest() != header["sha256"][f"{name}.npy"]:
            raise ValueError(f"{name} does not have its digest")
        arrays[name] = np.load(io.BytesIO(content), allow_pickle=False)
        if arrays[name].dtype != np.dtype("|u1" if name == "archived" else "<f8"):
            raise ValueError(f"{name} has another type")
    return header, arrays
