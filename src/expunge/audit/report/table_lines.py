"""What a table of the report is made of: lines, each a number of the paper and the names of those that answer it."""

from __future__ import annotations

from dataclasses import dataclass

from expunge.audit.report.verdict import Sense, Unit

__all__ = ["ArmPair", "Heads", "Line", "Source", "Table"]

# A number of the results, or (operation, names…): sum, difference, ratio, min or max of several.
Source = str | tuple[str, ...] | None
Heads = tuple[str, str, str]


@dataclass(frozen=True)
class Line:
    """One line: the paper's number, and where the results have the classic arm's and ours, and out of how many."""

    label: str
    paper: str
    classic: Source
    ours: Source
    sense: Sense = "lower"
    unit: Unit = "number"
    group: str = ""
    classic_of: Source = None
    ours_of: Source = None
    why: str = ""


@dataclass(frozen=True)
class Table:
    """Lines of one table of the paper, from one experiment; ``heads`` name the three columns of numbers."""

    name: str
    title: str
    experiment: str
    caption: str
    lines: tuple[Line, ...]
    heads: Heads = ("paper", "classic", "ours")


@dataclass(frozen=True)
class ArmPair:
    """The prefixes of two arms' numbers, and the group and reason that their lines share."""

    classic: str
    ours: str
    group: str = ""
    why: str = ""

    def line(
        self, label: str, paper: str, name: str, sense: Sense = "lower", unit: Unit = "number", why: str = ""
    ) -> Line:
        """One number of both arms."""
        names = f"{self.classic}/{name}", f"{self.ours}/{name}"
        return Line(label, paper, *names, sense, unit, self.group, why=why or self.why)

    def count(self, label: str, paper: str, name: str, of: str, sense: Sense = "higher", less: str = "") -> Line:
        """A count of both arms out of another, less a third where given."""
        classic, ours = f"{self.classic}/{name}", f"{self.ours}/{name}"
        sources: tuple[Source, Source] = classic, ours
        if less:
            sources = ("difference", classic, f"{self.classic}/{less}"), ("difference", ours, f"{self.ours}/{less}")
        outs = f"{self.classic}/{of}", f"{self.ours}/{of}"
        return Line(label, paper, *sources, sense, "count", self.group, *outs, self.why)
