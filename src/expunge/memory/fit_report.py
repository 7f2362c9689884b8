"""Whether a fit is of use: how its entries are weighted, how many could go, and what is wrong with a degenerate fit.

The report looks at a sample of keys that the set of keys decides, so memories with the same entries have the same
report. Its cost is bounded: about 10⁹ operations, whatever the number of entries.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from expunge.display.card import Card, Displayed, counted
from expunge.memory.version import Version
from expunge.memory.version_table import key_columns
from expunge.preprocessing.width import SAMPLED, choose_width, sample_keys
from expunge.problem.kernel import squared_distances
from expunge.problem.partition import Partition
from expunge.problem.readout import canonical_order, readout_weights
from expunge.types import IndexArray, Matrix

__all__ = ["FitReport", "fit_report"]

# Fewer entries than this are too few for a boundary.
HANDFUL = 8
# Beyond this share on the margin nearly every entry has a weight of its own; held-out entries are then mostly outside.
MARGIN_LIMIT = 0.5
# Beyond this share at the bound the coefficients tell entries no longer apart.
BOUND_LIMIT = 0.9
# Beyond this share of the squared distance between two entries, on average, one column decides alone.
DOMINANT = 0.9
# Below this many distinct keys per entry, nearly all entries are copies.
DISTINCT = 0.05
# A width this many times the chosen one makes all entries look alike.
FLAT = 4.0
# Kernel exponents per report, over d.
BUDGET = 200_000_000
QUERIES = 256
# How many entries a search is asked for, where it is compared with the nearest.
NEAREST = 10
# Sampled keys of which every pair is compared, column by column.
PAIRED = 128


@dataclass(frozen=True)
class FitReport(Displayed):
    """What one look at a fit tells.

    Attributes
    ----------
    entries : int
        Live entries.
    margin, bound, reserve : float
        Their shares on the margin (a weight of its own), at the bound (the largest weight) and in reserve (no weight).
    margin_entries : int
        Entries on the margin: an edit takes time with their number.
    deletable : int
        How many entries can be deleted before the cap changes, archived ones included.
    effective_neighbours : float or None
        On how many entries an answer rests: 1/Σ p², with the entries' shares p of the readout, at the median of a
        sample of the entries' own keys. None of an empty memory.
    recall : float or None
        Share of the 10 nearest other entries that are among the first 10 others of `search`, on average over a sample
        of the entries' own keys. Entries without weight are in no search. None where no two keys differ.
    sigma, cap : float
        Width and cap of the fit.
    nu : float or None
        Sparsity 1/(C n) at the entries that there are now. None of an empty memory.
    healthy : bool
        Whether the fit is of use: False where it is degenerate.
    warnings : tuple of str
        What is wrong with the fit, each with what to try. A column that tells nothing is named, too, though the fit
        can be healthy with it.

    """

    entries: int
    margin: float
    bound: float
    reserve: float
    margin_entries: int
    deletable: int
    effective_neighbours: float | None
    recall: float | None
    sigma: float
    cap: float
    nu: float | None
    healthy: bool
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields as a JSON object."""
        return {**asdict(self), "warnings": list(self.warnings)}

    def lines(self) -> list[str]:
        """The report in lines for a terminal: two, and one per warning."""
        if not self.entries:
            return [f"warning: {warning}" for warning in self.warnings]
        return [
            f"weights: {_percent(self.margin)} margin ({counted(self.margin_entries, 'entry')}), "
            f"{_percent(self.bound)} at the bound, {_percent(self.reserve)} in reserve; "
            f"{self.deletable:,} of {self.entries:,} entries can be deleted before the cap changes",
            f"an answer rests on about {counted(round(self.effective_neighbours or 0.0), 'entry')}{self._found()} "
            f"(width sigma {self.sigma:.4g}, sparsity nu {self.nu:.3g})",
            *(f"warning: {warning}" for warning in self.warnings),
        ]

    def _found(self) -> str:
        return "" if self.recall is None else f", a search finds {self.recall:.0%} of the 10 nearest"

    def _card(self) -> Card:
        shares = (("margin", self.margin), ("bound", self.bound), ("reserve", self.reserve))
        neighbours = (
            ""
            if self.effective_neighbours is None
            else f"rests on about {self.effective_neighbours:.0f} entries{self._found()}"
        )
        return Card(
            title="Report on a fit",
            sentence="of use" if self.healthy else "not of use as it is: see what to try",
            rows=(
                ("weights", ", ".join(f"{_percent(share)} {name}" for name, share in shares) if self.entries else ""),
                ("margin", counted(self.margin_entries, "entry") if self.entries else ""),
                ("can be deleted", f"{self.deletable} of {self.entries} entries before the cap changes"),
                ("an answer", neighbours),
                *(("warning", warning) for warning in self.warnings),
            ),
            details=(
                ("width σ", f"{self.sigma:.6g}"),
                ("cap C", f"{self.cap:.6g}"),
                ("sparsity ν", "" if self.nu is None else f"{self.nu:.4g}"),
            ),
        )


def fit_report(version: Version) -> FitReport:
    """Report on one version."""
    state, archive = version.state, version.warranties.archive
    entries = version.size + len(archive)
    groups = Partition.of(version.coefficients, state.cap)
    margin, bound = (group.size / max(1, entries) for group in (groups.margin, groups.bound))
    neighbours, recall, found, notes = None, None, ["the memory is empty: admit an entry first"], []
    if version.size:
        keys = np.vstack([version.keys, *(entry.key for entry in archive.values())]) if archive else version.keys
        sample = sample_keys(keys, SAMPLED)
        neighbours = _effective_neighbours(version, sample)
        recall = _recall(version, keys, sample)
        called = [column.name for column in key_columns(version)]
        constant = [called[column] for column in np.flatnonzero(np.ptp(keys, axis=0) == 0.0)]
        found = []
        if entries < HANDFUL:
            only = "is only 1 entry" if entries == 1 else f"are only {entries} entries"
            found.append(f"there {only}: add more, at least {HANDFUL}, before you trust a score")
        elif len(sample) == 1:
            found.append("all entries have the same key: give columns that tell them apart")
        else:
            notes = [f"{_listed(constant)} the same in every entry: leave out such columns"] if constant else []
            # Where entries were forgotten, those in reserve are gone, and shares of the others say nothing.
            shares = (0.0, 0.0) if version.warranties.forgotten else (margin, bound)
            found = [
                *_key_warnings(keys, sample, called, dimension=keys.shape[1] - len(constant)),
                *_weight_warnings(shares[1]),
                *_width_warnings(keys, sample, state.gram.sigma, 1.0 / (state.cap * entries), shares[0]),
            ]
    return FitReport(
        entries,
        margin,
        bound,
        reserve=max(0, groups.reserve.size + len(archive)) / max(1, entries),
        margin_entries=groups.margin.size,
        deletable=version.deletable,
        effective_neighbours=neighbours,
        recall=recall,
        sigma=state.gram.sigma,
        cap=state.cap,
        nu=1.0 / (state.cap * entries) if version.size else None,
        healthy=not found,
        warnings=(*found, *notes),
    )


def _shares(version: Version, points: Matrix) -> tuple[Matrix, Matrix]:
    """Shares of the active entries in the readouts at points (m, d), (m, active), and the keys of these entries."""
    active = canonical_order(version.keys, version.values, version.coefficients)
    keys, weights = version.keys[active], version.coefficients[active]
    shares = readout_weights(keys, weights, points, version.state.gram.sigma)
    return shares / shares.sum(axis=1, keepdims=True), keys


def _effective_neighbours(version: Version, sample: Matrix) -> float:
    """1/Σ p² of the shares p that entries have in the readout, at the median of the sampled keys."""
    shares, _ = _shares(version, _queries(sample, version.keys[version.coefficients != 0.0]))
    return float(np.median(1.0 / (shares * shares).sum(axis=1)))


def _recall(version: Version, keys: Matrix, sample: Matrix) -> float | None:
    """How many of the 10 nearest others are first in a search, on average; entries with the query's own key are none.

    Entries as near as the tenth count, so that the order of equal distances does not matter.
    """
    points = _queries(sample, keys)
    squares = squared_distances(points, keys)
    squares[squares == 0.0] = np.inf
    others = np.minimum(NEAREST, np.isfinite(squares).sum(axis=1))
    if not others.all():
        return None
    within = np.partition(squares, np.unique(others - 1), axis=1)[np.arange(len(points)), others - 1]
    shares, active = _shares(version, points)
    away = squared_distances(points, active)
    shares[away == 0.0] = -1.0
    first = np.argsort(-shares, axis=1, kind="stable")[:, :NEAREST]
    ranks = np.arange(first.shape[1]) < others[:, None]
    found = (np.take_along_axis(away, first, axis=1) <= within[:, None]) & (
        np.take_along_axis(shares, first, axis=1) >= 0.0
    )
    return float(np.mean((found & ranks).sum(axis=1) / others))


def _queries(sample: Matrix, keys: Matrix) -> Matrix:
    """As many of the sampled keys, evenly taken, as can be compared with all these keys at a bounded cost."""
    count = min(len(sample), max(16, min(QUERIES, BUDGET // keys.size)))
    return sample[_evenly(len(sample), count)]


def _evenly(size: int, most: int) -> IndexArray:
    """At most so many places in a row of a size, evenly apart."""
    return np.linspace(0, size - 1, min(size, most)).astype(np.int64)


def _key_warnings(keys: Matrix, sample: Matrix, called: list[str], *, dimension: int) -> list[str]:
    """Entries that are copies, and one of several columns that decides alone."""
    found = []
    if len(sample) < min(DISTINCT * len(keys), SAMPLED):
        found.append(
            f"the {len(keys):,} entries have only {len(sample):,} distinct keys: add columns that tell entries apart, "
            "or keep one entry of each"
        )
    # Keys that follow each other in the sample are nearly equal in their first column.
    few = sample[_evenly(len(sample), PAIRED)]
    first, second = np.triu_indices(len(few), 1)
    pairs = (few[first] - few[second]) ** 2
    total = pairs.sum(axis=1, keepdims=True)
    portions = (pairs / np.where(total > 0.0, total, 1.0)).mean(axis=0)
    most = int(portions.argmax())
    if dimension > 1 and portions[most] > DOMINANT:
        found.append(
            f"{called[most]} alone makes {portions[most]:.0%} of the squared distance between two entries: "
            "scale the columns, or leave it out"
        )
    return found


def _weight_warnings(bound: float) -> list[str]:
    if bound > BOUND_LIMIT:
        return [f"{bound:.0%} of the entries are at the bound, where all weights are equal: rebuild with a smaller nu"]
    return []


def _width_warnings(keys: Matrix, sample: Matrix, sigma: float, nu: float, margin: float) -> list[str]:
    """Whether σ is too narrow or too wide for the keys, of which `margin` is the share on the margin."""
    auto = choose_width(keys, nu=min(1.0, nu))
    wider = (
        f"rebuild with a wider one, such as {auto:.4g} (auto)"
        if auto > sigma
        else f"leave out columns that say little, or rebuild with a wider one, such as {2.0 * sigma:.4g}"
    )
    squares = np.partition(squared_distances(_queries(sample, keys), keys), 1, axis=1)[:, 1]
    if np.median(squares) > sigma * sigma:
        return [f"most entries have no other entry within a width, sigma = {sigma:.4g}: {wider}"]
    if margin > MARGIN_LIMIT:
        return [
            f"{margin:.0%} of the entries are on the margin, so new ones like them will often be outside: "
            f"sigma = {sigma:.4g} is narrow; {wider}"
        ]
    if sigma > FLAT * auto:
        return [
            f"sigma = {sigma:.4g} is so wide that all entries look alike, and every answer is nearly the same: "
            f"rebuild with a narrower one, such as {auto:.4g} (auto)"
        ]
    return []


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or not share else "under 1%"


def _listed(names: list[str]) -> str:
    """Names with the verb: at most three of them."""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"
