"""The recall model of the learned regime, in NumPy: tokens in, keys, queries and decoded values out.

Its weights were trained by ``studies/learned_keys.py``, with torch, and ship with the package, so that the audits of
learned keys need no torch. Weights are the trained float32 numbers; the arithmetic here is float64.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from expunge.types import Matrix, Vector

__all__ = ["RecallModel", "recall_model"]

# A token is a name followed by a content; a query token has no content.
NAME, CONTENT = 8, 8


@dataclass(frozen=True, eq=False)
class RecallModel:
    """The trained maps. A token is (16,): a name (8,) and a content (8,); keys and queries are (n, 32)."""

    embed: Matrix
    embed_bias: Vector
    key: Matrix
    query: Matrix
    value: Matrix
    out: Matrix
    head: Matrix
    head_bias: Vector
    provenance: dict[str, Any]

    cap: float = 0.2
    sigma: float = 2.0
    noise: float = 0.02

    def keys(self, tokens: Matrix) -> Matrix:
        """Keys of tokens (n, 16) → (n, 32)."""
        return self._embedded(tokens) @ self.key.T

    def queries(self, names: Matrix) -> Matrix:
        """Queries of names (n, 8) → (n, 32)."""
        return self._embedded(np.hstack([names, np.zeros((len(names), CONTENT))])) @ self.query.T

    def values(self, tokens: Matrix) -> Matrix:
        """Decoded values of tokens (n, 16) → (n, 8).

        The model decodes after it reads; as a normalized readout is a weighted mean and decoding is affine, reading
        decoded values gives the same answer.
        """
        return self._embedded(tokens) @ self.value.T @ self.out.T @ self.head.T + self.head_bias

    def _embedded(self, tokens: Matrix) -> Matrix:
        return tokens @ self.embed.T + self.embed_bias


@cache
def recall_model() -> RecallModel:
    """Load the model that ships with the package."""
    folder = files("expunge.datasets").joinpath("data", "learned_keys")
    arrays = np.load(io.BytesIO(folder.joinpath("weights.npz").read_bytes()), allow_pickle=False)
    weights = {name: arrays[name].astype(np.float64) for name in arrays.files}
    for part in weights.values():
        part.setflags(write=False)
    return RecallModel(
        embed=weights["embed_weight"],
        embed_bias=weights["embed_bias"],
        key=weights["key_weight"],
        query=weights["query_weight"],
        value=weights["value_weight"],
        out=weights["out_weight"],
        head=weights["head_weight"],
        head_bias=weights["head_bias"],
        provenance=json.loads(folder.joinpath("provenance.json").read_text(encoding="utf-8")),
    )
