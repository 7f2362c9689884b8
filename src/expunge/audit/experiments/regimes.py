"""The contexts of the standalone deletion audit (paper, §3.4 and App. C), drawn and never solved.

A trial is a context, two rows to remove, and the probes at which solutions are compared. One ``default_rng(0)`` a
regime, shared by the generator of keys, the choice (``choice``, without replacement) and the probes' jitter, in this
order, trial after trial; so fewer trials are a prefix of more. Nothing that a solver does moves the stream.

- gaussian: 24 keys N(0, I) in 6 dimensions.
- redundant: 4 centres 2·N(0, I), then 6 copies of each + 0.02·N(0, I).
- clinical: ``integers`` picks a stay; its first 40 hours, less those within 0.1 of an earlier one.
- learned: 24 tokens N(0, I) in 16 dimensions, through the recall model's embedding and key projection.

Values come from streams of their own, also one a regime: N(0, 1)⁴ per retained key from ``default_rng(12345)`` for the
projection study, and one N(0, 1) per retained key from ``default_rng(54321)`` for the scalar readout.

Deviations from the paper: its clinical stays are MIMIC-IV v3.1, which is credentialed, and ours by default the 74 long
stays of the open demo; its learned weights are not public, and ours follow its recipe; it does not state the seed of
the scalar values; and after a trial without a decrement (one of 1,200) its stream skips the jitter, ours never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from expunge.datasets.cohorts import mimic_iv, physionet2019
from expunge.datasets.first_hours import icu_first_hours
from expunge.datasets.recall_model import NAME, recall_model
from expunge.datasets.vitals import distinct_hours
from expunge.errors import InputError
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "FACTS",
    "FACTS_CAP",
    "FACTS_SIGMA",
    "NU",
    "REGIMES",
    "SIGMA",
    "TRIALS",
    "Facts",
    "Trial",
    "clinical_stays",
    "draw_facts",
    "draw_own",
    "draw_trials",
]

REGIMES = ("gaussian", "redundant", "clinical", "learned")
NU, SIGMA, TRIALS = 0.4, 2.0, 300
SIZE, DIMENSION, TOKEN = 24, 6, 16
CENTRES, SPREAD, NOISE = 4, 2.0, 0.02
FIRST_HOURS, APART = 40, 0.1
REMOVED, JITTER, VALUE_WIDTH = 2, 0.1, 4
VALUE_SEED, SCALAR_SEED = 12345, 54321
# A context must keep a few keys after the removal to say anything.
FEWEST = REMOVED + 4
FACTS = 8
FACTS_CAP, FACTS_SIGMA = 0.2, 2.0


@dataclass(frozen=True, eq=False)
class Trial:
    """One deletion to audit.

    ``keys`` (n, d) is the context; ``removed`` (2,) are the rows to delete, in descending order, the order of their
    removal; ``jittered`` (n − 2, d) are the retained keys + 0.1·N(0, 1). ``values`` (n − 2, 4) and ``scalars`` (n − 2,)
    belong to the retained keys.
    """

    keys: Matrix
    removed: IndexArray
    jittered: Matrix
    values: Matrix
    scalars: Vector

    @property
    def cap(self) -> float:
        """C = 1/(0.4 n), set before the deletion."""
        return 1.0 / (NU * len(self.keys))

    @property
    def retained(self) -> Matrix:
        """The keys that stay (n − 2, d)."""
        return np.delete(self.keys, self.removed, axis=0)

    @property
    def probes(self) -> Matrix:
        """Retained, removed and jittered keys (2n − 2, d)."""
        return np.vstack([self.retained, self.keys[self.removed], self.jittered])


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts told to the recall model (docs/results/protocols.md, Record edits).

    ``keys`` (n, 32) are its keys, ``values`` (n, 8) what it decodes from each, ``targets`` (n, 8) what it was told,
    ``queries`` (n, 32) its query for each, the name given with noise 0.02; ``secret`` is the one to forget.
    An answer is right when the readout is nearest to the target asked for.
    """

    keys: Matrix
    values: Matrix
    targets: Matrix
    queries: Matrix
    secret: int


def draw_trials(regime: str, trials: int = TRIALS, *, source: str | Path | None = None) -> Iterator[Trial]:
    """Draw the first trials of a regime.

    ``source`` is for the clinical regime: a folder in MIMIC-IV's layout, or the PhysioNet 2019 challenge (a Parquet
    file or a folder of .psv files), instead of the stays that ship with the package.
    """
    if regime not in REGIMES:
        raise InputError(f"unknown regime {regime!r}: choose one of {', '.join(REGIMES)}")
    if source is not None and regime != "clinical":
        raise InputError(f"the {regime} regime takes no source")
    return _draw(_clinical(clinical_stays(source)) if regime == "clinical" else _GENERATORS[regime], trials)


def draw_own(keys: Matrix, trials: int, *, size: int) -> Iterator[Trial]:
    """Draw contexts of ``size`` rows, ``choice`` without replacement, from one's own keys (n, d)."""
    if not FEWEST <= size <= len(keys):
        raise InputError(f"contexts of {size} rows cannot be drawn from {len(keys)} keys; at least {FEWEST} are needed")
    return _draw(lambda rng: keys[rng.choice(len(keys), size, replace=False)], trials)


def draw_facts(trials: int, *, count: int = FACTS) -> Iterator[Facts]:
    """Draw facts for the recall model, from one ``default_rng(0)``: tokens, then the names' noise, then the secret."""
    model, rng = recall_model(), np.random.default_rng(0)
    for _ in range(trials):
        tokens = rng.standard_normal((count, TOKEN))
        names = tokens[:, :NAME] + model.noise * rng.standard_normal((count, NAME))
        secret = int(rng.integers(count))
        yield Facts(model.keys(tokens), model.values(tokens), tokens[:, NAME:], model.queries(names), secret)


def clinical_stays(source: str | Path | None = None) -> tuple[Matrix, ...]:
    """Standardized hours of each stay: of its first 40, those more than 0.1 from all before; stays with 6 or more."""
    if source is None:
        stays: Sequence[Matrix] = tuple(icu_first_hours().values())
    else:
        folder = Path(source)
        cohort = mimic_iv(folder) if (folder / "icu").is_dir() else physionet2019(folder)
        stays = tuple(stay.keys[:FIRST_HOURS] for stay in cohort.stays)
    distinct = (hours[distinct_hours(hours, APART)] for hours in stays)
    return tuple(hours for hours in distinct if len(hours) >= FEWEST)


def _draw(generate: Callable[[np.random.Generator], Matrix], trials: int) -> Iterator[Trial]:
    rng, contents, scalars = (np.random.default_rng(seed) for seed in (0, VALUE_SEED, SCALAR_SEED))
    for _ in range(trials):
        keys = generate(rng)
        kept = len(keys) - REMOVED
        removed = np.sort(rng.choice(len(keys), REMOVED, replace=False))[::-1].astype(np.int64)
        jittered = np.delete(keys, removed, axis=0) + JITTER * rng.standard_normal((kept, keys.shape[1]))
        values = contents.standard_normal((kept, VALUE_WIDTH))
        yield Trial(keys, removed, jittered, values, scalars.standard_normal(kept))


def _gaussian(rng: np.random.Generator) -> Matrix:
    return rng.standard_normal((SIZE, DIMENSION))


def _redundant(rng: np.random.Generator) -> Matrix:
    centres = SPREAD * rng.standard_normal((CENTRES, DIMENSION))
    return np.repeat(centres, SIZE // CENTRES, axis=0) + NOISE * rng.standard_normal((SIZE, DIMENSION))


def _clinical(stays: Sequence[Matrix]) -> Callable[[np.random.Generator], Matrix]:
    return lambda rng: stays[int(rng.integers(len(stays)))]


def _learned(rng: np.random.Generator) -> Matrix:
    # The paper's tokens are single precision, as the model's are.
    tokens = rng.standard_normal((SIZE, TOKEN)).astype(np.float32).astype(np.float64)
    return recall_model().keys(tokens)


_GENERATORS: dict[str, Callable[[np.random.Generator], Matrix]] = {
    "gaussian": _gaussian,
    "redundant": _redundant,
    "learned": _learned,
}
