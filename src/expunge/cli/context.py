"""The store, the signing key and the streams that one run of a command uses.

Results go to standard output: for people as text, with ``--json`` as one JSON object, or one per line where there are
many. Everything else (progress, questions, hints, errors) goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge.errors import InputError, StoreError
from expunge.ledger.file_writing import new_file

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as ProgressBar

    from expunge.store import Store

__all__ = [
    "DEFAULT_STORE",
    "PASSPHRASE_VARIABLE",
    "CommandContext",
    "escape_controls",
    "interactive",
    "jsonable",
    "make_console",
    "print_json_lines",
    "read_file",
    "write_file",
]

DEFAULT_STORE = "sqlite:///expunge.db"
PASSPHRASE_VARIABLE = "EXPUNGE_PASSPHRASE"  # noqa: S105 — the name of the variable

# Terminals obey these, and no stream takes the bytes of a name that is not UTF-8.
# Control characters, what turns the direction of the text around it (bidi controls), and line separators.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class CommandContext:
    """The store, the signing key and the output format of one run."""

    url: str = DEFAULT_STORE
    signing_key: str | None = None
    as_json: bool = False
    head_key: str | None = None
    pepper: Path | None = None
    # What the ledger of a new store is called; the ledger of one that is there must be called that.
    ledger_name: str | None = None

    @contextmanager
    def store(
        self, *, create: bool = False, carry_out: bool = True, memory_budget: str | None = None
    ) -> Iterator[Store]:
        """The store, closed afterwards. A SQLite file that is not there is only made where `create` says so.

        Erasures that are due are carried out first, unless `carry_out` is false.
        """
        file = self.file
        if file is not None and not file.exists() and not create:
            raise StoreError(
                f"there is no store at {file}; name one with --store or $EXPUNGE_STORE, or make one with expunge create"
            )
        gc.disable()
        try:
            from expunge.store import open as open_store
        finally:
            gc.enable()

        with open_store(
            self.url,
            self.signing_key,
            head_key=self.head_key,
            pepper=self.pepper,
            passphrase=self.passphrase,
            origin=self.ledger_name,
            carry_out=carry_out,
            memory_budget=memory_budget,
        ) as store:
            yield store

    @property
    def passphrase(self) -> str | None:
        """Opens a signing key that is encrypted, and encrypts a new one."""
        return os.environ.get(PASSPHRASE_VARIABLE) or None

    @property
    def file(self) -> Path | None:
        """The file of a SQLite store."""
        prefix = "sqlite:///"
        if not self.url.startswith(prefix):
            return None
        return Path(self.url.removeprefix(prefix).partition("?")[0])

    def note_waiting(self, reason: str | None) -> None:
        """Say why the files still hold what an erasure has erased."""
        if reason is not None:
            self.note(f"Erased, and not yet gone from the files: {reason}. expunge vacuum completes it.")

    @property
    def displayed_url(self) -> str:
        """The store's URL without any password."""
        if self.file is not None:
            return self.url
        from sqlalchemy import make_url

        from expunge.store.backends.connect import url_without_password

        return url_without_password(make_url(self.url))

    @cached_property
    def out(self) -> Console:
        """Where results go."""
        return make_console()

    @cached_property
    def err(self) -> Console:
        """Where everything else goes."""
        return make_console(stderr=True)

    def show(self, content: Any, *parts: RenderableType) -> None:
        """Print a result: `content` as JSON, or the parts for people."""
        if self.as_json:
            print_json_lines([content])
        else:
            for part in parts:
                # Text is printed as it is: a name may look like markup, and a path must not be broken.
                if isinstance(part, str):
                    self.out.print(part, markup=False, soft_wrap=True)
                else:
                    self.out.print(part)

    def note(self, text: str) -> None:
        """Say something that is not a result."""
        if not self.as_json:
            self.err.print(text, style="dim", markup=False)

    def require_consent(self, yes: bool) -> None:
        """Refuse what cannot be undone where --yes is not given and nobody is there to ask.

        Call it before the store is opened, so that nothing is touched.
        """
        if not yes and not interactive():
            raise InputError(
                "this cannot be undone, and nobody is at the terminal to ask: say --yes; nothing was done",
                code="confirmation-missing",
            )

    def confirm(self, question: str, yes: bool) -> None:
        """Ask before something that cannot be undone, unless --yes has answered."""
        if not yes:
            import typer

            typer.confirm(escape_controls(question), abort=True, err=True)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Callable[[], None]]:
        """A bar on standard error while something takes long; call what it gives once per step."""
        with self._bar() as bar:
            task = bar.add_task(label, total=total)
            yield lambda: bar.advance(task)

    @contextmanager
    def stages(self, label: str) -> Iterator[Callable[[str, int, int], None]]:
        """A bar for work that tells what is under way, how much of it is done, and of how much."""
        with self._bar() as bar:
            task = bar.add_task(label, total=None)

            def show(stage: str, done: int, total: int) -> None:
                # Nothing done yet is a bar that moves, since it may be over at once. An update to None changes nothing.
                bar.tasks[task].total = total if done else None
                bar.update(task, description=f"{label}: {stage}", completed=done)

            yield show

    def _bar(self) -> ProgressBar:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        shown = not self.as_json and self.err.is_terminal
        return Progress(*columns, console=self.err, transient=True, disable=not shown)


def interactive() -> bool:
    """Whether somebody sits at the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def make_console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console that keeps numbers unpainted, and lines unbroken where nobody looks."""
    from expunge.cli.output import SafeConsole

    stream = sys.stderr if stderr else sys.stdout
    if width is None and not stream.isatty() and "COLUMNS" not in os.environ:
        width = 120
    return SafeConsole(stderr=stderr, highlight=False, width=width)


def print_json_lines(rows: Iterable[Any]) -> None:
    """Print JSON objects on standard output, one per line."""
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    for row in rows:
        # JSON's own spelling of what a terminal would obey; the parser gives it back.
        print(escape_controls(json.dumps(jsonable(row), ensure_ascii=ascii_only, allow_nan=False)))


def escape_controls(text: str) -> str:
    """Text without control characters: a name, a reason or a path may hold what moves a terminal's cursor, or turns the
    order in which a line is read.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def jsonable(value: Any) -> Any:
    """The value in what JSON knows: dicts and lists, infinities as text, arrays as lists, bytes as hex."""
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return value if value - value == 0.0 else str(value)
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else value


def read_file(path: Path, *, limit: int = 1 << 30) -> bytes:
    """The bytes of a file."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
    if len(data) > limit:
        raise InputError(f"{path} has more than {limit} bytes")
    return data


def write_file(path: Path, data: bytes, *, force: bool = False) -> None:
    """Write a new file, or with `force` replace one."""
    try:
        with path.open("wb") if force else new_file(path) as file:
            file.write(data)
    except FileExistsError:
        raise InputError(f"{path} exists; choose another name, or --force to replace it") from None
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None
