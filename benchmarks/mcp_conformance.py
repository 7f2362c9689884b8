"""Run the conformance suites of the Model Context Protocol against ``expunge mcp``, over HTTP.

Two versions of ``@modelcontextprotocol/conformance`` are installed from npm, with a Node that they run on: the one that
is released, for the protocol of 2025-11-25, and the one that knows the protocol of 2026-07-28. Every check is counted:
*passed*, *warned*, *skipped* by the suite itself; *needs a fixture tool* where it asks for a tool of the suite's own
example server; *not offered* where it asks for a part of the protocol that this server does not announce (prompts,
resources, completions, logging); else *failed*. Scenarios that need nothing of the kind have to pass. The command fails
if a check failed, or if such a scenario did not pass.

    python benchmarks/mcp_conformance.py [--folder FOLDER]

Writes benchmarks/results/mcp_conformance.json.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from record import describe, write_result

OUT = Path(__file__).parent / "results" / "mcp_conformance.json"
NODE = "node@22"
SUITES = {
    "0.1.16, protocol 2025-11-25": ("@modelcontextprotocol/conformance@0.1.16", ["--suite", "active"]),
    "0.2.0-alpha.12, protocol 2026-07-28": (
        "@modelcontextprotocol/conformance@0.2.0-alpha.12",
        ["--suite", "all", "--spec-version", "2026-07-28"],
    ),
}
# Scenarios that need no fixture: none of their checks may be missing, or fail.
NEED_NOTHING = {
    "server-initialize",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "http-header-validation",
}
# What a check says that needs a tool of the fixture server.
_FIXTURE = re.compile(
    r"there is no tool|Not testable|Tool '\w+' not found"
    r"|Expected InputRequiredResult|could not get initial InputRequiredResult"
)
_NOT_OFFERED = re.compile(r"Method not found|-32601")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server of an empty memory."""
    store = f"sqlite:///{folder / 'conformance.db'}"
    words = ["--store", store, "mcp", "--embed", "words", "--transport", "http", "--port", "0"]
    command = [sys.executable, "-m", "expunge", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stderr is not None
        address = process.stderr.readline().strip()
        for _ in range(300):
            try:
                urllib.request.urlopen(address, timeout=5)  # noqa: S310 — an address of this machine
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def checks(folder: Path, package: str, options: list[str], address: str) -> dict[str, list[dict[str, Any]]]:
    """The checks of a suite, by scenario."""
    place = folder / re.sub(r"\W+", "-", package)
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text('{"private": true}')
    subprocess.run(  # noqa: S603
        ["npm", "install", "--no-audit", "--no-fund", "--silent", package, NODE],  # noqa: S607
        cwd=place,
        check=True,
    )
    program = place / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    results = Path(tempfile.mkdtemp(dir=place))
    subprocess.run(  # noqa: S603
        [place / "node_modules" / ".bin" / "node", program, "server", "--url", address, "-o", results, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    found = {}
    for file in sorted(results.glob("*/checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        found[scenario] = json.loads(file.read_text())
    return found


def verdict(scenario: str, check: dict[str, Any]) -> str:
    """What a check came to."""
    status, told = check["status"], str(check.get("errorMessage"))
    if status != "FAILURE":
        return {"SUCCESS": "passed", "WARNING": "warned", "SKIPPED": "skipped"}.get(status, "told")
    if scenario in NEED_NOTHING:
        return "failed"
    if _FIXTURE.search(told):
        return "needs a fixture tool"
    return "not offered" if _NOT_OFFERED.search(told) else "failed"


def run_suite(folder: Path, name: str, package: str, options: list[str], address: str) -> dict[str, Any]:
    """Run one suite, and print what it came to: one row of the record."""
    found = checks(folder, package, options, address)
    counts, groups = Counter[str](), dict[str, list[str]]()
    print(f"\n{name}: {len(found)} scenarios")
    for scenario, listed in found.items():
        verdicts = Counter(verdict(scenario, check) for check in listed)
        counts += verdicts
        for word in verdicts:
            groups.setdefault(word, []).append(scenario)
        print(f"  {scenario:<45} " + ", ".join(f"{number} {what}" for what, number in sorted(verdicts.items())))
        for check in listed:
            if verdict(scenario, check) in ("failed", "warned"):
                print(f"      {check['id']}: {str(check.get('errorMessage'))[:200]}")
    print("  " + ", ".join(f"{number} {what}" for what, number in counts.most_common()))
    needed = NEED_NOTHING.intersection(found)
    verdicts_of = {scenario: {verdict(scenario, check) for check in found[scenario]} for scenario in needed}
    whole = [scenario for scenario, told in verdicts_of.items() if "passed" in told and "failed" not in told]
    print(f"  of {len(needed)} scenarios that need no fixture and no other part of the protocol, {len(whole)} passed")
    return {
        "suite": name,
        "package": package,
        "scenarios": len(found),
        "checks": dict(sorted(counts.items())),
        "scenarios with such a check": {word: sorted(names) for word, names in sorted(groups.items())},
        "need nothing": len(needed),
        "need nothing, and passed": len(whole),
        "good": bool(found) and not counts["failed"] and len(whole) == len(needed),
    }


def main() -> None:
    """Run the suites."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where npm installs; a temporary folder without it")
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    given = chosen.folder
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if given is None else given.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with serving(Path(temporary)) as address:
            rows = [run_suite(folder, name, *suite, address) for name, suite in SUITES.items()]
    write_result(chosen.out, {"machine": describe(), "suites": rows})
    sys.exit(0 if all(row["good"] for row in rows) else 1)


if __name__ == "__main__":
    main()
