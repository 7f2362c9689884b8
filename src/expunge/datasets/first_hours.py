"""The first 40 hours of every long stay of the MIMIC-IV demo: the clinical regime of the deletion audit.

Read with NumPy alone. ODbL 1.0; the notice in ``data/icu`` goes with it.
"""

from __future__ import annotations

import io
import json
from functools import cache
from importlib.resources import files

import numpy as np

from expunge.types import Matrix

__all__ = ["icu_first_hours"]


@cache
def icu_first_hours() -> dict[str, Matrix]:
    """Standardized vital signs, one (40, 6) array a stay, by the stay's id, in the order of the demo's processing.

    As `mimic_iv` gives them for the whole demo, from vital signs rounded to three decimals; channels as in `CHANNELS`.
    Contains information from the MIMIC-IV Clinical Database Demo 2.2, under the Open Database License, ODbL 1.0.
    """
    folder = files("expunge.datasets").joinpath("data", "icu")
    stored = np.load(io.BytesIO(folder.joinpath("first_hours.npz").read_bytes()), allow_pickle=False)
    standard = json.loads(folder.joinpath("standard.json").read_text(encoding="utf-8"))
    keys = (stored["thousandths"] / 1e3 - np.array(standard["mean"])) / np.array(standard["scale"])
    keys.setflags(write=False)
    return {f"stay-{stay}": rows for stay, rows in zip(stored["stay_id"].tolist(), keys, strict=True)}
