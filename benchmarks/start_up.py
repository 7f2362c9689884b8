"""How long a process takes before it is of use: imports, a small memory, `expunge show`, the first fit of an install.

Every command is a process of its own. Processor seconds are the measure, of user and system together: on a quiet
machine they are the waiting time, and on a busy one the waiting time says little. Each number is the least of several
runs. With ``--before`` the same commands run from another checkout, in turn with this one, so that both meet the same
machine. An empty directory stands for a fresh install; there the first fit compiles, unless `expunge warm` has.

    python benchmarks/start_up.py                            # this checkout
    python benchmarks/start_up.py --before ../older/src      # beside another
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from record import describe, write_result

RESULTS = Path(__file__).parent / "results" / "start_up.json"
SOURCE = Path(__file__).parents[1] / "src"
ENTRIES = 300
MAKE = f"""
import numpy as np, expunge
rng = np.random.default_rng(0)
keys, values = rng.standard_normal(({ENTRIES}, 8)), rng.standard_normal(({ENTRIES}, 2))
with expunge.open("sqlite:///store.db") as store:
    store.create("a", keys, values, sigma=3.0, nu=0.3).refit().save("memory")
"""
FIT = "import numpy as np; from expunge import Memory; Memory.fit(np.eye(9), np.arange(9.0), sigma=1.0, nu=0.5)"
STORE = ("-m", "expunge", "--store", "sqlite:///store.db")
COMMANDS: dict[str, tuple[str, ...]] = {
    "python": ("-c", "pass"),
    "import numpy": ("-c", "import numpy"),
    "import numba": ("-c", "import numba"),
    "from expunge import Memory": ("-c", "from expunge import Memory"),
    "import expunge.store": ("-c", "import expunge.store"),
    "load a small memory": ("-c", "from expunge import Memory; Memory.load('memory')"),
    "fit nine keys": ("-c", FIT),
    "expunge --help": ("-m", "expunge", "--help"),
    "expunge show": (*STORE, "show"),
    "expunge show a": (*STORE, "show", "a"),
    "expunge read": (*STORE, "read", "a", "--at=0,0,0,0,0,0,0,0"),
}


def seconds_of(words: tuple[str, ...], folder: Path, source: Path, cache: Path) -> tuple[float, float]:
    """Processor seconds and seconds of one command, which must succeed."""
    environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    started = time.perf_counter()
    with (folder / "output.txt").open("w") as output:
        child = subprocess.Popen(  # noqa: S603 — this interpreter
            [sys.executable, *words], cwd=folder, stdout=output, stderr=output, env=environment
        )
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, (folder / "output.txt").read_text()[-2000:]
    return used.ru_utime + used.ru_stime, time.perf_counter() - started


def fresh_installs(folder: Path) -> dict[str, float]:
    """The first fit where nothing is compiled, and where `expunge warm` came before."""
    cold, warmed = folder / "cold", folder / "warmed"
    first, _ = seconds_of(("-c", FIT), folder, SOURCE, cold)
    warm, _ = seconds_of(("-m", "expunge", "warm"), folder, SOURCE, warmed)
    after, _ = seconds_of(("-c", FIT), folder, SOURCE, warmed)
    return {"first fit": first, "expunge warm": warm, "first fit after expunge warm": after}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--before", type=Path, help="the src folder of another checkout")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    sources = {"now": SOURCE} | ({} if chosen.before is None else {"before": chosen.before.resolve()})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, dict[str, Any]] = {}
        for which, source in sources.items():
            (folder / which).mkdir()
            for words in (("-c", MAKE), *COMMANDS.values()):
                seconds_of(words, folder / which, source, folder / which / "code")
        for what, words in COMMANDS.items():
            runs: dict[str, list[tuple[float, float]]] = {which: [] for which in sources}
            for _ in range(chosen.runs):
                for which, source in sources.items():
                    runs[which].append(seconds_of(words, folder / which, source, folder / which / "code"))
            least = {which: min(used for used, _ in taken) for which, taken in runs.items()}
            found[what] = {**least, "waited": min(waited for _, waited in runs["now"])}
            print(f"{what:28}" + "".join(f"  {which} {used:5.2f} s" for which, used in least.items()), flush=True)
        installs = fresh_installs(folder)
        for what, used in installs.items():
            print(f"{what:28}  {used:5.1f} s")
    content = {"machine": describe(), "entries": ENTRIES, "processor_seconds": found, "fresh_install": installs}
    write_result(chosen.out, content)


if __name__ == "__main__":
    main()
