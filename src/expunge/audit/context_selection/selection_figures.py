"""Figures of the selection experiments: one stay hour by hour, and the policies side by side (paper, Figs. in App. A).

Needs the ``plots`` extra.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from expunge.audit.context_selection.event_hours import NU, SIGMA, stay_view
from expunge.audit.context_selection.policy_arms import FULL, choices
from expunge.datasets import CHANNELS, Stay
from expunge.errors import MissingExtra
from expunge.selection import Context
from expunge.selection.support import support_fit

__all__ = ["case_stay", "draw_comparison", "draw_timeline"]

SHOWN = ("support", "cover", "k-centre", "uniform", "recency", "density")
# Ours, the paper's, and the rest: three hues that stay apart in grey and for the colour-blind.
OURS, PAPERS, REST, EVENT = "#1b5e9c", "#c46a1b", "#8c8c8c", "#b3261e"
PANELS = (("hr", "heart rate, /min"), ("spo2", "SpO₂, %"), ("sbp", "systolic, mmHg"))


def case_stay(stays: Sequence[Stay]) -> Stay:
    """The stay with the most event hours among those with events in less than a third of their hours."""
    return max((stay for stay in stays if stay.events.mean() < 1.0 / 3.0), key=lambda stay: int(stay.events.sum()))


def draw_timeline(stay: Stay, path: Path) -> dict[str, int]:
    """Draw a stay's vitals over what each policy keeps of it; event hours kept, by policy.

    All six vitals are seen, those that define the events included, as in the paper's figure.
    """
    plots = _pyplot()
    keys, events = stay_view(stay, "same channel")
    context = Context.of(keys, sigma=SIGMA)
    budget = int(np.count_nonzero(support_fit(context, NU)[0]))
    kept = dict(choices(context, budget, np.random.RandomState(0), SHOWN, nu=NU))
    del kept[FULL]
    figure, axes = plots.subplots(
        len(PANELS) + 1,
        1,
        figsize=(7.6, 6.0),
        sharex=True,
        layout="constrained",
        gridspec_kw={"height_ratios": [1.0] * len(PANELS) + [2.0]},
    )
    hours = np.arange(len(stay))
    for panel, (channel, label) in zip(axes, PANELS, strict=False):
        panel.plot(hours, stay.vitals[:, CHANNELS.index(channel)], color="#333333", linewidth=1.0)
        panel.set_ylabel(label, fontsize=8)
    for panel in axes:
        for hour in events.tolist():
            panel.axvspan(hour - 0.5, hour + 0.5, color=EVENT, alpha=0.13, linewidth=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    raster, counts = axes[-1], {}
    for line, (arm, rows) in enumerate(kept.items()):
        counts[arm] = int(np.isin(events, rows).sum())
        colour = {"cover": OURS, "support": PAPERS}.get(arm, REST)
        raster.eventplot(rows, lineoffsets=-line, linelengths=0.7, linewidths=2.6, colors=colour)
    raster.set_yticks(
        [-line for line in range(len(kept))],
        [f"{arm}  {counts[arm]}/{events.size}" for arm in kept],
    )
    raster.set_xlabel(
        f"hour of {stay.id}; each policy keeps {budget} of {len(stay)}; shaded: {events.size} event hours"
    )
    raster.set_xlim(-0.5, len(stay) - 0.5)
    figure.savefig(path, dpi=150)
    plots.close(figure)
    return counts


def draw_comparison(tables: Mapping[str, Mapping[str, Any]], panels: Mapping[str, str], path: Path) -> None:
    """Draw means with their intervals, a panel for each table of benchmarks/results/selection.json that is named."""
    plots = _pyplot()
    figure, axes = plots.subplots(
        1, len(panels), figsize=(2.9 * len(panels) + 0.9, 3.7), sharey=True, layout="constrained"
    )
    first = tables[next(iter(panels))]["arms"]
    names = [arm for arm in first if not arm.startswith("attempt") and arm != FULL]
    places = np.arange(len(names))[::-1]
    for panel, (name, title) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        arms = tables[name]["arms"]
        for place, arm in zip(places.tolist(), names, strict=True):
            one = arms[arm]
            colour = {"cover": OURS, "support": PAPERS}.get(arm, REST)
            panel.plot([one["low"], one["high"]], [place, place], color=colour, linewidth=2.0, solid_capstyle="butt")
            panel.plot(one["mean"], place, "o", color=colour, markersize=5)
        if "uniform" in arms:
            panel.axvline(arms["uniform"]["mean"], color=REST, linewidth=0.8, linestyle=":")
        panel.set_title(title, fontsize=9)
        panel.set_xlim(left=-0.02)
        panel.grid(axis="x", alpha=0.25, linewidth=0.5)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    np.atleast_1d(axes)[0].set_yticks(places, names, fontsize=8)
    figure.savefig(path, dpi=150)
    plots.close(figure)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as problem:
        raise MissingExtra("figures need matplotlib: pip install 'expunge[plots]'") from problem
    matplotlib.use("Agg")
    import matplotlib.pyplot as plots

    return plots
