"""Soundness and life of warranties, and whether the archive keeps its promise.

Soundness: after every edit, every pruned key reported `valid` has its true slack computed from its key; one
negative slack is a failure. Efficiency: the share of truly valid keys that are still under warranty after 10, 50
and 200 admissions, with scalars alone and with sketches. Archive: after every edit of a 200-edit stream,
coefficients against the memory that never pruned. `make warranties` prints the tables and writes
benchmarks/results/warranties.json and .png.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge import Memory
from expunge.datasets import conversations, icu_hours
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
MARKS = (10, 50, 200)
# Memories of a few keys: as many more of them.
MORE = {"on a line d=6": 50}
Draw = Callable[[int], npt.NDArray[np.float64]]


def gaussian(rng: np.random.Generator) -> tuple[Draw, float]:
    return lambda count: rng.standard_normal((count, 6)), 2.0


def near_duplicate(rng: np.random.Generator) -> tuple[Draw, float]:
    centres = 2.0 * rng.standard_normal((8, 6))
    return lambda count: centres[rng.integers(8, size=count)] + 0.02 * rng.standard_normal((count, 6)), 2.0


def clustered(rng: np.random.Generator) -> tuple[Draw, float]:
    """Unit vectors around 40 centres of uneven weight, as sentence embeddings are."""
    centres = rng.standard_normal((40, 384))
    odds = rng.dirichlet(np.full(40, 0.5))

    def draw(count: int) -> npt.NDArray[np.float64]:
        spread = rng.uniform(0.02, 0.3, size=(count, 1))
        points = centres[rng.choice(40, size=count, p=odds)] + spread * rng.standard_normal((count, 384))
        return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))

    return draw, 0.8


def on_a_line(rng: np.random.Generator) -> tuple[Draw, float]:
    """Tenths in one dimension of six, close together beside the width; of those admitted later, some are far away."""

    def draw(count: int) -> npt.NDArray[np.float64]:
        points = np.zeros((count, 6))
        far = count == 1 and rng.random() < 0.3
        points[:, 0] = np.round(rng.standard_normal(count) * (100.0 if far else 1.5), 1)
        return points

    return draw, 500.0


def copied(rng: np.random.Generator) -> tuple[Draw, float]:
    """One of 150 keys, again and again."""
    pool = rng.standard_normal((150, 6))
    return lambda count: pool[rng.integers(150, size=count)], 2.0


def shuffled(keys: npt.NDArray[np.float64], sigma: float) -> Callable[[np.random.Generator], tuple[Draw, float]]:
    """A real data set, drawn without replacement."""

    def start(rng: np.random.Generator) -> tuple[Draw, float]:
        order = list(rng.permutation(keys.shape[0]))

        def draw(count: int) -> npt.NDArray[np.float64]:
            taken = [order.pop() for _ in range(count)]
            return keys[taken]

        return draw, sigma

    return start


def streams() -> dict[str, tuple[Callable[[np.random.Generator], tuple[Draw, float]], int, float]]:
    hours, turns = icu_hours(), conversations()
    return {
        "Gaussian d=6": (gaussian, 512, 0.2),
        "near-duplicate d=6": (near_duplicate, 512, 0.2),
        "on a line d=6": (on_a_line, 6, 0.6),
        "copies d=6": (copied, 512, 0.2),
        "clustered d=384": (clustered, 512, 0.2),
        "ICU hours d=6": (shuffled(hours.keys, 3.0), min(300, hours.keys.shape[0] - 230), 0.3),
        "conversations d=384": (shuffled(turns.keys, 0.9), min(300, turns.keys.shape[0] - 230), 0.3),
    }


def watch(name: str, sketch: int, seeds: range, *, deletions: bool) -> dict[str, Any]:
    """Prune once, then edit 200 times; judge every pruned key after every edit."""
    start, size, nu = streams()[name]
    pairs = unsound = pruned = content = stored = 0
    kept = {mark: [0, 0] for mark in MARKS}
    seconds = 0.0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        draw, sigma = start(rng)
        keys = draw(size)
        memory = Memory.fit(keys, np.zeros((size, 1)), sigma=sigma, nu=nu)
        names = memory.prune("forget", sketch=sketch).applied
        gone = keys[[int(name) for name in names]]
        pruned += len(names)
        content += gone.nbytes + 8 * len(names)
        stored += memory.version.warranties.sketch_bytes
        admissions = 0
        while admissions < max(MARKS):
            began = time.perf_counter()
            if deletions and rng.random() < 0.5 and memory.deletable > 0:
                memory.delete(str(rng.choice(memory.ids)))
            else:
                memory.admit(draw(1)[0], np.zeros(1))
                admissions += 1
            seconds += time.perf_counter() - began
            status = {row.id: row.status for row in memory.warranties()}
            valid = np.array([status[name] == "valid" for name in names], dtype=bool)
            true = memory.solution.slack(gone) >= 0.0
            pairs += len(names)
            unsound += int(np.count_nonzero(valid & ~true))
            if admissions in MARKS:
                kept[admissions] = [
                    kept[admissions][0] + int(np.count_nonzero(valid & true)),
                    kept[admissions][1] + int(np.count_nonzero(true)),
                ]
    return {
        "stream": name,
        "sketch": sketch,
        "deletions": deletions,
        "pairs": pairs,
        "unsound": unsound,
        "pruned": pruned,
        "share_of_bytes": stored / content if content else 0.0,
        "kept": {str(mark): covered / max(1, total) for mark, (covered, total) in kept.items()},
        "ms_per_edit": 1e3 * seconds / (max(MARKS) * len(seeds)),
    }


def archive(name: str, seeds: range) -> dict[str, Any]:
    """200 edits beside a memory that never prunes."""
    start, size, nu = streams()[name]
    size = min(size, 128)
    worst, returned, live = 0.0, 0, []
    for seed in seeds:
        rng = np.random.default_rng(1000 + seed)
        draw, sigma = start(rng)
        keys = draw(size)
        pruning, plain = (Memory.fit(keys, np.zeros((size, 1)), sigma=sigma, nu=nu) for _ in range(2))
        for step in range(200):
            if step % 20 == 0:
                pruning.prune("archive")
            if rng.random() < 0.5 and plain.deletable > 0:
                victim = str(rng.choice(plain.ids))
                receipt = pruning.delete(victim)
                plain.delete(victim)
            else:
                key = draw(1)[0]
                receipt = pruning.admit(key, np.zeros(1), id=f"new-{step}")
                plain.admit(key, np.zeros(1), id=f"new-{step}")
            returned += len(receipt.details.get("reactivated", ()))
            mine = dict(zip(pruning.ids, pruning.coefficients.tolist(), strict=True))
            theirs = dict(zip(plain.ids, plain.coefficients.tolist(), strict=True))
            worst = max(worst, *(abs(mine.get(name, 0.0) - weight) for name, weight in theirs.items()))
            live.append(len(pruning) / len(plain))
    return {
        "stream": name,
        "edits": 200 * len(seeds),
        "worst_coefficient_difference": worst,
        "live_share": float(np.mean(live)),
        "reactivated": returned,
    }


def draw_survival(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["stream"] for row in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(2.4 * len(names), 2.8), sharey=True, layout="constrained")
    for panel, name in zip(panels, names, strict=True):
        for row in rows:
            if row["stream"] == name and not row["deletions"]:
                label = (
                    "scalars"
                    if row["sketch"] == 0
                    else f"{row['sketch']} number{'s' * (row['sketch'] > 1)} ({row['share_of_bytes']:.0%})"
                )
                panel.plot([0, *MARKS], [1.0, *row["kept"].values()], marker="o", markersize=3, label=label)
        panel.set_title(name, fontsize=8)
        panel.set_xlabel("admissions", fontsize=8)
        panel.set_xscale("symlog", linthresh=10)
        panel.set_xticks([0, *MARKS], ["0", *(str(mark) for mark in MARKS)])
        panel.legend(frameon=False, fontsize=6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25, linewidth=0.5)
    panels[0].set_ylabel("truly valid keys still under warranty", fontsize=8)
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="streams of each kind")
    parser.add_argument("--out", type=Path, default=RESULTS / "warranties.json")
    chosen = parser.parse_args()
    rows = []
    heading = f"{'stream':<22} {'sketch':>6} {'bytes':>6} {'edits':<16} {'pairs':>8} {'unsound':>7}"
    print(heading + "   kept after 10 / 50 / 200")
    for name in streams():
        wide = name.endswith("384")
        for sketch, deletions in [(0, False), (1, False), (4, False), *([(12, False)] if wide else []), (1, True)]:
            row = watch(name, sketch, range(chosen.seeds * MORE.get(name, 1)), deletions=deletions)
            rows.append(row)
            kind = "admit and delete" if deletions else "admit"
            shares = " / ".join(f"{share:.2f}" for share in row["kept"].values())
            print(
                f"{name:<22} {sketch:>6} {row['share_of_bytes']:>6.1%} {kind:<16} {row['pairs']:>8,} "
                f"{row['unsound']:>7}   {shares}   ({row['pruned']} pruned, {row['ms_per_edit']:.1f} ms an edit)",
                flush=True,
            )
    total, broken = sum(row["pairs"] for row in rows), sum(row["unsound"] for row in rows)
    print(f"{total:,} (pruned key, edit) pairs, {broken} reported valid with a negative slack\n")
    equal = [archive(name, range(1)) for name in streams()]
    for row in equal:
        print(
            f"archive, {row['stream']:<22} {row['edits']} edits: worst coefficient difference "
            f"{row['worst_coefficient_difference']:.1e}, live share {row['live_share']:.2f}, "
            f"{row['reactivated']} reactivated"
        )
    write_result(chosen.out, {"machine": describe(), "warranties": rows, "archive": equal})
    draw_survival(rows, chosen.out.with_suffix(".png"))
    print(f"wrote {chosen.out} and {chosen.out.with_suffix('.png').name}")
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
