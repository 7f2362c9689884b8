"""Take the results of a full audit into the repository, and from there into the README.

    expunge audit all --out out/audit && expunge audit report out/audit --out out/report
    python benchmarks/audit_results.py out/report/results.json     # copies it to benchmarks/results/audit.json
    python benchmarks/audit_results.py --write                     # puts the table into README.md; a test compares both

Without --write it prints the table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from expunge.audit.readme import block, inserted

RESULTS = Path(__file__).parent / "results" / "audit.json"
README = Path(__file__).parent.parent / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", help="results.json of a report")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    chosen = parser.parse_args()
    if chosen.results is not None:
        text = chosen.results.read_text(encoding="utf-8")
        if any(one["quick"] for one in json.loads(text)["experiments"].values()):
            raise SystemExit("a quick audit is not what the README tells of")
        RESULTS.write_text(text, encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    if chosen.write:
        README.write_text(inserted(README.read_text(encoding="utf-8"), results), encoding="utf-8")
    else:
        print(block(results))


if __name__ == "__main__":
    main()
