"""Tables of the page *how it grows*, from the results of several benchmarks; `summary.py` writes them there.

What has not been measured yet is a row that says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from growth import QUANTITIES, predicted_bytes
from scale import DIMENSION

__all__ = ["fleet", "largest", "memory", "rates", "workers"]

RESULTS = Path(__file__).parent / "results"


def read(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def amount(number: float, unit: str) -> str:
    """Seconds in the unit that suits them; bytes in decimal units."""
    if unit == "s":
        return f"{number:.3g} s" if number >= 1.0 else f"{1e3 * number:.3g} ms"
    for size, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:.0f} B"


def count(number: float) -> str:
    """Three digits below a thousand, all of the whole number from there."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def fitted(found: dict[str, float]) -> str:
    return f"{found['exponent']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def rates() -> str:
    """Seconds and bytes at the smallest and the largest size, and the exponents."""
    found = read("growth")
    setting = found["setting"]
    ladder = [row for row in found["rows"] if row["dimension"] == setting["dimension"]]
    ends = (ladder[0], ladder[-1])
    head = [
        "",
        *(f"n = {row['entries']:,}" for row in ends),
        f"exponent over n, d = {setting['dimension']}",
        f"exponent over d, n = {setting['size']:,}",
    ]
    rows = [
        [
            name,
            *(amount(row[name], unit) for row in ends),
            fitted(found["exponents"]["entries"][name]),
            fitted(found["exponents"]["dimension"][name]),
        ]
        for name, unit in QUANTITIES.items()
    ]
    bare = [row["store"] / row["entries"] - 8.0 * (row["dimension"] + setting["width"]) for row in ends]
    rows.append(["store, per entry, beside its numbers", *(amount(number, "bytes") for number in bare), "", ""])
    margin = ["keys on the margin", *(f"{row['groups']['margin']:,}" for row in ends), "", ""]
    about = f"Width {setting['sigma']:g}, ν = {setting['nu']:g}, values of {setting['width']}; {machine(found)}."
    return f"{table(head, [margin, *rows])}\n\n{about}"


def machine(found: dict[str, Any]) -> str:
    return f"{found['machine']['processor']}, {found['machine']['cores']} cores"


def memory() -> str:
    """The formula, and what was allocated beside it."""
    found = read("growth")
    # Each term with its variables at one.
    keys = predicted_bytes(1, 0, 1, 0)["keys and values"]
    twice = predicted_bytes(1, 1, 0, 0)["keys and values"] / keys
    rows, square = (predicted_bytes(1, 0, 0, 1)[name] for name in ("rows of the margin", "factor and pairs"))
    entry = predicted_bytes(1, 0, 0, 0)["by entry"]
    formula = f"bytes ≈ {keys:g}·n·({twice:g}d + v) + {rows:g}·s·n + {square:g}·s² + {entry:g}·n"
    lines = [
        [
            f"{row['entries']:,}",
            f"{row['dimension']}",
            f"{row['groups']['margin']:,}",
            *(amount(row["predicted"][name], "bytes") for name in row["predicted"]),
            amount(row["memory"], "bytes"),
            f"{row['memory'] / sum(row['predicted'].values()):.2f}",
        ]
        for row in found["rows"]
    ]
    head = ["n", "d", "s", *found["rows"][0]["predicted"], "allocated", "over formula"]
    return f"```text\n{formula}\n```\n\n{table(head, lines)}"


def largest() -> str:
    """The largest memory of `make scale`."""
    found = read("scale")
    head = ["largest memory tried (`make scale`)", ""]
    if found is None:
        return table(head, [["not measured yet", ""]])
    row = max(found["cases"], key=lambda case: int(case["case"].split(":")[1]))
    kind, size, sigma, nu = row["case"].split(":")
    lines = [
        ["entries, coordinates, ν", f"{int(size):,} ({kind}), {DIMENSION}, {nu}; width {sigma}: {row['sigma']:.4g}"]
    ]
    lines.append(["margin, bound, reserve", ", ".join(f"{row['groups'][name]:,}" for name in row["groups"])])
    lines.append(["resident at most", f"{row['gibibytes']} GiB"])
    lines += [
        [name, f"p50 {took['p50']:.3g} s, p95 {took['p95']:.3g} s, of {took['count']}"]
        for name, took in row["phases"].items()
    ]
    return table(head, lines)


def workers() -> str:
    """Edits of 32 clients by store, workers and memories."""
    found = read("group_commit")
    head = [
        "store",
        "workers",
        "memories",
        "clients",
        "edits a second",
        "p99",
        "reads p99",
        "processors in use",
        "errors",
    ]
    if found is None or not found.get("load"):
        return table(head, [["not measured yet", *[""] * 8]])
    about = f"Memories of n = {found['setting']['n']:,}, d = {found['setting']['d']}; {machine(found)}."
    rows = table(
        head,
        [
            [
                row["store"],
                str(row["workers"]),
                str(row["memories"]),
                str(row["clients"]),
                f"{row['edits_per_second']:.0f}",
                f"{row['edit_ms']['p99']:.0f} ms",
                f"{row['read_ms']['p99']:.0f} ms" if row["read_ms"].get("p99") else "",
                f"{row['processors']:.1f}" if row["processors"] is not None else "",
                str(len(row["errors"])),
            ]
            for row in found["load"]
        ],
    )
    return f"{rows}\n\n{about}"


def fleet() -> str:
    """The simulation: what is assumed, and what follows."""
    found = read("growth")["fleet"]
    assumed, one = found["assumed"], found["one memory"]
    size = f"{assumed['memories']:,.0f}, {assumed['entries']:,.0f}, {found['dimension']}"
    worker = f"{assumed['worker_cores']:g} cores, {assumed['worker_gib']:g} GiB, used to {100 * assumed['used']:g} %"
    given = [
        ["memories, entries of each, d", size],
        ["edits, searches per memory and day", f"{assumed['edits']:g}, {assumed['searches']:g}"],
        ["memories held in workers at one time", f"{100 * assumed['awake']:g} %"],
        ["busiest hour over the mean", f"{assumed['busiest']:g}"],
        ["a worker", f"{worker}, at {assumed['worker_price']:g} a month"],
        ["bytes of a worker over those of its memories", f"{assumed['overhead']:g}"],
        ["a gigabyte of disk", f"{assumed['disk_price']:g} a month"],
    ]
    often, most = (count(found[f"edits per second{when}"]) for when in ("", ", busiest"))
    by = [count(found[f"workers by {what}"]) for what in ("memory", "processor")]
    cost = [count(found[f"cost of {what} per month"]) for what in ("workers", "disks")]
    ledger = amount(found["ledger bytes per year"], "bytes")
    follows = [
        ["entries", f"{found['entries']:,.0f}"],
        ["keys", amount(found["key bytes"], "bytes")],
        ["databases", amount(found["database bytes"], "bytes")],
        ["ledger", f"{ledger} and {count(found['leaves per year'])} leaves a year"],
        ["a proof of inclusion after a year, if one ledger had all leaves", f"{found['proof hashes']} hashes"],
        ["edits", f"{often} a second, {most} in the busiest hour"],
        ["processors at work on average", count(found["processor seconds per day"] / 86_400)],
        ["bytes in workers", amount(found["resident bytes"], "bytes")],
        ["workers", f"{found['workers']:,}: {by[0]} for memory, {by[1]} for processors"],
        ["cost a month", f"{cost[0]} for workers, {cost[1]} for disks"],
        ["cost of one memory a year", f"{found['cost of one memory per year']:.2g}"],
    ]
    taken = [[name, amount(one[name], unit)] for name, unit in QUANTITIES.items()]
    heads = ("assumed", "taken from the measured lines, at that size", "follows")
    return "\n\n".join(table([head, ""], rows) for head, rows in zip(heads, (given, taken, follows), strict=True))
