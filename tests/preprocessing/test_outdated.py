"""What was chosen from entries is chosen again from those that remain, and a difference is said with its remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expunge import Memory
from expunge.preprocessing import Preprocessing, chosen_columns, pair_count
from expunge.preprocessing import width as width_module
from expunge.preprocessing.outdated import outdated_choices, outdated_text
from expunge.preprocessing.pair_count import PairCount, median_of_squares
from expunge.preprocessing.width import choose_width, median_width

from .wide_ward import ward

NAMES = ["a", "b", "c", "d", "e"]


def table(seed: int, size: int, missing: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    # Vital signs are whole numbers, laboratory values have decimals, counts are skewed.
    rows = np.column_stack(
        [
            rng.normal(84.0, 16.0, size).round(),
            rng.normal(1.2, 0.4, size).round(2),
            rng.poisson(1.5, size),
            # Most have the same: no dose, or the first of two states.
            rng.lognormal(5.0, 1.0, size).round(1) * (rng.random(size) < 0.15),
            np.where(rng.random(size) < 0.2, rng.integers(3, 7, size), 2),
        ]
    ).astype(np.float64)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(20, 200), st.sampled_from([0.0, 0.05, 0.3, 0.6]))
def test_nothing_is_outdated_when_it_was_just_chosen(seed: int, size: int, missing: float) -> None:
    """A filled cell cannot be told from a measured one, and yet a fresh import is up to date."""
    rows = table(seed, size, missing)
    rows[:3] = [[80.0, 1.0, 1.0, 0.0, 2.0]] * 3
    values = rows[:, :1]
    columns = Preprocessing(
        chosen_columns(NAMES, rows, scaled=True, filled=True),
        chosen_columns(["v"], values, scaled=False, filled=True),
        learned=True,
        width="auto",
    )
    keys = columns.to_keys(rows)
    sigma = choose_width(keys)
    assert outdated_choices(columns, keys, columns.to_values(values), sigma=sigma, cap=0.5) == ()


def test_an_erasure_tells_what_would_be_chosen_from_the_rest() -> None:
    columns, memory = ward()
    assert not list(memory.outdated)
    memory.delete(subject="wide")
    found = {(choice["what"], choice["column"]): choice for choice in memory.outdated}
    rest = chosen_columns(["HR", "BP"], columns.to_measurements(memory.keys), scaled=True, filled=True)
    assert found["scale", "HR"]["now"] == rest[0].scale < found["scale", "HR"]["kept"] == columns.keys[0].scale
    assert found["sigma", None]["now"] == choose_width(memory.keys)
    assert [found[name]["remedy"] for name in (("sigma", None), ("scale", "BP"))] == ["rebuild", "import"]
    said = outdated_text(memory.outdated)
    assert "width sigma " in said
    assert (
        said.index("(rebuild with sigma=auto)") < said.index("scale of HR ") < said.index("(import the table afresh)")
    )
    assert not outdated_text(())
    # A twin that never saw them, with the same columns and width, says the same.
    twin = Memory.fit(
        memory.keys, np.zeros(14), sigma=memory.sigma, cap=memory.cap, preprocessing=memory.version.preprocessing
    )
    assert twin.outdated == memory.outdated
    memory.delete(memory.ids)
    assert {(choice["what"], choice["column"]) for choice in memory.outdated} == {
        ("sigma", None),
        *((what, column.name) for column in columns.keys for what in ("centre", "scale")),
        *(("fill", column.name) for column in columns.values if column.fill is not None),
    }


def test_an_emptied_memory_says_what_it_keeps_of_the_last_entry() -> None:
    """With one entry a centre is its measurement: nothing else is left to say so."""
    row = np.array([[88.0, 97.0]])
    columns = Preprocessing(
        chosen_columns(["HR", "SpO2"], row, scaled=True, filled=True),
        chosen_columns(["MAP"], np.array([[77.0]]), scaled=False, filled=True),
        learned=True,
        width="auto",
    )
    memory = Memory.fit(columns.to_keys(row), [[77.0]], sigma=1.0, nu=1.0, preprocessing=columns)
    memory.delete(memory.ids)
    found = {(choice["what"], choice["column"]): choice for choice in memory.outdated}
    assert found["centre", "HR"] == {
        "what": "centre",
        "column": "HR",
        "kept": 88.0,
        "now": None,
        "remedy": "create",
    }
    assert found["fill", "MAP"]["kept"] == 77.0
    assert found["sigma", None]["kept"] == 1.0
    said = outdated_text(memory.outdated)
    assert "centre of HR 88" in said
    assert "drop the memory" in said
    memory.admit([0.0, 0.0], [77.0])
    assert not list(memory.outdated)


def test_given_numbers_are_never_outdated() -> None:
    columns, memory = ward()
    given_ = Preprocessing(columns.keys, columns.values)
    memory = Memory.fit(memory.keys, np.zeros(32), sigma=2.0, nu=0.3, subjects=memory.subjects, preprocessing=given_)
    memory.delete(subject="wide")
    assert not list(memory.outdated)


@pytest.mark.parametrize("sampled", [1024, 40])
@pytest.mark.parametrize("grid", [0.0, 0.5])
def test_a_median_that_is_followed_is_that_of_a_fresh_choice(
    monkeypatch: pytest.MonkeyPatch, sampled: int, grid: float
) -> None:
    """Entries come and go, copies, samples and far ones too: the width is the same number, and seldom chosen afresh."""
    monkeypatch.setattr(width_module, "SAMPLED", sampled)
    fresh: list[Any] = []
    original = PairCount.of.__func__  # type: ignore[attr-defined]

    def counted(cls: type[PairCount], *given: Any) -> Any:
        fresh.append(given)
        return original(cls, *given)

    monkeypatch.setattr(PairCount, "of", classmethod(counted))
    rng = np.random.default_rng(3)

    def draw(far: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        point = far * rng.standard_normal(3)
        return np.round(point / grid) * grid if grid else point

    memory = Memory.fit([draw(1.0) for _ in range(60)], np.zeros(60), nu=0.3)
    widths = set()
    for step in range(160):
        far = 1.0 if step < 60 else 3.0
        if rng.random() < 0.5 or memory.deletable < 3:
            memory.admit(draw(far), 0.0)
        else:
            memory.delete(rng.choice(memory.ids, size=int(rng.integers(1, 4)), replace=False).tolist())
        if step % 3:
            now = median_width(memory.keys)
            widths.add(now)
            assert {one["now"] for one in memory.outdated} == ({now} if now != memory.sigma else set())
    assert len(widths) > 1
    assert len(fresh) < 25


def test_a_step_of_the_grid_ends_where_the_next_begins() -> None:
    for width in (choose_width(np.array([[0.0], [step]])) for step in (1e-9, 0.9, 1.0, 7.3, 1e12)):
        low, high = pair_count._bounds(width)
        for square, same in ((low, True), (np.nextafter(low, 0.0), False), (np.nextafter(high, 0.0), True)):
            assert (median_of_squares(np.array([square])) == width) is same
        assert median_of_squares(np.array([high])) > width
