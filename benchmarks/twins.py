"""Twins: a memory after a random history against fresh fits of its entries, bit by bit.

Each history ends with entries; compared are, as bits: coefficients and offset, with a fresh fit of live and archived
entries, with a fit of the live entries in a permuted order, and with the doubles nearest to an evaluation of the
exact optimum in balls that shares no code with the package (`ball_optimum`); readouts, scores and the digest (same
salts) with the fresh fit; the bytes of the save file where nothing is pruned, or the last act was the pruning. `make
twins` prints how many of how many and writes benchmarks/results/twins.json; a failure stays in the count.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import secrets
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from ball_optimum import Undecided, exact_readout, nearest_doubles
from expunge import Memory, SolveError
from expunge.memory.first_version import first_version
from expunge.memory.snapshot import pack
from expunge.problem.problem import Problem
from histories import FAMILIES, History, play
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"


@dataclass
class Outcome:
    """What came of one history."""

    number: int
    family: str = ""
    failures: list[str] = field(default_factory=list)
    special: bool = False
    edits: int = 0
    refused: int = 0
    rescued: int = 0
    refused_fit: bool = False  # beyond the stated limits from the start
    beyond: int = 0  # attempts of edits that were beyond the stated limits
    balls: int = 0  # edits that pairs of doubles did not decide
    balls_seconds: float = 0.0
    decided: int = 0  # edits that had last bits to decide
    saved: bool = False
    ties: int = 0
    readout: float = 0.0  # largest error of a readout, over the range of the values
    check_seconds: float = 0.0


def twin_of(memory: Memory) -> Memory:
    """Fit live and archived entries afresh, with the same ids and salts."""
    keys, columns = memory.version.columns(archived=True)
    problem, preprocessing = Problem(keys, memory.cap, memory.sigma), memory.version.preprocessing
    version, attempts = first_version(problem, *columns, preprocessing=preprocessing)
    return Memory(version, attempts=attempts)


def compare(seed: int, number: int) -> Outcome:
    """Play one history and compare it with its twins."""
    found = Outcome(number, FAMILIES[number % len(FAMILIES)])
    try:
        history = play(seed, number)
    except SolveError as problem:
        # The first fit is refused: no history, and none is counted as equal.
        found.refused_fit = problem.code == "beyond-exact-limits"
        if not found.refused_fit:
            found.failures.append(f"{type(problem).__name__}: {problem}")
        return found
    try:
        _compare(seed, number, history, found)
    except Undecided as problem:
        found.failures.append(f"the ball evaluation does not decide: {problem}")
    except Exception:
        found.failures.append(traceback.format_exc(limit=-3))
    return found


def _compare(seed: int, number: int, history: History, found: Outcome) -> None:
    memory = history.memory
    found.special, found.edits = history.special, history.acts.total()
    found.refused, found.rescued = history.refused, history.rescued
    found.decided = sum(attempt.exactness is not None for attempt in history.attempts)
    hard = [attempt for attempt in history.attempts if attempt.exactness == "balls"]
    found.balls, found.balls_seconds = len(hard), sum(attempt.seconds for attempt in hard)
    found.beyond += sum("too close together" in (attempt.error or "") for attempt in history.attempts)

    started = time.perf_counter()
    archived = [row.id for row in memory.warranties() if row.mode == "archive"]
    forgotten = [row.id for row in memory.warranties() if row.mode == "forget"]
    twin = twin_of(memory)
    weights = dict(zip(twin.ids, twin.coefficients.tolist(), strict=True))
    mine = dict(zip(memory.ids, memory.coefficients.tolist(), strict=True))
    differs = found.failures.append
    if mine != {name: weights[name] for name in mine}:
        differs("coefficients differ from a fresh fit")
    if any(weights[name] != 0.0 for name in archived):
        differs("an archived entry has a weight in the fresh fit")
    if memory.offset.hex() != twin.offset.hex():
        differs("the offset differs from a fresh fit")
    if not len(memory):
        found.saved = not forgotten
        if memory.digest != memory.refit().digest or (found.saved and pack(twin) != pack(memory)):
            differs("an emptied memory differs from one that never held an entry")
        found.check_seconds = time.perf_counter() - started
        return
    rng = np.random.default_rng([seed, number, 1])
    order = rng.permutation(len(memory))
    permuted = Memory.fit(memory.keys[order], memory.values[order], sigma=memory.sigma, cap=memory.cap)
    if permuted.coefficients.tobytes() != memory.coefficients[order].tobytes() or permuted.offset != memory.offset:
        differs("coefficients or offset differ from the fit of a permuted order")
    centre, spread = memory.keys.mean(axis=0), memory.keys.std() + memory.sigma
    queries = np.vstack([memory.keys[:3], centre + spread * rng.standard_normal((5, memory.dimension))])
    for other, name in ((twin, "a fresh fit"), (permuted, "the fit of a permuted order")):
        if other.read(queries).tobytes() != memory.read(queries).tobytes():
            differs(f"readouts differ from those of {name}")
        if other.score(queries).tobytes() != memory.score(queries).tobytes():
            differs(f"scores differ from those of {name}")
    if memory.refit().digest != memory.digest:
        differs("the digest differs from that of a refit")
    if archived:
        twin.prune("archive")
    if not forgotten and set(twin.ids) == set(memory.ids):
        found.saved = True
        if pack(twin) != pack(memory):
            differs("the save file differs from that of a fresh fit")

    keys, columns = memory.version.columns(archived=True)
    guess = np.array([weights[name] for name in columns[1]])
    exact = nearest_doubles(keys, memory.cap, memory.sigma, guess)
    if exact.coefficients.tobytes() != guess.tobytes():
        differs("coefficients differ from the doubles nearest to the exact optimum")
    if exact.offset.hex() != memory.offset.hex():
        differs("the offset differs from the double nearest to the exact one")
    # One query at a key, one between keys, one away from all of them.
    probes = np.array([memory.keys[0], centre, queries[-1]])
    values = columns[0]
    spread = float(np.ptp(values)) or 1.0
    for probe, answer in zip(probes, memory.read(probes), strict=True):
        truth = exact_readout(keys, values, exact.balls, memory.sigma, probe)
        errors = (abs(float(ball.mid() - float(given))) for ball, given in zip(truth, answer, strict=True))
        found.readout = max(found.readout, max(errors) / spread)
    found.ties, found.check_seconds = exact.ties, time.perf_counter() - started


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--histories", type=int, default=10_000)
    options.add_argument("--seed", type=int, help="repeat a run; drawn and printed otherwise")
    options.add_argument("--only", type=int, help="one history by its number")
    options.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    options.add_argument("--out", type=Path, default=RESULTS / "twins.json")
    chosen = options.parse_args()
    seed = secrets.randbits(32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    if chosen.only is not None:
        print(json.dumps(asdict(compare(seed, chosen.only)), indent=1))
        return
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    # Fork would copy the threads of the linear algebra.
    with multiprocessing.get_context("spawn").Pool(chosen.jobs) as pool:
        for outcome in pool.imap_unordered(partial(compare, seed), range(chosen.histories), chunksize=4):
            outcomes.append(outcome)
            for failure in outcome.failures:
                print(f"FAILED --seed {seed} --only {outcome.number} ({outcome.family}): {failure}", flush=True)
            if len(outcomes) % 500 == 0:
                print(f"{len(outcomes)} of {chosen.histories}, {time.perf_counter() - started:.0f} s", flush=True)
    content = summary(seed, outcomes, time.perf_counter() - started)
    print(json.dumps(content, indent=1))
    write_result(chosen.out, {"machine": describe(), **content})


def summary(seed: int, outcomes: list[Outcome], seconds: float) -> dict[str, object]:
    """Counts over all histories; a failure stays in the count."""
    total = len(outcomes)
    failed = [one for one in outcomes if one.failures]
    return {
        "seed": seed,
        "histories": total,
        "bit_equal": total - len(failed) - sum(one.refused_fit for one in outcomes),
        "failed": [{"number": one.number, "family": one.family, "failures": one.failures} for one in failed],
        "beyond_stated_limits": sum(one.beyond > 0 or one.refused_fit for one in outcomes),
        "with_prune_restore_and_readmit": sum(one.special for one in outcomes),
        "save_files_compared": sum(one.saved for one in outcomes),
        "edits": sum(one.edits for one in outcomes),
        "edits_with_bits_to_decide": sum(one.decided for one in outcomes),
        "edits_that_needed_balls": sum(one.balls for one in outcomes),
        "histories_that_needed_balls": sum(one.balls > 0 for one in outcomes),
        "seconds_in_edits_with_balls": round(sum(one.balls_seconds for one in outcomes), 1),
        "refused_edits": sum(one.refused for one in outcomes),
        "rescued_edits": sum(one.rescued for one in outcomes),
        "histories_with_ties": sum(one.ties > 0 for one in outcomes),
        "worst_readout_error_of_range": max((one.readout for one in outcomes), default=0.0),
        "readouts_off_by_more_than_1e-12": Counter(one.family for one in outcomes if one.readout > 1e-12),
        "seconds": round(seconds, 1),
        "by_family": {
            family: {"histories": count, "failed": sum(one.family == family for one in failed)}
            for family, count in sorted(Counter(one.family for one in outcomes).items())
        },
    }


if __name__ == "__main__":
    main()
