"""Experimental: drop entries of a transformer's key-value cache by the weights of a one-class fit of each head's keys.

Used as kvpress's presses are: ``with press(model): model(prompt, use_cache=True)`` compresses the cache after the
prefill; go on decoding with it outside. `ZeroWeightPress` drops only entries whose coefficient is *proved* to be zero;
`RatioPress` drops a fixed share, proved zeros first, then the smallest coefficients.

What is proved speaks of the memory fitted to the keys, whose readout does not change. The model's own attention is a
softmax over dot products and not this readout: it does change, and nothing here bounds by how much.

Deviations from kvpress:

1. The cache is compressed once the whole forward pass is done, not layer by layer within it, so that every layer and
   head drops equally many: a cache with one length for all needs no other mask.
2. Keys are taken as they are cached, after the rotary embedding.
3. After it the cache is shorter than the text that it stands for: pass ``position_ids`` that count the text.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from expunge.certificates.bounds import proved_zero
from expunge.errors import InputError, MissingExtra
from expunge.memory.memory import Memory
from expunge.types import IndexArray, Matrix, Vector

try:
    import torch
except ImportError:
    raise MissingExtra("a press needs the extra: pip install 'expunge[torch]'") from None

__all__ = ["CompressionReport", "HeadFit", "RatioPress", "ZeroWeightPress", "fit_head"]


@dataclass(frozen=True, eq=False)
class HeadFit:
    """One head's keys, weighed: coefficients and slacks (n,), and which coefficients are proved to be zero."""

    coefficients: Vector
    slack: Vector
    proved: np.ndarray[Any, np.dtype[np.bool_]]

    def drop_order(self) -> IndexArray:
        """Entries in the order in which they are dropped: proved zeros by their slack, then by coefficient."""
        return np.lexsort((-self.slack, self.coefficients, ~self.proved))


@dataclass(frozen=True)
class CompressionReport:
    """What one compression did: tokens before, dropped in every head, and of those how many were proved at least."""

    tokens: int
    dropped: int
    proved: int
    heads: int


def fit_head(keys: Matrix, *, nu: float, sigma: float | Literal["scale"] = "scale") -> HeadFit:
    """Fit keys (n, d) at ν; "scale" is the width √(d · variance), as scikit-learn's γ has it."""
    width = math.sqrt(keys.shape[1] * float(keys.var())) or 1.0 if sigma == "scale" else float(sigma)
    found = Memory.fit(keys, np.zeros(len(keys)), sigma=width, nu=nu).solution
    cap = found.problem.cap
    proved = proved_zero(found.problem.keys, found.coefficients, cap=cap, sigma=width)
    return HeadFit(found.coefficients, found.slack(found.problem.keys), proved)


class _Press(ABC):
    """A context that compresses the cache after each prefill of a model."""

    def __init__(self, *, nu: float = 0.5, sigma: float | Literal["scale"] = "scale") -> None:
        if not 0.0 < nu <= 1.0:
            raise InputError(f"nu must lie in (0, 1], not {nu!r}")
        if sigma != "scale" and not 0.0 < float(sigma) < math.inf:
            raise InputError(f'sigma is "scale" or a positive width, not {sigma!r}')
        self.nu = nu
        self.sigma = sigma
        self.report: list[CompressionReport] = []

    @contextmanager
    def __call__(self, model: torch.nn.Module) -> Iterator[_Press]:
        """Compress what the model caches while this is open."""
        handle = model.register_forward_hook(self._after_forward, with_kwargs=True)
        try:
            yield self
        finally:
            handle.remove()

    def compress(self, cache: Any) -> CompressionReport:
        """Shorten every layer of a cache in place, by equally many entries in each head."""
        layers = _layers(cache)
        fits = [[self._fit(keys) for keys in heads] for layer in layers for heads in layer.keys]
        heads = [head for row in fits for head in row]
        tokens = int(layers[0].keys.shape[-2])
        count = self._count(tokens, heads)
        orders = iter(heads)
        proved = tokens
        for layer in layers:
            batch, number, _, _ = layer.keys.shape
            kept = np.empty((batch, number, tokens - count), dtype=np.int64)
            for row in range(batch):
                for place in range(number):
                    head = next(orders)
                    order = head.drop_order()
                    kept[row, place] = np.sort(order[count:])
                    proved = min(proved, int(head.proved[order[:count]].sum()))
            index = torch.from_numpy(kept).to(layer.keys.device)[..., None]
            layer.keys = layer.keys.gather(2, index.expand(-1, -1, -1, layer.keys.shape[-1])).contiguous()
            layer.values = layer.values.gather(2, index.expand(-1, -1, -1, layer.values.shape[-1])).contiguous()
        done = CompressionReport(tokens, count, proved if count else 0, len(heads))
        self.report.append(done)
        return done

    @abstractmethod
    def _count(self, tokens: int, heads: list[HeadFit]) -> int:
        """How many entries every head drops."""

    def _fit(self, keys: torch.Tensor) -> HeadFit:
        return fit_head(keys.detach().to("cpu", torch.float64).numpy(), nu=self.nu, sigma=self.sigma)

    def _after_forward(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        cache = getattr(output, "past_key_values", None)
        if cache is None:
            raise InputError("the model keeps no cache: call it with use_cache=True")
        inputs = kwargs.get("input_ids", kwargs.get("inputs_embeds", args[0] if args else None))
        if inputs is None or cache.get_seq_length() != inputs.shape[1]:
            # A step of decoding: the cache was filled before.
            return
        mask = kwargs.get("attention_mask")
        if mask is not None and not bool(mask.all()):
            raise InputError("a press takes prompts of one length: there is padding in this batch")
        self.compress(cache)


class ZeroWeightPress(_Press):
    """Drops entries whose coefficient is proved to be zero, and no other: as many as the head with the fewest has."""

    def _count(self, tokens: int, heads: list[HeadFit]) -> int:
        return min(int(head.proved.sum()) for head in heads)


class RatioPress(_Press):
    """Drops a fixed share of the entries: proved zeros first, then the smallest coefficients."""

    def __init__(self, ratio: float, *, nu: float = 0.5, sigma: float | Literal["scale"] = "scale") -> None:
        super().__init__(nu=nu, sigma=sigma)
        if not 0.0 <= ratio < 1.0:
            raise InputError(f"the ratio of entries to drop lies in [0, 1), not {ratio!r}")
        self.ratio = ratio

    def _count(self, tokens: int, heads: list[HeadFit]) -> int:
        return int(tokens * self.ratio)


def _layers(cache: Any) -> list[Any]:
    layers = list(getattr(cache, "layers", ()))
    plain = [layer for layer in layers if not getattr(layer, "is_sliding", False) and hasattr(layer, "keys")]
    shapes = [tuple(getattr(layer.keys, "shape", (0,))) for layer in plain]
    if not plain or len(plain) < len(layers) or any(len(shape) != 4 for shape in shapes):
        raise InputError("a press takes a dynamic cache of full attention layers")
    if len({shape[-2] for shape in shapes}) > 1 or shapes[0][-2] == 0:
        raise InputError("the layers of this cache are empty, or not of one length")
    return plain
