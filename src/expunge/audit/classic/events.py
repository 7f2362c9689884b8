"""What the paper's update does on its path, event by event, and how a coefficient came to leave the box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from expunge.errors import SolveError

__all__ = ["ClassicFailure", "Event", "Kind", "Trace"]

Kind = Literal[
    "joins-bound", "joins-margin", "margin-to-bound", "margin-to-reserve", "from-bound", "from-reserve", "gone"
]


class ClassicFailure(SolveError):
    """The update stopped without a state: the margin emptied, or no step was left."""


@dataclass(frozen=True)
class Event:
    """One change of groups on the path.

    ``entry`` counts the entries in the order in which they came, from 0, and is never used again; ``edit`` is the
    number of the update, from 1. ``step`` is the signed change of the moving coefficient (of the offset, when
    the margin is empty), ``slack`` and ``coefficient`` are the entry's before it, ``rate`` is how fast its slack
    moves (its coefficient, for an event that leaves the margin).
    """

    edit: int
    number: int
    kind: Kind
    entry: int
    step: float
    slack: float
    coefficient: float
    rate: float

    @property
    def wrong_side(self) -> bool:
        """Whether a key joined the margin from the side on which its slack was already invalid."""
        return (self.kind == "from-reserve" and self.slack < 0.0) or (self.kind == "from-bound" and self.slack > 0.0)


@dataclass(frozen=True)
class Trace:
    """How the coefficient of one row came to lie outside the box.

    ``depth`` is how far outside it lies. ``left`` is the step, (edit, number), that took it outside, and ``joined``
    the event by which it had come to the margin before; None where it never crossed the wall on a path.
    """

    row: int
    entry: int
    depth: float
    left: tuple[int, int] | None
    joined: Event | None

    @property
    def explained(self) -> bool:
        """Whether the key had joined the margin from the wrong side, which a test of direction would have refused."""
        return self.joined is not None and self.joined.wrong_side
