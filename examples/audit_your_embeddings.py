"""Audit deletion on embeddings of your own: here, those of the conversations that ship with the package.

The same from a shell: expunge audit deletion --quick --keys keys.npy --out audit && expunge verify evidence audit
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from expunge.datasets import conversations

with tempfile.TemporaryDirectory() as folder:
    keys, out = Path(folder) / "keys.npy", Path(folder) / "audit"
    np.save(keys, conversations().keys[:96])
    audit = ["audit", "deletion", "--quick", "--keys", str(keys), "--out", str(out), "--jobs", "1"]
    for words in (audit, ["verify", "evidence", str(out)]):
        command = [sys.executable, "-m", "expunge", *words]
        environment = os.environ | {"COLUMNS": "160", "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", env=environment)  # noqa: S603
        print(done.stdout.strip())
