"""A memory whose columns and width were chosen from entries of which some set the scale."""

from __future__ import annotations

import numpy as np

from expunge import Memory
from expunge.preprocessing import Column, Preprocessing, chosen_columns

__all__ = ["ward"]


def ward() -> tuple[Preprocessing, Memory]:
    """Fourteen quiet patients and eighteen with wide pulses, who set the scale and the width."""
    rng = np.random.default_rng(5)
    rows = rng.normal(80.0, 2.0, (32, 2))
    rows[14:] += rng.normal(0.0, 60.0, (18, 2))
    columns = Preprocessing(chosen_columns(["HR", "BP"], rows, scaled=True, filled=True), (Column("v"),), learned=True)
    subjects = [*(None for _ in range(14)), *("wide" for _ in range(18))]
    memory = Memory.fit(columns.to_keys(rows), np.zeros(32), nu=0.3, subjects=subjects, preprocessing=columns)
    return columns, memory
