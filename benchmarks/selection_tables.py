"""The tables and figures of docs/results/selection.md, from the JSON that the measurements wrote.

    python benchmarks/selection_tables.py            # print the tables
    python benchmarks/selection_tables.py --write    # put them into the page and draw its figures

Every number on the page outside these tables is in them; a test compares the two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS, STUDIES = ROOT / "benchmarks" / "results", ROOT / "studies" / "results"
PAGE = ROOT / "docs" / "results" / "selection.md"
ARMS = (
    "cover",
    "support",
    "warranted",
    "k-centre",
    "attention",
    "attention, normalised",
    "attention, half recent",
    "window",
    "density",
    "uniform",
    "recency",
    "full",
)
PAPER_REDUNDANCY = {"support": "0.861", "attention": "0.319", "uniform": "0.472", "recency": "0"}
PAPER_HELD_OUT = {"support": "0.464", "density": "0.225", "recency": "0.409", "uniform": "0.333"}
PAPER_SAME = {"support": "0.80", "density": "0.05"}
PAPER_AUROC = {"support vector": "0.696", "LSTM": "0.783", "softmax": "0.751"}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def cell(one: dict[str, Any], *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    mean = f"{one['mean']:{sign}.3f}".replace("-0.000", "0.000").replace("+0.000", "0.000")
    return f"{mean} [{one['low']:{sign}.3f}, {one['high']:{sign}.3f}]"


def grid(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def redundancy(tables: dict[str, Any]) -> str:
    first, others = tables["redundancy, seed 0"]["arms"], tables["redundancy, 20 other seeds"]["arms"]
    rows = []
    for arm in (*ARMS, *(name for name in first if name.startswith("attempt"))):
        spread = others[arm]["spread"]
        rows.append(
            [
                arm,
                PAPER_REDUNDANCY.get(arm, ""),
                f"{first[arm]['mean']:.3f}",
                cell(others[arm]),
                f"{spread[0]:.3f} to {spread[1]:.3f}",
                f"{others[arm]['common']['mean']:.3f}",
            ]
        )
    head = ["policy", "paper", "seed 0", "mean of 20 other seeds", "95% of those seeds", "common groups"]
    return grid(head, rows)


def control(tables: dict[str, Any]) -> str:
    trained, half = tables["control, trained"], tables["control, half kept"]["arms"]
    rows = [
        [
            arm,
            {"without": "0.970", "with the gate": "0.955"}[arm],
            cell(trained["arms"][arm]),
            "{:.3f} to {:.3f}".format(*trained["arms"][arm]["spread"]),
            f"{trained['active'][arm]:.4f}",
        ]
        for arm in ("without", "with the gate")
    ]
    first = grid(["model", "paper", "recall@1, mean of 20 seeds", "95% of the seeds", "active share"], rows)
    return first + "\n\n" + grid(["policy, five of ten kept", "recall@1"], [[arm, cell(half[arm])] for arm in ARMS])


def clinical(tables: dict[str, Any], version: str, paper: dict[str, str]) -> str:
    sources = [name for name in ("mimic", "physionet") if f"clinical, {version}, {name}" in tables]
    found = [tables[f"clinical, {version}, {name}"] for name in sources]
    titles = {"mimic": "MIMIC-IV demo", "physionet": "PhysioNet 2019"}
    head = ["policy", "paper", *(f"{titles[n]}, {t['stays']:,} stays" for n, t in zip(sources, found, strict=True))]
    rows = [[arm, paper.get(arm, ""), *(cell(table["arms"][arm]) for table in found)] for arm in ARMS[:-1]]
    for pair in ("support - density", "support - uniform", "support - recency", "cover - support", "cover - uniform"):
        cells = [cell(table["differences"][pair], signed=True) for table in found]
        published = "+0.239 [+0.194, +0.284]" if version == "held out" and pair == "support - density" else ""
        rows.append([f"*{pair}, paired*", published, *cells])
    shares = ", ".join(f"{table['arms']['support']['share']:.0%}" for table in found)
    rows.append(["mean budget", "32%", *shares.split(", ")])
    return grid(head, rows)


def flow(tables: dict[str, Any]) -> str:
    lines = []
    for name, title in (("mimic", "MIMIC-IV demo"), ("physionet", "PhysioNet 2019, set B")):
        steps = tables[f"clinical, held out, {name}"]["flow"]
        words = " → ".join(f"{count:,} {step.replace('_', ' ')}" for step, count in steps.items())
        lines.append(f"- {title}: {words}")
    return "\n".join(lines)


def text(tables: dict[str, Any], source: str) -> str:
    found = [tables[f"text, {source}, {share}"] for share in ("10%", "25%", "50%")]
    arms = [*ARMS, "longest (sees text)", *(name for name in found[0]["arms"] if name.startswith("attempt"))]
    rows = []
    for arm in arms:
        quarter = found[1]["arms"][arm]
        rows.append([arm, *(cell(table["arms"][arm]) for table in found), f"{quarter['found']['mean']:.3f}"])
    pairs = ("cover - uniform", "cover - support", "cover - k-centre", "support - uniform")
    rows += [
        [f"*{pair}, paired*", *(cell(table["differences"][pair], signed=True) for table in found), ""] for pair in pairs
    ]
    counts = found[0]
    memories = "one memory" if counts["memories"] == 1 else f"{counts['memories']} memories"
    trials = counts["arms"]["cover"]["trials"]
    caption = f"{counts['questions']:,} questions in {trials} trials, {counts['turns']:,} turns in {memories}:"
    return caption + "\n\n" + grid(["policy", "10% kept", "25% kept", "50% kept", "found at 25%"], rows)


def persons(tables: dict[str, Any]) -> str:
    rows = []
    for source, title in (("memorybank", "MemoryBank"), ("locomo", "LoCoMo")):
        one = tables.get(f"persons, {source}")
        if one is not None:
            rows.append(
                [
                    title,
                    f"{one['deleted'] - one['refused']} of {one['deleted']}",
                    f"{one['entries']:,} / {one['entries_left']:.0f}",
                    cell(one["before"]),
                    cell(one["after"]),
                    f"{one['similarity_before']['mean']:.3f} → {one['similarity_after']['mean']:.3f}",
                    f"{one['largest_coefficient_difference']:.1e}",
                ]
            )
    head = ["memory", "persons deleted", "turns deleted / left", "others' evidence, before", "after", "plain search"]
    return grid([*head, "from a fresh solve"], rows)


def patients(tables: dict[str, Any]) -> str:
    rows = []
    for source, title in (("shipped", "twelve shipped stays"), ("mimic", "MIMIC-IV demo"), ("physionet", "PhysioNet")):
        one = tables.get(f"patients, {source}")
        if one is not None:
            rows.append(
                [
                    title,
                    f"{one['trials'] - one['refused']} of {one['trials']}",
                    f"{one['weight_before']['mean']:.3f} → {one['weight_after']:g}",
                    f"{one['others_lost']}",
                    f"{one['largest_score_difference']:.1e}",
                    f"{one['worst_residual']:.1e}",
                ]
            )
    head = ["source", "deleted", "the patient's weight", "others' hours lost", "scores, from a fresh solve", "residual"]
    return grid(head, rows)


def deterioration() -> str:
    import numpy as np

    from selection_results import mean_of

    found = read(STUDIES / "deterioration.json")["auroc"]
    ours = np.array(found["support vector"])
    rows = []
    for layer, values in found.items():
        gap = "" if layer == "support vector" else cell(mean_of((np.array(values) - ours).tolist()), signed=True)
        rows.append([layer, PAPER_AUROC.get(layer, ""), cell(mean_of(values)), gap])
    return grid(["layer", "paper", f"AUROC, mean of {len(ours)} seeds", "over the support-vector layer, paired"], rows)


def speed() -> str:
    path = RESULTS / "selection-speed.json"
    if not path.is_file():
        return "Not measured on this checkout: `python benchmarks/selection_speed.py`."
    found = read(path)
    rows = [
        [
            f"{row['n']:,}",
            f"{row['median_ms']['ours']:.2f}",
            f"{row['median_ms']['libsvm']:.1f}",
            f"{row['ratio']:.0f}×",
            f"{row['ratio_default']:.0f}×",
            f"{row['differing_default']}",
            f"{row['residual']:.1e}",
        ]
        for row in found["rows"]
    ]
    head = [
        "n",
        "ours, ms a step",
        "LIBSVM, tol 1e-8",
        "ratio",
        "ratio at tol 1e-3",
        "its wrong choices",
        "our residual",
    ]
    once = ", ".join(f"{name} {ms:.0f}" for name, ms in found["once_ms"].items())
    return grid(head, rows) + f"\n\nOne selection from scratch at the largest n, a quarter kept, ms: {once}."


def cohort() -> str:
    path = RESULTS / "cohort.json"
    if not path.is_file():
        return "Not measured on this checkout: `python benchmarks/cohort.py`."
    found = read(path)
    steps = " → ".join(f"{count:,} {step.replace('_', ' ')}" for step, count in found["flow"].items())
    return (
        f"A made-up chart file of {found['bytes'] / 1e9:.1f} GB in MIMIC-IV's layout, gzipped: peak memory "
        f"{found['peak_kib'] / 2**20:.2f} GiB, of which {found['before_kib'] / 2**20:.2f} GiB before the loader began. "
        f"Flow: {steps}."
    )


def blocks() -> dict[str, str]:
    tables = read(RESULTS / "selection.json")["tables"]
    return {
        "redundancy": redundancy(tables),
        "control": control(tables),
        "flow": flow(tables),
        "held-out": clinical(tables, "held out", PAPER_HELD_OUT),
        "same-channel": clinical(tables, "same channel", PAPER_SAME),
        "memorybank": text(tables, "memorybank"),
        "locomo": text(tables, "locomo"),
        "persons": persons(tables),
        "patients": patients(tables),
        "deterioration": deterioration(),
        "speed": speed(),
        "cohort": cohort(),
    }


def filled(page: str, made: dict[str, str]) -> str:
    """The page with every block between its marks replaced."""
    for name, content in made.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise SystemExit(f"{PAGE.name} must have the marks of {name!r} once")
        head, _, rest = page.partition(begin)
        page = f"{head}{begin}\n\n{content}\n\n{end}{rest.partition(end)[2]}"
    return page


def draw() -> None:
    from expunge.audit.context_selection.selection_figures import case_stay, draw_comparison, draw_timeline
    from expunge.datasets import icu_stays

    panels = {
        "redundancy, 20 other seeds": "rare-group recall",
        "clinical, held out, physionet": "event hours kept, SpO₂ held out",
        "text, memorybank, 25%": "evidence kept, MemoryBank, 25%",
        "text, locomo, 25%": "evidence kept, LoCoMo, 25%",
    }
    draw_comparison(read(RESULTS / "selection.json")["tables"], panels, PAGE.parent / "selection.png")
    print(draw_timeline(case_stay(icu_stays()), PAGE.parent / "selection-stay.png"))


def main() -> None:
    made = blocks()
    if "--write" in sys.argv:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
        draw()
    else:
        for name, content in made.items():
            print(f"{name}\n\n{content}\n")


if __name__ == "__main__":
    main()
