"""Certificates that know when they expire: proof, from a few scalars, that a pruned key still has zero weight.

Exact criterion. Let (α′, ρ′) solve the problem on the retained keys. A pruned key x_j has
g′_j = ρ′ − 1 + 2⟨c′, φ_j⟩, c′ = Σα′φ. If g′_j ≥ 0 for every pruned key, α′ padded with zeros satisfies the KKT
conditions of the never-pruned problem: the two memories are equal. So a lower bound on ⟨c′, φ_j⟩ that uses
nothing of the key but a few scalars is a warranty. Two families, the larger wins:

- **Weights** (kernel values lie in [0, 1]). At pruning ⟨c, φ_j⟩ = Σα_i κ_ij = v_j is kept. Now the least possible
  Σα′_i κ_ij over all κ_ij ∈ [lo, hi] with Σα_i κ_ij = v_j is a linear program with one equality: fill the
  capacity v_j with the keys that kept the smallest share α′_i/α_i of their weight. It needs no keys, and no
  deletion can invalidate it.
- **Distance** (φ_j is a unit vector). ⟨c′ − c, φ_j⟩ ≥ −‖c′ − c‖; what is known of φ_j along c (v_j) and along
  sketched neighbours (κ_jz) is taken exactly, and only the orthogonal rest is bounded by its norm. ‖c′ − c‖ is exact
  while the keys that were active at pruning are all here, else it is the odometer: the sum of per-edit
  distances, ‖Δc‖² = Δαᵀ Δ(Kα).

A *sketch* of a pruned key is κ to a few live neighbours: 12 bytes each. It fixes those terms, and the triangle
inequality through them bounds every other κ_ij. A neighbour that is deleted takes its number with it.

A warranty can only be too careful: it may end while the truth still holds, never the other way round. It speaks
of the key it was issued for beside the retained ones; when all of them are valid, the memory equals the one
that never pruned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from expunge.problem.kernel import kernel_block, squared_distances
from expunge.solver.state import State
from expunge.types import IndexArray, Vector

__all__ = ["ALLOWANCE", "Anchor", "Archived", "Mode", "Record", "Warranties", "Warranty"]

Mode = Literal["archive", "forget"]
Status = Literal["valid", "expired"]

# Taken off every bound: published states may be off by as much in their slacks.
ALLOWANCE = 1e-9

# Rounding of a squared distance in feature space, whose terms are of order one.
_SQUARED_ROUNDING = 1e-15

# Room for the rounding of kernel values and their sums, logarithms and distances.
_SLOP = 1e-12


@dataclass(frozen=True)
class Warranty:
    """One row of `memory.warranties()`: where a pruned entry stands."""

    id: str
    mode: Mode
    slack: float  # at pruning, or at the latest exact recheck
    remaining: float  # proved lower bound on the slack now
    status: Status
    issued_at: int  # edit number
    expired_at: int | None  # the edit that ended it


@dataclass(frozen=True, eq=False)
class Anchor:
    """The state that warranties were issued against; arrays are by site, and hold no content."""

    edit: int
    alpha: Vector
    similarity: Vector  # ⟨c, φ⟩ at every site then
    offset: float
    norm_squared: float
    reach: float = 0.0  # upper bound on ‖c now − c then‖
    gone: float = 0.0  # weight of sites that were active then and are absent now

    @property
    def intact(self) -> bool:
        """Whether every key that was active then is still here."""
        return self.gone == 0.0


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept of one pruned key."""

    anchor: int  # number of its anchor
    mode: Mode
    subject: str | None
    similarity: float  # v = ⟨c, φ⟩ at the anchor
    rest: float  # v less the sketched neighbours' part
    neighbours: IndexArray
    kernels: Vector
    expired_at: int | None = None

    @property
    def sketch_bytes(self) -> int:
        """Storage beyond the one scalar that every warranty needs."""
        return 12 * self.neighbours.size + (8 if self.neighbours.size else 0)


@dataclass(frozen=True, eq=False)
class Archived:
    """An archived entry's content; a forgotten entry has none."""

    key: Vector
    value: Vector
    subject: str | None
    payload: bytes | None
    salt: bytes


@dataclass(frozen=True, eq=False)
class Warranties:
    """Every pruned entry's record by id, the anchors they refer to, and the archive. Edits make new ones."""

    anchors: dict[int, Anchor] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    archive: dict[str, Archived] = field(default_factory=dict)
    travel: float = 0.0  # the odometer: how far c has moved in all
    # Bounds computed earlier, less what the odometer has moved since: often enough to spare computing them again.
    _earlier: dict[str, float] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.records)

    def issued(
        self, names: list[str], entries: list[Archived], state: State, edit: int, mode: Mode, sketch: int
    ) -> Warranties:
        """With warranties for pruned entries against a state; `sketch` neighbours are kept of each."""
        number = max(self.anchors, default=-1) + 1
        active = state.active()
        keys = np.array([entry.key for entry in entries])
        block = kernel_block(keys, state.gram.keys[active], state.gram.sigma)
        similarity = block @ state.alpha[active]
        records, archive = dict(self.records), dict(self.archive)
        for row, (name, entry) in enumerate(zip(names, entries, strict=True)):
            nearest = _most_telling(block[row], active, state, sketch)
            known = float(block[row, nearest] @ state.alpha[active[nearest]])
            value = float(similarity[row])
            records[name] = Record(
                number, mode, entry.subject, value, max(0.0, value - known), active[nearest], block[row, nearest].copy()
            )
            if mode == "archive":
                archive[name] = entry
        earlier = {name: left for name, left in self._earlier.items() if name not in set(names)}
        anchors = {**self.anchors, number: _anchor(state, edit)}
        return Warranties(anchors, records, archive, self.travel, earlier)._tidy()

    def without(self, names: Iterable[str]) -> Warranties:
        """Without some entries: deleted on request, or back among the live ones."""
        gone = set(names)
        records = {name: record for name, record in self.records.items() if name not in gone}
        archive = {name: entry for name, entry in self.archive.items() if name not in gone}
        return replace(self, records=records, archive=archive)._tidy()

    def travelled(self, before: State, after: State) -> Warranties:
        """After one edit: odometers moved on, and nothing kept that belongs to a deleted key.

        To be called while the deleted sites' kernel values are still there.
        """
        step = _distance(before, after)
        anchors = {number: _followed(anchor, after, step) for number, anchor in self.anchors.items()}
        records = self.records
        if any(after.multiplicity[record.neighbours].min(initial=1) == 0 for record in records.values()):
            records = {name: _without_absent(record, after) for name, record in records.items()}
        # One edit lowers a slack by at most 2‖Δc‖ and the offset's fall.
        loss = 2.0 * step + max(0.0, before.offset - after.offset)
        earlier = {name: left - loss for name, left in self._earlier.items() if left > loss}
        return Warranties(anchors, records, self.archive, self.travel + step, earlier)

    def expired(self, names: Iterable[str], edit: int) -> Warranties:
        """With some certificates ended by an edit."""
        records = dict(self.records)
        for name in names:
            records[name] = replace(records[name], expired_at=edit)
        return replace(self, records=records)

    def ended(self, edit: int, sites: int) -> Warranties:
        """With every certificate ended by an edit that numbers its sites anew: nothing refers to an old one any more.

        What the anchors weighed then counts as gone. Two states are never further apart than √2.
        """
        anchors = {
            number: replace(
                anchor,
                alpha=np.zeros(sites),
                similarity=np.zeros(sites),
                reach=math.sqrt(2.0),
                gone=anchor.gone + float(anchor.alpha.sum()),
            )
            for number, anchor in self.anchors.items()
        }
        records = {
            name: replace(
                record,
                neighbours=np.zeros(0, dtype=np.int64),
                kernels=np.zeros(0),
                expired_at=edit if record.expired_at is None else record.expired_at,
            )
            for name, record in self.records.items()
        }
        return replace(self, anchors=anchors, records=records, _earlier={})

    def renumbered(self, numbers: IndexArray) -> Warranties:
        """After a compaction of the sites."""
        kept = int(numbers.max(initial=-1)) + 1

        def moved(old: Vector) -> Vector:
            new = np.zeros(kept)
            here = numbers[: old.size] >= 0
            new[numbers[: old.size][here]] = old[here]
            return new

        anchors = {
            number: replace(anchor, alpha=moved(anchor.alpha), similarity=moved(anchor.similarity))
            for number, anchor in self.anchors.items()
        }
        records = {
            name: replace(record, neighbours=numbers[record.neighbours]) for name, record in self.records.items()
        }
        return replace(self, anchors=anchors, records=records)

    def remaining(self, state: State, names: Iterable[str] | None = None) -> dict[str, float]:
        """Proved lower bound on each key's slack under a state; at least zero means still valid."""
        groups: dict[int, dict[str, Record]] = {}
        for name in self.records if names is None else names:
            record = self.records[name]
            if record.expired_at is None:
                groups.setdefault(record.anchor, {})[name] = record
        bounds: dict[str, float] = {}
        for number, group in groups.items():
            bounds.update(_remaining(self.anchors[number], group, state))
        return bounds

    def settled(self, state: State) -> tuple[Warranties, list[str]]:
        """With bounds under a state computed where earlier ones have run out, and who is no longer covered."""
        bounds = self.remaining(state, [name for name in self.records if name not in self._earlier])
        earlier = self._earlier | {name: left for name, left in bounds.items() if left > 0.0}
        return replace(self, _earlier=earlier), [name for name, left in bounds.items() if left < 0.0]

    def rows(self, state: State) -> list[Warranty]:
        """Where every pruned entry stands."""
        bounds = self.remaining(state)
        return [
            Warranty(
                id=name,
                mode=record.mode,
                slack=self.anchors[record.anchor].offset - 1.0 + 2.0 * record.similarity,
                # An earlier bound, less what was travelled since, may be the better one.
                remaining=max(bounds.get(name, 0.0), self._earlier.get(name, -math.inf)),
                status="valid" if record.expired_at is None else "expired",
                issued_at=self.anchors[record.anchor].edit,
                expired_at=record.expired_at,
            )
            for name, record in self.records.items()
        ]

    @property
    def sketch_bytes(self) -> int:
        """Storage of all sketches."""
        return sum(record.sketch_bytes for record in self.records.values())

    def _tidy(self) -> Warranties:
        """Drop anchors that no record refers to."""
        used = {record.anchor for record in self.records.values()}
        if len(used) == len(self.anchors):
            return self
        return replace(self, anchors={number: anchor for number, anchor in self.anchors.items() if number in used})


def _followed(anchor: Anchor, after: State, step: float) -> Anchor:
    absent = (anchor.alpha > 0.0) & (after.multiplicity[: anchor.alpha.size] == 0)
    if absent.any():
        anchor = replace(
            anchor,
            alpha=np.where(absent, 0.0, anchor.alpha),
            similarity=np.where(absent, 0.0, anchor.similarity),
            gone=anchor.gone + float(anchor.alpha[absent].sum()),
        )
    reach = anchor.reach + step if step > 0.0 else anchor.reach
    if step > 0.0 and anchor.intact:
        reach = min(reach, math.sqrt(_moved_squared(anchor, after)))
    return replace(anchor, reach=reach)


def _without_absent(record: Record, state: State) -> Record:
    here = state.multiplicity[record.neighbours] > 0
    if here.all():
        return record
    return replace(record, neighbours=record.neighbours[here], kernels=record.kernels[here])


def _most_telling(kernels: Vector, active: IndexArray, state: State, count: int) -> IndexArray:
    """Places of the active keys that say most about a key, given those already chosen: matching pursuit.

    The nearest first; then whichever explains most of what is left of φ.
    """
    chosen: list[int] = []
    left = kernels.copy()
    for _ in range(min(count, active.size)):
        left[chosen] = 0.0
        best = int(np.argmax(np.abs(left)))
        if best in chosen:
            # Nothing is left to explain. A key named twice would count twice.
            break
        chosen.append(best)
        rows = state.gram.block(active[chosen], active)
        weights = np.linalg.lstsq(rows[:, chosen], kernels[chosen], rcond=1e-10)[0]
        left = kernels - weights @ rows
    return np.array(sorted(chosen), dtype=np.int64)


def _anchor(state: State, edit: int) -> Anchor:
    similarity = 0.5 * (state.slack[: state.sites] - state.offset + 1.0)
    alpha = state.alpha[: state.sites].copy()
    return Anchor(edit, alpha, similarity, state.offset, float(alpha @ similarity))


def _distance(before: State, after: State) -> float:
    """‖c_after − c_before‖ of one edit, from coefficients and slacks alone, rounded up."""
    old = np.zeros(after.sites)
    old[: before.sites] = before.alpha[: before.sites]
    moved = after.alpha[: after.sites] - old
    # 2Δ(Kα) = Δg − Δρ; a new site's old slack is not needed where it has no weight to compare.
    changed = np.flatnonzero(moved)
    if changed.size == 0 and before.offset == after.offset:
        return 0.0
    now = 0.5 * (after.slack[changed] - after.offset + 1.0)
    then = np.empty(changed.size)
    known = changed < before.sites
    then[known] = 0.5 * (before.slack[changed[known]] - before.offset + 1.0)
    new = changed[~known]
    if new.size:
        gram = after.gram
        active = np.flatnonzero(old)
        then[~known] = kernel_block(gram.keys[new], gram.keys[active], gram.sigma) @ old[active]
    squared = float(moved[changed] @ (now - then))
    return math.sqrt(max(0.0, squared) + _SQUARED_ROUNDING)


def _now(anchor: Anchor, state: State) -> tuple[Vector, Vector]:
    """Weights then and now, over the sites of the state."""
    then = np.zeros(state.sites)
    size = min(anchor.alpha.size, state.sites)
    then[:size] = anchor.alpha[:size]
    return then, state.alpha[: state.sites]


def _moved_squared(anchor: Anchor, state: State) -> float:
    """‖c now − c then‖² of an intact anchor: ‖c‖² + ‖c′‖² − 2⟨c, c′⟩, the last from slacks alone."""
    then, now = _now(anchor, state)
    similarity = 0.5 * (state.slack[: state.sites] - state.offset + 1.0)
    squared = anchor.norm_squared + float(now @ similarity) - 2.0 * float(then @ similarity)
    return max(0.0, squared) + _SQUARED_ROUNDING


def _remaining(anchor: Anchor, group: dict[str, Record], state: State) -> dict[str, float]:
    names, records = list(group), list(group.values())
    value = np.array([record.similarity for record in records])
    if anchor.reach == 0.0 and anchor.intact:
        # Nothing has moved since the slacks were computed from the keys.
        return dict(zip(names, (state.offset - 1.0 + 2.0 * value).tolist(), strict=True))
    base = state.offset - 1.0 - ALLOWANCE
    least = np.maximum(_by_weights(anchor, value, state), _by_distance(anchor, value, state))
    short = [
        place for place, record in enumerate(records) if record.neighbours.size and base + 2.0 * least[place] < 0.0
    ]
    for start in range(0, len(short), 256):
        part = short[start : start + 256]
        least[part] = np.maximum(least[part], _by_intervals(anchor, [records[place] for place in part], state))
        for place in part:
            if base + 2.0 * least[place] < 0.0:
                least[place] = max(least[place], _by_projection(anchor, records[place], state))
    return dict(zip(names, (base + 2.0 * np.maximum(least, 0.0)).tolist(), strict=True))


def _by_weights(anchor: Anchor, value: Vector, state: State) -> Vector:
    """Least Σα′κ over κ ∈ [0, 1] with Σακ = v, for every v at once: one sorted table serves them all."""
    then, now = _now(anchor, state)
    held = np.flatnonzero(then)
    ratio = now[held] / then[held]
    order = np.argsort(ratio, kind="stable")
    capacity = np.concatenate([[0.0, anchor.gone], anchor.gone + np.cumsum(then[held][order])])
    total = np.concatenate([[0.0, 0.0], np.cumsum(now[held][order])])
    # A key whose share grew from almost nothing would multiply the rounding of v.
    return np.asarray(np.interp(value - _SLOP, capacity, total))


def _by_distance(anchor: Anchor, value: Vector, state: State) -> Vector:
    """V − ‖c′ − c‖, with the part of φ along c taken exactly while the anchor is intact."""
    plain = value - anchor.reach
    if not anchor.intact or anchor.norm_squared == 0.0:
        return plain
    then, _ = _now(anchor, state)
    similarity = 0.5 * (state.slack[: state.sites] - state.offset + 1.0)
    along = float(then @ similarity) / anchor.norm_squared - 1.0
    across = max(0.0, _moved_squared(anchor, state) - along * along * anchor.norm_squared) + _SQUARED_ROUNDING
    off_axis = np.sqrt(np.maximum(0.0, 1.0 - value * value / anchor.norm_squared) + _SQUARED_ROUNDING)
    return np.asarray(np.maximum(plain, value + along * value - math.sqrt(across) * off_axis))


def _by_intervals(anchor: Anchor, records: list[Record], state: State) -> Vector:
    """The same linear program with κ ∈ [lo, hi] from the sketch: neighbours exactly, others by triangles."""
    gram = state.gram
    then, now = _now(anchor, state)
    sites = np.flatnonzero((then > 0.0) | (now > 0.0))
    then, now = then[sites], now[sites]
    neighbours = np.unique(np.concatenate([record.neighbours for record in records]))
    between = np.sqrt(squared_distances(gram.keys[neighbours], gram.keys[sites]))
    lowest, highest = np.zeros((len(records), sites.size)), np.ones((len(records), sites.size))
    known, rest = np.empty(len(records)), np.empty(len(records))
    for row, record in enumerate(records):
        near, far = _away(record.kernels, gram.sigma)
        paths = between[np.searchsorted(neighbours, record.neighbours)]
        furthest = np.min(paths + far[:, None], axis=0) * (1.0 + _SLOP)
        nearest = np.max(np.maximum(paths - far[:, None], near[:, None] - paths), axis=0) * (1.0 - _SLOP)
        lowest[row] = np.exp(-((furthest / gram.sigma) ** 2)) * (1.0 - _SLOP)
        highest[row] = np.minimum(1.0, np.exp(-((np.maximum(nearest, 0.0) / gram.sigma) ** 2)) * (1.0 + _SLOP))
        # A neighbour's part is known, then and now; the rest of v is what the others had to share.
        places = np.searchsorted(sites, record.neighbours)
        weighty = (places < sites.size) & (sites[np.minimum(places, sites.size - 1)] == record.neighbours)
        known[row] = record.kernels[weighty] @ now[places[weighty]]
        lowest[row, places[weighty]] = highest[row, places[weighty]] = 0.0
        rest[row] = record.rest
    order = np.flatnonzero(then)
    ratio = now[order] / then[order]
    ranked = np.argsort(ratio, kind="stable")
    order, ratio = order[ranked], ratio[ranked]
    capacity = rest - lowest @ then - anchor.gone - _SLOP
    room = (highest - lowest)[:, order] * then[order]
    filled = np.clip(capacity[:, None] - (np.cumsum(room, axis=1) - room), 0.0, room)
    return np.asarray(known + lowest @ now + filled @ ratio)


def _away(kernels: Vector, sigma: float) -> tuple[Vector, Vector]:
    """Least and largest distance behind each kernel value, whose last bits and underflow are not to be trusted."""
    with np.errstate(divide="ignore"):
        near = sigma * np.sqrt(np.maximum(0.0, -np.log(np.minimum(1.0, kernels * (1.0 + _SLOP)))))
        far = sigma * np.sqrt(np.maximum(0.0, -np.log(kernels * (1.0 - _SLOP))))
    return near, np.where(kernels < 1e-300, np.inf, far)


def _by_projection(anchor: Anchor, record: Record, state: State) -> float:
    """⟨c′, φ⟩ from what is known of φ and of Δc along c and the sketched neighbours b; the rest by its norm.

    For any coordinates β, γ: with r = φ − Σβb and w = Δc − Σγb, ⟨Δc, φ⟩ = β·⟨Δc, b⟩ + γ·⟨b, r⟩ + ⟨w, r⟩ and
    |⟨w, r⟩| ≤ ‖w‖‖r‖. Both are chosen by least squares, with a ridge that keeps them tame.
    """
    if not anchor.intact or anchor.norm_squared == 0.0:
        return -math.inf
    gram, sites = state.gram, record.neighbours
    then, _ = _now(anchor, state)
    similarity = 0.5 * (state.slack[: state.sites] - state.offset + 1.0)
    known = np.concatenate([[record.similarity], record.kernels])
    moves = np.concatenate(
        [[float(then @ similarity) - anchor.norm_squared], similarity[sites] - anchor.similarity[sites]]
    )
    basis = np.empty((known.size, known.size))
    basis[0, 0] = anchor.norm_squared
    basis[0, 1:] = basis[1:, 0] = anchor.similarity[sites]
    basis[1:, 1:] = kernel_block(gram.keys[sites], gram.keys[sites], gram.sigma)
    beta, gamma = np.linalg.solve(basis + 1e-9 * np.eye(known.size), np.stack([known, moves], axis=1)).T
    short = max(0.0, 1.0 - 2.0 * float(beta @ known) + float(beta @ basis @ beta)) + _SQUARED_ROUNDING
    moved = _moved_squared(anchor, state) - 2.0 * float(gamma @ moves) + float(gamma @ basis @ gamma)
    rest = math.sqrt(short * (max(0.0, moved) + _SQUARED_ROUNDING))
    return record.similarity + float(beta @ moves) + float(gamma @ (known - basis @ beta)) - rest
