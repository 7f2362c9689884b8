"""Rules for a default width, compared on real data by what the fits are like.

    python benchmarks/widths.py [--physionet FILE.parquet]
    python benchmarks/widths.py --embeddings FILE.npy

Every set of keys, scaled as the import of a table scales it, and raw, is split once, 4 to 1. Each rule sees the
training keys. The fit at its width is judged by the shares on the margin and at the bound, by how many entries an
answer rests on, and by the share of held-out keys inside the boundary, about 1 − ν in a fit that holds. Prints a
table, writes benchmarks/results/widths.json.

With embeddings (n, d) of texts, 10,000 of them are fitted at widths around the median distance, beside as many normal
keys of 6 and of 16 coordinates: margins and how well they were predicted, on how many entries an answer rests, what a
search finds of the nearest, and held-out keys inside. Writes benchmarks/results/widths_by_size.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as bundled

from expunge import Memory
from expunge.datasets import conversations, icu_hours
from expunge.preprocessing.grid import quarter_power
from expunge.preprocessing.preprocessing import Column, Preprocessing, chosen_columns
from expunge.preprocessing.width import DEFAULT_NU, choose_width, median_width, predict_margins
from expunge.problem.kernel import squared_distances
from expunge.types import Matrix
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
MOST = 1500
# Keys of the fits of many keys, held-out ones beside them, and quarter powers of 2 around the median distance.
MANY, HELD = 10_000, 500
STEPS = (-5, -4, -3, -2, -1, 0, 2)
SPARSITIES = (0.02, DEFAULT_NU, 0.5)


def keys_sets(physionet: Path | None) -> Iterator[tuple[str, Matrix]]:
    """Real tables, scaled and raw; the samples of the package; clusters and a heavy tail, drawn."""
    for name in ("iris", "wine", "breast_cancer", "diabetes", "digits"):
        rows = np.asarray(getattr(bundled, f"load_{name}")().data, dtype=np.float64)
        yield name, scaled(rows)
        yield f"{name}, raw", rows
    yield "icu_hours", icu_hours().keys
    yield "conversations (MiniLM)", conversations().keys
    if physionet is not None:
        import polars

        rows = polars.read_parquet(physionet).select("HR", "O2Sat", "Temp", "SBP", "MAP", "DBP", "Resp").to_numpy()
        rows = rows[np.isfinite(rows).sum(axis=1) >= 4].astype(np.float64)[::300]
        yield "PhysioNet 2019", scaled(rows)
        yield "PhysioNet 2019, raw", rows[np.isfinite(rows).all(axis=1)]
    rng = np.random.default_rng(0)
    middles = 30.0 * rng.standard_normal((20, 6))
    yield "20 far clusters", middles[rng.integers(20, size=1000)] + rng.standard_normal((1000, 6))
    yield "heavy tail", rng.standard_t(1.5, size=(800, 4))


def scaled(rows: Matrix) -> Matrix:
    names = [f"c{place}" for place in range(rows.shape[1])]
    columns = chosen_columns(names, rows, scaled=True, filled=True)
    return Preprocessing(columns, (Column("v"),)).to_keys(rows)


def neighbour(keys: Matrix, rank: int = 10) -> float:
    """Twice the median distance to the tenth nearest key."""
    squares = np.sort(squared_distances(keys, keys), axis=1)[:, rank]
    return quarter_power(2.0 * float(np.sqrt(np.median(squares))))


def mean_similarity(keys: Matrix, target: float = 0.2) -> float:
    """The narrowest width of the grid at which two keys are similar by 0.2 on average."""
    squares = squared_distances(keys, keys)[np.triu_indices(len(keys), 1)]
    width = choose_width(keys) / 2.0**8
    while np.exp(-squares / width**2).mean() < target:
        width = quarter_power(width * 2.0**0.25)
    return width


def margin_share(keys: Matrix, target: float = 0.15) -> float:
    """The narrowest width of the grid at which a fit of 400 keys has at most 15 % of them on the margin."""
    sample = keys[:400]
    width = choose_width(keys) / 2.0**3
    while measure(sample, sample[:1], width, DEFAULT_NU)["margin"] > target and width < 2.0**3 * choose_width(keys):
        width = quarter_power(width * 2.0**0.25)
    return width


RULES: dict[str, Callable[[Matrix], float]] = {
    "median": choose_width,
    "median / √2": lambda keys: quarter_power(choose_width(keys) / 2.0**0.5),
    "median / 2": lambda keys: choose_width(keys) / 2.0,
    "2 · 10th nearest": neighbour,
    "similarity 0.2": mean_similarity,
    "margin 15 %": margin_share,
}


def measure(train: Matrix, held: Matrix, sigma: float, nu: float) -> dict[str, Any]:
    memory = Memory.fit(train, np.zeros(len(train)), sigma=sigma, nu=nu)
    report = memory.report()
    inside = float(np.mean([found.inside for found in memory.judge(held)]))
    shares = {name: getattr(report, name) for name in ("margin", "bound", "effective_neighbours", "healthy")}
    more = {"margin_entries": report.margin_entries, "recall": report.recall}
    return {"sigma": sigma, "nu": nu, **shares, **more, "inside": inside}


def by_size(embeddings: Path) -> None:
    """Fits of 10,000 keys at several widths, with what was predicted of their margins."""
    rng = np.random.default_rng(0)
    texts = np.load(embeddings).astype(np.float64)
    sets = {f"embeddings, d = {texts.shape[1]}": texts[rng.permutation(len(texts))]}
    sets |= {f"normal, d = {d}": rng.standard_normal((MANY + HELD, d)) for d in (6, 16)}
    rows = []
    for name, keys in sets.items():
        train, held = (np.ascontiguousarray(part) for part in (keys[:MANY], keys[MANY : MANY + HELD]))
        predicted, median = predict_margins(train), median_width(train)
        for step in STEPS:
            sigma = quarter_power(median * 2.0 ** (step / 4.0))
            found = {"keys": name, "n": len(train), "of the median": round(2.0 ** (step / 4.0), 2)}
            found |= {"predicted": round(predicted(sigma, DEFAULT_NU))} | measure(train, held, sigma, DEFAULT_NU)
            rows.append(found)
            print(
                *(f"{cell:.3g}" if isinstance(cell, float) else cell for cell in found.values()), sep=" | ", flush=True
            )
    content = {"machine": describe(), "rows": rows}
    write_result(RESULTS / "widths_by_size.json", content, measured=content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--physionet", type=Path, help="training set of the PhysioNet 2019 challenge, as Parquet")
    parser.add_argument(
        "--embeddings", type=Path, help="fit 10,000 of these (n, d), at several widths, and nothing else"
    )
    chosen = parser.parse_args()
    if chosen.embeddings is not None:
        by_size(chosen.embeddings)
        return
    rows = []
    for name, keys in keys_sets(chosen.physionet):
        order = np.random.default_rng(1).permutation(len(keys))[:MOST]
        train, held = np.split(np.ascontiguousarray(keys[order]), [int(0.8 * len(order))])
        for rule, width in RULES.items():
            for nu in SPARSITIES:
                row = {"keys": name, "rule": rule, "n": len(train), "d": keys.shape[1]}
                rows.append(row | measure(train, held, width(train), nu))
                print(*(f"{cell:.3g}" if isinstance(cell, float) else cell for cell in rows[-1].values()), sep=" | ")
    content = {"machine": describe(), "rules": [summary(rows, rule, nu) for rule in RULES for nu in SPARSITIES]}
    print(*content["rules"], sep="\n")
    write_result(RESULTS / "widths.json", content | {"rows": rows}, measured=content)


def summary(rows: list[dict[str, Any]], rule: str, nu: float) -> dict[str, Any]:
    """Least, median and greatest number over all sets of keys, and how many fits the report finds fault with."""
    found = [row for row in rows if (row["rule"], row["nu"]) == (rule, nu)]
    ranges = {
        name: [round(float(np.quantile([row[name] for row in found], at)), 4) for at in (0.0, 0.5, 1.0)]
        for name in ("margin", "bound", "effective_neighbours", "inside")
    }
    faults = [row["keys"] for row in found if not row["healthy"]]
    return {"rule": rule, "nu": nu, "fits": len(found), "degenerate": faults, **ranges}


if __name__ == "__main__":
    main()
