"""One run of the demo: its folder, its console, and what its steps found."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

__all__ = ["DemoRun", "Step", "text_grid"]


@dataclass(frozen=True)
class Step:
    """A finished part of the demo."""

    name: str
    seconds: float


@dataclass
class DemoRun:
    """What a run has done so far."""

    folder: Path
    console: Console
    steps: list[Step] = field(default_factory=list)
    tampering: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    total: float = 0.0

    @property
    def program(self) -> str:
        """How to call ``expunge`` from within the folder."""
        script = Path(sys.executable).with_name("expunge")
        found = shutil.which("expunge")
        if found is not None and Path(found).resolve() == script.resolve():
            return "expunge"
        if script.exists():
            return shlex.quote(os.path.relpath(script, self.folder))
        return f"{shlex.quote(sys.executable)} -m expunge"

    @property
    def next_commands(self) -> list[str]:
        """Three commands to try, from within the folder."""
        return [
            f"{self.program} search conversations --at @questions/rock-bands.npy",
            f"{self.program} erase-subject Susan --dry-run",
            f"{self.program} verify evidence evidence/erasure.zip --trust log.vkey",
        ]

    def show(self, *parts: RenderableType) -> None:
        """Print, a little indented."""
        for part in parts:
            self.console.print(Padding(part, (0, 0, 0, 2), expand=False) if part else "")

    @contextmanager
    def step(self, name: str, heading: str, about: str) -> Iterator[None]:
        """One part, under its heading, timed."""
        self.console.print()
        title = Text.assemble((f"{len(self.steps) + 1} ", "bold cyan"), (heading, "bold"))
        self.console.print(Rule(title, align="left", style="cyan"))
        self.show(Text(about, style="dim"), *([] if name == "fit" else [""]))
        started = time.perf_counter()
        yield
        self.steps.append(Step(name, time.perf_counter() - started))


def text_grid(rows: Sequence[Sequence[str | Text]]) -> RenderableType:
    """Columns without a header; the last gives way where space is short."""
    table = Table.grid(padding=(0, 2))
    for place in range(len(rows[0])):
        table.add_column(no_wrap=place < len(rows[0]) - 1)
    for row in rows:
        *cells, last = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        last.no_wrap, last.overflow = True, "ellipsis"
        table.add_row(*cells, last)
    return Padding(table, (0, 0, 0, 2))
