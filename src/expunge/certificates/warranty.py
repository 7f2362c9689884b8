"""Certificates of pruned entries: proof, from a few numbers, that a pruned key still has zero weight.

Exact criterion. Let (α′, ρ′) be the exact optimum on the retained keys. A pruned key x_j has slack
g′_j = ρ′ − 1 + 2⟨c′, φ_j⟩, c′ = Σα′φ. If g′_j ≥ 0 for every pruned key, α′ padded with zeros satisfies the KKT
conditions of the never-pruned problem: the two memories are equal.

**Archived** entries keep their content, so their slack is recomputed from the key. A `Watch` spares most of these
recomputations between erasures. It lives in the process, is never stored, and ends with any entry that it knows.

**Forgotten** entries keep a lower bound v_j of ⟨c, φ_j⟩ at the pruning, and an `Anchor`: the weights of the entries
that stayed. An anchor depends on every entry that was live at the pruning, and similarity and weights together give the
key of an erased one back. So the first erasure of such an entry ends every certificate of that pruning, and all its
numbers go. Until then every anchored key is here, and ⟨c′, φ_j⟩ is bounded from below in these ways, the largest wins:

- *Weights* (kernel values lie in [0, 1]). The least Σα′_i κ_ij over all κ_ij ∈ [0, 1] with Σα_i κ_ij ≥ v_j is a linear
  program with one constraint: fill the capacity v_j with the keys that kept the smallest share α′_i/α_i.
- *Distance* (φ_j is a unit vector). With N = ‖c‖², N′ = ‖c′‖², P = ⟨c, c′⟩, the part of φ_j along c is v_j/N and the
  rest is bounded by its norm: ⟨c′, φ_j⟩ ≥ v_j P/N − √(N′ − P²/N) √(1 − v_j²/N), and ≥ v_j − √(N + N′ − 2P).
- *Sketch*: κ to a few retained keys. It fixes their terms, and the triangle inequality through them bounds every other
  κ_ij; or φ_j is projected on c and the sketched keys.

**Rounding.** A certificate speaks of the exact problem. Published coefficients and offset are the doubles nearest to
the exact ones (relative error u = 2⁻⁵³ each; Σα = 1, |ρ| ≤ 1), and :mod:`expunge.certificates.intervals` encloses
kernel values and similarities for all coefficients that near. The remaining steps are sums of at most n + 1 nonnegative
terms whose exact sum is at most 1 + u, with at most 16 further operations: each is off by less than γ(n + 32). In the
linear program, let the computed capacities and totals be off by ε. The computed curve moved by ε to the right and down
lies under the exact one, because the exact one rises; so v_j − ε is looked up and ε taken off. Sorting by computed
shares costs 4u. `_outward(n, d)` = 8γ(n + d + 64) + 2⁻⁴⁶ exceeds the sum of these terms, and of κ's own error
1.01(2⁻⁵⁰ + γ(d + 8) max xe⁻ˣ); every bound below takes it off once per number that it uses. So `remaining` is at most
the exact slack.

Validity is not kept: it is evaluated, from anchor and entries, when asked. An admission can end it, and the removal of
what was admitted brings it back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from expunge.certificates.intervals import gamma, kernel_enclosure, similarity_enclosure
from expunge.display.card import LISTED, Card, Displayed, counted
from expunge.display.frame import Frame, Library, data_frame
from expunge.problem.kernel import kernel_block
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "Anchor",
    "Archived",
    "Fit",
    "Forgotten",
    "Mode",
    "Status",
    "Warranties",
    "Warranty",
    "WarrantyList",
    "archived_slack_is_negative",
]

Mode = Literal["archive", "forget"]
Status = Literal["valid", "expired", "ended"]

# More watches than this are merged into one, by rechecking every archived entry.
_WATCHES = 4


_STATUS: Final = {
    "valid": "its weight is proved to be zero: nothing that the memory says depends on it",
    "expired": "not proved with the present entries; it may be valid again",
    "ended": "an entry that was live at its pruning was erased, and its numbers are gone for good",
}


@dataclass(frozen=True)
class Warranty(Displayed):
    """One row of `memory.warranties()`: where a pruned entry stands.

    ``status`` is ``valid`` (its weight is proved to be zero), ``expired`` (not proved under the present entries; it may
    be valid again), or ``ended`` (an entry that was live at the pruning was erased, and the numbers are gone for
    good). ``slack`` is the slack at the pruning, or an archived entry's slack now; ``remaining`` a proved lower bound
    on the slack now. Both are None where the certificate has ended.
    """

    id: str
    mode: Mode
    slack: float | None
    remaining: float | None
    status: Status

    @property
    def fraction(self) -> float:
        """What is left of the slack, from 1 at the pruning to 0."""
        if self.slack is None or self.remaining is None or not self.slack > 0.0:
            return 0.0
        return float(min(1.0, max(0.0, self.remaining / self.slack)))

    def _card(self) -> Card:
        kept = "kept aside" if self.mode == "archive" else "not kept"
        return Card(
            title=f"Warranty of entry {self.id}",
            sentence=_STATUS[self.status],
            rows=(("content", kept),),
            details=_numbers(self),
        )


class WarrantyList(list[Warranty], Displayed):
    """The answer of `memory.warranties()`: a list of `Warranty` that a notebook shows as one table."""

    def to_frame(self, library: Library | None = None) -> Frame:
        """A pandas or polars data frame with one row per pruned entry; see `Memory.to_frame`."""
        columns = {
            name: [getattr(row, name) for row in self] for name in ("id", "mode", "status", "slack", "remaining")
        }
        return data_frame(columns, library)

    def _card(self) -> Card:
        counts = {status: sum(row.status == status for row in self) for status in _STATUS}
        said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        return Card(
            title="Warranties",
            sentence=f"{counted(len(self), 'pruned entry')}: {said}" if self else "no entry is pruned",
            columns=("entry", "content", "status", "remaining slack") if self else (),
            listing=tuple(
                (row.id, "kept aside" if row.mode == "archive" else "not kept", row.status, _short(row.remaining))
                for row in self[:LISTED]
            ),
            more=max(0, len(self) - LISTED),
            details=tuple((status, _STATUS[status]) for status, count in counts.items() if count),
        )


def _numbers(row: Warranty) -> tuple[tuple[str, str], ...]:
    return ("slack at the pruning", _short(row.slack)), ("slack now, at least", _short(row.remaining))


def _short(number: float | None) -> str:
    return "erased" if number is None else f"{number:.4g}"


@dataclass(frozen=True, eq=False)
class Fit:
    """The published solution that certificates are judged by; rows are live entries in order of admission."""

    slots: IndexArray
    sites: IndexArray
    keys: Matrix
    alpha: Vector
    offset: float
    sigma: float

    @cached_property
    def active(self) -> IndexArray:
        """Rows with a weight."""
        return np.flatnonzero(self.alpha)

    def similarity(self, points: Matrix) -> tuple[Vector, Vector]:
        """Enclosure of ⟨c, φ⟩ at points (m, d), for the exact optimum: midpoints and radii (m,)."""
        return similarity_enclosure(points, self.keys[self.active], self.alpha[self.active], self.sigma)


@dataclass(frozen=True, eq=False)
class Anchor:
    """The entries that stayed at a pruning, by slot, with their weights, and the offset. It holds no content."""

    slots: IndexArray
    alpha: Vector
    offset: float

    def knows(self, slots: Iterable[int]) -> bool:
        """Whether one of these entries was live at the pruning."""
        return bool(np.isin(np.fromiter(slots, dtype=np.int64), self.slots).any())


@dataclass(frozen=True, eq=False)
class Forgotten:
    """What is kept of a forgotten entry; without an anchor its certificate has ended."""

    subject: str | None
    anchor: Anchor | None = None
    similarity: float = 0.0  # v, a lower bound of ⟨c, φ⟩ at the anchor
    neighbours: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # slots
    kernels: Vector = field(default_factory=lambda: np.zeros(0))

    @property
    def sketch_bytes(self) -> int:
        """Storage beyond the one scalar that every certificate needs."""
        return 12 * int(self.neighbours.size)


@dataclass(frozen=True, eq=False)
class Archived:
    """An archived entry's content, and the slot that keeps its place in the order of admission."""

    slot: int
    key: Vector
    value: Vector
    subject: str | None
    payload: bytes | None
    salt: bytes


@dataclass(frozen=True, eq=False)
class Watch:
    """Similarities of archived entries to an anchor: while their bound holds, no key has to be looked at."""

    anchor: Anchor
    similarity: dict[str, float]


@dataclass(frozen=True, eq=False)
class Warranties:
    """Every pruned entry by id, in order of admission: archived content, and records of forgotten entries.

    Edits make new ones. ``watches`` are never stored, and nothing depends on them but the time that an edit takes.
    """

    archive: dict[str, Archived] = field(default_factory=dict)
    forgotten: dict[str, Forgotten] = field(default_factory=dict)
    watches: tuple[Watch, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.archive) + len(self.forgotten)

    def __contains__(self, name: object) -> bool:
        return name in self.archive or name in self.forgotten

    def subject(self, name: str) -> str | None:
        """Subject of a pruned entry."""
        return self.archive[name].subject if name in self.archive else self.forgotten[name].subject

    def of_subject(self, subject: str | None) -> list[str]:
        """Pruned entries of a subject."""
        return [
            *(name for name, entry in self.archive.items() if entry.subject == subject),
            *(name for name, record in self.forgotten.items() if record.subject == subject),
        ]

    def archived(self, new: Mapping[str, Archived], fit: Fit) -> Warranties:
        """With entries moved to the archive."""
        archive = dict(sorted({**self.archive, **new}.items(), key=lambda item: item[1].slot))
        return replace(self, archive=archive).rechecked(list(new), fit)

    def forgetting(self, names: list[str], entries: list[Archived], fit: Fit, sketch: int) -> Warranties:
        """With certificates for forgotten entries against a fit; κ to `sketch` retained keys is kept of each."""
        anchor = Anchor(fit.slots, fit.alpha, fit.offset)
        keys = np.array([entry.key for entry in entries])
        middle, radius = fit.similarity(keys)
        forgotten = dict(self.forgotten)
        for name, entry, key, value in zip(names, entries, keys, (middle - radius).tolist(), strict=True):
            rows, kernels = _most_telling(key, fit, sketch)
            forgotten[name] = Forgotten(
                entry.subject, anchor, max(0.0, math.nextafter(value, -1.0)), fit.slots[rows], kernels
            )
        return replace(self, forgotten=forgotten)

    def without(self, names: Iterable[str]) -> Warranties:
        """Without some entries: deleted on request, or back among the live ones."""
        gone = set(names)
        if not gone:
            return self
        return Warranties(
            {name: entry for name, entry in self.archive.items() if name not in gone},
            {name: record for name, record in self.forgotten.items() if name not in gone},
            self._unwatched(gone).watches,
        )

    def erased(self, slots: Iterable[int]) -> Warranties:
        """After the erasure of entries: every certificate and watch ends whose anchor knows one of them."""
        if not self.forgotten and not self.watches:
            return self
        gone = list(slots)
        anchors = {id(record.anchor): record.anchor for record in self.forgotten.values() if record.anchor is not None}
        over = {number for number, anchor in anchors.items() if anchor.knows(gone)}
        forgotten = {
            name: Forgotten(record.subject) if id(record.anchor) in over else record
            for name, record in self.forgotten.items()
        }
        watches = tuple(watch for watch in self.watches if not watch.anchor.knows(gone))
        return replace(self, forgotten=forgotten, watches=watches)

    def ended(self) -> Warranties:
        """With every certificate of a forgotten entry ended, and no archive: after a fit at another cap."""
        return Warranties(forgotten={name: Forgotten(record.subject) for name, record in self.forgotten.items()})

    def ended_in(self, later: Warranties) -> tuple[str, ...]:
        """Forgotten entries whose certificates have numbers here and have lost them in later warranties."""
        return tuple(
            name
            for name, record in later.forgotten.items()
            if record.anchor is None and name in self.forgotten and self.forgotten[name].anchor is not None
        )

    def renumbered(self, slots: Mapping[int, int]) -> Warranties:
        """After a compaction of the slots; it keeps those of live and archived entries."""
        moved: dict[int, Anchor] = {}

        def at(numbers: IndexArray) -> IndexArray:
            return np.array([slots[number] for number in numbers.tolist()], dtype=np.int64)

        def follow(anchor: Anchor) -> Anchor:
            return moved.setdefault(id(anchor), replace(anchor, slots=at(anchor.slots)))

        forgotten = {
            name: record
            if record.anchor is None
            else replace(record, anchor=follow(record.anchor), neighbours=at(record.neighbours))
            for name, record in self.forgotten.items()
        }
        archive = {name: replace(entry, slot=slots[entry.slot]) for name, entry in self.archive.items()}
        return Warranties(archive, forgotten)

    def due(self, fit: Fit) -> list[str]:
        """Archived entries whose slack has to be recomputed under a fit, because no watch bounds it."""
        covered: set[str] = set()
        for watch in self.watches:
            values = np.array(list(watch.similarity.values()))
            then, now, _ = _weights(watch.anchor, fit, self.archive)
            least = fit.offset - 1.0 + 2.0 * _by_weights(then, now, values, _outward_of(fit))
            covered.update(name for name, left in zip(watch.similarity, least.tolist(), strict=True) if left > 0.0)
        return [name for name in self.archive if name not in covered]

    def rechecked(self, names: list[str], fit: Fit) -> Warranties:
        """With archived entries watched from a fit on, under which their slacks were recomputed."""
        if len(self.watches) >= _WATCHES:
            names = list(self.archive)
        if not names:
            return self
        kept = self._unwatched(names)
        middle, radius = fit.similarity(np.array([self.archive[name].key for name in names]))
        anchor = Anchor(fit.slots, fit.alpha, fit.offset)
        watch = Watch(anchor, dict(zip(names, (middle - radius).tolist(), strict=True)))
        return replace(kept, watches=(*kept.watches, watch))

    def remaining(self, fit: Fit, names: Iterable[str] | None = None) -> dict[str, float]:
        """Proved lower bound on each pruned key's slack under a fit; entries whose certificate has ended have none."""
        wanted = list(self.archive | self.forgotten) if names is None else list(names)
        bounds: dict[str, float] = {}
        held = [name for name in wanted if name in self.archive]
        if held:
            middle, radius = fit.similarity(np.array([self.archive[name].key for name in held]))
            slacks = fit.offset - 1.0 + 2.0 * (middle - radius) - _outward_of(fit)
            bounds.update(zip(held, slacks.tolist(), strict=True))
        groups: dict[int, dict[str, Forgotten]] = {}
        for name in wanted:
            record = self.forgotten.get(name)
            if record is not None and record.anchor is not None:
                groups.setdefault(id(record.anchor), {})[name] = record
        for group in groups.values():
            bounds.update(_remaining(group, fit, self.archive))
        return bounds

    def valid(self, fit: Fit) -> frozenset[str]:
        """Forgotten entries whose weight is proved to be zero under a fit."""
        bounds = self.remaining(fit, self.forgotten)
        return frozenset(name for name, left in bounds.items() if left >= 0.0)

    def rows(self, fit: Fit) -> list[Warranty]:
        """Where every pruned entry stands."""
        bounds = self.remaining(fit)
        rows = [
            Warranty(name, "archive", slack=bounds[name], remaining=max(0.0, bounds[name]), status="valid")
            for name in self.archive
        ]
        for name, record in self.forgotten.items():
            if record.anchor is None:
                rows.append(Warranty(name, "forget", None, None, "ended"))
                continue
            slack, left = record.anchor.offset - 1.0 + 2.0 * record.similarity, bounds[name]
            rows.append(Warranty(name, "forget", slack, left, "valid" if left >= 0.0 else "expired"))
        return rows

    @property
    def sketch_bytes(self) -> int:
        """Storage of all sketches."""
        return sum(record.sketch_bytes for record in self.forgotten.values())

    def _unwatched(self, names: Iterable[str]) -> Warranties:
        gone = set(names)
        watches = (
            Watch(watch.anchor, {name: value for name, value in watch.similarity.items() if name not in gone})
            for watch in self.watches
        )
        return replace(self, watches=tuple(watch for watch in watches if watch.similarity))


def archived_slack_is_negative(keys: Matrix, fit: Fit) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Slacks of archived keys (m, d) under a fit, and which of them may be negative: those entries come back.

    One that comes back without need is in reserve, and the optimum is the same.
    """
    rows = fit.active
    slacks = fit.offset - 1.0 + 2.0 * (kernel_block(keys, fit.keys[rows], fit.sigma) @ fit.alpha[rows])
    return slacks, slacks <= _outward_of(fit)


def _outward(count: int, dimension: int) -> float:
    """What a bound gives up per number, for all roundings together; see the module's docstring."""
    return 8.0 * gamma(count + dimension + 64) + 2.0**-46


def _outward_of(fit: Fit) -> float:
    return _outward(fit.slots.size, fit.keys.shape[1])


def _dot(a: Vector, b: Vector) -> float:
    """Sum of products, the same in any order and with any library."""
    return math.fsum((a * b).tolist())


def _most_telling(key: Vector, fit: Fit, count: int) -> tuple[IndexArray, Vector]:
    """Rows of the active keys that say most about a key, given those already chosen, and κ to them.

    Matching pursuit: the nearest first; then whichever explains most of what is left of φ.
    """
    if count == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    # One row per distinct key: a key named twice would count twice.
    rows = fit.active[np.sort(np.unique(fit.sites[fit.active], return_index=True)[1])]
    kernels = kernel_enclosure(key[None, :], fit.keys[rows], fit.sigma)[0][0]
    chosen: list[int] = []
    left = kernels.copy()
    for _ in range(min(count, rows.size)):
        left[chosen] = 0.0
        best = int(np.argmax(np.abs(left)))
        if best in chosen:
            # Nothing is left to explain.
            break
        chosen.append(best)
        block = kernel_enclosure(fit.keys[rows[chosen]], fit.keys[rows], fit.sigma)[0]
        weights = np.linalg.lstsq(block[:, chosen], kernels[chosen], rcond=1e-10)[0]
        left = kernels - weights @ block
    places = np.array(sorted(chosen), dtype=np.int64)
    return rows[places], kernels[places]


def _weights(anchor: Anchor, fit: Fit, archive: Mapping[str, Archived]) -> tuple[Vector, Vector, Matrix]:
    """Weights then and now, and keys, of every distinct key that had one of them."""
    _, first, unordered = np.unique(fit.sites, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    place_of_row = rank[unordered]
    now = np.bincount(place_of_row, weights=fit.alpha)
    keys = fit.keys[np.sort(first)]
    rows = np.minimum(np.searchsorted(fit.slots, anchor.slots), fit.slots.size - 1)
    live = fit.slots[rows] == anchor.slots
    then = np.bincount(place_of_row[rows[live]], weights=anchor.alpha[live], minlength=first.size)
    moved = np.flatnonzero(~live & (anchor.alpha > 0.0))
    if moved.size:
        # Archived since, with weight zero: each stands for itself.
        key_of_slot = {entry.slot: entry.key for entry in archive.values()}
        then = np.concatenate([then, anchor.alpha[moved]])
        now = np.concatenate([now, np.zeros(moved.size)])
        keys = np.vstack([keys, [key_of_slot[slot] for slot in anchor.slots[moved].tolist()]])
    used = (then > 0.0) | (now > 0.0)
    return then[used].astype(np.float64), now[used].astype(np.float64), keys[used]


@dataclass(frozen=True, eq=False)
class _Products:
    """Enclosed inner products of c, the centre at an anchor, and c′, the centre now."""

    norm: float  # at least ‖c‖²
    norm_now: float  # at least ‖c′‖²
    both: float  # at most ⟨c, c′⟩, and at least 0
    moved: float  # at least ‖c′ − c‖

    @classmethod
    def of(cls, then: Vector, now: Vector, keys: Matrix, sigma: float, outward: float) -> _Products:
        old, new = np.flatnonzero(then), np.flatnonzero(now)
        own, own_radius = similarity_enclosure(keys[old], keys[old], then[old], sigma)
        mixed, mixed_radius = similarity_enclosure(keys[old], keys[new], now[new], sigma)
        other, other_radius = similarity_enclosure(keys[new], keys[new], now[new], sigma)
        norm = _dot(then[old], own + own_radius) + outward
        norm_now = _dot(now[new], other + other_radius) + outward
        both = max(0.0, _dot(then[old], mixed - mixed_radius) - outward)
        return cls(norm, norm_now, both, math.sqrt(max(0.0, norm + norm_now - 2.0 * both) + outward))


def _remaining(group: dict[str, Forgotten], fit: Fit, archive: Mapping[str, Archived]) -> dict[str, float]:
    """Bounds for the forgotten entries of one pruning."""
    names, records = list(group), list(group.values())
    anchor = records[0].anchor
    if anchor is None:
        return {}
    outward = _outward_of(fit)
    then, now, keys = _weights(anchor, fit, archive)
    base = fit.offset - 1.0 - outward
    value = np.array([record.similarity for record in records])
    products = _Products.of(then, now, keys, fit.sigma, outward)
    least = np.maximum(_by_weights(then, now, value, outward), _by_distance(value, products, outward))
    short = [
        place for place, record in enumerate(records) if record.neighbours.size and base + 2.0 * least[place] < 0.0
    ]
    if short:
        key_of_slot = dict(zip(fit.slots.tolist(), fit.keys, strict=True))
        key_of_slot |= {entry.slot: entry.key for entry in archive.values()}
        for place in short:
            record = records[place]
            near = np.array([key_of_slot[slot] for slot in record.neighbours.tolist()])
            best = _by_intervals(then, now, keys, record, near, fit.sigma, outward)
            if base + 2.0 * max(least[place], best) < 0.0:
                best = max(best, _by_projection(then, now, keys, record, near, fit.sigma, products, outward))
            least[place] = max(least[place], best)
    return dict(zip(names, (base + 2.0 * np.maximum(least, 0.0)).tolist(), strict=True))


def _by_weights(then: Vector, now: Vector, value: Vector, outward: float) -> Vector:
    """Least Σα′κ over κ ∈ [0, 1] with Σακ ≥ v, for every v at once: one sorted table serves them all."""
    held = np.flatnonzero(then)
    order = held[np.argsort(now[held] / then[held], kind="stable")]
    capacity = np.concatenate([[0.0], np.cumsum(then[order])])
    total = np.concatenate([[0.0], np.cumsum(now[order])])
    return np.asarray(np.interp(value - outward, capacity, total) - outward)


def _by_distance(value: Vector, products: _Products, outward: float) -> Vector:
    """⟨c′, φ⟩ from v = ⟨c, φ⟩ and ‖c′ − c‖; with the part of φ along c taken exactly."""
    ratio = products.both / products.norm
    across = math.sqrt(max(0.0, products.norm_now - products.both * ratio) + outward)
    off_axis = np.sqrt(np.maximum(0.0, 1.0 - value * value / products.norm) + outward)
    return np.asarray(np.maximum(value - products.moved, ratio * value - across * off_axis) - outward)


def _by_intervals(
    then: Vector, now: Vector, keys: Matrix, record: Forgotten, near: Matrix, sigma: float, outward: float
) -> float:
    """The same linear program with κ ∈ [lo, hi] from the sketch: neighbours exactly, others by triangles."""
    # κ is enclosed to `outward`, a distance to a relative `outward` once that is known.
    with np.errstate(divide="ignore"):
        closest = sigma * np.sqrt(-np.log(np.minimum(1.0, record.kernels + outward))) * (1.0 - outward)
        furthest = sigma * np.sqrt(-np.log(np.maximum(0.0, record.kernels - outward))) * (1.0 + outward)
    paths = np.sqrt(((near[:, None, :] - keys[None, :, :]) ** 2).sum(axis=2))
    far = np.min(paths * (1.0 + outward) + furthest[:, None], axis=0)
    apart = np.maximum(paths * (1.0 - outward) - furthest[:, None], closest[:, None] - paths * (1.0 + outward))
    with np.errstate(over="ignore"):
        lowest = np.maximum(0.0, np.exp(-((far / sigma) ** 2)) - outward)
        highest = np.minimum(1.0, np.exp(-((np.maximum(np.max(apart, axis=0), 0.0) / sigma) ** 2)) + outward)
    # A neighbour's part is known, then and now; the rest of v is what the others had to share.
    is_near = (near[:, None, :] == keys[None, :, :]).all(axis=2)
    places = [int(np.argmax(row)) if row.any() else -1 for row in is_near]
    weighty = [place for place in places if place >= 0]
    kernels = record.kernels[[number for number, place in enumerate(places) if place >= 0]]
    lowest[weighty] = highest[weighty] = 0.0
    order = np.flatnonzero(then)
    order = order[np.argsort(now[order] / then[order], kind="stable")]
    capacity = record.similarity - _dot(kernels, then[weighty]) - _dot(lowest, then) - 4.0 * outward
    room = (highest - lowest)[order] * then[order]
    filled = np.clip(capacity - (np.cumsum(room) - room), 0.0, room)
    shares = now[order] / then[order]
    return _dot(kernels, now[weighty]) + _dot(lowest, now) + _dot(filled, shares) - 4.0 * outward


def _by_projection(
    then: Vector,
    now: Vector,
    keys: Matrix,
    record: Forgotten,
    near: Matrix,
    sigma: float,
    products: _Products,
    outward: float,
) -> float:
    """⟨c′, φ⟩ from what is known of φ and of c′ along c and the sketched neighbours b; the rest by its norm.

    For any coordinates β, γ: with r = φ − Σβb and w = c′ − Σγb, ⟨c′, φ⟩ = β·⟨c′, b⟩ + γ·⟨b, r⟩ + ⟨w, r⟩ and
    |⟨w, r⟩| ≤ ‖w‖‖r‖. Both are chosen by least squares, with a ridge that keeps them tame. Every number is known to
    ± e, so a term costs e times the absolute coefficients that it is multiplied with.
    """
    old, new = np.flatnonzero(then), np.flatnonzero(now)
    at_old = similarity_enclosure(near, keys[old], then[old], sigma)[0]
    at_new = similarity_enclosure(near, keys[new], now[new], sigma)[0]
    known = np.concatenate([[record.similarity], record.kernels])
    seen = np.concatenate([[products.both], at_new])
    basis = np.empty((known.size, known.size))
    basis[0, 0] = products.norm
    basis[0, 1:] = basis[1:, 0] = at_old
    basis[1:, 1:] = kernel_enclosure(near, near, sigma)[0]
    beta, gamma_ = np.linalg.solve(basis + 1e-9 * np.eye(known.size), np.stack([known, seen], axis=1)).T
    size_b, size_g = 1.0 + float(np.abs(beta).sum()), 1.0 + float(np.abs(gamma_).sum())
    # Enclosures are at most 4 `outward` wide; 4 of them per product of two coefficients cover the sums' rounding, too.
    error = 16.0 * outward
    short = 1.0 - 2.0 * float(beta @ known) + float(beta @ basis @ beta) + error * size_b * size_b
    left = products.norm_now - 2.0 * float(gamma_ @ seen) + float(gamma_ @ basis @ gamma_) + error * size_g * size_g
    rest = math.sqrt(max(0.0, short) * max(0.0, left)) * (1.0 + outward)
    return float(beta @ seen) + float(gamma_ @ (known - basis @ beta)) - rest - error * size_b * size_g
