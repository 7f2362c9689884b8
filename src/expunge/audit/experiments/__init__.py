"""Which experiments there are, by name, in the order of the paper. A new one is a module and a line here.

A module listed here has an ``EXPERIMENT`` and is imported when it is run; it may import the audit's own modules, the
classic solver, the memory and the solver's backends, and no report. Start at `expiry`, the smallest, then `deletion`.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from expunge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expunge.audit.engine import Experiment

__all__ = ["EXPERIMENTS", "OWN_ROWS", "load_experiment"]

EXPERIMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "expiry": "expunge.audit.experiments.expiry",
        "deletion": "expunge.audit.experiments.deletion",
        "projection": "expunge.audit.experiments.projection",
        "latency": "expunge.audit.experiments.latency",
        "sequential": "expunge.audit.experiments.sequential",
        "streaming": "expunge.audit.experiments.streaming",
        "records": "expunge.audit.experiments.record_edits",
        "selection": "expunge.audit.context_selection.experiment",
    }
)
# The one that is no experiment of the paper's, and is run on one's own keys only; it comes first there.
OWN_ROWS: Final = "rows"
_MODULES: Final = {OWN_ROWS: "expunge.audit.experiments.own_rows", **EXPERIMENTS}


def load_experiment(name: str) -> Experiment:
    """An experiment by name."""
    if name not in _MODULES:
        raise InputError(f"there is no audit called {name!r}; choose one of {', '.join(_MODULES)}")
    found: Experiment = import_module(_MODULES[name]).EXPERIMENT
    return found
