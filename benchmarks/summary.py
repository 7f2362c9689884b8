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
    chained = [row["total"] for row in read("sequential").values()]
    durable = read("durable")
    crashes = {row["store"]: row["runs"] for row in durable["crash"]["rows"]}
    shared = durable["concurrency"]["rows"]
    applied = sum(row["tally"]["admitted"] + row["tally"]["deleted"] for row in shared)
    cost = {row["store"]: row["delete_over_bare_pair"] for row in durable["throughput"]["rows"] if row["n"] == 512}
    recovery = max(durable["recovery"]["rows"], key=lambda row: row["load_seconds"])
    return [
        "| claim | measured | command |",
        "|---|---|---|",
        f"| chained edits stay exact | {sum(row['operations'] for row in chained):,} operations at the paper's and ten "
        f"other seeds: {sum(row['rescued'] for row in chained)} rescues, worst residual "
        f"{small(max(row['worst_residual'] for row in chained))}, worst readout difference from polished DAQP "
        f"{small(100 * max(row['worst_readout'] for row in chained))} % of the value range | `make sequential` |",
        f"| zero weights are proved | {proved:,} of {states:,} partitions of the chained edits proved; "
        f"n = {largest['n']:,} in {largest['fp64_ms']:.0f} ms | `make proofs` |",
        f"| bounds hold for every query | {bounds['violations']} of {bounds['queries']:,} queries exceed them, "
        "half of them adversarial | `make bounds` |",
        f"| a warranty is never wrong | {unsound} of {pairs:,} (pruned key, edit) pairs | `make warranties` |",
        f"| an archive changes nothing | {small(equal)} largest coefficient difference in {edits:,} edits beside a "
        "memory that never prunes | `make warranties` |",
        f"| a crash leaves an edit whole or undone | {crashes['sqlite']} kills on SQLite, {crashes['postgresql']} on "
        "PostgreSQL: every state, ledger and retry right | `python benchmarks/durable.py crash` |",
        f"| nothing is lost among processes | {applied:,} edits by 8 processes on both stores: "
        f"{sum(row['lost'] for row in shared)} lost, {sum(row['applied_twice'] for row in shared)} applied twice | "
        "`python benchmarks/durable.py concurrency` |",
        f"| what durable, signed and checked costs at n = 512 | {cost['sqlite']:.1f}× (SQLite) and "
        f"{cost['postgresql']:.1f}× (PostgreSQL) a bare INSERT and DELETE; {recovery['n']:,} entries are back in "
        f"{recovery['load_seconds']:.1f} s | `make durable` |",
    ]


def summary() -> str:
    return "\n".join([*speed(), "", *evidence()])


def main() -> None:
    if "--write" in sys.argv:
        text = README.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        README.write_text(f"{head}{BEGIN}\n\n{summary()}\n\n{END}{tail}", encoding="utf-8")
    else:
        print(summary())


if __name__ == "__main__":
    main()
