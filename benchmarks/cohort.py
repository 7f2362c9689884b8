"""Peak memory of the MIMIC-IV cohort builder on a chart file of the full set's size: writes results/cohort.json.

    python benchmarks/cohort.py --gigabytes 40

The full set is credentialed, so the file is made up, in its layout: 94,458 stays, eleven columns, one gzip stream.
1,500 stays are long enough and drawn, and their rows come first; the rest is other items and other stays, which is
what most of the real file is to this loader. Equal compressed blocks repeat, so the file on disk is small; what the
loader reads is not. The peak is that of a process that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
STAYS, LONG, HOURS = 94_458, 1_500, 60
BEGIN = datetime(2150, 1, 1, 6, 0)
ITEMS = {220045: 80.0, 220050: 120.0, 220051: 60.0, 220210: 18.0, 220277: 97.0, 223761: 98.6}
OTHER = range(224_000, 224_034)
HEADER = "subject_id,hadm_id,stay_id,caregiver_id,charttime,storetime,itemid,value,valuenum,valueuom,warning\n"

LOAD = """
import json, resource, sys, time
from expunge.datasets import mimic_iv
started = time.perf_counter()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cohort = mimic_iv(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"flow": cohort.flow, "hours": sum(map(len, cohort.stays)), "before_kib": before, "peak_kib": peak,
                  "seconds": time.perf_counter() - started}))
"""


def chart_rows(stays: range, items: dict[int, float], rng: np.random.Generator) -> bytes:
    """Chart events of some stays, every item every hour."""
    lines = []
    for stay in stays:
        for hour in range(HOURS):
            clock = BEGIN + timedelta(hours=hour, minutes=int(rng.integers(60)))
            for item, level in items.items():
                value = f"{level * rng.uniform(0.93, 1.04):.1f}"
                lines.append(
                    f"{10_000_000 + stay},2,{30_000_000 + stay},4,{clock},{clock},{item},{value},{value},unit,0\n"
                )
    return "".join(lines).encode()


def write_folder(folder: Path, size: float, *, listed: int = STAYS, drawn: int = LONG) -> int:
    """A folder in MIMIC-IV's layout whose chart file has at least `size` bytes unpacked; how many it has."""
    (folder / "icu").mkdir(parents=True)
    with (folder / "icu" / "icustays.csv").open("w", encoding="utf-8") as file:
        file.write("subject_id,hadm_id,stay_id,first_careunit,last_careunit,intime,outtime,los\n")
        for stay in range(listed):
            days = HOURS / 24 if stay < drawn else 1.0
            end = BEGIN + timedelta(days=days)
            file.write(f"{10_000_000 + stay},2,{30_000_000 + stay},Unit,Unit,{BEGIN},{end},{days}\n")
    rng = np.random.default_rng(0)
    with (folder / "icu" / "chartevents.csv.gz").open("wb") as chart:
        chart.write(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
        check = total = 0

        def add(raw: bytes, packed: bytes) -> None:
            nonlocal check, total
            check, total = zlib.crc32(raw, check), total + len(raw)
            chart.write(packed)

        def packed(raw: bytes, mode: int) -> bytes:
            # A full flush ends on a byte and forgets what came before, so that blocks can repeat.
            press = zlib.compressobj(1, zlib.DEFLATED, -15)
            return press.compress(raw) + press.flush(mode)

        head = HEADER.encode() + chart_rows(range(drawn), ITEMS, rng)
        add(head, packed(head, zlib.Z_FULL_FLUSH))
        filler = chart_rows(range(drawn, drawn + 40), dict.fromkeys(OTHER, 5.0) | ITEMS, rng)
        again = packed(filler, zlib.Z_FULL_FLUSH)
        while total < size:
            add(filler, again)
        chart.write(packed(b"", zlib.Z_FINISH))
        chart.write(struct.pack("<II", check, total & 0xFFFFFFFF))
    return total


def measure(folder: Path) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", LOAD, str(folder)], capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=40.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "cohort.json")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        size = write_folder(Path(folder) / "mimic", chosen.gigabytes * 1e9)
        print(f"made {size / 1e9:.1f} GB in {time.perf_counter() - started:.0f} s", flush=True)
        found = measure(Path(folder) / "mimic")
    print(" → ".join(f"{count} {step}" for step, count in found["flow"].items()))
    print(f"peak {found['peak_kib'] / 2**20:.2f} GiB in {found['seconds']:.0f} s")
    content = {"command": "python benchmarks/cohort.py", "machine": describe(), "bytes": size, **found}
    write_result(chosen.out, content)


if __name__ == "__main__":
    main()
