"""Hashes of what a set of histories publishes, one line of JSON: equal under every processor, library and thread count.

Run as a program in an environment of its own (`hashes_under`): the settings are read when the libraries are loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
BENCHMARKS = HERE.parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(BENCHMARKS))

from attackers.fixed_salts import fixed_salts  # noqa: E402
from attackers.twin_worlds import Book, draw_world, go_on, hold_and_erase_x, memory_bytes  # noqa: E402

__all__ = ["ENVIRONMENTS", "hashes_under", "state_hashes"]

# Made with the machine's linear algebra: equal for twins on one machine, not to the last bit on two.
OF_THE_MACHINE = {"certificates", "bounds", "map"}

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "native, 1 thread": {},
    "native, 2 threads": {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"},
    "generic processor": {"NUMBA_CPU_NAME": "generic"},
    "generic processor, no features": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    "BLAS for Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "BLAS for Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "BLAS for Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "BLAS for Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "BLAS for SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
}


def state_hashes(seed: int, histories: int) -> dict[str, str]:
    """SHA-256 by artifact, over this many histories of a seed."""
    found: dict[str, hashlib._Hash] = {}
    for number in range(histories):
        rng = np.random.default_rng([seed, number])
        world = draw_world(rng)
        with fixed_salts() as salts:
            book = Book(world, salts)
            hold_and_erase_x(
                book, "archived and deleted" if number % 2 else "deleted", int(rng.integers(len(world.first)))
            )
            go_on(book, prune=world.prune)
            shown = memory_bytes(book.memory, world.queries)
        for name, content in shown.items():
            if name in OF_THE_MACHINE:
                continue
            found.setdefault(name, hashlib.sha256()).update(content)
    return {name: digest.hexdigest() for name, digest in found.items()}


def hashes_under(settings: dict[str, str], seed: int, histories: int) -> dict[str, str]:
    """`state_hashes` in a process with these environment variables."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(  # noqa: S603 — this file, by this interpreter
        [sys.executable, str(HERE), str(seed), str(histories)],
        env={**os.environ, **one, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, str] = json.loads(ran.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    print(json.dumps(state_hashes(int(sys.argv[1]), int(sys.argv[2]))))
