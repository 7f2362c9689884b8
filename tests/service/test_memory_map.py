"""The map: places, planes, and the boundary, held against plain computations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from expunge import Memory
from expunge.memory.projection import Projection, projection_of
from expunge.service.memory_map.contour import zero_lines
from expunge.service.memory_map.map_content import map_content


def fitted(size: int, dimension: int, seed: int = 0) -> Memory:
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((size, dimension)) * np.linspace(3.0, 0.5, dimension)
    return Memory.fit(keys, rng.standard_normal(size), sigma=2.0, nu=0.3)


def plane_of(memory: Memory) -> Projection:
    return projection_of(memory.version)


@pytest.mark.parametrize(("size", "dimension"), [(60, 5), (20, 40), (700, 600)])
def test_the_plane_is_that_of_the_principal_components(size: int, dimension: int) -> None:
    """By a singular value decomposition of everything; the last case is computed iteratively."""
    memory = fitted(size, dimension)
    plane, centred = plane_of(memory), memory.keys - memory.keys.mean(axis=0)
    powers, axes = np.linalg.svd(centred, full_matrices=False)[1:]
    for row in range(2):
        assert abs(float(plane.axes[row] @ axes[row])) == pytest.approx(1.0, abs=1e-7)
        assert plane.axes[row, np.argmax(np.abs(plane.axes[row]))] > 0
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(plane.explained, (powers**2)[:2] / (powers**2).sum(), rtol=1e-6)
    place = np.array([0.3, -0.7])
    np.testing.assert_allclose(plane.project(plane.lift(place)[None, :])[0], place, atol=1e-10)


def test_two_coordinates_are_shown_as_they_are() -> None:
    memory = fitted(30, 2)
    assert plane_of(memory).kind == "identity"
    np.testing.assert_array_equal(plane_of(memory).project(memory.keys), memory.keys)


@pytest.mark.parametrize("keys", [np.zeros((5, 4)), np.outer(np.arange(5.0), [0.0, 1.0, 0.0, 0.0]), np.ones((3, 1))])
def test_keys_that_do_not_spread_have_a_map_all_the_same(keys: np.ndarray[Any, Any]) -> None:
    memory = Memory.fit(keys, np.arange(float(len(keys))), sigma=1.0, cap=1.0)
    chart = map_content(memory.version)
    assert np.isfinite([[point["x"], point["y"]] for point in chart["entries"]]).all()
    assert np.isfinite(chart["projection"]["explained"]).all()


def test_the_same_version_always_gives_the_same_map() -> None:
    once, again = fitted(200, 30), fitted(200, 30)
    one, other = plane_of(once), plane_of(again)
    assert one is not other
    np.testing.assert_array_equal(one.axes, other.axes)


def test_the_boundary_is_where_the_slack_is_zero() -> None:
    memory = fitted(60, 2)
    chart = map_content(memory.version)
    lines = chart["boundary"]["polylines"]
    points = np.array([point for line in lines for point in line])
    assert len(points) > 50
    slack = memory.solution.slack(points)
    step = np.ptp(chart["boundary"]["grid"]["x"]) / 71
    # Linear interpolation on a grid of this step is off by at most its square times half the curvature, 4/σ².
    assert np.abs(slack).max() < step**2 * 0.5 * 4 / memory.sigma**2 * 2
    assert all(line[0] == line[-1] for line in lines), "closed, because the grid reaches around it"


def test_the_boundary_parts_margin_from_bound() -> None:
    memory = fitted(60, 2)
    slack = {point["id"]: point["slack"] for point in map_content(memory.version)["entries"]}
    groups = {point["id"]: point["group"] for point in map_content(memory.version)["entries"]}
    for name, row in zip(memory.ids, range(len(memory)), strict=True):
        assert slack[name] == pytest.approx(float(memory.solution.slack(memory.keys[[row]])[0]), abs=1e-12)
        assert {"margin": abs(slack[name]) < 1e-12, "bound": slack[name] <= 1e-12, "reserve": slack[name] >= -1e-12}[
            groups[name]
        ]


def test_a_circle_is_found_as_one_closed_line() -> None:
    x, y = np.linspace(-2, 2, 41), np.linspace(-2, 2, 41)
    across, up = np.meshgrid(x, y)
    (line,) = zero_lines(x, y, 1.0 - across**2 - up**2)
    assert line[0] == line[-1]
    np.testing.assert_allclose(np.hypot(*np.array(line).T), 1.0, atol=0.005)


def test_lines_that_leave_the_grid_are_open_and_saddles_do_not_cross() -> None:
    x, y = np.linspace(-1.05, 1.0, 22), np.linspace(-1.05, 1.0, 22)
    across, up = np.meshgrid(x, y)
    lines = zero_lines(x, y, across * up - 0.001)
    assert len(lines) == 2
    assert all(line[0] != line[-1] for line in lines)
    assert all(len({np.sign(point[0] + point[1]) for point in line}) == 1 for line in lines)
    assert zero_lines(x, y, np.ones((22, 22))) == []
