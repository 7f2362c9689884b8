"""Which entries survive when a context must shrink: policies with one contract (paper, App. A).

>>> from expunge import selection
>>> kept = selection.select("cover", keys, budget=0.25, sigma=2.0)

Every policy gets the same `Context` and returns exactly the budgeted number of rows, the same ones for the same seed;
each module states its source, its formula and where it departs from it. It imports `expunge.problem` and
`expunge.memory`, and needs no extra. Start at `context`, then `policies`, which names them all.
"""

from __future__ import annotations

from expunge.selection.attention_mass import AttentionMass
from expunge.selection.centre import FarthestFirst
from expunge.selection.context import Context, Policy, matched_budget
from expunge.selection.cover import Cover
from expunge.selection.density import Density
from expunge.selection.policies import POLICIES, select
from expunge.selection.recency import Recency
from expunge.selection.stream import SupportStream
from expunge.selection.support import Support
from expunge.selection.uniform import Uniform
from expunge.selection.warranted import WarrantedSupport
from expunge.selection.window import ObservationWindow

__all__ = [
    "POLICIES",
    "AttentionMass",
    "Context",
    "Cover",
    "Density",
    "FarthestFirst",
    "ObservationWindow",
    "Policy",
    "Recency",
    "Support",
    "SupportStream",
    "Uniform",
    "WarrantedSupport",
    "matched_budget",
    "select",
]
