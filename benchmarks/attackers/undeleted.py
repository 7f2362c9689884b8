"""The attack on entries that *remain* (arXiv 2602.16697): deletion requests for one's own entries show someone else's.

A reserve entry has weight 0: no published number depends on its key. The attacker owns some of the other entries and
deletes them one after the other. When one of these erasures makes the victim active, the memory answers as a fresh
fit of what remains must, and that fit depends on the victim's key. The attacker knows all entries but the victim,
sees the answer change from what it would be without the victim, and solves for the key. Every memory whose deletion
equals a refit has this property: exact erasure protects the erased entry, not the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attackers.reconstruction import from_scores
from expunge import Memory, Refused

__all__ = ["Revealed", "reveal_by_own_deletions"]

Vector = npt.NDArray[np.float64]
# A change of the answers that is no rounding.
VISIBLE = 1e-9


@dataclass(frozen=True)
class Revealed:
    """What the attacker's own deletions showed of a reserve entry; no key where the answers never changed."""

    hidden_before: bool  # whether the answers before were those of a memory without the victim, to the bit
    deletions: int
    key: Vector | None


def reveal_by_own_deletions(
    memory: Memory, victim: str, own: list[str], queries: npt.NDArray[np.float64], rng: np.random.Generator
) -> Revealed:
    """Delete the attacker's `own` entries until 16 or more scores depend on the victim; then solve for its key."""

    def without_victim() -> tuple[Memory, npt.NDArray[np.float64]]:
        others = np.array([key for name, key in zip(memory.ids, memory.keys, strict=True) if name != victim])
        return Memory.fit(others, np.zeros((len(others), 1)), sigma=memory.sigma, cap=memory.cap), others

    hidden = without_victim()[0].score(queries).tobytes() == memory.score(queries).tobytes()
    for count, name in enumerate(own, 1):
        try:
            memory.delete(name)
            known, others = without_victim()
        except (Refused, ValueError):
            break
        scores = memory.score(queries)
        if np.abs(known.score(queries) - scores).max() > VISIBLE:
            found = from_scores(others, queries, scores, cap=memory.cap, sigma=memory.sigma, rng=rng)
            return Revealed(hidden, count, found)
    return Revealed(hidden, len(own), None)
