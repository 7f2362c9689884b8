"""Figures of an audit: deletion agreement, residuals and readouts, projection, latency, warranty survival.

Drawn from the results' rows, never from summaries, in one style: colours that the colour-blind can tell apart (Okabe
and Ito), one colour per arm throughout, legible at the width of a column. The same results give the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.experiments import OWN_ROWS
from expunge.audit.report.paper_tables import REGIME_NAMES, TABLE_5
from expunge.audit.report.verdict import PrintedNumber
from expunge.audit.results import AuditResults
from expunge.errors import MissingExtra
from expunge.problem.tolerances import ACCEPTANCE
from expunge.types import Vector

if TYPE_CHECKING:
    import polars

__all__ = ["Figure", "draw_figures"]

COLOURS = {
    "ours": "#0072B2",
    "archive": "#0072B2",
    "classic": "#D55E00",
    "naive": "#D55E00",
    "guarded": "#E69F00",
    "decay": "#7F7F7F",
    "libsvm": "#009E73",
    "refit": "#CC79A7",
    "paper": "#000000",
}
LABELS = {
    "ours": "ours",
    "classic": "classic update",
    "guarded": "classic, guarded",
    "decay": "coefficient decay",
    "libsvm": "LIBSVM refit",
    "refit": "the paper's refit",
    "paper": "printed in the paper",
}
WIDTH = 6.8
# A difference of exactly zero has no place on a logarithmic axis; it is drawn here.
FLOOR = 1e-17


@dataclass(frozen=True)
class Figure:
    """One figure, as PNG and SVG; a narrow one is as wide as a column, the others as wide as a page."""

    name: str
    title: str
    caption: str
    png: Path
    svg: Path
    narrow: bool = False


def draw_figures(results: AuditResults, folder: Path) -> list[Figure]:
    """Draw what the results have rows for, into a folder that exists."""
    figures = []
    for experiment, name, draw in _FIGURES:
        if experiment not in results.experiments:
            continue
        with _styled() as pyplot:
            drawn = draw(results, pyplot)
            if drawn is None:
                continue
            figure, title, caption = drawn
            png, svg = (folder / f"{name}.{kind}" for kind in ("png", "svg"))
            figure.savefig(png, metadata={"Software": None})
            figure.savefig(svg, metadata={"Date": None, "Creator": None}, transparent=True)
            narrow = figure.get_figwidth() < 0.75 * WIDTH
            figures.append(Figure(name, title, caption, png, svg, narrow))
            pyplot.close(figure)
    return figures


Drawn = tuple[Any, str, str] | None


def _own_rows(results: AuditResults, pyplot: Any) -> Drawn:
    """How many certificates of pruned rows hold after each arrival."""
    rows = results.table("rows", "trials")
    rows = rows.filter((rows["arm"] == "arrivals") & rows["holding"].is_not_null()).sort("operation")
    arrivals, holding = rows["operation"].to_numpy(), rows["holding"].to_numpy()
    if not holding[0]:
        return None
    figure, axes = pyplot.subplots(figsize=(0.7 * WIDTH, 2.3), layout="constrained")
    axes.step(arrivals, holding, where="post", color=COLOURS["ours"])
    axes.set_xlim(0, arrivals[-1])
    axes.set_ylim(0.0, 1.05 * float(holding.max()))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("rows that have arrived since the pruning, in the order of the file")
    axes.set_ylabel("certified rows")
    axes.grid(axis="y")
    return (
        figure,
        "Certificates of your rows",
        "Rows that were proved to weigh nothing and pruned without their content: for how many of them that is still "
        "proved after each arrival.",
    )


def _agreement(results: AuditResults, pyplot: Any) -> Drawn:
    """Each trial's gate-score difference, by regime and arm."""
    rows = results.table("deletion", "comparisons")
    regimes = [name for name in REGIME_NAMES if name in set(rows["regime"])]
    arms = (("decay", "refit"), ("classic", "refit"), ("ours", "daqp"))
    width = WIDTH if len(regimes) > 1 else 0.7 * WIDTH
    figure, axes = pyplot.subplots(figsize=(width, 2.9), layout="constrained")
    scatter = np.random.default_rng(0)
    for place, regime in enumerate(regimes):
        for turn, (arm, against) in enumerate(arms):
            values = _column(rows, "score_difference", regime=regime, arm=arm, against=against)
            if not values.size:
                continue
            middle = place + 0.27 * (turn - 1)
            x = middle + scatter.uniform(-0.085, 0.085, values.size)
            axes.scatter(x, values, s=2.5, color=COLOURS[arm], alpha=0.28, linewidths=0, rasterized=True)
            _marks(axes, middle, values, COLOURS[arm])
    axes.set_yscale("log")
    axes.set_ylim(FLOOR / 3, 3.0)
    axes.set_xlim(-0.5, len(regimes) - 0.5)
    counts = [int(_column(rows, "score_difference", regime=one, arm="ours", against="daqp").size) for one in regimes]
    names = (REGIME_NAMES[one] for one in regimes)
    axes.set_xticks(range(len(regimes)), [f"{name}\n{count} trials" for name, count in zip(names, counts, strict=True)])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("largest gate-score difference\nfrom the refit, per trial")
    axes.grid(axis="y")
    handles = [_dot(pyplot, COLOURS[arm], LABELS[arm]) for arm, _ in arms]
    handles += [
        pyplot.Line2D([], [], color="#333333", linewidth=1.6, label="median"),
        pyplot.Line2D([], [], color="#333333", marker="_", linestyle="none", markersize=5, label="95th percentile"),
        pyplot.Line2D([], [], color="#333333", marker="D", linestyle="none", markersize=3, label="worst"),
    ]
    columns = 6 if len(regimes) > 1 else 3
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, handletextpad=0.4, columnspacing=1.2)
    return (
        figure,
        "Deletion agreement",
        "The largest gate-score difference over each trial's probes, between the state after deleting two entries and "
        "a refit of the rest at the same cap: the classic arm and decay beside the paper's refit, ours beside polished "
        "DAQP.",
    )


def _marks(axes: Any, middle: float, values: Vector, colour: str) -> None:
    median, high, worst = np.median(values), np.percentile(values, 95), values.max()
    axes.plot([middle - 0.12, middle + 0.12], [median, median], color=colour, linewidth=1.8, solid_capstyle="butt")
    axes.plot([middle - 0.05, middle + 0.05], [high, high], color=colour, linewidth=1.1)
    axes.plot([middle], [worst], marker="D", color=colour, markersize=3.2, markeredgecolor="white", markeredgewidth=0.4)


def _chained(results: AuditResults, pyplot: Any) -> Drawn:
    """Share of operations whose residual, or readout difference, is at least x."""
    states, rows = results.table("sequential", "states"), results.table("sequential", "comparisons")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(WIDTH, 2.5), layout="constrained", sharey=True)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid()
    for arm in ("classic", "guarded", "ours"):
        published = _column(states, "worst", arm=arm, role="published")
        readouts = _column(rows, "value_percent", arm=arm)
        for axes, values in ((left, published), (right, readouts)):
            _tail(axes, values, COLOURS[arm], LABELS[arm])
    rejected = _column(states, "worst", arm="classic rejected")
    if rejected.size:
        _tail(left, rejected, COLOURS["classic"], "classic update, rejected", style=":")
        away = _column(rows, "value_percent", arm="classic rejected")
        _tail(right, away, COLOURS["classic"], "classic update, rejected", style=":")
    left.axvline(ACCEPTANCE, color="#333333", linewidth=0.7, linestyle=(0, (4, 3)))
    left.annotate(
        "the check\n$10^{-5}$",
        (ACCEPTANCE, left.get_ylim()[0]),
        (3, 4),
        textcoords="offset points",
        fontsize=6.5,
        va="bottom",
        color="#333333",
    )
    left.set_xlabel("residual of the state")
    right.set_xlabel("readout difference (% of value range)")
    left.set_ylabel("share of states at or above")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return (
        figure,
        "Residuals and readouts of chained edits",
        "Share of states whose residual (left) or readout difference (right) is at least x. The rejected states are "
        "those that failed the check at 1e-5 and were replaced in the paper's first run.",
    )


def _tail(axes: Any, values: Vector, colour: str, label: str, style: str = "-") -> None:
    # Zeros count among the states and have no place on the axis.
    positive = np.sort(values[values > 0.0])
    share = np.arange(positive.size, 0, -1) / max(1, values.size)
    axes.step(positive, share, where="pre", color=colour, label=label, linestyle=style)


def _projection(results: AuditResults, pyplot: Any) -> Drawn:
    """The worst readout difference at each tolerance."""
    rows = results.table("projection", "comparisons")
    regimes = [name for name in REGIME_NAMES if name in set(rows["regime"])]
    levels = [None, *sorted(one for one in rows["tolerance"].unique() if one is not None)]
    width = WIDTH if len(regimes) > 1 else 0.7 * WIDTH
    figure, panels = pyplot.subplots(
        1, len(regimes), figsize=(width, 2.3), layout="constrained", sharey=True, squeeze=False
    )
    # The pairs as they came stand apart from the tolerances.
    places = np.arange(len(levels)) - 0.6 * (np.arange(len(levels)) == 0)
    for axes, regime in zip(panels[0], regimes, strict=True):
        for arm in ("classic", "ours"):
            found = [_column(rows, "readout_percent", regime=regime, arm=arm, tolerance=one) for one in levels]
            # Where every projection failed there is no point.
            shown = np.array([max(values.max(), FLOOR) if values.size else np.nan for values in found])
            axes.plot(places[:1], shown[:1], "o", markersize=3, color=COLOURS[arm])
            axes.plot(places[1:], shown[1:], marker="o", markersize=3, color=COLOURS[arm], label=LABELS[arm])
        printed = {
            (None if level == "none" else float(level)): PrintedNumber(cells[2]).value
            for level, cells in TABLE_5.get(regime, {}).items()
        }
        known = [(places[levels.index(level)], value) for level, value in printed.items() if value and level in levels]
        if known:
            x, y = zip(*known, strict=True)
            axes.plot(x, y, "x", color=COLOURS["paper"], markersize=4, markeredgewidth=0.9, label=LABELS["paper"])
        axes.axhline(0.1, color="#333333", linewidth=0.7, linestyle=(0, (4, 3)))
        axes.set_yscale("log")
        axes.set_title(REGIME_NAMES[regime])
        ticks = ["none" if one is None else f"−{-round(np.log10(one))}" for one in levels]
        axes.set_xticks(places, ticks)
        axes.set_xlabel("tolerance, log₁₀ ε")
        axes.grid(axis="y")
    panels[0][0].set_ylabel("worst readout difference\n(% of readout range)")
    panels[0][-1].annotate(
        "0.1 %", (places[-1], 0.1), (0, 2), textcoords="offset points", fontsize=6.5, ha="right", color="#333333"
    )
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return (
        figure,
        "Readouts after the minimum-norm projection",
        "The worst readout difference between the projected deletion and the projected refit, each at its own "
        "objective level; “none” is the pair as it came; zero is drawn at 1e-17. Dashed: our promise, 0.1 %.",
    )


def _latency(results: AuditResults, pyplot: Any) -> Drawn:
    """Median time of one deletion against n."""
    rows = results.table("latency", "timings")
    sizes = sorted(int(one) for one in rows["n"].unique())
    figure, axes = pyplot.subplots(figsize=(WIDTH / 2 + 0.3, 2.7), layout="constrained")
    lines = (
        ("refit", "active", "-", "s"), ("libsvm", "active", "-", "^"), ("classic", "active", "-", "o"),
        ("classic", "reserve", ":", "o"), ("ours", "active", "-", "o"), ("ours", "reserve", ":", "o"),
    )  # fmt: skip
    for arm, victim, style, marker in lines:
        found = [1e3 * _column(rows, "seconds", n=size, arm=arm, victim=victim) for size in sizes]
        # A memory need not have an entry of each kind.
        if not any(values.size for values in found):
            continue
        quartiles = np.array(
            [np.percentile(values, (25, 50, 75)) if values.size else np.full(3, np.nan) for values in found]
        )
        name = LABELS[arm] if arm in ("refit", "libsvm") else f"{LABELS[arm]}, {victim} entry"
        axes.plot(sizes, quartiles[:, 1], style, marker=marker, markersize=3, color=COLOURS[arm], label=name)
        axes.fill_between(sizes, quartiles[:, 0], quartiles[:, 2], color=COLOURS[arm], alpha=0.13, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.minorticks_off()
    axes.set_xlabel("entries, n")
    axes.set_ylabel("time of one deletion (ms)")
    axes.grid()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return (
        figure,
        "Deletion latency",
        "Medians and quartiles. Ours is the whole transaction: path, independent check, digest, receipt; the classic "
        "update is unchecked, as the paper timed it.",
    )


def _survival(results: AuditResults, pyplot: Any) -> Drawn:
    """Share of certificates still claimed, and still true, after each admission."""
    rows = results.table("streaming", "trials")
    regimes = list(rows["regime"].unique(maintain_order=True))
    figure, panels = pyplot.subplots(
        1, len(regimes), figsize=(WIDTH, 2.2), layout="constrained", sharey=True, squeeze=False
    )
    for axes, regime in zip(panels[0], regimes, strict=True):
        lines = (
            ("once", "truths", "#000000", ":", "still true"),
            ("once-sketched", "claims", "#0072B2", "-", "claimed, with a sketch"),
            ("once", "claims", "#56B4E9", "--", "claimed, from one scalar"),
        )
        for arm, column, colour, style, name in lines:
            shares = _shares(rows, regime, arm, column)
            steps = 1 + np.arange(shares.shape[1])
            axes.plot(steps, shares.mean(axis=0), style, color=colour, label=name, drawstyle="steps-post")
            if len(shares) > 1:
                low, high = shares.min(axis=0), shares.max(axis=0)
                axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0, step="post")
        axes.set_title(REGIME_NAMES.get(regime, regime))
        axes.set_xscale("log")
        axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
        axes.xaxis.minorticks_off()
        axes.set_xlim(1, shares.shape[1])
        axes.set_ylim(0.0, 1.02)
        axes.set_xlabel("admissions since pruning")
        axes.grid()
    panels[0][0].set_ylabel("share of certificates")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return (
        figure,
        "Warranty survival",
        "Entries pruned without content before the stream begins: the share whose certificate is still claimed, and "
        "the share for which it is still true; mean and range over the streams.",
    )


def _shares(rows: polars.DataFrame, regime: str, arm: str, column: str) -> Vector:
    """(streams, admissions)."""
    chosen = rows.filter((rows["regime"] == regime) & (rows["arm"] == arm) & (rows["status"] == "returned"))
    chosen = chosen.sort("trial", "operation")
    streams = [part for _, part in chosen.group_by("trial", maintain_order=True)]
    shortest = min(part.height for part in streams)
    return np.array([(part[column] / part["certificates"]).to_numpy()[:shortest] for part in streams])


def _column(rows: polars.DataFrame, column: str, **where: Any) -> Vector:
    """Values of a column in the rows that agree with every keyword; rows without a value are left out."""
    for name, value in where.items():
        rows = rows.filter(rows[name].is_null() if value is None else rows[name] == value)
    return rows[column].drop_nulls().to_numpy().astype(np.float64)


def _dot(pyplot: Any, colour: str, label: str) -> Any:
    return pyplot.Line2D([], [], color=colour, marker="o", linestyle="none", markersize=4, label=label)


@contextmanager
def _styled() -> Iterator[Any]:
    try:
        matplotlib = import_module("matplotlib")
    except ImportError as problem:
        raise MissingExtra("figures need matplotlib: pip install 'expunge[audit]'") from problem
    from expunge.plots.style import STYLE

    matplotlib.use("Agg")
    pyplot = import_module("matplotlib.pyplot")
    with matplotlib.rc_context(STYLE):
        yield pyplot


_FIGURES: Sequence[tuple[str, str, Callable[[AuditResults, Any], Drawn]]] = (
    (OWN_ROWS, "certificates-of-rows", _own_rows),
    ("deletion", "deletion-agreement", _agreement),
    ("sequential", "chained-edits", _chained),
    ("projection", "projection-readouts", _projection),
    ("latency", "deletion-latency", _latency),
    ("streaming", "warranty-survival", _survival),
)
