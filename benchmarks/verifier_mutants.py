"""The page's verifier and the package's must give the same verdict on the same files, by the same code.

    python benchmarks/verifier_mutants.py [--seed 7] [--scale 1.0]      # needs Node 20 or newer

Files of every kind, with one thing or two changed, most of them signed again; the package's verdict is made here, the
page's in one Node process from the very modules that the page serves. The counts go to
``benchmarks/results/verifier_mutants.json``. Time stamps are judged by two libraries that read DER differently: there
the verdicts must agree, and how often the codes do is reported.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from record import describe, write_result
from verifier.mutants import KINDS, Case, cases

ROOT = Path(__file__).parent.parent
OUT = Path(__file__).parent / "results" / "verifier_mutants.json"
STATIC = ROOT / "src" / "expunge" / "service" / "frontend" / "static"
HERE = Path(__file__).parent / "verifier"
COUNTS = {
    "leaf": 5000,
    "receipt": 1500,
    "inclusion": 1200,
    "head": 1200,
    "extension": 800,
    "bundle": 1200,
    "key": 1000,
    "certificate": 1000,
    "ledger": 3000,
    "stamp": 2000,
}


def page_verdicts(found: Iterable[Case]) -> list[str | None]:
    """What the page's modules say, in Node."""
    lines = "".join(
        json.dumps({name: value for name, value in case.items() if name != "expected"}) + "\n" for case in found
    )
    command = ["node", "--no-warnings", str(HERE / "run_node.mjs"), str(HERE / "judge.js"), STATIC.as_uri()]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)  # noqa: S603 — our own command
    if done.returncode:
        raise SystemExit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(kind: str, seed: int, count: int) -> dict[str, Any]:
    """All cases of a kind, judged twice."""
    started = time.perf_counter()
    made = list(cases(kind, seed, count))
    middle = time.perf_counter()
    found = page_verdicts(made)
    differ = [
        {"number": at, "package": case["expected"], "page": verdict}
        for at, (case, verdict) in enumerate(zip(made, found, strict=True))
        if case["expected"] != verdict
    ]
    opposite = [one for one in differ if None in (one["package"], one["page"])]
    codes = Counter(case["expected"] for case in made)
    refused = count - codes.pop(None, 0)
    seconds = round(time.perf_counter() - middle, 1)
    print(
        f"{kind}: {count} cases, {refused} refused under {len(codes)} codes; {len(differ)} other codes, "
        f"{len(opposite)} opposite verdicts; made in {middle - started:.0f} s, judged by the page in {seconds:.0f} s",
        flush=True,
    )
    return {
        "cases": count,
        "refused": refused,
        "codes": dict(sorted(codes.items())),
        "other_code": differ,
        "opposite": opposite,
    }


def main() -> int:
    """Every kind; 1 if a verdict differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--kind", choices=[*KINDS])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else list(KINDS)
    result = {kind: compare(kind, options.seed, max(1, round(COUNTS[kind] * options.scale))) for kind in kinds}
    total = sum(found["cases"] for found in result.values())
    wrong = sum(len(found["opposite" if kind == "stamp" else "other_code"]) for kind, found in result.items())
    print(f"{total} cases, {wrong} verdicts differ")
    for kind, found in result.items():
        for one in found["other_code"][:10]:
            print(kind, one)
    out = options.out or (OUT if options.scale == 1.0 and not options.kind else None)
    if out is not None:
        node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
        write_result(
            out, {"seed": options.seed, "cases": total, "differ": wrong, "node": node, "machine": describe(), **result}
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    raise SystemExit(main())
