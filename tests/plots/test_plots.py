"""Plots: what they say, what they draw from, and that they need no display."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from matplotlib import rc_context
from PIL import Image

from expunge import InputError, Memory, plots
from expunge.memory.width_trials import try_widths
from expunge.plots.deletion_effect import version_without
from expunge.plots.plane import plane_of
from expunge.plots.style import MARKS, Plot
from expunge.preprocessing.preprocessing import Column, Preprocessing


def memory_of(size: int = 40, dimension: int = 2) -> Memory:
    keys = np.random.default_rng(11).standard_normal((size, dimension))
    names, owners = [f"e{row}" for row in range(size)], [f"p{row % 4}" for row in range(size)]
    return Memory.fit(keys, keys[:, :1], sigma=1.5, nu=0.3, ids=names, subjects=owners)


def said(figure: Plot) -> str:
    """Every text of a figure that is drawn."""
    figure.draw_without_rendering()
    parts = [figure.get_suptitle()]
    for axes in figure.axes:
        parts += [axes.get_xlabel(), axes.get_ylabel(), *(text.get_text() for text in axes.texts)]
    return "\n".join([*parts, *(text.get_text() for legend in figure.legends for text in legend.get_texts())])


def picture(figure: Plot) -> Image.Image:
    data, shown = figure._repr_png_()
    image = Image.open(BytesIO(data))
    assert image.size == pytest.approx((2 * shown["width"], 2 * shown["height"]), abs=2)
    return image


def test_a_map_counts_each_group_and_draws_the_boundary() -> None:
    memory = memory_of()
    groups = memory.partition
    text = said(plots.map_of(memory))
    for name in ("margin", "bound", "reserve"):
        assert f"{name}: {MARKS[name].about} ({getattr(groups, name).size})" in text
    assert "boundary" in text
    assert "k0" in text
    assert "k1" in text


def test_the_boundary_of_a_map_is_where_the_score_is_that_of_the_margin() -> None:
    memory = memory_of()
    axes = plots.map_of(memory).axes[0]
    (contour,) = [found for found in axes.collections if type(found).__name__ == "QuadContourSet"]
    vertices = np.vstack([path.vertices for path in contour.get_paths()])
    assert len(vertices) > 50
    scores = memory.score(vertices)
    spread = float(np.ptp(memory.score(memory.keys)))
    np.testing.assert_allclose(scores, memory.boundary, atol=0.005 * spread)


def test_archived_entries_are_on_the_map() -> None:
    memory = memory_of()
    memory.prune("archive")
    text = said(plots.map_of(memory))
    assert f"archived: kept aside ({len(memory.warranties())})" in text


@pytest.mark.parametrize("dimension", [1, 3])
def test_other_dimensions(dimension: int) -> None:
    text = said(plots.map_of(memory_of(dimension=dimension)))
    assert ("score" in text) if dimension == 1 else ("direction of spread" in text and "other side" in text)


def test_chosen_columns_are_drawn_as_they_are() -> None:
    memory = memory_of(dimension=4)
    plane = plane_of(memory.version, ("k3", 1))
    assert plane.labels == ("k3", "k1")
    np.testing.assert_allclose(plane.places(memory.keys), memory.keys[:, [3, 1]], atol=1e-15)
    lifted = plane.projection.lift(np.array([[2.0, 3.0]]))
    np.testing.assert_allclose(lifted[0], [memory.keys[:, 0].mean(), 3.0, memory.keys[:, 2].mean(), 2.0])
    for wrong in (("k9", 0), (0, 0), (0,), (-1, 2)):
        with pytest.raises(InputError, match="key column"):
            plots.map_of(memory, wrong)


def test_axes_carry_the_columns_units() -> None:
    columns = (Column("hr", "/min", centre=80.0, scale=16.0), Column("temp", "°C", centre=37.0, scale=0.5))
    preprocessing = Preprocessing(columns, (Column("spo2", "%"),))
    keys = np.random.default_rng(2).standard_normal((30, 2))
    memory = Memory.fit(keys, keys[:, :1], sigma=1.5, nu=0.3, preprocessing=preprocessing)
    figure = plots.map_of(memory)
    assert "hr, /min" in said(figure)
    assert "temp, °C" in said(figure)
    drawn = np.vstack([np.asarray(found.get_offsets()) for found in figure.axes[0].collections[1:]])
    shown = preprocessing.to_measurements(keys)
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(shown, axis=0), rtol=1e-12)


def test_weights_name_every_group() -> None:
    memory = memory_of()
    text = said(plots.coefficients(memory))
    active = int(np.count_nonzero(memory.coefficients))
    assert f"{active} of 40 entries carry weight" in text
    assert "cap" in text


def test_a_deletion_is_shown_as_it_would_be() -> None:
    memory = memory_of()
    memory.prune("archive")
    version = memory.version
    slots, pruned = version.named(None, "p1")
    after = version_without(version, slots, pruned)
    figure = plots.deletion_changes(memory, subject="p1")
    probe = memory.keys
    memory.delete(subject="p1")
    np.testing.assert_array_equal(after.solution.score(probe), memory.score(probe))
    weights = dict(zip(after.ids, after.coefficients, strict=True))
    np.testing.assert_array_equal([weights[name] for name in memory.ids], memory.coefficients)
    assert f"Without {len(slots) + len(pruned)} entries" in said(figure)


def test_a_preview_says_what_to_leave_out_and_nothing_is_deleted() -> None:
    memory = memory_of()
    before = memory.digest

    class Named:
        applied = ("e1", "e2")

    assert said(plots.deletion_changes(memory, Named())) == said(plots.deletion_changes(memory, ["e1", "e2"]))
    assert memory.digest == before
    with pytest.raises(InputError, match="no entry would remain"):
        plots.deletion_changes(memory, memory.ids)
    with pytest.raises(InputError, match="no entry has id"):
        plots.deletion_changes(memory, "nobody")


def test_warranties_of_a_memory_fall_from_all_to_none() -> None:
    memory = memory_of()
    with pytest.raises(InputError, match="prune"):
        plots.warranty_survival(memory)
    memory.prune("forget")
    figure = plots.warranty_survival(memory)
    line = figure.axes[0].lines[-1]
    shares = [float(share) for share in np.asarray(line.get_ydata())]
    assert shares[0] == 1.0
    assert all(later <= earlier for earlier, later in pairwise(shares))
    assert "proved to remain" in said(figure)


def test_receipts_give_the_fate_of_pruned_entries() -> None:
    memory = memory_of()
    records = [memory.prune("forget")]
    records += [memory.admit([3.0 * np.cos(turn), 3.0 * np.sin(turn)], [0.0]) for turn in range(6)]
    records.append(memory.delete(memory.warranties()[0].id))
    figure = plots.warranty_survival(records)
    statuses = [row.status for row in memory.warranties()]
    assert f"holds ({statuses.count('valid')} now)" in said(figure)
    assert "erased itself (1 now)" in said(figure)
    records.append(memory.delete(memory.ids[0]))
    assert f"ended: its numbers were erased ({len(statuses)} now)" in said(plots.warranty_survival(records))
    with pytest.raises(InputError, match="pruning"):
        plots.warranty_survival(records[1:2])


def test_an_empty_memory_has_no_plot() -> None:
    empty = Memory.fit(np.zeros((0, 2)), np.zeros((0, 1)), sigma=1.0, nu=0.5)
    for draw in (plots.map_of, plots.coefficients):
        with pytest.raises(InputError, match="empty"):
            draw(empty)


def test_a_plot_is_the_same_whatever_the_callers_settings_are() -> None:
    memory = memory_of()
    usual = picture(plots.map_of(memory)).tobytes()
    with rc_context({"font.size": 30, "axes.facecolor": "red", "lines.linewidth": 9}):
        assert picture(plots.map_of(memory)).tobytes() == usual


def test_colours_stay_apart_in_grey() -> None:
    """Marks differ in shape, and those that lie side by side in lightness, too."""
    assert len({mark.marker for mark in MARKS.values()}) == len(MARKS)
    light = [
        float(np.dot([int(mark.colour[at : at + 2], 16) for at in (1, 3, 5)], [0.299, 0.587, 0.114]))
        for mark in MARKS.values()
    ]
    assert min(abs(one - other) for place, one in enumerate(light) for other in light[:place]) > 8.0


def test_plots_without_matplotlib_name_the_extra() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from expunge import MissingExtra\n"
        "try:\n import expunge.plots\nexcept MissingExtra as problem:\n print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert "expunge[plots]" in done.stdout


def test_the_choice_of_a_width_is_drawn_with_what_stands_out() -> None:
    keys = np.random.default_rng(2).standard_normal((80, 3))
    trials = try_widths(keys, sparsities=(0.1, 0.4), present=(1.0, 0.4))
    figure = plots.width_choice(trials)
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"margin", "bound", "reserve", "default width", "width now", "ν = 0.1", "ν = 0.4"}
    lines = [line for line in figure.axes[1].get_lines() if line.get_label() == "ν = 0.1"]
    assert np.asarray(lines[0].get_ydata()).tolist() == [each.inside for each in trials if each.nu == 0.1]
    assert "0.4" in figure.axes[0].get_title()
    with pytest.raises(InputError, match="no trial"):
        plots.width_choice([])
