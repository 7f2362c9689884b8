"""Proofs of every state that the sequential grid passes through, of planted degenerate ones, and their cost by size.

Three tables. *Grid*: every k-th operation of the sequential audit's trajectories, driven through `Memory`: groups and
weights proved, undecidable, disproved, how many needed more than 106 bits, the time of a proof and of its verification
from the bytes. *Planted*: groups with an exact tie, which must come out undecidable, and near ties, which must not.
*Size*: the latency audit's data at n = 64 … 2,048; a proof, its verification, and `verify_state`, which evaluates every
slack in balls.
Writes benchmarks/results/proofs.json; a grid state that is not proved, a planted tie that is, or a proof that does not
verify, ends the run with status 1.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge import Memory
from expunge.audit.experiments.trajectories import sequential_grid
from expunge.certificates.proof import Proof, prove_partition
from expunge.verify.proof import verify_proof
from expunge.verify.state import verify_state
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
SIZES = (64, 128, 512, 2048)

Array = npt.NDArray[np.float64]


def timed_verify(proof: Proof, memory: Memory) -> float:
    data = proof.to_bytes()
    started = time.perf_counter()
    verify_proof(data, memory.keys, cap=memory.cap, sigma=memory.sigma)
    return time.perf_counter() - started


def timed_state(memory: Memory) -> float:
    started = time.perf_counter()
    verify_state(memory.keys, memory.coefficients, memory.offset, cap=memory.cap, sigma=memory.sigma)
    return time.perf_counter() - started


def grid(seeds: range, every: int, verify_every: int) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for trajectory in sequential_grid(seeds):
        n, d = trajectory.keys.shape
        row = rows.setdefault(
            f"{trajectory.regime} n={n} d={d}",
            {
                "outcomes": Counter(),
                "beyond_106": 0,
                "most_bits": 0,
                "prove": [],
                "verify": [],
                "bytes": [],
                "open": [],
            },
        )
        memory = Memory.fit(
            trajectory.keys, trajectory.values, sigma=trajectory.sigma, cap=trajectory.cap, ids=trajectory.names
        )
        done = 0
        for step, operation in enumerate([None, *trajectory.operations()]):
            if operation is not None and operation.kind == "delete":
                memory.delete(operation.name)
            elif operation is not None:
                memory.admit(operation.key, operation.value, id=operation.name)
            if step % every:
                continue
            proof = memory.prove()
            row["outcomes"][proof.outcome] += 1
            row["beyond_106"] += proof.bits > 106
            row["most_bits"] = max(row["most_bits"], proof.bits)
            row["prove"].append(proof.seconds)
            if proof.outcome != "proved":
                row["open"].append({"trajectory": trajectory.label, "step": step, "reason": proof.reason})
            elif done % verify_every == 0:
                row["verify"].append(timed_verify(proof, memory))
                row["bytes"].append(len(proof.to_bytes()))
            done += 1
    return [
        {
            "condition": name,
            "states": sum(row["outcomes"].values()),
            **{outcome: row["outcomes"][outcome] for outcome in ("proved", "undecidable", "disproved")},
            "beyond_106_bits": row["beyond_106"],
            "most_bits": row["most_bits"],
            "prove_ms_median": 1e3 * median(row["prove"]),
            "prove_ms_largest": 1e3 * max(row["prove"]),
            "verified": len(row["verify"]),
            "verify_ms_median": 1e3 * median(row["verify"]),
            "bytes_median": median(row["bytes"]),
            "not_proved": row["open"],
        }
        for name, row in rows.items()
    ]


def planted() -> list[dict[str, Any]]:
    """Instances at which the strict conditions fail exactly, and instances that only come close."""
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    inner = np.array([[0.0, 0.0], [0.1, 0.2]])
    copies = np.vstack([np.repeat(square, [2, 3, 3, 3], axis=0), inner])
    at_cap = np.vstack([square, inner])
    cases: list[tuple[str, Array, Array, float, float, str]] = []

    def add(name: str, keys: Array, coefficients: list[float], cap: float, sigma: float, expected: str) -> None:
        cases.append((name, keys, np.array(coefficients), cap, sigma, expected))

    third = 0.25 / 3
    add(
        "square, copies 2+3+3+3, C = 1/8: a bound key's slack is 0",
        copies,
        [0.125] * 2 + [third] * 9 + [0] * 2,
        0.125,
        4.0,
        "undecidable",
    )
    add(
        "the same corner called margin: its α is its cap",
        copies,
        [0.12] * 2 + [third] * 9 + [0] * 2,
        0.125,
        4.0,
        "undecidable",
    )
    add(
        "square, C = 1/4, one corner called margin: α = C",
        at_cap,
        [0.25] * 3 + [0.2] + [0] * 2,
        0.25,
        4.0,
        "undecidable",
    )
    add("square, C = 1/4, the centre called margin: α = 0", at_cap[:5], [0.25] * 4 + [0.1], 0.25, 4.0, "undecidable")
    add("seven keys, C = 1/7 rounded down: no feasible point", np.eye(7), [1 / 7] * 7, 1 / 7, 1.0, "disproved")
    add("square, C = 1/4, empty margin: no tie", at_cap, [0.25] * 4 + [0] * 2, 0.25, 4.0, "proved")
    pair = np.array([[-1.0, 0.0], [1.0, 0.0]])
    # The height at which the third key of a mirror pair is on the boundary, up to rounding.
    height = math.sqrt(-25.0 * math.log((1.0 + math.exp(-4.0 / 25.0)) / 2.0) - 1.0)
    for ulps in (-20, -1, 0, 1, 20):
        key = np.array([[0.0, height + ulps * math.ulp(height)]])
        add(
            f"mirror pair, third key {ulps:+d} ulp from the boundary",
            np.vstack([pair, key]),
            [0.5, 0.5, 0.0],
            1.0,
            5.0,
            "decided",
        )
    rows = []
    for name, keys, coefficients, cap, sigma, expected in cases:
        proof = prove_partition(keys, coefficients, cap=cap, sigma=sigma)
        kept = proof.outcome == expected or (expected == "decided" and proof.outcome != "undecidable")
        if proof.outcome == "proved":
            verify_proof(proof.to_bytes(), keys, cap=cap, sigma=sigma)
        rows.append(
            {
                "instance": name,
                "outcome": proof.outcome,
                "bits": proof.bits,
                "as_expected": kept,
                "reason": proof.reason,
                "rows": sorted({found.row for found in (*proof.undecided, *proof.wrong) if found.row is not None}),
                "ms": 1e3 * proof.seconds,
            }
        )
    return rows


def by_size(trials: int) -> list[dict[str, Any]]:
    rows = []
    for size in SIZES:
        times: dict[str, list[float]] = {"prove": [], "verify": [], "state": []}
        groups, lengths = [], []
        for trial in range(trials):
            rng = np.random.default_rng(size * 100_000 + trial)
            keys = 1.5 * rng.standard_normal((size, 6))
            memory = Memory.fit(keys, rng.uniform(-1.0, 1.0, (size, 4)), sigma=2.0, nu=0.4)
            proof = memory.prove()
            if proof.outcome != "proved":
                raise SystemExit(f"n = {size}, trial {trial}: {proof.outcome}, {proof.reason}")
            times["prove"].append(proof.seconds)
            times["verify"].append(timed_verify(proof, memory))
            times["state"].append(timed_state(memory))
            lengths.append(len(proof.to_bytes()))
            groups.append((proof.margin.size, proof.bound.size, proof.reserve.size))
        rows.append(
            {
                "n": size,
                "trials": trials,
                "groups": groups[0],
                "bytes": median(lengths),
                **{f"{name}_ms": 1e3 * median(values) for name, values in times.items()},
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="trajectories a condition, from seed 41000")
    parser.add_argument("--every", type=int, default=1, help="prove every k-th state")
    parser.add_argument("--verify-every", type=int, default=8, help="verify every k-th proof from its bytes")
    parser.add_argument("--trials", type=int, default=5, help="instances a size")
    parser.add_argument("--out", type=Path, default=RESULTS / "proofs.json")
    chosen = parser.parse_args()
    prove_partition(np.eye(3), np.full(3, 1 / 3), cap=0.5, sigma=1.0)

    sizes = by_size(chosen.trials)
    print("    n   margin/bound/reserve   prove ms   verify ms   verify state ms   bytes")
    for row in sizes:
        groups = "/".join(map(str, row["groups"]))
        print(f"{row['n']:5d}   {groups:>20}   {row['prove_ms']:8.1f}   {row['verify_ms']:9.0f}", end="   ")
        print(f"{row['state_ms']:15.0f}   {row['bytes']:5.0f}")
    ties = planted()
    for row in ties:
        print(f"{row['outcome']:<12} {row['bits']:5d} bits {row['ms']:7.1f} ms  {row['instance']}", end="")
        print("" if row["as_expected"] else "  UNEXPECTED")
    print(
        "condition                   states  proved  undecid.  disproved  >106 bits  prove ms (max)  verify ms  bytes"
    )
    conditions = grid(range(41000, 41000 + chosen.seeds), chosen.every, chosen.verify_every)
    for row in conditions:
        print(f"{row['condition']:<27} {row['states']:6d}  {row['proved']:6d}  {row['undecidable']:8d}", end="  ")
        print(f"{row['disproved']:9d}  {row['beyond_106_bits']:9d}  {row['prove_ms_median']:6.1f}", end=" ")
        print(
            f"({row['prove_ms_largest']:.0f})  {row['verify_ms_median']:9.1f}  {row['bytes_median']:5.0f}", flush=True
        )
    states, proved = sum(r["states"] for r in conditions), sum(r["proved"] for r in conditions)
    unexpected = sum(not r["as_expected"] for r in ties)
    print(f"{proved} of {states} states proved; {len(ties)} planted instances, {unexpected} not as expected")
    result = {"machine": describe(), "sizes": sizes, "planted": ties, "grid": conditions}
    write_result(chosen.out, result)
    sys.exit(1 if unexpected or proved < states else 0)


if __name__ == "__main__":
    main()
