"""From a trained layer to memories that can be certified and deleted from (paper, §3 and App. B).

Training solves a ridged problem in fp32 and proves nothing. `freeze` takes the keys that a trained layer computes for a
context, as they are, and solves the paper's problem on them in fp64, one `Memory` per head. From there on everything
that holds for a memory holds for the gate: its states are checked, zero coefficients can be proved, and a record (the
tokens of one subject) is deleted from every head, or from none, with one receipt per head. `applied` then lets the
model read through the edited coefficients, to measure what it says.

What a deletion covers is the gate of this layer over this prefix: a deleted token gets no weight from any query after
the prefix. It does not cover what other tokens of the prefix took up from it before, nor the weights of the model; a
model with several layers has several gates, and each is frozen and edited by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from operator import index

import torch
from torch import Tensor

from expunge.certificates.proof import Proof
from expunge.errors import InputError
from expunge.memory.memory import Memory
from expunge.memory.receipt import Receipt
from expunge.problem.check import StateCheck
from expunge.torch.attention import SupportVectorAttention
from expunge.torch.gate import unit_keys, whole_number

__all__ = ["FrozenLayer", "freeze"]


# How far keys that are computed again may lie from those that were frozen, as a part of the largest.
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.1}


@dataclass
class FrozenLayer:
    """The gates of one layer over one prefix: a memory for each head, whose ids are the tokens' places."""

    attention: SupportVectorAttention
    count: int
    memories: tuple[Memory, ...]
    trained: Tensor

    @property
    def coefficients(self) -> Tensor:
        """Coefficients now, (heads, count) float64: zero for deleted tokens."""
        rows = torch.zeros(len(self.memories), self.count, dtype=torch.float64)
        for row, memory in zip(rows, self.memories, strict=True):
            row[[int(name) for name in memory.ids]] = torch.from_numpy(memory.coefficients.copy())
        return rows

    @property
    def drift(self) -> float:
        """Largest difference between training's coefficients and these: the ridge, fp32, and what `closing` closed."""
        return float((self.coefficients - self.trained.double().cpu()).abs().max())

    def check(self) -> StateCheck:
        """Errors of the worst head, recomputed from its keys."""
        return max((memory.check() for memory in self.memories), key=lambda check: check.worst)

    def prove(self) -> tuple[Proof, ...]:
        """Proof of every head's groups and weights."""
        return tuple(memory.prove() for memory in self.memories)

    def delete(self, tokens: Sequence[int] | int | None = None, *, subject: str | None = None) -> tuple[Receipt, ...]:
        """Delete a token or tokens by their places, or a subject's, from every head; one receipt per head.

        If one head refuses, DeletionRefused is raised and no head has changed. Where too few tokens are left for the
        cap, the heads go on at a larger one than the layer's.
        """
        ids = None if tokens is None else [str(place) for place in _places(tokens)]
        # Each head is edited beside the current one, and all replace theirs at once.
        edited = tuple(copy(memory) for memory in self.memories)
        receipts = tuple(memory.delete(ids, subject=subject) for memory in edited)
        self.memories = edited
        return receipts

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the layer read through these coefficients wherever a chunk starts at or after the prefix.

        Keys between the prefix and the query's chunk are not gated: no memory covers them.
        """
        layer, before = self.attention, self.attention.replaced_gates
        layer.replaced_gates = self._gates
        try:
            yield
        finally:
            layer.replaced_gates = before

    def _gates(self, keys: Tensor) -> Tensor:
        layer, length = self.attention, keys.shape[2]
        starts = layer.boundaries(length)
        gates = layer.gates(keys).clone()
        later = [place for place, start in enumerate(starts) if start >= self.count]
        if not later:
            raise InputError(
                f"no chunk of this input starts at or after the frozen prefix of {self.count} tokens; give it at least "
                f"{self.count + 1} tokens"
            )
        self._require_frozen_keys(keys)
        alpha = self.coefficients.to(keys.device)
        padded = torch.zeros(1, alpha.shape[0], len(starts), length, dtype=alpha.dtype, device=keys.device)
        padded[..., : self.count] = alpha[:, None, :]
        # As many keys as are left: a prefix that never held the deleted ones would have so many.
        edited = layer.rescaled(padded, len(self.memories[0])).to(gates.dtype)
        # A deleted token stays closed whatever floor or window would leave open.
        alive = torch.zeros(alpha.shape[0], self.count, dtype=torch.bool, device=keys.device)
        for row, memory in zip(alive, self.memories, strict=True):
            row[[int(name) for name in memory.ids]] = True
        for place in later:
            gates[:, :, place, : self.count] = torch.where(alive, edited[0, :, place, : self.count], 0.0)
            gates[:, :, place, self.count :] = 1.0
        return gates

    def _require_frozen_keys(self, keys: Tensor) -> None:
        """Refuse another context: what is left of the prefix must have the keys that were frozen."""
        seen = unit_keys(keys) if self.attention.gate.normalize else keys
        close = CLOSE.get(keys.dtype, CLOSE[torch.float32])
        for head, memory in enumerate(self.memories):
            places = [int(name) for name in memory.ids]
            if not places:
                continue
            frozen = torch.from_numpy(memory.keys.copy())
            given = seen[:, head, : self.count].detach().double().cpu()
            if not bool(((given[:, places] - frozen).abs() <= close * frozen.abs().max()).all()):
                raise InputError(
                    "these are not the keys that were frozen: give the context that freeze was given, with the layer's "
                    "weights as they were; only deleted tokens and what follows the prefix may differ"
                )


def _places(tokens: Sequence[int] | int) -> list[int]:
    try:
        # A string has places too, but they are not whole numbers.
        return [index(token) for token in (tokens if isinstance(tokens, Iterable) else [tokens])]
    except TypeError as error:
        raise InputError(f"tokens are named by their places, whole numbers, not {tokens!r}") from error


@torch.no_grad()
def freeze(
    attention: SupportVectorAttention,
    x: Tensor,
    *,
    count: int | None = None,
    subjects: Sequence[str | None] | None = None,
) -> FrozenLayer:
    """Freeze the keys of a trained layer over the first `count` tokens of x (1, T, d_model), and solve them in fp64.

    `count` must be a gated boundary, the last one of x if not given. `subjects` names each token's record.
    """
    if x.ndim != 3 or x.shape[0] != 1:
        raise InputError(f"freeze takes one context (1, T, d_model), not {tuple(x.shape)}")
    starts = attention.boundaries(x.shape[1])
    if count is not None:
        count = whole_number(count, "count")
    elif starts:
        count = starts[-1]
    if count not in starts:
        raise InputError(f"count must be a gated boundary of this context, one of {starts}, not {count}")
    if subjects is not None and len(subjects) != count:
        raise InputError(f"subjects must name each of the {count} tokens, not {len(subjects)}")
    _, keys, values = attention.project(x)
    gate = attention.gate
    seen = unit_keys(keys) if gate.normalize else keys
    trained = gate.prefixes(keys, starts, even=True)[0, :, starts.index(count), :count]
    like = torch.zeros((), dtype=torch.float64)
    caps, sigmas = gate.cap(like).expand(attention.heads).tolist(), gate.sigma(like).expand(attention.heads).tolist()
    memories = tuple(
        Memory.fit(
            seen[0, head, :count].double().cpu().numpy(),
            values[0, head, :count].double().cpu().numpy(),
            sigma=sigmas[head],
            cap=caps[head],
            ids=[str(place) for place in range(count)],
            subjects=subjects,
        )
        for head in range(attention.heads)
    )
    return FrozenLayer(attention, count, memories, trained)
