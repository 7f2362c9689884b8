"""The verifier of states agrees with every memory, bit by bit, and refuses whatever differs in one bit."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import ctx

from expunge import Memory
from expunge.errors import InputError, StoreError, VerificationError
from expunge.types import Matrix, Vector
from expunge.verify import optimum
from expunge.verify.optimum import nearest_double
from expunge.verify.state import VerifiedState, claimed_groups, verify_state
from expunge.verify.state_file import read_state
from problems import PROBLEMS
from raising import raises_code

SQUARE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
INNER = np.array([[0.0, 0.0], [0.1, 0.2]])
LATTICE = np.array([[i, j] for i in range(6) for j in range(6)], dtype=float)


def verified(memory: Memory, **changed: float | Vector) -> VerifiedState:
    claim = {"coefficients": memory.coefficients, "offset": memory.offset, **changed}
    return verify_state(memory.keys, **claim, cap=memory.cap, sigma=memory.sigma)  # type: ignore[arg-type]


def fitted(keys: Matrix, *, cap: float, sigma: float) -> Memory:
    return Memory.fit(keys, np.arange(len(keys), dtype=float), cap=cap, sigma=sigma)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_memory_of_every_family_verifies(name: str) -> None:
    problem = PROBLEMS[name]
    memory = Memory.fit(problem.keys, problem.values, sigma=problem.sigma, cap=min(problem.cap, 1.0))
    found = verified(memory)
    assert found.entries == found.margin + found.bound + found.reserve == problem.size
    if not found.hidden:
        groups = memory.partition
        assert (found.margin, found.bound, found.reserve) == tuple(
            group.size for group in (groups.margin, groups.bound, groups.reserve)
        )


@pytest.mark.parametrize("seed", range(12))
def test_every_state_of_a_random_history_verifies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, dimension = int(rng.integers(8, 40)), int(rng.integers(1, 5))

    def key() -> Vector:
        """A new key, a copy of one that is there, or one very close to it."""
        drawn = rng.standard_normal(dimension)
        if rng.random() < 0.5:
            drawn = memory.keys[int(rng.integers(len(memory)))] + rng.choice([0.0, 1e-3, 1e-8, 1e-12]) * drawn
        return np.asarray(drawn)

    memory = Memory.fit(
        rng.standard_normal((size, dimension)),
        np.zeros(size),
        sigma=float(rng.choice([0.5, 2.0, 50.0])),
        nu=float(rng.uniform(0.2, 0.6)),
    )
    for _ in range(12):
        if memory.deletable and rng.random() < 0.5:
            memory.delete(memory.ids[int(rng.integers(len(memory)))])
        else:
            memory.admit(key(), 0.0)
        verified(memory)


def flipped(number: float, towards: float) -> float:
    return math.nextafter(number, towards)


@pytest.mark.parametrize("name", ["duplicates-groups", "lattice-2d-5", "near-duplicates-1e-08", "width-1e+0"])
def test_a_state_that_differs_in_one_bit_is_refused(name: str) -> None:
    problem = PROBLEMS[name]
    memory = Memory.fit(problem.keys, problem.values, sigma=problem.sigma, cap=problem.cap)
    verified(memory)
    for row in range(len(memory)):
        for towards in (-1.0, 1.0):
            forged = memory.coefficients.copy()
            forged[row] = flipped(forged[row], towards)
            with raises_code("state-coefficient-differs", "state-group-wrong"):
                verified(memory, coefficients=forged)
    for towards in (-2.0, 2.0):
        with raises_code("state-offset-differs"):
            verified(memory, offset=flipped(memory.offset, towards))


def test_a_margin_coefficient_that_differs_is_named_with_its_row() -> None:
    memory = fitted(np.random.default_rng(3).standard_normal((30, 3)), cap=0.1, sigma=2.0)
    row = int(memory.partition.margin[1])
    forged = memory.coefficients.copy()
    forged[row] = flipped(forged[row], 1.0)
    with raises_code("state-coefficient-differs", match=rf"row {row} .*; 1 of 30 differ"):
        verified(memory, coefficients=forged)


def test_two_coefficients_that_changed_places_are_refused() -> None:
    memory = fitted(np.random.default_rng(4).standard_normal((24, 2)), cap=0.1, sigma=1.5)
    groups = memory.partition
    pairs = {
        "state-coefficient-differs": (groups.margin[0], groups.margin[1]),
        "state-group-wrong": (groups.bound[0], groups.reserve[0]),
    }
    for code, (one, other) in pairs.items():
        forged = memory.coefficients.copy()
        forged[[one, other]] = forged[[other, one]]
        with raises_code(code):
            verified(memory, coefficients=forged)
    forged = memory.coefficients.copy()
    forged[[groups.margin[0], groups.reserve[0]]] = forged[[groups.reserve[0], groups.margin[0]]]
    with raises_code("state-group-wrong"):
        verified(memory, coefficients=forged)


def test_a_partition_that_is_not_the_optimum_is_refused() -> None:
    rng = np.random.default_rng(5)
    memory = fitted(rng.standard_normal((20, 2)), cap=0.2, sigma=1.5)
    claims = [
        np.full(20, 0.05),
        np.where(np.arange(20) < 5, 0.2, 0.0),
        np.where(np.arange(20) < 4, 0.2, 0.0),
        np.where(np.arange(20) < 10, 0.2, 0.0),
        np.where(np.arange(20) == 3, 0.2, 0.8 / 19),
        np.zeros(20),
        np.full(20, 0.2),
    ]
    for claim in claims:
        with raises_code("state-group-wrong"):
            verified(memory, coefficients=claim)
    for outside in (-1e-300, math.nan, math.inf, flipped(memory.cap, 1.0)):
        with raises_code("state-coefficient-differs"):
            verified(memory, coefficients=np.where(np.arange(20) == 7, outside, memory.coefficients))


def test_negative_zero_is_not_zero() -> None:
    memory = fitted(np.vstack([SQUARE, INNER]), cap=0.5, sigma=4.0)
    row = int(memory.partition.reserve[0])
    forged = memory.coefficients.copy()
    forged[row] = -0.0
    with raises_code("state-coefficient-differs"):
        verified(memory, coefficients=forged)


def test_copies_that_differ_are_refused() -> None:
    memory = fitted(np.repeat(SQUARE, 2, axis=0), cap=0.2, sigma=2.0)
    forged = memory.coefficients.copy()
    forged[[0, 1]] += [1e-3, -1e-3]
    with raises_code("state-coefficient-differs"):
        verified(memory, coefficients=forged)


@pytest.mark.parametrize("count", range(3, 12))
def test_one_site_on_the_margin_is_a_rational_number(count: int) -> None:
    """Keys far apart are at the cap; two copies share 1 − kC, which is halved once and rounded once."""
    cap = 1.0 / (count + 1.5)
    memory = fitted(np.array([[9.0 * row] for row in range(count)] + [[-9.0]] * 2), cap=cap, sigma=1.0)
    share = (1 - count * Fraction(cap)) / 2
    assert memory.coefficients[-2:].tolist() == [float(share)] * 2
    found = verified(memory)
    assert (found.margin, found.bound, found.bits) == (2, count, 128)
    forged = memory.coefficients.copy()
    forged[-2:] = flipped(forged[-1], 0.0)
    with raises_code("state-coefficient-differs"):
        verified(memory, coefficients=forged)


@pytest.mark.parametrize("count", [2, 3, 5, 6, 7, 49, 55])
def test_caps_of_one_over_a_number(count: int) -> None:
    """All keys at the cap, or all but what the rounding of the cap leaves, with and without others in reserve."""
    keys = np.random.default_rng(count).standard_normal((count + 4, 3))
    for size in (count, count + 4):
        found = verified(fitted(keys[:size], cap=1.0 / count, sigma=2.0))
        assert found.bound >= count - 1 or size > count
    with raises_code("state-infeasible"):
        verify_state(keys[: count - 1], np.full(count - 1, 1.0 / count), 0.0, cap=1.0 / count, sigma=2.0)


def test_an_empty_margin_takes_the_least_term_of_the_bound_keys() -> None:
    keys = np.vstack([SQUARE, INNER])
    memory = fitted(keys, cap=0.25, sigma=4.0)
    assert (verified(memory).margin, verified(memory).bound) == (0, 4)
    with raises_code("state-offset-differs"):
        verified(memory, offset=flipped(memory.offset, 1.0))
    with raises_code("state-group-wrong"):
        verified(memory, coefficients=np.array([0.25, 0.25, 0.25, 0.0, 0.25, 0.0]))
    with raises_code("state-group-wrong"):
        verified(memory, coefficients=np.array([0.25, 0.25, 0.25, 0.0, 0.0, 0.0]))


def test_a_weight_that_rounds_to_the_cap_is_hidden_and_right() -> None:
    """Copies that hold what the rounding of the cap leaves, less than half a unit each, are published at the cap."""
    count, copies = 11, 9
    cap = math.nextafter(1.0 / count, 1.0) if count * Fraction(1.0 / count) < 1 else 1.0 / count
    excess = count * Fraction(cap) - 1
    assert 0 < excess / copies < Fraction(math.ulp(cap)) / 2
    keys = np.array([[0.0]] * copies + [[5.0], [9.0]])
    memory = fitted(keys, cap=cap, sigma=1.0)
    assert set(memory.coefficients.tolist()) == {cap}
    found = verified(memory)
    assert (found.hidden, found.margin, found.bound) == (copies, copies, 2)


def test_ties_are_proved_by_convexity() -> None:
    """Four equal weights by symmetry, and one site's ceiling is exactly that weight."""
    keys = np.vstack([np.repeat(SQUARE, [2, 3, 3, 3], axis=0), INNER])
    memory = fitted(keys, cap=1 / 8, sigma=4.0)
    found = verified(memory)
    assert found.tied == 2
    assert found.bits > 128
    for row in (0, 1):
        forged = memory.coefficients.copy()
        forged[row] = flipped(forged[row], 0.0)
        with raises_code("state-coefficient-differs"):
            verified(memory, coefficients=forged)


@pytest.mark.parametrize("sigma", [1.0, 10.0, 100.0, 1e3, 1e6])
def test_lattices(sigma: float) -> None:
    """The square's eight symmetries hold for the exact weights, so also for the published ones."""
    memory = fitted(LATTICE, cap=1 / 12, sigma=sigma)
    verified(memory)
    grid = memory.coefficients.reshape(6, 6)
    for turned in (grid.T, grid[::-1], grid[:, ::-1], grid[::-1, ::-1]):
        assert np.array_equal(grid, turned)


@pytest.mark.parametrize("separation", [1e-3, 1e-7, 1e-9, 1e-12])
def test_near_duplicates(separation: float) -> None:
    rng = np.random.default_rng(7)
    keys = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [separation, 1.0]])
    verified(fitted(keys, cap=0.5, sigma=2.0))
    clusters = np.repeat(rng.standard_normal((5, 3)), 4, axis=0) + separation * rng.standard_normal((20, 3))
    verified(fitted(clusters, cap=0.11, sigma=2.0))


@pytest.mark.parametrize("sigma", [1e3, 1e4, 1e5, 1e6])
def test_flat_kernels(sigma: float) -> None:
    angles = 2.0 * np.pi * np.arange(24) / 24
    for keys in (np.column_stack([np.cos(angles), np.sin(angles)]), np.random.default_rng(8).standard_normal((30, 3))):
        verified(fitted(keys, cap=0.1, sigma=sigma))


def test_beyond_the_limit_slacks_far_from_zero_are_bounded_and_counted() -> None:
    memory = fitted(np.random.default_rng(9).standard_normal((80, 4)), cap=0.04, sigma=2.0)
    assert verified(memory).bounded == 0

    def partly(coefficients: Vector) -> VerifiedState:
        scalars = {"cap": memory.cap, "sigma": memory.sigma}
        return verify_state(memory.keys, coefficients, memory.offset, **scalars, complete=100)  # type: ignore[arg-type]

    found = partly(memory.coefficients)
    assert found.bounded == found.bound + found.reserve
    forged = memory.coefficients.copy()
    one, other = memory.partition.bound[0], memory.partition.reserve[0]
    forged[[one, other]] = forged[[other, one]]
    with raises_code("state-group-wrong"):
        partly(forged)


def test_bounded_slacks_contain_the_ball(monkeypatch: pytest.MonkeyPatch) -> None:
    """What double precision says of a slack is an interval around what balls say."""
    memory = fitted(np.random.default_rng(10).standard_normal((40, 3)), cap=0.07, sigma=1.0)
    seen: list[tuple[dict[int, object], dict[int, object]]] = []
    original = optimum._Search.far_slacks

    def both(self: optimum._Search, *arguments: object) -> dict[int, object]:
        rough = original(self, *arguments)  # type: ignore[arg-type]
        self.in_balls = True
        seen.append((rough, self.slacks(arguments[0], arguments[1])))  # type: ignore[arg-type]
        self.in_balls = False
        return rough

    monkeypatch.setattr(optimum._Search, "far_slacks", both)
    verify_state(memory.keys, memory.coefficients, memory.offset, cap=memory.cap, sigma=memory.sigma, complete=0)
    ((rough, exact),) = seen
    assert len(rough) > 10
    assert all(ball.contains(exact[site]) for site, ball in rough.items())  # type: ignore[attr-defined]


def test_the_watcher_sees_every_entry_once() -> None:
    keys = np.repeat(np.random.default_rng(11).standard_normal((15, 2)), 2, axis=0)
    memory = fitted(keys, cap=0.1, sigma=1.0)
    for complete in (0, optimum.COMPLETE):
        count: list[int] = []
        verify_state(
            keys,
            memory.coefficients,
            memory.offset,
            cap=memory.cap,
            sigma=memory.sigma,
            complete=complete,
            watch=lambda count=count: count.append(1),  # type: ignore[misc]
        )
        assert len(count) == 30


def test_threads_do_not_disturb_each_other() -> None:
    """python-flint has one precision for the whole process; it is the same afterwards, and every state verifies."""
    tie = fitted(np.vstack([np.repeat(SQUARE, [2, 3, 3, 3], axis=0), INNER]), cap=1 / 8, sigma=4.0)
    plain = fitted(np.random.default_rng(13).standard_normal((30, 3)), cap=0.1, sigma=2.0)
    before, interval = ctx.prec, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(verified, [tie, plain] * 40))
    finally:
        sys.setswitchinterval(interval)
    assert {state.bits for state in found} == {128, 256}
    assert ctx.prec == before


def test_nearest_doubles() -> None:
    third, tiny = Fraction(1, 3), Fraction(1, 2**1200)
    assert nearest_double(third, third) == 1 / 3
    assert nearest_double(third - tiny, third + tiny) == 1 / 3
    even, odd = 1.0, math.nextafter(1.0, 2.0)
    middle = (Fraction(even) + Fraction(odd)) / 2
    assert nearest_double(middle, middle) == nearest_double(middle - tiny, middle + tiny) == even
    assert nearest_double(middle - Fraction(1, 2**200), middle + Fraction(1, 2**200)) is None
    up = (Fraction(odd) + Fraction(math.nextafter(odd, 2.0))) / 2
    assert nearest_double(up - tiny, up + tiny) == math.nextafter(odd, 2.0)
    assert nearest_double(-up - tiny, -up + tiny) == -math.nextafter(odd, 2.0)
    small = Fraction(1, 2**200)
    assert math.copysign(1.0, nearest_double(-small / 2, -small / 4)) == 1.0  # type: ignore[arg-type]
    assert nearest_double(small / 2, 2 * small) is None
    assert nearest_double(small, small) == 2.0**-200


def test_what_is_no_state_is_an_input_error() -> None:
    for keys, alpha, cap, sigma in (
        (SQUARE[0], [1.0], 1.0, 1.0),
        (SQUARE, [0.5, 0.5], 1.0, 1.0),
        (SQUARE * math.nan, [0.25] * 4, 1.0, 1.0),
        (SQUARE, [0.25] * 4, 0.0, 1.0),
        (SQUARE, [0.25] * 4, 1.0, math.inf),
    ):
        with pytest.raises(InputError):
            verify_state(keys, alpha, 0.0, cap=cap, sigma=sigma)


def test_a_saved_memory_is_read_and_verified(tmp_path: Path) -> None:
    memory = fitted(np.random.default_rng(12).standard_normal((25, 2)), cap=0.1, sigma=1.5)
    memory.prune("archive")
    memory.save(tmp_path / "pruned")
    claimed = read_state(tmp_path / "pruned")
    assert np.array_equal(claimed.keys, memory.keys)
    verify_state(claimed.keys, claimed.coefficients, claimed.offset, cap=claimed.cap, sigma=claimed.sigma)
    data = (tmp_path / "pruned").read_bytes()
    for place in range(0, len(data), 97):
        (tmp_path / "damaged").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with suppress(VerificationError):
            found = read_state(tmp_path / "damaged")
            # Damage to what no state has, such as a payload or a date in the archive.
            assert np.array_equal(found.keys, memory.keys)
            assert np.array_equal(found.coefficients, memory.coefficients)
    for content in (b"", b"no archive", data[: len(data) // 2]):
        (tmp_path / "damaged").write_bytes(content)
        with raises_code("state-file-invalid"):
            read_state(tmp_path / "damaged")
    with pytest.raises(StoreError):
        read_state(tmp_path / "missing")


def test_claimed_groups_are_read_off_the_coefficients() -> None:
    assert claimed_groups(np.array([0.0, 0.25, 0.1]), 0.25) == "rbm"


def test_the_verifier_loads_no_solver_and_no_problem() -> None:
    program = (
        "import sys; from expunge.verify.state import verify_state; from expunge.verify.state_file import read_state;"
        "verify_state([[0.0],[1.0]], [0.5, 0.5], 0.0, cap=0.5, sigma=1.0) if 0 else None;"
        "print([m for m in sys.modules if m.startswith('expunge.') and m.split('.')[1] in"
        " ('solver', 'problem', 'certificates', 'memory', 'store', 'attestation')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
