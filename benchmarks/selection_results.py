"""Every selection experiment on every data set, with intervals: writes benchmarks/results/selection.json.

    python benchmarks/selection_results.py                                    # what ships with the package: 3 minutes
    python benchmarks/selection_results.py --parts clinical --physionet training_setB.parquet --mimic mimic-iv-demo-2.2
    HF_HUB_OFFLINE=1 python benchmarks/selection_results.py --parts text persons --locomo locomo10.json --cache DIR

A part replaces its own entries in the file and leaves the others. An interval is the 95% percentile interval of 10,000
bootstrap resamples of the trials (``RandomState(0)``), where a trial is a context, a seed, a stay, a user or a
conversation, as the experiment's module says; differences are paired within trials. `spread` is the 2.5th and 97.5th
percentile of the trials themselves.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from expunge.audit.context_selection import event_hours, negative_control, patient_deletion, redundancy, text_memory
from expunge.audit.context_selection.policy_arms import ArmResult
from expunge.types import Vector
from record import describe, write_result

RESULTS = Path(__file__).parent / "results" / "selection.json"
PARTS = ("redundancy", "control", "clinical", "text", "persons", "patients")
RESAMPLES = 10_000
# Differences that the claims are about: (of, from).
PAIRS = (
    *(("cover", arm) for arm in ("support", "warranted", "k-centre", "attention, half recent", "uniform")),
    ("support", "density"),
    ("support", "uniform"),
    ("support", "recency"),
    ("support", "k-centre"),
)

Tables = dict[str, Any]


def interval(values: Vector) -> tuple[float, float]:
    rng = np.random.RandomState(0)
    means = np.empty(RESAMPLES)
    block = max(1, 4_000_000 // values.size)
    for start in range(0, RESAMPLES, block):
        stop = min(start + block, RESAMPLES)
        means[start:stop] = values[rng.randint(0, values.size, (stop - start, values.size))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5]).tolist()
    return low, high


def mean_of(values: Iterable[float]) -> dict[str, Any]:
    found = np.array(list(values), dtype=np.float64)
    low, high = interval(found)
    spread = np.percentile(found, [2.5, 97.5]).tolist()
    return {"mean": float(found.mean()), "low": low, "high": high, "spread": spread, "trials": int(found.size)}


def table(rows: list[ArmResult]) -> dict[str, Any]:
    """Means by arm, and paired differences."""
    arms: dict[str, dict[int, ArmResult]] = {}
    for row in rows:
        arms.setdefault(row.arm, {})[row.trial] = row
    found: dict[str, Any] = {"arms": {}, "differences": {}}
    for arm, trials in arms.items():
        one = mean_of(row.recall for row in trials.values())
        one["share"] = float(np.mean([row.budget / row.size for row in trials.values()]))
        for name in ("common", "found"):
            seconds = [getattr(row, name) for row in trials.values()]
            if None not in seconds:
                one[name] = mean_of(seconds)
        found["arms"][arm] = one
    for of, base in PAIRS:
        if of in arms and base in arms:
            pairs = [arms[of][trial].recall - arms[base][trial].recall for trial in arms[base]]
            found["differences"][f"{of} - {base}"] = mean_of(pairs)
    return found


def run_redundancy() -> Tables:
    paper = redundancy.measure_trials(redundancy.PAPER_SEED, redundancy.TRIALS, "")
    others = [row for seed in redundancy.SEEDS for row in redundancy.measure_seed(seed, redundancy.TRIALS, "", seed)]
    return {"redundancy, seed 0": table(paper), "redundancy, 20 other seeds": table(others)}


def run_control() -> Tables:
    trained, half = [], []
    active: dict[bool, list[float]] = {False: [], True: []}
    for model in negative_control.trained_models():
        row, share = negative_control.measure_trained(model, "", model.seed)
        trained.append(row)
        active[model.gated].append(share)
        if not model.gated:
            half += negative_control.measure_half(model, "", model.seed)
    found = table(trained)
    found["active"] = {"without": float(np.mean(active[False])), "with the gate": float(np.mean(active[True]))}
    return {"control, trained": found, "control, half kept": table(half)}


def run_clinical(paths: dict[str, str | None]) -> Tables:
    found: Tables = {}
    for source in event_hours.SOURCES:
        if source != "shipped" and paths[source] is None:
            continue
        stays, flow = event_hours.load_stays(source, paths[source])
        print(f"{source}: " + " → ".join(f"{count} {step}" for step, count in flow), flush=True)
        for version in event_hours.VERSIONS:
            places = event_hours.eligible(stays, version)
            print(f"  {version}: {len(places)} stays with an event", flush=True)
            rows = event_hours.measure_stays(source, paths[source], version, places, "")
            found[f"clinical, {version}, {source}"] = {"flow": dict(flow), "stays": len(places), **table(rows)}
    return found


def run_text(locomo: str | None, cache: str | None) -> Tables:
    found: Tables = {}
    for source in text_memory.SOURCES:
        memories = text_memory.load_memories(source, locomo, cache)
        for share in text_memory.BUDGETS if memories else ():
            rows = [row for memory in memories for row in text_memory.measure_memory(memory, share, "")]
            counts = {
                "memories": len(memories),
                "turns": sum(len(memory.keys) for memory in memories),
                "questions": sum(len(memory.evidence) for memory in memories),
            }
            found[f"text, {source}, {share:.0%}"] = {**counts, **table(rows)}
    return found


def run_persons(locomo: str | None, cache: str | None) -> Tables:
    found: Tables = {}
    for source in text_memory.SOURCES:
        rows = [
            text_memory.delete_person(memory, person)
            for memory in text_memory.load_memories(source, locomo, cache)
            for person in text_memory.persons(memory)
        ]
        if rows:
            found[f"persons, {source}"] = {
                "deleted": len(rows),
                "refused": sum(row.outcome == "refused" for row in rows),
                "entries": sum(row.entries for row in rows),
                "entries_left": sum(row.own_left for row in rows),
                "questions": sum(row.others for row in rows),
                "largest_coefficient_difference": max(row.difference for row in rows),
                "before": mean_of(row.before for row in rows),
                "after": mean_of(row.after for row in rows),
                "change": mean_of(row.after - row.before for row in rows),
                "similarity_before": mean_of(row.similar_before for row in rows),
                "similarity_after": mean_of(row.similar_after for row in rows),
            }
    return found


def run_patients(paths: dict[str, str | None]) -> Tables:
    found: Tables = {}
    for source in event_hours.SOURCES:
        if source != "shipped" and paths[source] is None:
            continue
        rows = [
            asdict(row) for row in patient_deletion.delete_patients(event_hours.load_stays(source, paths[source])[0])
        ]
        done = [row for row in rows if row["outcome"] != "refused"]
        found[f"patients, {source}"] = {
            "trials": len(rows),
            "refused": len(rows) - len(done),
            "decremented": sum(row["outcome"] == "decrement" for row in done),
            "entries_removed": sum(row["removed"] for row in done),
            "weight_before": mean_of(row["weight_before"] for row in done),
            "weight_after": max(row["weight_after"] for row in done),
            "others_lost": max(row["others_lost"] for row in done),
            "largest_score_difference": max(row["score_difference"] for row in done),
            "largest_coefficient_difference": max(row["coefficient_difference"] for row in done),
            "worst_residual": max(row["worst_residual"] for row in done),
        }
    return found


def rounded(content: Any) -> Any:
    """Numbers to six significant digits: the file is read by people too."""
    if isinstance(content, float):
        return float(f"{content:.6g}")
    if isinstance(content, dict):
        return {name: rounded(one) for name, one in content.items()}
    return [rounded(one) for one in content] if isinstance(content, list) else content


def show(name: str, found: dict[str, Any]) -> None:
    print(name)
    for arm, one in found.get("arms", {}).items():
        print(f"  {arm:<28} {one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]  share {one['share']:.2f}")
    for pair, one in found.get("differences", {}).items():
        print(f"  {pair:<40} {one['mean']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]")
    for key, value in found.items():
        if key not in ("arms", "differences"):
            print(f"  {key}: {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--physionet", help="PhysioNet challenge 2019: its files, or a Parquet file of their rows")
    parser.add_argument("--mimic", help="a folder in MIMIC-IV's layout")
    parser.add_argument("--locomo", help="locomo10.json")
    parser.add_argument("--cache", help="a folder for the embeddings of LoCoMo's turns, outside the repository")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    paths: dict[str, str | None] = {"shipped": None, "mimic": chosen.mimic, "physionet": chosen.physionet}
    runs: dict[str, Callable[[], Tables]] = {
        "redundancy": run_redundancy,
        "control": run_control,
        "clinical": lambda: run_clinical(paths),
        "text": lambda: run_text(chosen.locomo, chosen.cache),
        "persons": lambda: run_persons(chosen.locomo, chosen.cache),
        "patients": lambda: run_patients(paths),
    }
    kept = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.is_file() else {"tables": {}}
    for part in chosen.parts:
        found = runs[part]()
        for name, one in found.items():
            show(name, one)
        kept["tables"] |= found
        content = {
            "command": "python benchmarks/selection_results.py",
            "machine": describe(),
            "tables": rounded(dict(sorted(kept["tables"].items()))),
        }
        write_result(chosen.out, content, measured={"tables": rounded(found)})
    print(f"wrote {chosen.out}")


if __name__ == "__main__":
    main()
