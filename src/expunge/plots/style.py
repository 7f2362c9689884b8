"""How every figure of the package looks: fonts, colours and marks, and a figure that shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from io import BytesIO
from typing import Any, BinaryIO, Final, NamedTuple, ParamSpec

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["BLACK", "BLUE", "GREY", "MARKS", "ORANGE", "STYLE", "VERMILION", "Mark", "Plot", "legend_below", "styled"]

Arguments = ParamSpec("Arguments")

# Okabe and Ito: told apart by the colour-blind, and in grey.
BLACK: Final = "#000000"
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
VERMILION: Final = "#D55E00"
GREY: Final = "#7F7F7F"

STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "expunge",
}
# A notebook shows a figure at this many pixels per inch, and stores it with twice as many.
SHOWN_DPI: Final = 110


class Mark(NamedTuple):
    """How the entries of a group are drawn, and what a legend says of them."""

    marker: str
    colour: str
    size: float
    about: str


# Drawn in this order: what carries weight lies on top.
MARKS: Final = {
    "archived": Mark("v", GREEN, 14.0, "kept aside"),
    "reserve": Mark("o", GREY, 9.0, "no weight"),
    "bound": Mark("s", BLUE, 14.0, "all the weight that the cap allows"),
    "margin": Mark("D", ORANGE, 20.0, "weight, on the boundary"),
}


class Plot(Figure):
    """A figure that a notebook shows without pyplot."""

    def write(self, file: BinaryIO, kind: str, metadata: Mapping[str, Any], dpi: float = 2 * SHOWN_DPI) -> None:
        """Write the figure as png, svg or pdf, in the package's style whatever the caller's settings are."""
        with style.context(["default", STYLE]):
            self.savefig(file, format=kind, dpi=dpi, metadata=dict(metadata))

    def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
        """PNG at twice the resolution, and the size to show it at."""
        picture = BytesIO()
        self.write(picture, "png", {"Software": None})
        width, height = self.get_size_inches() * SHOWN_DPI
        return picture.getvalue(), {"width": float(round(width)), "height": float(round(height))}


def styled(draw: Callable[Arguments, Plot]) -> Callable[Arguments, Plot]:
    """Have a function draw in the package's style, whatever the caller's settings of matplotlib are."""

    @wraps(draw)
    def drawn(*args: Arguments.args, **options: Arguments.kwargs) -> Plot:
        with style.context(["default", STYLE]):
            return draw(*args, **options)

    return drawn


def legend_below(figure: Plot, axes: Axes | Iterable[Axes], columns: int) -> None:
    """One legend for all panels, under them."""
    panels = [axes] if isinstance(axes, Axes) else list(axes)
    found = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=columns)
