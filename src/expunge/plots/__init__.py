"""Plots of a memory: its map, its weights, its warranties, what a deletion changes, and the
choice of a width. Needs the ``plots`` extra.

Each function returns a matplotlib Figure that a notebook shows and that `savefig` writes; none opens a window or needs
a display. Colours are Okabe and Ito's, and every group has a mark of its own. Imports memories and certificates, and
nothing of a store. Start with `memory_map.py`.
"""

from __future__ import annotations

from expunge.errors import MissingExtra

try:
    import matplotlib  # noqa: F401 — every module here needs it
except ImportError:
    raise MissingExtra("plots need matplotlib: pip install 'expunge[plots]'") from None

from expunge.plots.deletion_effect import deletion_changes
from expunge.plots.memory_map import map_of
from expunge.plots.warranty_curve import warranty_survival
from expunge.plots.weight_curve import coefficients
from expunge.plots.width_curve import width_choice

__all__ = ["coefficients", "deletion_changes", "map_of", "warranty_survival", "width_choice"]
