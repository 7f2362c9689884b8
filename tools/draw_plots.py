"""Draw the pictures of docs/guides/plots.md with `expunge.plots`, from the ICU hours that ship with the package.

Run `python tools/draw_plots.py`, or `make plots`. The data and every choice are fixed, so the same code draws the same
pictures. They are reduced to a palette, which keeps each of them small.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from expunge import Memory, plots
from expunge.datasets import CHANNELS, icu_hours
from expunge.datasets.vitals import UNITS
from expunge.memory.width_trials import try_widths
from expunge.plots.style import Plot
from expunge.preprocessing.preprocessing import Column, Preprocessing, chosen_columns

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "guides" / "images"
COLOURS: Final = 128
PATIENT: Final = "patient-10035631"


def ward(*channels: str) -> Memory:
    """The memory of the page: ICU hours by some of their vital signs, all of them where none is named."""
    hours = icu_hours()
    chosen = [hours.key_names.index(name) for name in channels or hours.key_names]
    width = 1.5 if channels else 2.0
    names = [hours.key_names[place] for place in chosen]
    rows = np.array([[hour[name] for name in names] for hour in hours.payloads])
    columns = chosen_columns(names, rows, scaled=True, filled=False, units=dict(zip(CHANNELS, UNITS, strict=True)))
    preprocessing = Preprocessing(columns, tuple(Column(name) for name in hours.value_names), learned=True)
    keys = preprocessing.to_keys(rows)
    return Memory.fit(
        keys, hours.values, sigma=width, nu=0.2, ids=hours.ids, subjects=hours.subjects, preprocessing=preprocessing
    )


def fates() -> Plot:
    """What became of certificates while the hours of one more patient arrived."""
    memory, hours = ward("hr", "sbp"), icu_hours()
    memory.delete(subject=PATIENT)
    receipts = [memory.prune("forget", sketch=1)]
    for owner, hour, value in zip(hours.subjects, hours.payloads, hours.values, strict=True):
        if owner == PATIENT:
            receipts.append(memory.admit({name: hour[name] for name in ("hr", "sbp")}, value))
    return plots.warranty_survival(receipts)


def slacks() -> Plot:
    """What is left of the certificates of archived entries."""
    memory = ward()
    memory.prune("archive")
    return plots.warranty_survival(memory)


def widths() -> Plot:
    """What fits at other widths and sparsities would be like."""
    memory = ward()
    return plots.width_choice(try_widths(memory.keys, present=(memory.sigma, memory.nu or 0.1)))


PICTURES: Final[dict[str, Callable[[], Plot]]] = {
    "plot-map": lambda: plots.map_of(ward("hr", "sbp")),
    "plot-map-plane": lambda: plots.map_of(ward()),
    "plot-weights": lambda: plots.coefficients(ward()),
    "plot-warranties": slacks,
    "plot-receipts": fates,
    "plot-widths": widths,
    "plot-deletion": lambda: plots.deletion_changes(ward("hr", "sbp"), subject=PATIENT),
}


def picture(name: str) -> Image.Image:
    """One picture, with few colours."""
    image = Image.open(io.BytesIO(PICTURES[name]()._repr_png_()[0])).convert("RGB")
    return image.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)


def main() -> None:
    """Draw every picture."""
    for name in PICTURES:
        path = IMAGES / f"{name}.png"
        picture(name).save(path, optimize=True)
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
