"""The README's results table, from the JSON that the benchmarks wrote: `python benchmarks/summary.py` prints it.

`python benchmarks/summary.py --write` puts it into README.md; a test compares the two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def small(number: float) -> str:
    return f"{number:.1e}".replace("e-0", "e-").replace("e+0", "e+")


def sequential() -> list[str]:
    runs = read("sequential")
    paper, other = (runs[key]["total"] for key in ("41000:41010/daqp", "42000:42010/daqp"))
    return [
        "| chained edits (`make sequential`) | paper, guarded | here, the paper's seeds | here, ten other seeds |",
        "|---|---|---|---|",
        f"| operations completed | 5,120 of 5,120 | {paper['operations']:,} | {other['operations']:,} |",
        f"| rescued by a refit, after the start | 84 | {paper['rescued']} | {other['rescued']} |",
        f"| worst residual of a published state | 8.6e-6 | {small(paper['worst_residual'])} | "
        f"{small(other['worst_residual'])} |",
        f"| worst readout difference from the reference, % of value range | 0.53 | "
        f"{small(100 * paper['worst_readout'])} | {small(100 * other['worst_readout'])} |",
    ]


def speed() -> list[str]:
    rows = [row for row in read("edits")["rows"] if row["n"] in (512, 2048, 8192)]
    lines = [
        "| times faster than LIBSVM's refit, same run (`make bench`) | "
        + " | ".join(f"n = {row['n']:,}" for row in rows)
        + " |",
        "|---|" + "---|" * len(rows),
    ]
    for name, label in (
        ("delete active", "delete an active entry, one of a backlog"),
        ("lone active", "delete an active entry, between other work"),
        ("first active", "delete an active entry, first after the fit"),
        ("admit reserve", "admit an entry that stays reserve"),
        ("fit", "cold fit"),
    ):
        ratios = (row["median_ratio"][name] for row in rows)
        lines.append(f"| {label} | " + " | ".join(f"{r:.0f}×" if r >= 10 else f"{r:.1f}×" for r in ratios) + " |")
    lines.append(
        "| worst residual, ours / LIBSVM at tol 1e-8 | "
        + " | ".join(f"{small(row['worst_residual'])} / {small(row['libsvm_residual'])}" for row in rows)
        + " |"
    )
    return lines


def evidence() -> list[str]:
    proofs, bounds, warranties = read("proofs"), read("bounds"), read("warranties")
    states = sum(row["states"] for row in proofs["grid"])
    proved = sum(row["proved"] for row in proofs["grid"])
    pairs = sum(row["pairs"] for row in warranties["warranties"])
    unsound = sum(row["unsound"] for row in warranties["warranties"])
    equal = max(row["worst_coefficient_difference"] for row in warranties["archive"])
    edits = sum(row["edits"] for row in warranties["archive"])
    largest = proofs["sizes"][-1]
    return [
        "| claim | measured | command |",
        "|---|---|---|",
        f"| zero weights are proved | {proved:,} of {states:,} partitions of the chained edits proved; "
        f"n = {largest['n']:,} in {largest['fp64_ms']:.0f} ms | `make proofs` |",
        f"| bounds hold for every query | {bounds['violations']} of {bounds['queries']:,} queries exceed them, "
        "half of them adversarial | `make bounds` |",
        f"| a warranty is never wrong | {unsound} of {pairs:,} (pruned key, edit) pairs | `make warranties` |",
        f"| an archive changes nothing | {small(equal)} largest coefficient difference in {edits:,} edits beside a "
        "memory that never prunes | `make warranties` |",
    ]


def summary() -> str:
    return "\n".join([*sequential(), "", *speed(), "", *evidence()])


def main() -> None:
    if "--write" in sys.argv:
        text = README.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        README.write_text(f"{head}{BEGIN}\n\n{summary()}\n\n{END}{tail}", encoding="utf-8")
    else:
        print(summary())


if __name__ == "__main__":
    main()
