"""What a measurement was taken on, and where it is kept.

A result file holds the latest numbers, which the documents quote. `history.jsonl` beside it gains one line per run, so
that a number can be followed from commit to commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from expunge.audit.machine import describe_machine, describe_versions, source_commit

__all__ = ["HISTORY", "describe", "write_result"]

HISTORY = "history.jsonl"


def describe() -> dict[str, Any]:
    """Processor, cores, system, threads of the linear algebra and versions."""
    from threadpoolctl import threadpool_info

    threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    return {**describe_machine(), "blas_threads": threads, "versions": describe_versions()}


def write_result(out: Path, content: Mapping[str, Any], *, measured: Mapping[str, Any] | None = None) -> None:
    """Write `content` as the latest result, and append to the history what this run measured: all of it, if not given.

    Its machine is the one that it names, else this one.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    numbers = dict(content if measured is None else measured)
    line = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "benchmark": out.stem,
        "commit": source_commit(),
        "machine": numbers.pop("machine", None) or describe(),
        "numbers": numbers,
    }
    with (out.parent / HISTORY).open("a", encoding="utf-8") as history:
        history.write(json.dumps(line) + "\n")
