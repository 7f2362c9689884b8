"""Many changes of the margin at once: how an edit of a large memory gets to its optimum without walking there.

A path changes one membership per event, each at the cost of a pass through the factor. Here all coefficients that leave
their box and all slacks of wrong sign are exchanged together, and the next solution is taken from the *same* factor: a
leaving member is held at its bound by a multiplier, an entering site is one more unknown, and both need one solve for
their column, all columns of a round together. The multipliers and the new unknowns are a small dense system. At the end
the factor gains the entering columns, which are known by then, and loses the leaving rows in one sweep.

Exchanges like these end nearly always in a few rounds, and there is no promise that they do: `exchange` then says no,
and the caller takes the path. Whatever comes out is made canonical and checked like every candidate.
"""

from __future__ import annotations

import numpy as np

from expunge.compilation import njit
from expunge.problem.column_parts import for_column_parts
from expunge.problem.tolerances import SLACK_TOLERANCE
from expunge.solver.kernel_rows import add_weighted_rows
from expunge.solver.margin_factor import pivot_floor, solve_rows
from expunge.solver.state import BOUND, MARGIN, RESERVE, State
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["LARGE", "exchange"]

# Margins from which an edit exchanges, rounds after which it takes the path, and those without progress.
LARGE = 128
ROUNDS, PATIENCE = 16, 4
# Memberships that one edit may change.
CHANGES = 1024
# A coefficient is at its bound, and a slack at zero, within this.
ROUNDING = 1e-13
# Slacks of members up to this say nothing.
NOISE = 1e-13


def exchange(state: State, sites: IndexArray, targets: Vector, entering: IndexArray) -> bool:
    """Take the coefficients of some sites to targets, and free others, in one motion; False where that does not end.

    On entry the slacks are current, and every site else satisfies KKT. On exit `sites` are at their targets and no
    members; their status is for the caller to set. Where it fails the state is as it was.
    """
    try:
        return _Exchange(state, sites, targets, entering).run()
    except np.linalg.LinAlgError:
        return False


class _Exchange:
    """The rounds of one edit.

    `held` are members that leave, with the coefficient that they get; `joined` are sites that move and were no members,
    with the change of their coefficient, or None for those that the margin system decides. `fixed` ones stay so.
    """

    def __init__(self, state: State, sites: IndexArray, targets: Vector, entering: IndexArray) -> None:
        self.state = state
        self.members = state.margin.members.copy()
        self.place = np.full(state.sites, -1, dtype=np.int64)
        self.place[self.members] = np.arange(self.members.size)
        self.fixed = np.zeros(state.sites, dtype=np.bool_)
        self.fixed[sites] = True
        self.held: dict[int, float] = {}
        self.joined: dict[int, float | None] = {}
        for site, target in zip(sites.tolist(), targets.tolist(), strict=True):
            if self.place[site] >= 0:
                self.held[site] = target
            elif target != state.alpha[site]:
                self.joined[site] = target - float(state.alpha[site])
        self.joined |= {site: None for site in entering.tolist() if self.place[site] < 0}
        self.ones = solve_rows(state.margin.factor, np.ones((1, self.members.size)), b"N")[0]
        self.total = float(self.ones @ self.ones)
        # Of each site that is held or joined: its column, solved halfway and whole, and the offset's.
        self.columns: dict[int, tuple[Vector, Vector, float]] = {}

    def run(self) -> bool:
        """Exchange until nothing is on the wrong side, then take over the result."""
        state = self.state
        right = -0.5 * state.slack[self.members]
        if np.abs(right).max() <= NOISE:
            # The rounding of the slacks themselves: to follow it would spoil coefficients that are better than that.
            right[:] = 0.0
        halves = solve_rows(state.margin.factor, right[None, :], b"N")
        (first,), (first_offset,) = self._solve(halves, np.array([state.mass_error()]))
        fewest, patience = len(self.members) + state.sites, PATIENCE
        for _ in range(ROUNDS):
            if len(self.held) + len(self.joined) > CHANGES or len(self.held) >= self.members.size:
                return False
            self._make_columns()
            shift, freed, offset = self._combined(first, float(first_offset))
            slack = self._slacks(shift, freed, offset)
            wrong = self._exchange_wrong(shift, freed, slack)
            if wrong == 0:
                return self._adopt(shift, freed, offset, slack)
            patience = PATIENCE if wrong < fewest else patience - 1
            fewest = min(fewest, wrong)
            if patience == 0:
                return False
        return False

    def _solve(self, halves: Matrix, masses: Vector) -> tuple[Matrix, Vector]:
        """Solutions of Kx + (y/2)·1 = r, Σx = mass, one per row of U⁻ᵀr."""
        eta = (halves @ self.ones - masses) / self.total
        return solve_rows(self.state.margin.factor, halves - eta[:, None] * self.ones, b"T"), 2.0 * (eta + masses)

    def _make_columns(self) -> None:
        """Solve for the columns that are not there yet."""
        left = [site for site in self.held if site not in self.columns]
        new = np.array([site for site in self.joined if site not in self.columns], dtype=np.int64)
        if not left and not new.size:
            return
        rows = np.zeros((len(left) + new.size, self.members.size))
        rows[np.arange(len(left)), self.place[left]] = 1.0
        if new.size:
            self.state.gram.require(new)
            rows[len(left) :] = self.state.gram.block(new, self.members)
        halves = solve_rows(self.state.margin.factor, rows, b"N")
        solved, offsets = self._solve(halves, np.repeat([0.0, 1.0], [len(left), new.size]))
        for at, site in enumerate([*left, *new.tolist()]):
            self.columns[site] = (halves[at], solved[at], float(offsets[at]))

    def _combined(self, first: Vector, first_offset: float) -> tuple[Vector, Vector, float]:
        """Shifts of the members' coefficients, of those of joined sites, and of the offset."""
        state, held, new = self.state, list(self.held), np.array([*self.joined], dtype=np.int64)
        count, size = len(held), len(held) + new.size
        if not size:
            return first, np.zeros(0), first_offset
        # x = first + Σ λ V − Σ z W: a held member's multiplier λ, and the change z of a joined site.
        signs = np.repeat([1.0, -1.0], [count, new.size])
        solved = np.array([self.columns[site][1] for site in (*held, *new.tolist())]) * signs[:, None]
        offsets = np.array([self.columns[site][2] for site in (*held, *new.tolist())]) * signs
        system, right = np.zeros((size, size)), np.empty(size)
        places = self.place[held]
        system[:count] = solved[:, places].T
        right[:count] = np.array([self.held[site] for site in held]) - state.alpha[held] - first[places]
        if new.size:
            rows = state.gram.block(new, self.members)
            system[count:] = rows @ solved.T + 0.5 * offsets
            system[count:, count:] += state.gram.block(new, new)
            right[count:] = -0.5 * state.slack[new] - rows @ first - 0.5 * first_offset
            for at, change in enumerate(self.joined.values(), count):
                if change is not None:
                    system[at] = 0.0
                    system[at, at], right[at] = 1.0, change
        weights = np.asarray(np.linalg.solve(system, right), dtype=np.float64)
        moved = np.asarray(weights @ solved, dtype=np.float64)
        return first + moved, weights[count:], first_offset + float(weights @ offsets)

    def _slacks(self, shift: Vector, freed: Vector, offset: float) -> Vector:
        """The slack of every site after these changes."""
        gram, sites = self.state.gram, self.state.sites
        picked = gram.row_of[np.concatenate([self.members, np.array([*self.joined], dtype=np.int64)])]
        weights = 2.0 * np.concatenate([shift, freed])
        out: Vector = self.state.slack[:sites] + offset

        def add(first: int, last: int) -> None:
            _add_part(gram.rows, picked, weights, first, last, out)

        for_column_parts(add, sites, picked.size)
        return out

    def _exchange_wrong(self, shift: Vector, freed: Vector, slack: Vector) -> int:
        """Exchange what is on the wrong side; how many that were."""
        state, wrong = self.state, 0
        alpha, ceiling = state.alpha[self.members] + shift, state.ceiling[self.members]
        low, high = alpha < -ROUNDING * ceiling, alpha > ceiling * (1.0 + ROUNDING)
        # Members that left come back where their slack has the wrong sign.
        for site, target in list(self.held.items()):
            if not self.fixed[site] and (
                slack[site] < -SLACK_TOLERANCE if target == 0.0 else slack[site] > SLACK_TOLERANCE
            ):
                del self.held[site]
                wrong += 1
            low[self.place[site]] = high[self.place[site]] = False
        for place in np.flatnonzero(low | high).tolist():
            self.held[int(self.members[place])] = 0.0 if low[place] else float(ceiling[place])
            wrong += 1
        for (site, change), found in zip(list(self.joined.items()), freed.tolist(), strict=True):
            if self.fixed[site]:
                continue
            before, top = float(state.alpha[site]), float(state.ceiling[site])
            if change is None:
                if -ROUNDING * top <= before + found <= top * (1.0 + ROUNDING):
                    continue
                self.joined[site] = (0.0 if before + found < 0.0 else top) - before
            elif (slack[site] if before + change == top else -slack[site]) > SLACK_TOLERANCE:
                self.joined[site] = None
            else:
                continue
            wrong += 1
        status = state.status[: state.sites]
        others = ((status == RESERVE) & (slack < -SLACK_TOLERANCE)) | ((status == BOUND) & (slack > SLACK_TOLERANCE))
        others[self.fixed] = False
        others[[*self.joined]] = False
        found = np.flatnonzero(others).tolist()
        self.joined |= dict.fromkeys(found)
        return wrong + len(found)

    def _adopt(self, shift: Vector, freed: Vector, offset: float, slack: Vector) -> bool:
        """Make the state what the last round found, and its factor that of the new margin."""
        state, margin = self.state, self.state.margin
        new = np.array([site for site, change in self.joined.items() if change is None], dtype=np.int64)
        if new.size and not self._append(new):
            return False
        moved = np.array([*self.joined], dtype=np.int64)
        state.slack[: state.sites] = slack
        state.offset += offset
        state.alpha[self.members] += shift
        state.alpha[moved] += freed
        state.status[new] = MARGIN
        for site, change in self.joined.items():
            if change is not None and not self.fixed[site]:
                state.status[site] = RESERVE if state.alpha[site] <= 0.5 * state.ceiling[site] else BOUND
                state.alpha[site] = state.ceiling[site] if state.status[site] == BOUND else 0.0
        for site, target in self.held.items():
            state.alpha[site] = target
            if not self.fixed[site]:
                state.status[site] = RESERVE if target == 0.0 else BOUND
        if self.held:
            gone = np.sort(self.place[[*self.held]])
            _remove_rows(margin.factor, margin.buffer, margin.size, gone)
            margin.size -= gone.size
        state.pivots += len(self.held) + moved.size
        return True

    def _append(self, new: IndexArray) -> bool:
        """Border the factor by the columns of new sites; False if one of them is dependent on the margin."""
        state, margin = self.state, self.state.margin
        size, all_of_it = margin.size, margin.size + new.size
        upper = np.array([self.columns[site][0] for site in new.tolist()]) + self.ones
        floor = max(float(pivot_floor(state.ceiling[site], SLACK_TOLERANCE)) for site in new.tolist())
        corner = np.linalg.cholesky(state.gram.block(new, new) + 1.0 - upper @ upper.T).T
        if not float(np.min(np.diagonal(corner))) ** 2 > floor:
            return False
        margin.reserve(all_of_it)
        margin.factor[:size, size:all_of_it] = upper.T
        margin.factor[size:all_of_it, size:all_of_it] = np.triu(corner)
        margin.buffer[size:all_of_it] = new
        margin.size = all_of_it
        return True


@njit(cache=True, nogil=True)
def _add_part(rows: Matrix, picked: IndexArray, weights: Vector, first: int, last: int, out: Vector) -> None:
    add_weighted_rows(rows[:, first:last], picked, weights, last - first, out[first:last])


@njit(cache=True, nogil=True)
def _remove_rows(factor: Matrix, members: IndexArray, size: int, gone: IndexArray) -> None:
    """Drop rows and columns of UᵀU, at ascending positions, in one sweep.

    The right part of each dropped row is a rank-one addition to what lies below it; a row that is at hand takes the
    rotations of all that are on the way.
    """
    count = gone.size
    carried = np.zeros((count, size))
    kept = np.empty(size - count, dtype=np.int64)
    at, under_way = 0, 0
    for i in range(size):
        if under_way < count and gone[under_way] == i:
            carried[under_way, i + 1 :] = factor[i, i + 1 : size]
            under_way += 1
        else:
            kept[at] = i
            at += 1
    under_way = 0
    for row in range(size - count):
        i = kept[row]
        while under_way < count and gone[under_way] < i:
            under_way += 1
        source = factor[i]
        for k in range(under_way):
            other = carried[k]
            a, b = source[i], other[i]
            radius = np.sqrt(a * a + b * b)
            cosine, sine = a / radius, b / radius
            for j in range(np.uint64(i), np.uint64(size)):
                upper, lower = source[j], other[j]
                source[j] = cosine * upper + sine * lower
                other[j] = cosine * lower - sine * upper
        target = factor[row]
        for column in range(row, size - count):
            target[column] = source[kept[column]]
        members[row] = members[i]
