"""Vectors on the command line: ``0.5,-1,2``, a JSON array, or ``@file`` (NPY, JSON or text)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge.errors import InputError, StoreError

if TYPE_CHECKING:
    from expunge.types import Matrix

__all__ = ["VECTOR_HELP", "parse_vectors"]

VECTOR_HELP = "0.5,-1,2, a JSON array, or @file (.npy, .json, .txt)."


def parse_vectors(text: str, option: str) -> Matrix:
    """Read one vector, or the rows of an array from a file: (m, d) float64, finite or not."""
    if text.startswith("@"):
        return _from_file(Path(text[1:]), option)
    return _rows(_numbers(text, option, text), option)


def _from_file(path: Path, option: str) -> Matrix:
    import numpy as np

    try:
        if path.suffix == ".npy":
            return _rows(np.load(path, allow_pickle=False), option)
        content = path.read_text(encoding="utf-8")
    except OSError as problem:
        reason = "there is no such file" if isinstance(problem, FileNotFoundError) else problem.strerror or problem
        raise StoreError(f"cannot read {path}: {reason}") from None
    except (ValueError, EOFError) as problem:
        raise InputError(f"{option}: {path} holds no vector ({str(problem).splitlines()[0]})") from None
    return _rows(_numbers(content, option, str(path)), option)


def _numbers(text: str, option: str, what: str) -> Any:
    shown = what if len(what) <= 40 else what[:37] + "..."
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise InputError(f"{option}: {shown} is not a JSON array ({problem})") from None
    parts = text.replace(",", " ").split()
    try:
        return [float(part) for part in parts]
    except ValueError:
        wrong = next(part for part in parts if not _is_number(part))
        raise InputError(f"{option}: {wrong!r} is not a number; write {VECTOR_HELP}") from None


def _is_number(part: str) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


def _rows(found: Any, option: str) -> Matrix:
    import numpy as np

    try:
        array = np.asarray(found, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{option}: not a vector of numbers; write {VECTOR_HELP}") from None
    if array.ndim not in (1, 2) or array.size == 0:
        raise InputError(f"{option}: a vector has one or more numbers, not shape {array.shape}")
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]))
