"""What a measurement was taken on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

from threadpoolctl import threadpool_info

__all__ = ["describe"]


def describe() -> dict[str, object]:
    """Processor, cores, threads of the linear algebra and versions."""
    try:
        with open("/proc/cpuinfo") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "")
    except OSError:
        model = platform.processor()
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "blas_threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("expunge", "numpy", "scipy", "numba", "scikit-learn", "daqp")},
    }
