"""Take the report of a full audit into the repository, and its results from there into the README.

    expunge audit all --out out/audit && expunge audit report out/audit --out out/report
    python benchmarks/audit_results.py out/report     # to benchmarks/results/audit.json and docs/results/audit.md
    python benchmarks/audit_results.py --write        # puts the table into README.md; a test compares the two

Without --write it prints the table.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from expunge.audit.report.readme_table import insert_block, readme_block
from record import write_result

RESULTS = Path(__file__).parent / "results" / "audit.json"
README = Path(__file__).parent.parent / "README.md"
PAGE = Path(__file__).parent.parent / "docs" / "results" / "audit.md"
TITLE, SETTINGS = "# Audit report", "The settings of every experiment are in [Protocols](protocols.md)."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, nargs="?", help="folder of a report")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    chosen = parser.parse_args()
    if chosen.report is not None:
        results = json.loads((chosen.report / "results.json").read_text(encoding="utf-8"))
        if any(one["quick"] for one in results["experiments"].values()):
            raise SystemExit("a quick audit is not what the README tells of")
        write_result(RESULTS, results)
        page = (chosen.report / "report.md").read_text(encoding="utf-8")
        PAGE.write_text(page.replace(TITLE, f"{TITLE}\n\n{SETTINGS}", 1), encoding="utf-8")
        (PAGE.parent / "figures").mkdir(exist_ok=True)
        for figure in (chosen.report / "figures").glob("*.png"):
            shutil.copyfile(figure, PAGE.parent / "figures" / figure.name)
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    if chosen.write:
        README.write_text(insert_block(README.read_text(encoding="utf-8"), results), encoding="utf-8")
    else:
        print(readme_block(results))


if __name__ == "__main__":
    main()
