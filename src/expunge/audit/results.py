"""The folder that an audit leaves behind: tables, complete states, and what they were made with.

Format: docs/formats/audit-results.md. One folder per experiment. A task's record is written in two steps, each atomic:
its arrays, then its rows, which name the arrays by digest. A run that is killed at any moment therefore leaves whole
records only, and the next one continues with the tasks that have none. When every task has one, the tables are
written from the rows, then the manifest says that the experiment is finished. Timings are kept apart: everything else
is the same, byte for byte, however many workers there were.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.result_tables import FORMAT, NOT_DIGESTED, TABLES, Columns, frame_schema
from expunge.audit.task_record import TaskRecord
from expunge.errors import InputError, MissingExtra, StoreError
from expunge.ledger.file_writing import new_file
from expunge.types import AnyArray

if TYPE_CHECKING:
    import polars

__all__ = ["AuditResults", "ResultFolder", "open_results"]

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class AuditResults:
    """Finished experiments of one folder, to be read."""

    path: Path
    experiments: tuple[str, ...]

    def manifest(self, experiment: str) -> dict[str, Any]:
        """Settings, versions and digests of an experiment."""
        return _read_manifest(self._folder(experiment))

    def tables(self, experiment: str) -> tuple[str, ...]:
        """Names of an experiment's tables."""
        return tuple(sorted(path.stem for path in self._folder(experiment).glob("*.parquet")))

    def table(self, experiment: str, name: str) -> polars.DataFrame:
        """One table."""
        path = self._folder(experiment) / f"{name}.parquet"
        if not path.is_file():
            raise InputError(f"{experiment} has no table {name!r}; it has {', '.join(self.tables(experiment))}")
        frame: polars.DataFrame = load_polars().read_parquet(path)
        return frame

    def numbers(self, experiment: str) -> dict[str, float]:
        """Reported numbers by name, speeds among them; one without a value is left out."""
        found: dict[str, float] = {}
        for name in ("summary", "speeds"):
            if (self._folder(experiment) / f"{name}.parquet").is_file():
                frame = self.table(experiment, name)
                found |= {n: v for n, v in zip(frame["number"], frame["value"], strict=True) if v is not None}
        return found

    def arrays(self, experiment: str, unit: str) -> dict[str, AnyArray]:
        """Arrays of one unit of states."""
        with np.load(self._folder(experiment) / "states" / f"{unit}.npz", allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}

    def _folder(self, experiment: str) -> Path:
        if experiment not in self.experiments:
            known = ", ".join(self.experiments) or "nothing"
            raise InputError(f"{self.path} has no finished audit of {experiment!r}; it has {known}")
        return self.path / experiment


def open_results(path: str | Path) -> AuditResults:
    """Read a folder that ``expunge audit`` wrote."""
    folder = Path(path)
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}")
    found = sorted(manifest.parent.name for manifest in folder.glob(f"*/{_MANIFEST}"))
    finished = [name for name in found if _read_manifest(folder / name).get("finished")]
    if not finished:
        unfinished = f"; unfinished: {', '.join(found)} (continue with --resume)" if found else ""
        raise InputError(f"{folder} holds no finished audit{unfinished}")
    return AuditResults(folder, tuple(finished))


@dataclass(frozen=True)
class ResultFolder:
    """One experiment's folder, while it is written. Use `ResultFolder.begin`."""

    path: Path
    manifest: dict[str, Any]

    @classmethod
    @contextmanager
    def begin(cls, path: Path, header: Mapping[str, Any], *, resume: bool) -> Iterator[ResultFolder]:
        """Start an experiment, or continue one that was started with the same header, alone.

        Raises InputError where the folder is taken, or holds another run, or another process writes to it.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise StoreError(f"cannot make {path}: {problem.strerror or problem}") from None
        with _locked(path):
            if (path / _MANIFEST).exists():
                manifest = _read_manifest(path)
                if not resume:
                    raise InputError(
                        f"{path} holds an audit already: continue it with --resume, or choose another --out"
                    )
                _require_same_run(path, manifest, header)
            else:
                manifest = {"format": FORMAT, **header, "finished": False}
                write_atomically(path / _MANIFEST, _json_bytes(manifest))
            for name in ("states", "parts"):
                if not manifest["finished"]:
                    (path / name).mkdir(exist_ok=True)
            yield cls(path, manifest)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return bool(self.manifest["finished"])

    def done(self) -> set[str]:
        """Tasks whose records are here, whole."""
        return {path.stem for path in (self.path / "parts").glob("*.json") if self._whole(path)}

    def write(self, record: TaskRecord) -> None:
        """Write a task's record."""
        digest = None
        if record.arrays:
            packed = pack_arrays(record.arrays)
            digest = hashlib.sha256(packed).hexdigest()
            write_atomically(self.path / "states" / f"{record.unit}.npz", packed)
        rows = _json_bytes({"arrays": digest, "tables": record.tables})
        write_atomically(self.path / "parts" / f"{record.unit}.json", rows)

    def collect(self, units: Sequence[str], columns: Mapping[str, Columns]) -> dict[str, polars.DataFrame]:
        """Tables of every record, in the order of the units."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for unit in units:
            part = json.loads((self.path / "parts" / f"{unit}.json").read_bytes())
            for table, cells in part["tables"].items():
                rows.setdefault(table, []).extend(cells)
        polars = load_polars()
        return {
            table: polars.DataFrame(
                cells, schema=frame_schema({**TABLES[table], **columns.get(table, {})}, polars), orient="row"
            )
            for table, cells in sorted(rows.items())
        }

    def finish(self, tables: Mapping[str, polars.DataFrame], run: Mapping[str, Any]) -> None:
        """Write the tables and the manifest, then drop the parts."""
        for name, frame in tables.items():
            buffer = io.BytesIO()
            frame.write_parquet(buffer, compression="zstd", statistics=False)
            write_atomically(self.path / f"{name}.parquet", buffer.getvalue())
        wanted = {f"{name}.parquet" for name in tables}
        files = {
            path.relative_to(self.path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted([*self.path.glob("*.parquet"), *self.path.glob("states/*.npz")])
            if path.parent.name == "states" or path.name in wanted
        }
        manifest = {
            **self.manifest,
            "files": files,
            "digest": contents_digest(files),
            "run": dict(run),
            "finished": True,
        }
        write_atomically(self.path / _MANIFEST, _json_bytes(manifest))
        for part in (self.path / "parts").iterdir():
            part.unlink()
        (self.path / "parts").rmdir()

    def _whole(self, part: Path) -> bool:
        states = self.path / "states" / f"{part.stem}.npz"
        try:
            digest = json.loads(part.read_bytes())["arrays"]
            return digest is None or hashlib.sha256(states.read_bytes()).hexdigest() == digest
        except (OSError, ValueError, KeyError):
            return False


def contents_digest(files: Mapping[str, str]) -> str:
    """One digest for everything but timings: of the sorted lines ``sha256  path``."""
    lines = [f"{digest}  {path}\n" for path, digest in sorted(files.items()) if Path(path).stem not in NOT_DIGESTED]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def pack_arrays(arrays: Mapping[str, AnyArray]) -> bytes:
    """An NPZ file with the arrays in order of name: equal arrays give equal bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: arrays[name] for name in sorted(arrays)})  # type: ignore[arg-type]
    return buffer.getvalue()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    with new_file(path, replace=True) as file:
        file.write(data)


def load_polars() -> Any:
    """Polars, or what to install."""
    try:
        return import_module("polars")
    except ImportError as problem:
        raise MissingExtra("audits keep their tables in Parquet: pip install 'expunge[audit]'") from problem


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the folder: the system releases it when the process ends, however it ends."""
    try:
        lock = (path / ".lock").open("w")
    except OSError as problem:
        raise StoreError(f"cannot write to {path}: {problem.strerror or problem}") from None
    # POSIX alone has it, and nothing but this needs it.
    import fcntl

    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another audit is writing to {path}") from None
        yield


def _require_same_run(path: Path, manifest: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    fresh = json.loads(_json_bytes(dict(header)))
    for name in ("experiment", "settings", "scheduled", "versions"):
        if manifest.get(name) != fresh.get(name):
            raise InputError(f"{path} was started with other {name}, so it cannot be continued; choose another --out")


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
    except ValueError:
        raise InputError(f"{path} is not JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path} is not the manifest of an audit ({FORMAT})")
    return manifest


def _json_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=None if "tables" in content else 1) + "\n").encode()
