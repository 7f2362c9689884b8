"""The paper's maintained update as the paper describes it (§3.3, §4.6): the audited baseline, faults included.

Cauwenberghs and Poggio's path at a fixed cap, started from a quadratic program solved to 1e-10: one coefficient
rises from zero (admission) or falls to zero (deletion), the margin follows along the maintained inverse
R = [[0, 1ᵀ], [1, 2K_SS]]⁻¹, and the nearest event changes the groups. The paper names neither the guards nor the
program's solver; those settings are the ones in its authors' public scripts. Kept on purpose, because they are what the
audit is about:

1. Events are blind to direction. A reserve or bound key joins the margin at −g/γ whatever side of zero its slack
   g is on, so a slack on the wrong side by rounding brings its key in *while it moves toward validity*.
2. Steps no longer than 1e-10 are passed over, and so is an event of the key that moved last if it is no longer
   than 1e-7. A key that joined on the wrong side of its wall meets that wall at once, in a step of length zero,
   and the guard lets it through: it leaves the box.
3. The start is a Clarabel solution at 1e-10, clipped to the box and sorted at 1e-7. Offset: the mean of
   t = 1 − 2Kα over the margin, or t of the most interior key when the margin is empty.
4. Slacks are carried along the path. R grows and shrinks by rank-one updates and is inverted afresh every 500
   events, when a pivot is small (1e-12, or 1e-9 of its terms), or when an entry of R exceeds 1e9.
5. A deletion that empties the margin, or finds no step, fails; the caller must refit.

Every event is recorded with the slack, the rate and the entry that caused it, so that a coefficient found outside
the box can be traced to the event that let it out (`ClassicPath.trace`). Nothing here is used by `expunge.Memory`.
"""

from __future__ import annotations

import copy
from typing import NamedTuple, Self

import numpy as np

from expunge.audit.classic.events import ClassicFailure, Event, Kind, Trace
from expunge.audit.classic.program import SEED_TOLERANCE, solve_program
from expunge.problem.check import StateCheck, check_state
from expunge.problem.kernel import kernel_block
from expunge.problem.partition import Partition
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["BOUND", "MARGIN", "RESERVE", "ClassicPath"]

SHORTEST_STEP = 1e-10
SHORTEST_RETURN = 1e-7
REFRESH_EVERY = 500
SMALLEST_PIVOT, SMALLEST_RELATIVE_PIVOT, LARGEST_INVERSE = 1e-12, 1e-9, 1e9
MOST_EVENTS = 10_000

# The key whose coefficient is swept belongs to no group and makes no slack events.
RESERVE, MARGIN, BOUND, SWEPT = 0, 1, 2, 3


class _Candidate(NamedTuple):
    """An event that could end the step: its signed length, what it does to which row, and the rate behind it."""

    step: float
    kind: Kind
    row: int
    rate: float


class ClassicPath:
    """A solved memory as the paper maintains it; `delete` and `admit` change it in place and may leave it broken.

    ``keys`` (n, d), ``coefficients`` (n,), ``offset`` and ``slacks`` (n,) as carried along; ``groups`` (n,) says
    reserve, margin or bound, and ``entries`` (n,) names each row for the events.
    """

    def __init__(self, keys: Matrix, coefficients: Vector, *, cap: float, sigma: float) -> None:
        self.keys = np.array(keys, dtype=np.float64)
        self.cap, self.sigma = float(cap), float(sigma)
        self.gram = kernel_block(self.keys, self.keys, self.sigma)
        self.coefficients = np.array(coefficients, dtype=np.float64)
        self.entries: IndexArray = np.arange(len(self.keys), dtype=np.int64)
        self.events: list[Event] = []
        self.edits = 0
        self.refreshes = 0
        self.born = len(self.keys)
        self._left: dict[int, tuple[int, int]] = {}
        groups = Partition.of(self.coefficients, self.cap, PARTITION_THRESHOLD)
        self.groups = np.full(len(self.keys), RESERVE, dtype=np.int8)
        self.groups[groups.margin], self.groups[groups.bound] = MARGIN, BOUND
        # In the order in which they joined: the order of the rows of R.
        self._margin = groups.margin.tolist()
        terms = 1.0 - 2.0 * (self.gram @ self.coefficients)
        # Kept when the margin is empty; the refresh replaces it otherwise.
        self.offset = float(terms[np.argmin(np.abs(self.coefficients - 0.5 * self.cap))])
        self._inverse: Matrix | None = None
        self._since_refresh = 0
        self.slacks = self.offset - terms
        self._refresh()

    @classmethod
    def fit(cls, keys: Matrix, *, cap: float, sigma: float, tolerance: float = SEED_TOLERANCE) -> Self:
        """Solve the quadratic program for keys (n, d) and sort the answer into groups: the paper's start and refit."""
        found = solve_program(kernel_block(keys, keys, sigma), cap, tolerance)
        return cls(keys, np.clip(found, 0.0, cap), cap=cap, sigma=sigma)

    def copy(self) -> Self:
        """Make an independent copy, its history of events included."""
        twin = copy.copy(self)
        for name, part in vars(self).items():
            if isinstance(part, np.ndarray | list | dict):
                setattr(twin, name, part.copy())
        return twin

    def refit(self, tolerance: float = SEED_TOLERANCE, *, clip: bool = True) -> Self:
        """Solve the present keys afresh; the history and the names of the entries go on."""
        found = solve_program(self.gram, self.cap, tolerance)
        fresh = type(self)(self.keys, np.clip(found, 0.0, self.cap) if clip else found, cap=self.cap, sigma=self.sigma)
        fresh.entries, fresh.events, fresh.edits, fresh.born = self.entries, self.events, self.edits, self.born
        return fresh

    def check(self) -> StateCheck:
        """Recompute the errors from the keys and judge them at the paper's 1e-5."""
        return check_state(
            self.keys, self.coefficients, self.offset, cap=self.cap, sigma=self.sigma, tolerance=ACCEPTANCE
        )

    def set_offset(self, offset: float) -> None:
        """Write another offset into the state and recompute the slacks (the paper's wrapper does, after a rescue)."""
        self.offset = offset
        self._recompute_slacks()

    def delete(self, row: int) -> None:
        """Drive one coefficient to zero along the reverse path and drop its row.

        Raises ClassicFailure if the margin empties or no step is left; the row is gone then too, but what remains is
        no solution and can only be refitted.
        """
        self.edits += 1
        if self.groups[row] == MARGIN:
            self._contract(self._margin.index(row))
            self.groups[row] = SWEPT
        elif self.groups[row] == BOUND:
            self.groups[row] = SWEPT
        try:
            if self.groups[row] == SWEPT:
                self._lower(row)
        finally:
            self._drop(row)

    def admit(self, key: Vector) -> None:
        """Append one key (d,) and raise its coefficient until it is optimal.

        Raises ClassicFailure if no step is left; what remains then can only be refitted.
        """
        self.edits += 1
        row = len(self.keys)
        self._append(key)
        if self.slacks[row] > 0.0:
            return
        self.groups[row] = SWEPT
        moved: int | None = None
        for number in range(1, MOST_EVENTS + 1):
            along, rates = self._directions(row)
            if self._margin:
                candidates = [_Candidate(self.cap - self.coefficients[row], "joins-bound", row, 1.0)]
                if rates[row] != 0.0:
                    step = -self.slacks[row] / rates[row]
                    candidates.append(_Candidate(step, "joins-margin", row, float(rates[row])))
                candidates += self._margin_events(along) + self._slack_events(rates, BOUND)
                candidates += self._slack_events(rates, RESERVE)
            else:
                # Only the offset is free: every slack moves with it.
                candidates = [_Candidate(-self.slacks[row], "joins-margin", row, 1.0)]
                candidates += self._slack_events(rates, BOUND)
            chosen = _nearest(candidates, 1, moved)
            if chosen is None:
                raise ClassicFailure("the admission found no step")
            moved = self._take(row, chosen, along, rates, number)
            if moved is None:
                return
        raise ClassicFailure(f"the admission did not end within {MOST_EVENTS} events")

    def _lower(self, row: int) -> None:
        moved: int | None = None
        for number in range(1, MOST_EVENTS + 1):
            if self.coefficients[row] <= SHORTEST_STEP:
                return
            if not self._margin:
                raise ClassicFailure("the deletion emptied the margin")
            along, rates = self._directions(row)
            candidates = [_Candidate(-self.coefficients[row], "gone", row, 1.0), *self._margin_events(along)]
            candidates += self._slack_events(rates, BOUND) + self._slack_events(rates, RESERVE)
            chosen = _nearest(candidates, -1, moved)
            if chosen is None:
                raise ClassicFailure("the deletion found no step")
            moved = self._take(row, chosen, along, rates, number)
            if moved is None:
                return
        raise ClassicFailure(f"the deletion did not end within {MOST_EVENTS} events")

    def trace(self) -> tuple[Trace, ...]:
        """Trace every coefficient that lies outside the box by more than the paper's 1e-5."""
        depths = np.maximum(-self.coefficients, self.coefficients - self.cap)
        return tuple(self._trace_one(row, float(depths[row])) for row in np.flatnonzero(depths > ACCEPTANCE).tolist())

    def _trace_one(self, row: int, depth: float) -> Trace:
        entry = int(self.entries[row])
        left = self._left.get(entry)
        joined = None
        if left is not None:
            came = (e for e in reversed(self.events) if e.entry == entry and e.kind.startswith(("from-", "joins-")))
            joined = next((event for event in came if (event.edit, event.number) < left), None)
        return Trace(row, entry, depth, left, joined)

    def _directions(self, row: int) -> tuple[Vector, Vector]:
        """How offset and margin (1 + |S|,) and every slack (n,) move with the coefficient of `row`."""
        if self._inverse is None:
            return np.zeros(1), np.ones(len(self.keys))
        column = 2.0 * self.gram[:, row]
        along = -self._inverse @ np.append(1.0, column[self._margin])
        rates = column + along[0] + 2.0 * (self.gram[:, self._margin] @ along[1:])
        rates[self._margin] = 0.0
        return along, rates

    def _margin_events(self, along: Vector) -> list[_Candidate]:
        events = []
        for row, rate in zip(self._margin, along[1:].tolist(), strict=True):
            if rate != 0.0:
                value = float(self.coefficients[row])
                events.append(_Candidate((self.cap - value) / rate, "margin-to-bound", row, rate))
                events.append(_Candidate(-value / rate, "margin-to-reserve", row, rate))
        return events

    def _slack_events(self, rates: Vector, group: int) -> list[_Candidate]:
        kind: Kind = "from-bound" if group == BOUND else "from-reserve"
        rows = np.flatnonzero((self.groups == group) & (rates != 0.0))
        steps = -self.slacks[rows] / rates[rows]
        found = zip(steps.tolist(), rows.tolist(), rates[rows].tolist(), strict=True)
        return [_Candidate(step, kind, row, rate) for step, row, rate in found]

    def _take(self, row: int, chosen: _Candidate, along: Vector, rates: Vector, number: int) -> int | None:
        """Walk one step and change the groups; return the row that moved, or None when the path has ended."""
        step, kind, mover, rate = chosen
        slack, coefficient = float(self.slacks[mover]), float(self.coefficients[mover])
        self.events.append(Event(self.edits, number, kind, int(self.entries[mover]), step, slack, coefficient, rate))
        if self._margin:
            self.coefficients[row] += step
            self.coefficients[self._margin] += step * along[1:]
            self.offset += step * float(along[0])
            self.slacks += step * rates
        else:
            self.offset += step
            self.slacks += step
        ended = kind in ("joins-bound", "joins-margin", "gone")
        if kind == "gone":
            self.coefficients[mover] = 0.0
        elif kind == "margin-to-bound":
            self.coefficients[mover] = self.cap
            self._contract(self._margin.index(mover))
            self.groups[mover] = BOUND
        elif kind == "margin-to-reserve":
            self.coefficients[mover] = 0.0
            self._contract(self._margin.index(mover))
        elif kind == "joins-bound":
            self.coefficients[mover] = self.cap
            self.slacks[mover] = min(self.slacks[mover], 0.0)
            self.groups[mover] = BOUND
        else:
            self.coefficients[mover] = max(self.coefficients[mover], 0.0) if ended else self.coefficients[mover]
            self.slacks[mover] = 0.0
            self._expand(mover)
        self._note_excursions(number)
        if kind != "gone":
            self._since_refresh += 1
            if self._since_refresh >= REFRESH_EVERY or self._diverged():
                self._refresh()
        return None if ended else mover

    def _note_excursions(self, number: int) -> None:
        """Remember the step at which each coefficient left the box, and forget those that came back."""
        outside = (self.coefficients < -SHORTEST_STEP) | (self.coefficients > self.cap + SHORTEST_STEP)
        gone = set(self.entries[outside].tolist())
        self._left = {entry: when for entry, when in self._left.items() if entry in gone}
        for entry in gone:
            self._left.setdefault(entry, (self.edits, number))

    def _expand(self, row: int) -> None:
        """Let a row join the margin, R by one rank-one update."""
        self.groups[row] = MARGIN
        curvature = 2.0 * float(self.gram[row, row])
        if self._inverse is None:
            self._inverse = np.array([[-curvature, 1.0], [1.0, 0.0]])
            self._margin.append(row)
            return
        border = np.append(1.0, 2.0 * self.gram[self._margin, row])
        along = -self._inverse @ border
        drop = float(border @ along)
        pivot = curvature + drop
        self._margin.append(row)
        if abs(pivot) <= max(SMALLEST_PIVOT, SMALLEST_RELATIVE_PIVOT * (curvature + abs(drop))):
            self._refresh()
            return
        grown = np.zeros((len(along) + 1, len(along) + 1))
        grown[:-1, :-1] = self._inverse
        direction = np.append(along, 1.0)
        self._inverse = grown + np.outer(direction, direction) / pivot
        if self._diverged():
            self._refresh()

    def _contract(self, place: int) -> None:
        """Let the margin's row at `place` go, R by one rank-one update."""
        self.groups[self._margin.pop(place)] = RESERVE
        if self._inverse is None or not self._margin:
            self._inverse = None
            return
        k = place + 1
        column, pivot = self._inverse[:, k], float(self._inverse[k, k])
        if abs(pivot) <= max(SMALLEST_PIVOT, SMALLEST_RELATIVE_PIVOT * float(np.max(np.abs(column)))):
            self._refresh()
            return
        others = np.delete(np.arange(len(column)), k)
        self._inverse = self._inverse[np.ix_(others, others)] - np.outer(column[others], column[others]) / pivot
        if self._diverged():
            self._refresh()

    def _diverged(self) -> bool:
        return self._inverse is not None and float(np.max(np.abs(self._inverse))) > LARGEST_INVERSE

    def _refresh(self) -> None:
        """Invert the margin system afresh; recompute the offset, if there is a margin, and every slack."""
        self._inverse = None
        if self._margin:
            system = np.ones((len(self._margin) + 1, len(self._margin) + 1))
            system[0, 0] = 0.0
            system[1:, 1:] = 2.0 * self.gram[np.ix_(self._margin, self._margin)]
            try:
                self._inverse = np.asarray(np.linalg.inv(system), dtype=np.float64)
            except np.linalg.LinAlgError:
                self._inverse = np.asarray(np.linalg.pinv(system), dtype=np.float64)
            self.offset = float(np.mean(1.0 - 2.0 * (self.gram[self._margin] @ self.coefficients)))
        self._recompute_slacks()
        self._since_refresh = 0
        self.refreshes += 1

    def _recompute_slacks(self) -> None:
        self.slacks = self.offset - 1.0 + 2.0 * (self.gram @ self.coefficients)

    def _append(self, key: Vector) -> None:
        column = kernel_block(self.keys, key[None, :], self.sigma)[:, 0]
        self.keys = np.vstack([self.keys, key])
        self.gram = np.block([[self.gram, column[:, None]], [column[None, :], np.ones((1, 1))]])
        active = np.flatnonzero(self.groups != RESERVE)
        slack = self.offset - 1.0 + 2.0 * float(column[active] @ self.coefficients[active])
        self.coefficients, self.slacks = np.append(self.coefficients, 0.0), np.append(self.slacks, slack)
        self.groups = np.append(self.groups, np.int8(RESERVE))
        self.entries = np.append(self.entries, self.born)
        self.born += 1

    def _drop(self, row: int) -> None:
        self.keys, self.gram = np.delete(self.keys, row, axis=0), np.delete(np.delete(self.gram, row, 0), row, 1)
        for name in ("coefficients", "slacks", "groups", "entries"):
            setattr(self, name, np.delete(getattr(self, name), row))
        self._margin = [place - (place > row) for place in self._margin]


def _nearest(candidates: list[_Candidate], direction: int, moved: int | None) -> _Candidate | None:
    """Pick the shortest step in the direction that the guards let through, the first of equals."""
    best = None
    for candidate in candidates:
        length = direction * candidate.step
        if not SHORTEST_STEP < length < np.inf or (candidate.row == moved and length <= SHORTEST_RETURN):
            continue
        if best is None or length < direction * best.step:
            best = candidate
    return best
