"""The choice of a width: how weights, held-out entries and the reach of an answer depend on it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from expunge.errors import InputError
from expunge.memory.width_trials import WidthTrial
from expunge.plots.style import BLACK, BLUE, GREY, MARKS, ORANGE, VERMILION, Plot, legend_below, styled

__all__ = ["width_choice"]

# One colour and mark per sparsity.
LINES = ((BLUE, "o"), (ORANGE, "s"), (VERMILION, "^"), (BLACK, "D"), (GREY, "v"), ("#009E73", "P"))


@styled
def width_choice(trials: Sequence[WidthTrial]) -> Plot:
    """What fits at several widths and sparsities would be like.

    Parameters
    ----------
    trials : sequence of WidthTrial
        As `expunge.memory.width_trials.try_widths` gives them.

    Returns
    -------
    matplotlib.figure.Figure
        Over the width: the shares of margin, bound and reserve at one sparsity, the present one or the default; the
        share of held-out entries that are inside, and on how many entries an answer rests, at every sparsity. A dashed
        line marks the width that a new memory takes, a dotted one the present width.

    Raises
    ------
    InputError
        Where there is no trial.

    """
    if not trials:
        raise InputError("there is no trial to draw")
    marked = next((each for each in trials if each.present), None) or next(
        (each for each in trials if each.default), trials[0]
    )
    figure = Plot(figsize=(7.4, 3.1), layout="constrained")
    shares, inside, reach = figure.subplots(1, 3)
    column = [each for each in trials if each.nu == marked.nu]
    groups = ("margin", "bound", "reserve")
    shares.stackplot(
        [each.sigma for each in column],
        *([getattr(each, group) for each in column] for group in groups),
        colors=[MARKS[group].colour for group in groups],
        labels=groups,
    )
    shares.set_ylim(0.0, 1.0)
    shares.set_title(f"entries by weight, ν = {marked.nu:.3g}")
    sparsities = sorted({each.nu for each in trials})
    for place, nu in enumerate(sparsities):
        colour, mark = LINES[place % len(LINES)]
        rows = [each for each in trials if each.nu == nu]
        widths = [each.sigma for each in rows]
        look = {"color": colour, "marker": mark, "markersize": 3.0, "label": f"ν = {nu:.3g}"}
        inside.plot(widths, [each.inside for each in rows], **look)
        reach.plot(widths, [each.effective_neighbours for each in rows], **look)
        inside.axhline(1.0 - nu, color=colour, linestyle=":", linewidth=0.7)
    inside.set_ylim(0.0, 1.02)
    inside.set_title("held-out entries inside (dotted: 1 − ν)")
    reach.set_yscale("log")
    reach.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    reach.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    reach.yaxis.set_minor_formatter(NullFormatter())
    reach.set_title("entries that an answer rests on")
    for axes in (shares, inside):
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    for axes in (shares, inside, reach):
        _mark(axes, trials)
    # Nine labels do not fit into one row.
    legend_below(figure, (shares, inside), 5)
    return figure


def _mark(axes: Axes, trials: Sequence[WidthTrial]) -> None:
    """A logarithmic axis of widths, and the widths that stand out on it."""
    widths = sorted({each.sigma for each in trials})
    axes.set_xscale("log", base=2)
    axes.set_xlim(widths[0], 1.04 * widths[-1])
    axes.set_xticks(widths[:: max(1, len(widths) // 4)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:.3g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("width σ")
    for true, dashes, label in (("default", "--", "default width"), ("present", (0, (1, 1.5)), "width now")):
        found = next((each.sigma for each in trials if getattr(each, true)), None)
        if found is not None:
            axes.axvline(found, color=BLACK, linestyle=dashes, linewidth=1.0, label=label)
