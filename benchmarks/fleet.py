"""A fleet on paper: 10⁶ memories of 10⁴ entries, from what was measured of one, and assumptions that are parameters.

Nothing here is measured. Seconds and bytes of one memory come from benchmarks/results/growth.json, at the size asked
for along the fitted lines; how often memories are used, how large a worker is and what anything costs are assumed, and
every one is an option. Prices are examples: put in those of your own provider.

    python benchmarks/fleet.py
    python benchmarks/fleet.py --memories 1000 --entries 100000 --edits 20 --disk-price 0.2
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "growth.json"
DAY, MONTH, YEAR = 86_400.0, 30.0, 365.0


@dataclass(frozen=True)
class Assumptions:
    """What is not measured. Edits and searches are per memory and day; prices are per month, in any currency.

    awake       share of the memories that are held in a worker's memory at one time
    busiest     how many times the mean the load of the busiest hour is
    used        share of a worker's processors and memory that may be used
    overhead    factor on a worker's bytes, for the process and the allocator
    """

    memories: float = 1e6
    entries: float = 1e4
    edits: float = 1.0
    searches: float = 10.0
    awake: float = 0.02
    busiest: float = 4.0
    used: float = 0.6
    overhead: float = 1.5
    worker_cores: float = 8.0
    worker_gib: float = 64.0
    worker_price: float = 300.0
    disk_price: float = 0.1


def simulate(
    rows: Sequence[Mapping[str, Any]],
    exponents: Mapping[str, Mapping[str, float]],
    dimension: int,
    assumed: Assumptions | None = None,
) -> dict[str, Any]:
    """Bytes, workers, growth of the ledger and cost, from measured rows and fitted exponents over entries."""
    what = assumed or Assumptions()

    def one(name: str) -> float:
        fitted = exponents[name]
        return float(fitted["at_one"] * what.entries ** fitted["exponent"])

    edits, searches = what.memories * what.edits, what.memories * what.searches
    ledger_edit = max(row["ledger per edit"] for row in rows)
    database = what.memories * one("store")
    ledger_year = edits * YEAR * ledger_edit
    # A memory that is not awake is opened before its first use of the day.
    opened = what.memories * min(1.0, what.edits + what.searches) * (1.0 - what.awake)
    processor_day = edits * one("durable edit") + searches * one("search") + opened * one("reopen and search")
    resident = what.memories * what.awake * one("memory") * what.overhead
    by_processor = what.busiest * processor_day / DAY / (what.worker_cores * what.used)
    by_memory = resident / (what.worker_gib * 2.0**30 * what.used)
    workers = math.ceil(max(by_processor, by_memory))
    disk = (database + ledger_year) / 1e9 * what.disk_price
    return {
        "assumed": asdict(what),
        "dimension": dimension,
        "one memory": {name: one(name) for name in exponents},
        "entries": what.memories * what.entries,
        "key bytes": 8.0 * dimension * what.memories * what.entries,
        "database bytes": database,
        "ledger bytes per year": ledger_year,
        "leaves per year": edits * YEAR,
        "proof hashes": math.ceil(math.log2(max(2.0, edits * YEAR))),
        "edits per second": edits / DAY,
        "edits per second, busiest": what.busiest * edits / DAY,
        "processor seconds per day": processor_day,
        "resident bytes": resident,
        "workers by processor": by_processor,
        "workers by memory": by_memory,
        "workers": workers,
        "cost of workers per month": workers * what.worker_price,
        "cost of disks per month": disk,
        "cost of one memory per year": (workers * what.worker_price + disk) * 12.0 / what.memories,
    }


def main() -> None:
    """Print the simulation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for item in fields(Assumptions):
        parser.add_argument(f"--{item.name.replace('_', '-')}", type=float, default=item.default)
    chosen = parser.parse_args()
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    found = simulate(
        measured["rows"],
        measured["exponents"]["entries"],
        measured["setting"]["dimension"],
        Assumptions(**vars(chosen)),
    )
    for name, number in found.items():
        if isinstance(number, float | int):
            print(f"{name:30} {number:16.6g}")


if __name__ == "__main__":
    main()
