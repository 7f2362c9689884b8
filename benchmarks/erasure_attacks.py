"""Every attack on an erased entry that we know of, and games A, B and C, with the attacker's advantage.

The attacker holds all other entries, the code, and what the row says that it sees. An advantage of 0 is that of
guessing, 1 is certainty; the interval is the exact 95 % one. `make attacks` prints the table and writes
benchmarks/results/attacks.json. The last groups are not promised: game C, an attacker who saw the state before the
erasure, entries that remain, and numbers that a caller learned from the entries and keeps.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sqlalchemy import select

import expunge
from attackers.advantage import Score, gain_over_guessing
from attackers.anchors import (
    closest_error,
    keys_from_warranties,
    neighbours_from_sketches,
    two_keys_from_warranties,
)
from attackers.database_files import decrypted_from_files
from attackers.forgotten_sets import pruned_sets
from attackers.last_bits import ARTIFACTS, Ward, draw_ward, single_out
from attackers.near_duplicates import error_of, tangent_pair, tight_clusters
from attackers.preprocessing import (
    candidates_by_numbers,
    chosen_numbers,
    deviations_on_grid,
    dose_rows,
    exact_numbers,
    exact_width,
    kept_by_a_memory,
    row_from_mean,
    ward_rows,
)
from attackers.receipts import deciding_fields, fields_of, group_of, noise_fields
from attackers.reconstruction import from_coefficients, from_scores
from attackers.state_hashes import ENVIRONMENTS, hashes_under
from attackers.twin_worlds import HISTORIES, draw_world, twin_memories, twin_stores
from attackers.undeleted import reveal_by_own_deletions
from expunge import Memory
from expunge.preprocessing.width import choose_width
from expunge.store.backends import tables
from record import describe, write_result

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from store.postgres_server import running_server

RESULTS = Path(__file__).parent / "results"
RECOVERED = 1e-6
FAMILIES = ("gaussian", "near-duplicate", "lattice")
SEPARATIONS = (1e-3, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-14)
# Rows of which the width is not the median distance alone.
MANY = 24_000
# Every full-size trial count is divided by this with --quick.
QUICK = 20

Rng = np.random.Generator
Mode = Literal["archive", "forget"]
Draw = Callable[[Rng, int], npt.NDArray[np.float64]]
Numbers = Callable[[npt.NDArray[np.float64]], Any]


class Attacks:
    """All attacks of one seed; each method yields scores."""

    def __init__(self, seed: int, quick: bool) -> None:
        self.seed, self.quick = seed, quick
        self.details: dict[str, Any] = {}

    def count(self, full: int) -> int:
        """Trials at this size."""
        return max(full // QUICK, 2) if self.quick else full

    def rng(self, *numbers: int) -> Rng:
        """Random numbers of one trial."""
        return np.random.default_rng([self.seed, *numbers])

    def last_bits(self) -> Iterator[Score]:
        """Re-run 50 candidates (1,001 for the bundle) and compare bits."""
        for place, (name, artifact) in enumerate(ARTIFACTS.items()):
            trials, candidates = (self.count(60), 50) if name != "evidence bundle" else (self.count(20), 1001)
            gain, alone = 0.0, 0
            for trial in range(trials):
                rng = self.rng(1, place, trial)
                ward, draw = draw_ward(rng, FAMILIES[trial % len(FAMILIES)])
                keys = [draw() for _ in range(candidates)]
                true = int(rng.integers(candidates))
                replay = partial(_replayed, ward, artifact)
                left = single_out(replay(keys[true]), keys, replay)
                gain += gain_over_guessing(len(left), candidates) if true in left else 0.0
                alone += left == [true]
            yield Score(f"last bits, {candidates:,} candidates", name, trials, gain, alone)

    def processors(self) -> Iterator[Score]:
        """The same history elsewhere: a difference would tell where, and break every comparison of hashes."""
        histories = self.count(60)
        first, differ = None, []
        for name, settings in ENVIRONMENTS.items():
            found = hashes_under(settings, self.seed, histories)
            first = found if first is None else first
            if found != first:
                differ.append(name)
        note = ", ".join(differ) or f"{histories} histories each"
        yield Score("other processors", "hashes", len(ENVIRONMENTS), len(differ), len(differ), note)

    def warranties(self) -> Iterator[Score]:
        """Prune, erase an active entry, vacuum, admit five more; then read the database file."""
        for mode in ("archive", "forget"):
            for group in ("margin", "bound"):
                trials, errors = self.count(60), []
                for trial in range(trials):
                    rng = self.rng(2, mode == "forget", group == "bound", trial)
                    errors.append(self._one_warranty(rng, mode, group, (4, 6, 8, 16)[trial % 4]))
                hits = sum(error < RECOVERED for error in errors)
                name = f"warranties, {mode}, {group} victim"
                yield Score(name, "database file", trials, hits, hits, _least(errors))
        trials, errors = self.count(20), []
        for trial in range(trials):
            errors.append(self._two_of_a_subject(self.rng(3, trial)))
        hits = sum(error < RECOVERED for error in errors)
        yield Score("warranties, two keys of a subject", "database file", trials, hits, hits, _least(errors))
        trials, hits = self.count(60), 0
        for trial in range(trials):
            hits += self._sketch(self.rng(4, trial))
        yield Score("sketches of an erased neighbour", "database file", trials, hits, hits)

    def _one_warranty(self, rng: Rng, mode: Mode, group: str, d: int) -> float:
        keys = {f"e{row}": rng.standard_normal(d) for row in range(60)}
        with _stored(keys, rng, sigma=float(np.sqrt(d))) as (open_store, memory):
            memory.prune(mode, sketch=2 if mode == "forget" else 0)
            rows = getattr(memory.partition, group)
            rows = rows if rows.size else np.flatnonzero(memory.coefficients)
            victim = memory.ids[int(rows[int(rng.integers(rows.size))])]
            memory.delete(victim)
            for number in range(5):
                memory.admit(rng.standard_normal(d), [0.0, 0.0], id=f"later-{number}")
            version = open_store(vacuum=True)
            return closest_error(keys_from_warranties(version, keys), keys[victim])

    def _two_of_a_subject(self, rng: Rng) -> float:
        keys = {f"e{row}": rng.standard_normal(4) for row in range(60)}
        with _stored(keys, rng, sigma=2.0) as (open_store, memory):
            memory.prune("forget")
            active = [memory.ids[row] for row in np.flatnonzero(memory.coefficients)]
            victims = rng.choice(active, size=2, replace=False).tolist()
            memory.delete(victims)
            found = two_keys_from_warranties(open_store(vacuum=True), keys, rng)
            return max(closest_error([*found], keys[victim]) for victim in victims)

    def _sketch(self, rng: Rng) -> bool:
        keys = {f"e{row}": rng.standard_normal(4) for row in range(60)}
        with _stored(keys, rng, sigma=2.0) as (open_store, memory):
            memory.prune("forget", sketch=2)
            active = np.flatnonzero(memory.coefficients)
            row = int(active[int(rng.integers(active.size))])
            victim, weight = memory.ids[row], float(memory.coefficients[row])
            memory.delete(victim)
            for name, kernel in neighbours_from_sketches(open_store(vacuum=False), weight):
                true = float(np.exp(-np.square(keys[name] - keys[victim]).sum() / 4.0))
                if abs(true - kernel) < RECOVERED:
                    return True
        return False

    def statistics(self) -> Iterator[Score]:
        """PostgreSQL: ANALYZE, erase 40 of 200, vacuum; then look for salts in the server's files."""
        erased = 40
        with running_server() as server, tempfile.TemporaryDirectory() as folder:
            store = expunge.open(server.new_schema(), signing_key=Path(folder) / "key.pem")
            rng = self.rng(5)
            names = [f"e{row}" for row in range(200)]
            memory = store.create(
                "m", rng.standard_normal((200, 4)), rng.standard_normal((200, 2)), sigma=2.0, nu=0.4, ids=names
            )
            store.vacuum()
            contents = select(tables.entries.c.number, tables.entries.c.content)
            with store._database.reading() as connection:
                before = {row.number: row.content for row in connection.execute(contents)}
            for name in rng.choice(names, size=erased, replace=False).tolist():
                memory.delete(name)
            store.vacuum()
            with store._database.reading() as connection:
                after = {row.number for row in connection.execute(contents)}
            store.close()
            server.run("CHECKPOINT")
            gone = [content for number, content in before.items() if number not in after]
            hits = len(list(decrypted_from_files(server.folder / "base", gone)))
        yield Score("PostgreSQL statistics", "data directory, old ciphertexts", len(gone), hits, hits)

    def near_duplicates(self) -> Iterator[Score]:
        """Readouts further than 10⁻¹² of the range from the exact ones, or coefficients not the nearest doubles."""
        for name, make, cap in (("tangent pair", tangent_pair, 1.0), ("tight clusters", tight_clusters, 0.2)):
            each = self.count(100)
            wrong, refused, worst_readout, worst_weight = 0, 0, 0.0, 0.0
            for place, separation in enumerate(SEPARATIONS):
                for trial in range(each):
                    rng = self.rng(6, len(name), place, trial)
                    keys, values, sigma = make(rng, separation)
                    try:
                        memory = Memory.fit(keys, values, sigma=sigma, cap=cap)
                    except expunge.SolveError:
                        refused += 1
                        continue
                    error = error_of(memory, keys[:1] + rng.standard_normal((3, keys.shape[1])))
                    wrong += error.readout > 1e-12 or not error.bits_equal
                    worst_readout, worst_weight = (
                        max(worst_readout, error.readout),
                        max(worst_weight, error.coefficient),
                    )
            note = f"worst readout {worst_readout:.1e} of range, coefficient {worst_weight:.1e}; {refused} refused"
            trials = each * len(SEPARATIONS)
            yield Score(f"near-duplicates wrong, {name}", "coefficients, readouts", trials, wrong, wrong, note)

    def game_a(self) -> Iterator[Score]:
        """Twins: one of two worlds once held x."""
        for name, play, full in (("memories", twin_memories, 1000), ("stores", twin_stores, 1000)):
            trials, told, where = self.count(full), 0, Counter[str]()
            for trial in range(trials):
                rng = self.rng(7, trial)
                world = draw_world(rng)
                differ = play(world, HISTORIES[trial % len(HISTORIES)], int(rng.integers(len(world.first))))
                told += bool(differ)
                where.update(differ)
            self.details[f"game A, {name}"] = dict(where)
            note = ", ".join(f"{field} {count}" for field, count in where.most_common(4))
            yield Score(f"game A, twin {name}", "all bytes", trials, told, told, note)

    def game_b(self) -> Iterator[Score]:
        """Which of x₀ and x₁ was erased, from receipts."""
        for kind in ("any group", "same group", "any group, archive"):
            trials, told, where, noise, played = self.count(300), 0, Counter[str](), set[str](), 0
            number = 0
            while played < trials:
                rng = self.rng(8, len(kind), number)
                number += 1
                keys, values = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
                options = {"sigma": 2.0, "cap": 1.0 / 12.0}
                x0, x1 = rng.standard_normal((2, 4))
                if kind == "same group" and group_of(keys, values, x0, **options) != group_of(
                    keys, values, x1, **options
                ):
                    continue
                pruned = kind.endswith("archive")
                seen, again, other = (fields_of(keys, values, x, pruned=pruned, **options) for x in (x0, x0, x1))
                # A clock may show the same in two runs, so what was once seen to be noise stays it.
                noise |= noise_fields(seen, again)
                decide = deciding_fields(seen, other, noise)
                told += bool(decide)
                where.update(decide)
                played += 1
            self.details[f"game B, {kind}"] = {"decide": dict(where), "random or clock": sorted(noise)}
            note = ", ".join(f"{field} {count}" for field, count in where.most_common(3))
            yield Score(f"game B, {kind}", "receipts", trials, told, told, note)

        trials, gain, alone, left_in_all = self.count(60), 0.0, 0, 0
        for trial in range(trials):
            rng = self.rng(13, trial)
            keys, values = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
            candidates = rng.standard_normal((20, 4))
            shown = [fields_of(keys, values, x, sigma=2.0, cap=1 / 12) for x in candidates]
            noise = noise_fields(shown[0], fields_of(keys, values, candidates[0], sigma=2.0, cap=1 / 12))
            left = sum(not deciding_fields(shown[0], other, noise) for other in shown)
            gain, alone, left_in_all = gain + gain_over_guessing(left, 20), alone + (left == 1), left_in_all + left
        note = f"{left_in_all / trials:.1f} of 20 candidates left on average"
        yield Score("game B, 20 candidates", "receipts", trials, gain, alone, note)

    def game_c(self) -> Iterator[Score]:
        """Which entries a pruning took depended on x: not promised."""
        for mode, again in (("forget", False), ("archive", False), ("archive", True)):
            trials, told = self.count(300), 0
            for trial in range(trials):
                rng = self.rng(9, mode == "forget", trial)
                keys, values = rng.standard_normal((40, 4)), rng.standard_normal((40, 2))
                pair = (rng.standard_normal(4), rng.standard_normal(4))
                found = pruned_sets(keys, values, pair, sigma=2.0, cap=1 / 16, mode=mode, again=again)  # type: ignore[arg-type]
                told += found.tells_which
            name = f"game C, {mode}" + (", pruned again" if again else "")
            yield Score(name, "which entries are pruned", trials, told, told, "not promised" * (not again))

    def seen_before(self) -> Iterator[Score]:
        """Reconstruction by an attacker who saw the state before the erasure as well."""
        for name, trials in (("coefficients", self.count(200)), ("16 scores", self.count(60))):
            errors = []
            for trial in range(trials):
                rng = self.rng(10, len(name), trial)
                keys, values = rng.standard_normal((41, 4)), rng.standard_normal((41, 2))
                memory = Memory.fit(keys, values, sigma=2.0, cap=1 / 16)
                active = np.flatnonzero(memory.coefficients)
                row = int(active[int(rng.integers(active.size))])
                others, rest = np.delete(keys, row, axis=0), np.delete(memory.coefficients, row)
                if name == "coefficients":
                    guess = from_coefficients(others, rest, memory.offset, memory.cap, 2.0)
                else:
                    queries = rng.standard_normal((16, 4))
                    answers = memory.score(queries)
                    guess = from_scores(others, queries, answers, cap=memory.cap, sigma=2.0, rng=rng)
                errors.append(closest_error([] if guess is None else [guess], keys[row]))
            hits = sum(error < RECOVERED for error in errors)
            note = f"median error {np.median(errors):.1e}; nobody can take back what was seen"
            yield Score("reconstruction", f"{name} before and after", trials, hits, hits, note)

    def undeleted(self) -> Iterator[Score]:
        """Someone else's reserve entry, by an attacker who deletes entries of its own."""
        trials, hidden, shown, found, deletions = self.count(60), 0, 0, 0, 0
        for trial in range(trials):
            rng = self.rng(14, trial)
            keys = rng.standard_normal((41, 4))
            memory = Memory.fit(keys, np.zeros((41, 1)), sigma=2.0, cap=1 / 16)
            row = int(rng.choice(memory.partition.reserve))
            own = [name for name in rng.permutation(memory.ids).tolist() if name != memory.ids[row]][:20]
            answer = reveal_by_own_deletions(memory, memory.ids[row], own, rng.standard_normal((16, 4)), rng)
            hidden += answer.hidden_before
            shown += answer.key is not None
            deletions += answer.deletions
            found += answer.key is not None and closest_error([answer.key], keys[row]) < RECOVERED
        told = trials - hidden
        yield Score("a reserve entry that remains", "16 scores", trials, told, told)
        note = f"seen to be there in {shown}; {deletions / trials:.1f} own deletions on average; not promised"
        yield Score("a reserve entry that remains", "16 scores, own deletions", trials, found, found, note)

    def preprocessing(self) -> Iterator[Score]:
        """Numbers that were learned from the entries and kept: by a caller at full precision, by a memory on a grid."""
        trials, errors = self.count(200), []
        for trial in range(trials):
            rng = self.rng(11, trial)
            rows = rng.standard_normal((60, 6))
            errors.append(float(np.abs(row_from_mean(rows.mean(axis=0), rows[1:]) - rows[0]).max()))
        hits = sum(error < RECOVERED for error in errors)
        yield Score("a mean kept by the caller", "mean before", trials, hits, hits, _least(errors))
        # What is drawn, whether nobody but the erased row has the last column, the numbers kept, and how to get them.
        learned: dict[str, tuple[Draw, bool, Numbers, Numbers]] = {
            "median distance": (_gaussian_rows, False, exact_width, exact_width),
            "width on its grid": (_gaussian_rows, False, choose_width, choose_width),
            "width of many keys": (_many_rows, False, _width_of_many, _width_of_many),
            "medians and quartiles": (ward_rows, False, exact_numbers, exact_numbers),
            "columns, width": (ward_rows, False, kept_by_a_memory, chosen_numbers),
            "deviation on grid, one dose": (dose_rows, True, deviations_on_grid, deviations_on_grid),
            "columns, width, one dose": (dose_rows, True, kept_by_a_memory, chosen_numbers),
        }
        for name, (draw, only, kept, numbers) in learned.items():
            gain, alone, left_in_all = 0.0, 0, 0
            # A width of many keys takes fits of samples.
            trials = self.count(10 if draw is _many_rows else 200)
            for trial in range(trials):
                rng = self.rng(12, trial)
                rows, candidates = draw(rng, MANY if draw is _many_rows else 59), [*draw(rng, 50)]
                if only:
                    rows[:, -1] = 0.0
                left = candidates_by_numbers(rows, candidates, kept(np.vstack([rows, candidates[0]])), numbers)
                gain += gain_over_guessing(len(left), 50) if 0 in left else 0.0
                alone += left == [0]
                left_in_all += len(left)
            note = f"{left_in_all / trials:.1f} of 50 candidates left on average"
            sees = "save file" if kept is kept_by_a_memory else "number before"
            yield Score(f"{name}, 50 candidates", sees, trials, gain, alone, note)


def _many_rows(rng: Rng, size: int) -> npt.NDArray[np.float64]:
    """A cloud, and keys that have no other within the median distance: so many that the width is not the median."""
    apart = rng.random(size) < 0.25
    return np.where(apart, 5.0, 1.0)[:, None] * rng.standard_normal((size, 40))


def _width_of_many(rows: npt.NDArray[np.float64]) -> float:
    return choose_width(rows, nu=0.01)


def _gaussian_rows(rng: Rng, size: int) -> npt.NDArray[np.float64]:
    return rng.standard_normal((size, 6))


def _replayed(ward: Ward, artifact: Callable[[Memory, Ward], bytes], key: npt.NDArray[np.float64]) -> bytes:
    return artifact(ward.after(key), ward)


@contextmanager
def _stored(keys: dict[str, Any], rng: Rng, *, sigma: float) -> Iterator[tuple[Callable[..., Any], Any]]:
    """A store in a file, its memory, and how an attacker opens a copy of the file."""
    memory = Path("/dev/shm")  # noqa: S108 — what this waits for is mostly the disk
    folder = Path(tempfile.mkdtemp(prefix="attack", dir=memory if memory.is_dir() else None))
    url, key = f"sqlite:///{folder / 'store.db'}", folder / "key.pem"
    store = expunge.open(url, signing_key=key)

    def reopened(*, vacuum: bool) -> Any:
        if vacuum:
            store.vacuum()
        store.close()
        other = expunge.open(url, signing_key=key)
        try:
            return other["m"].look(lambda version: version)
        finally:
            other.close()

    try:
        points: npt.NDArray[np.float64] = np.array([*keys.values()])
        values = rng.standard_normal((len(keys), 2))
        yield reopened, store.create("m", points, values, sigma=sigma, nu=0.4, ids=[*keys])
    finally:
        store.close()
        shutil.rmtree(folder)


def _least(errors: list[float]) -> str:
    return f"smallest error {min(errors):.1e}" if np.isfinite(errors).any() else "nothing to solve for"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, help="repeat a run; drawn and printed otherwise")
    options.add_argument("--quick", action="store_true", help="a twentieth of the trials; writes no result")
    options.add_argument("--only", help="one group, by the name of its method")
    options.add_argument("--out", type=Path, default=RESULTS / "attacks.json")
    chosen = options.parse_args()
    seed = secrets.randbits(32) if chosen.seed is None else chosen.seed
    attacks = Attacks(seed, chosen.quick)
    print(f"seed {seed}, expunge {expunge.__version__}\n")
    print(f"{'attack':44s}{'sees':32s}{'trials':>7s}{'found':>7s}{'advantage':>11s}  95 % interval")
    scores: list[Score] = []
    started = time.perf_counter()
    for group in (
        *(attacks.last_bits, attacks.processors, attacks.warranties, attacks.statistics, attacks.near_duplicates),
        *(
            attacks.game_a,
            attacks.game_b,
            attacks.game_c,
            attacks.seen_before,
            attacks.undeleted,
            attacks.preprocessing,
        ),
    ):
        if chosen.only in (None, group.__name__):
            for score in group():
                scores.append(score)
                low, high = score.interval
                print(
                    f"{score.name:44s}{score.sees:32s}{score.trials:7d}{score.found:7d}{score.advantage:11.4f}"
                    f"  [{low:.4f}, {high:.4f}]  {score.note}",
                    flush=True,
                )
    seconds = round(time.perf_counter() - started, 1)
    print(f"\n{seconds} s")
    if not chosen.quick and chosen.only is None:
        content = {"seed": seed, "seconds": seconds, "attacks": [score.to_json() for score in scores]}
        write_result(chosen.out, {"machine": describe(), **content, "details": attacks.details})


if __name__ == "__main__":
    main()
