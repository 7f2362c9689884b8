"""The nearest keys, against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from expunge.problem.nearest_keys import nearest_keys
from expunge.types import Matrix, Vector


def exact_order(keys: Matrix, names: list[str], point: Vector) -> list[int]:
    def distance(row: int) -> Fraction:
        return sum(
            ((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(keys[row].tolist(), point.tolist(), strict=True)),
            Fraction(0),
        )

    return sorted(range(len(names)), key=lambda row: (distance(row), names[row]))


def cases() -> dict[str, tuple[Matrix, Vector]]:
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((300, 4))
    close = 1.0 + 1e-12 * rng.standard_normal((200, 3))
    return {
        "gaussian": (keys, rng.standard_normal(4)),
        "copies": (np.repeat(keys[:30], 5, axis=0), keys[3]),
        "lattice": (rng.integers(-3, 4, size=(300, 2)).astype(float), np.zeros(2)),
        # In plain doubles, all of these are equally far.
        "far": (keys, np.array([1e12, 1e12, -1e12, 1e12])),
        "very far": (keys, np.array([1e20, 0.0, 0.0, 0.0])),
        "close together": (close, np.array([-5.0, 2.0, 7.0])),
        "tiny": (1e-160 * keys, np.zeros(4)),
        "tiny among large": (np.vstack([keys, 1e-160 * keys]), np.zeros(4)),
        "huge": (1e149 * keys[:, :2], np.array([1e149, 0.0])),
        "one": (keys[:1], keys[1]),
    }


@pytest.mark.parametrize(
    ("name", "count"),
    # Distances of one answer may differ by a factor of up to 1e150.
    [(name, count) for name in cases() for count in (1, 7, 1000) if (name, count) != ("tiny among large", 1000)],
)
def test_the_order_is_the_exact_one(name: str, count: int) -> None:
    keys, point = cases()[name]
    names = [f"e{row * 7919 % len(keys):04d}" for row in range(len(keys))]
    rows, distances = nearest_keys(keys, names, point, count)
    assert rows.tolist() == exact_order(keys, names, point)[:count]
    assert (np.diff(distances) >= 0.0).all()
    direct = [float(np.hypot.reduce(keys[row] - point)) for row in rows.tolist()]
    np.testing.assert_allclose(distances, direct, rtol=1e-14)


def test_order_and_distances_do_not_depend_on_the_order_of_the_keys() -> None:
    keys, point = cases()["copies"]
    names = np.array([f"e{row}" for row in range(len(keys))])
    shuffled = np.random.default_rng(1).permutation(len(keys))
    rows, distances = nearest_keys(keys, names.tolist(), point, 40)
    again, same = nearest_keys(keys[shuffled], names[shuffled].tolist(), point, 40)
    assert names[rows].tolist() == names[shuffled][again].tolist()
    assert distances.tobytes() == same.tobytes()


def test_no_keys() -> None:
    rows, distances = nearest_keys(np.zeros((0, 3)), [], np.zeros(3), 5)
    assert (rows.size, distances.size) == (0, 0)
