"""The results of an audit: every state checked from its keys, every difference and every reported number recomputed.

Format and steps: ``docs/formats/audit-results.md``. Nothing here comes from audits, solver or memory: a state
is its keys, coefficients and offset; a comparison is two states and the points at which they are read; a reported
number is a statistic of rows, by its own definition. Only what nobody can recompute is believed: which path an edit
took, and how long it took.

Recomputed numbers may differ from those on record by rounding, because another machine sums in another order; by
how much is in `ROUNDING`. Statistics of rows must be the same to the last few bits.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from expunge.errors import InputError, MissingExtra, StoreError, VerificationError
from expunge.ledger.packed_files import check_unpacked
from expunge.problem.check import check_state
from expunge.problem.kernel import kernel_block
from expunge.problem.tolerances import ACCEPTANCE
from expunge.types import AnyArray, Matrix
from expunge.verify.audit_measures import RecordedState, measured, projected, readout, score
from expunge.verify.audit_statistics import Rows, statistic

__all__ = ["FORMAT", "ROUNDING", "verify_audit_results"]

FORMAT: Final = "expunge/audit/v1"

# How far a recomputed number may be from the one on record: (absolute, relative). Scores and residuals are sums of
# numbers below one; a percentage is a hundred times one; a condition number beyond 1e12 is rounding itself.
ROUNDING: Final = (2e-13, 1e-9)
PERCENT: Final = (1e-9, 1e-9)
STATISTIC: Final = (0.0, 1e-12)
CONDITION_LIMIT: Final = 1e12

_UNDIGESTED: Final = ("timings.parquet", "speeds.parquet")
_EXPRESSION: Final = re.compile(r"([A-Za-z0-9_./-]+)(?:\[([A-Za-z0-9_./-]+)\])?")
_UNIT: Final = re.compile(r"[A-Za-z0-9_.-]+")
_LISTED: Final = re.compile(r"[A-Za-z0-9_-]+\.parquet|states/[A-Za-z0-9_.-]+\.npz")
_STATUSES: Final = {"returned", "failed", "refused", "not-run"}

_Row = dict[str, Any]
_Seen = Callable[[str], None]


def verify_audit_results(path: str | Path, *, watch: _Seen | None = None) -> None:
    """Verify every experiment in a folder that ``expunge audit`` wrote, or the folder of one experiment.

    `watch` is told what was verified, one word per thing. Raises a VerificationError, or InputError and StoreError
    for what holds no results at all.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}")
    single = (folder / "manifest.json").exists()
    folders = [folder] if single else sorted(found.parent for found in folder.glob("*/manifest.json"))
    if not folders:
        raise InputError(f"{folder} holds no audit")
    for other in set() if single else {found.parent for found in folder.glob("*/*.parquet")} - set(folders):
        raise VerificationError(
            f"{other} has tables, and no manifest.json that lists them", code="archive-file-missing"
        )
    # Numbers out of any sensible range end in errors that count as infinite.
    with np.errstate(all="ignore"):
        for one in folders:
            _Experiment(one, watch or (lambda word: None)).verify()


class _Experiment:
    """One experiment's folder."""

    def __init__(self, folder: Path, seen: _Seen) -> None:
        self.folder, self.seen = folder, seen
        self.name = folder.name
        self.states: dict[str, _Row] = {}
        self._unit: tuple[str, dict[str, AnyArray]] | None = None

    def verify(self) -> None:
        manifest = self._manifest()
        self._files(manifest)
        tables = {path.stem: self._table(path) for path in sorted(self.folder.glob("*.parquet"))}
        for needed in ("trials", "summary"):
            if needed not in tables:
                raise VerificationError(f"{self.name} has no table {needed!r}", code="archive-file-missing")
        # Without a schedule or a number everything below would hold, of nothing.
        if not manifest["scheduled"] or not tables["summary"].rows:
            raise VerificationError(
                f"{self.name}: no operation was scheduled, or no number is reported", code="archive-rows-missing"
            )
        self._defined("trials", self._scheduled, manifest, tables["trials"])
        for table, check in (
            ("states", self._check_state),
            ("trials", self._check_trial),
            ("comparisons", self._check_comparison),
            ("projections", self._check_projection),
            ("readings", self._check_reading),
            ("answers", self._check_answer),
        ):
            for row in tables.get(table, []):
                self._defined(table, check, row)
        for table in ("summary", "speeds"):
            for row in tables.get(table, []):
                self._defined(table, self._check_number, row, tables)
        self.seen("experiment")

    def _defined(self, table: str, check: Callable[..., None], *given: object) -> None:
        """Check rows of a table; a cell that the check cannot use is named, whatever it ends in."""
        try:
            check(*given)
        except KeyError as problem:
            raise VerificationError(
                f"{self.name}: {table} has no column {problem}", code="archive-table-invalid"
            ) from None
        except (ArithmeticError, AttributeError, IndexError, RecursionError, TypeError, ValueError) as problem:
            raise VerificationError(
                f"{self.name}: {table} has an unusable row: {problem}", code="archive-table-invalid"
            ) from None

    def _manifest(self) -> _Row:
        path = self.folder / "manifest.json"
        try:
            manifest = json.loads(path.read_bytes())
        except OSError as problem:
            raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
        except (ValueError, RecursionError):
            raise VerificationError(f"{path} is not JSON", code="archive-manifest-invalid") from None
        if not isinstance(manifest, dict):
            raise VerificationError(f"{path} is not a JSON object", code="archive-manifest-invalid")
        if manifest.get("format") != FORMAT:
            raise VerificationError(
                f"{path} is of format {manifest.get('format')!r}, not {FORMAT!r}", code="archive-format-unsupported"
            )
        if manifest.get("finished") is not True:
            raise VerificationError(
                f"the audit in {self.folder} was not run to its end; continue it with --resume",
                code="archive-unfinished",
            )
        kinds = {"experiment": str, "settings": dict, "scheduled": dict, "versions": dict, "files": dict, "digest": str}
        for name, kind in kinds.items():
            if not isinstance(manifest.get(name), kind):
                raise VerificationError(
                    f"{path}: {name} is missing or not a {kind.__name__}", code="archive-manifest-invalid"
                )
        if manifest["experiment"] != self.name:
            raise VerificationError(f"{path} is about {manifest['experiment']!r}", code="archive-manifest-invalid")
        return manifest

    def _files(self, manifest: _Row) -> None:
        files: dict[str, str] = manifest["files"]
        there = {*self.folder.glob("*.parquet"), *self.folder.glob("states/*")}
        for path in sorted(there):
            if path.relative_to(self.folder).as_posix() not in files:
                raise VerificationError(f"{path} is not listed in the manifest", code="archive-file-unknown")
        for name, digest in sorted(files.items()):
            path = self.folder / name
            try:
                if not _LISTED.fullmatch(name) or not path.is_file():
                    raise VerificationError(
                        f"{self.name} has no table and no unit {name[:80]!r}", code="archive-file-missing"
                    )
                content = path.read_bytes()
            except OSError as problem:
                raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from None
            if hashlib.sha256(content).hexdigest() != digest:
                raise VerificationError(f"{path} is not the file that the manifest lists", code="archive-file-mismatch")
            self.seen("file")
        lines = [f"{digest}  {name}\n" for name, digest in sorted(files.items()) if name not in _UNDIGESTED]
        if hashlib.sha256("".join(lines).encode()).hexdigest() != manifest["digest"]:
            raise VerificationError(f"{self.name}: the digest is not that of the files", code="archive-digest-mismatch")

    def _table(self, path: Path) -> Rows:
        try:
            polars: Any = import_module("polars")
        except ImportError as problem:
            raise MissingExtra("audits keep their tables in Parquet: pip install 'expunge[audit]'") from problem
        try:
            rows: list[_Row] = polars.read_parquet(path).to_dicts()
        except Exception as problem:  # the reader has errors of its own
            raise VerificationError(
                f"{path} is not a usable table: {str(problem).splitlines()[0]}", code="archive-table-invalid"
            ) from None
        return Rows(rows)

    def _scheduled(self, manifest: _Row, trials: Iterable[_Row]) -> None:
        """Every scheduled operation is a row, whatever became of it."""
        counts: dict[str, int] = {}
        places: set[tuple[Any, ...]] = set()
        for row in trials:
            for column in ("regime", "arm", "trial", "operation", "kind", "status"):
                if row.get(column) is None:
                    raise VerificationError(f"{self.name}: a trial without {column}", code="archive-table-invalid")
            if row["status"] not in _STATUSES:
                raise VerificationError(
                    f"{self.name}: {row['status']!r} is no status of a trial", code="archive-table-invalid"
                )
            name = f"{row['regime']}/{row['arm']}"
            counts[name] = counts.get(name, 0) + 1
            extra = tuple(row.get(column) for column in ("n", "size", "dimension", "side", "tolerance"))
            place = (name, row["trial"], row["operation"], row["kind"], *extra)
            if place in places:
                raise VerificationError(f"{self.name}: {place} is there twice", code="archive-rows-missing")
            places.add(place)
        for name, count in manifest["scheduled"].items():
            if counts.get(name, 0) != count:
                raise VerificationError(
                    f"{self.name}: {name} has {counts.get(name, 0)} rows of {count} scheduled",
                    code="archive-rows-missing",
                )

    def _check_trial(self, row: _Row) -> None:
        for column in ("state", "candidate"):
            if row.get(column) is not None and row[column] not in self.states:
                raise VerificationError(
                    f"{self.name}: a trial speaks of state {row[column]!r}, which is not kept",
                    code="archive-state-unknown",
                )
        self.seen("trial")

    def _check_state(self, row: _Row) -> None:
        """Recompute mass, box and stationarity from keys, coefficients and offset."""
        name = row.get("state")
        if not isinstance(name, str) or name in self.states:
            raise VerificationError(
                f"{self.name}: state {name!r} is there twice, or has no name", code="archive-state-mismatch"
            )
        self.states[name] = row
        state = self._state(name, "archive-state-mismatch")
        check = check_state(state.keys, state.coefficients, state.offset, cap=state.cap, sigma=state.sigma)
        found = {
            "size": state.keys.shape[0],
            "mass": check.mass,
            "box": check.box,
            "stationarity": check.stationarity,
            "worst": check.worst,
        }
        for column, value in found.items():
            self._hold(row, column, float(value), ROUNDING, "archive-state-mismatch", name)
        if row["passed"] != (row["worst"] <= ACCEPTANCE):
            raise VerificationError(
                f"{self.name}: whether {name} passed is not what its errors say", code="archive-state-mismatch"
            )
        self.seen("state")

    def _check_comparison(self, row: _Row) -> None:
        """Recompute what was measured between two states."""
        state, reference = self._pair(row, "state", "reference")
        label = f"{row['state']} against {row['reference']}"
        judged = reference.row["role"] == "reference" and state.row["source"] != "classic"
        if judged and state.row["source"] == reference.row["source"]:
            raise VerificationError(
                f"{self.name}: {label}: both come from {state.row['source']}", code="archive-reference-dependent"
            )
        probes = np.vstack([self._points(row["unit"], expression) for expression in row["probes"]])
        grouping = row["grouping"]
        if grouping not in ("recorded", "threshold", None):
            raise VerificationError(
                f"{self.name}: {label}: {grouping!r} is no way to group", code="archive-comparison-mismatch"
            )
        found = measured(state, reference, probes, float(row["threshold"]), recorded=grouping == "recorded")
        if (found["partition_match"] is None) != (grouping is None):
            raise VerificationError(
                f"{self.name}: {label}: grouping is {grouping!r}", code="archive-comparison-mismatch"
            )
        for column, value in found.items():
            tolerance = PERCENT if column.endswith("percent") else ROUNDING
            if isinstance(value, bool) or value is None:
                if row[column] != value:
                    raise VerificationError(
                        f"{self.name}: {label}: {column} is {value}, not {row[column]}",
                        code="archive-comparison-mismatch",
                    )
            else:
                self._hold(row, column, value, tolerance, "archive-comparison-mismatch", label)
        if row["conditioning"] is not None:
            gram = kernel_block(reference.keys, reference.keys, reference.sigma)
            condition, told = float(np.linalg.cond(gram)), float(row["conditioning"])
            huge = condition > CONDITION_LIMIT and told > CONDITION_LIMIT
            if not huge and not math.isclose(condition, told, rel_tol=1e-2):
                raise VerificationError(
                    f"{self.name}: {label}: conditioning is {condition:g}, not {told:g}",
                    code="archive-comparison-mismatch",
                )
        self.seen("comparison")

    def _check_projection(self, row: _Row) -> None:
        """Recompute the optimality conditions of a projection: feasible, within its objective, and least."""
        point, given = self._pair(row, "state", "given")
        label = f"the projection {row['state']}"
        for column, value in projected(point, given, float(row["tolerance"]), row["multiplier"]).items():
            if value is None:
                if row[column] is not None:
                    raise VerificationError(
                        f"{self.name}: {label} has {column} without a multiplier", code="archive-projection-mismatch"
                    )
            else:
                self._hold(row, column, value, ROUNDING, "archive-projection-mismatch", label)
        self.seen("projection")

    def _check_reading(self, row: _Row) -> None:
        state = self._state(row["state"], "archive-reading-mismatch")
        if row["quantity"] == "coefficient":
            value = float(state.coefficients[int(row["row"])])
        else:
            points = self._points(row["unit"], row["probe"])
            at = float(score(state, points)[0])
            values = {
                "score": lambda: at,
                "slack": lambda: at + 2.0 * state.offset - 1.0,
                "readout": lambda: float(readout(state, points)[0, int(row["row"])]),
            }
            if row["quantity"] not in values:
                raise VerificationError(
                    f"{self.name}: {row['quantity']!r} is nothing that can be read", code="archive-reading-mismatch"
                )
            value = values[row["quantity"]]()
        self._hold(row, "value", value, ROUNDING, "archive-reading-mismatch", row["name"])
        self.seen("reading")

    def _check_answer(self, row: _Row) -> None:
        """The answer is the candidate nearest to the readout."""
        state = self._state(row["state"], "archive-answer-mismatch")
        told = readout(state, self._points(row["unit"], row["probe"]))[0]
        far = np.linalg.norm(self._points(row["unit"], row["candidates"]) - told, axis=1)
        answer, label = int(row["answer"]), f"{row['state']} asked for {row['expected']}"
        # Two candidates that are equally near to rounding are both nearest.
        if not 0 <= answer < far.size or far[answer] > far.min() + ROUNDING[0] * (1.0 + far.min()):
            raise VerificationError(
                f"{self.name}: {label} answers {int(np.argmin(far))}, not {answer}", code="archive-answer-mismatch"
            )
        if row["right"] != (row["expected"] == answer):
            raise VerificationError(
                f"{self.name}: {label}: right is not what the answer says", code="archive-answer-mismatch"
            )
        self.seen("answer")

    def _check_number(self, row: _Row, tables: Mapping[str, Rows]) -> None:
        """Recompute a reported number from the rows, by its own definition."""
        name = row["number"]
        if row["table"] not in tables:
            raise VerificationError(
                f"{self.name}: {name} is of a table {row['table']!r} that is not there", code="archive-number-mismatch"
            )
        try:
            rows = tables[row["table"]].where(json.loads(row["where"]))
            present = [cells for cells in rows if cells[row["column"]] is not None]
            value = statistic(row["statistic"], present, row["column"])
        except (KeyError, TypeError, ValueError) as problem:
            raise VerificationError(
                f"{self.name}: {name} is not defined: {problem}", code="archive-number-mismatch"
            ) from None
        if (row["count"], row["of"]) != (len(present), len(rows)):
            raise VerificationError(
                f"{self.name}: {name} is of {len(present)} rows of {len(rows)}, not of {row['count']} of {row['of']}",
                code="archive-number-mismatch",
            )
        if value is None or row["value"] is None:
            if value is not row["value"]:
                raise VerificationError(
                    f"{self.name}: {name} is {value}, not {row['value']}", code="archive-number-mismatch"
                )
        else:
            self._hold(row, "value", value, STATISTIC, "archive-number-mismatch", name)
        self.seen("number")

    def _hold(
        self,
        row: _Row,
        column: str,
        value: float,
        tolerance: tuple[float, float],
        code: str,
        label: object,
    ) -> None:
        told = row[column]
        if told is None or not _close(float(told), value, tolerance):
            raise VerificationError(f"{self.name}: {label}: {column} is {value!r}, not {told!r}", code=code)

    def _pair(self, row: _Row, first: str, second: str) -> tuple[RecordedState, RecordedState]:
        return self._state(row[first], "archive-state-unknown"), self._state(row[second], "archive-state-unknown")

    def _state(self, name: str, code: str) -> RecordedState:
        row = self.states.get(name)
        if row is None:
            raise VerificationError(f"{self.name}: there is no state {name!r}", code="archive-state-unknown")
        try:
            unit, sigma, cap, offset = row["unit"], float(row["sigma"]), float(row["cap"]), float(row["offset"])
            keys, coefficients = self._points(unit, row["keys"]), self._array(unit, row["coefficients"])
            values = None if row["values"] is None else self._points(unit, row["values"])
            groups = None if row["groups"] is None else self._array(unit, row["groups"])
        except (KeyError, TypeError, ValueError) as problem:
            raise VerificationError(f"{self.name}: state {name} is not complete: {problem}", code=code) from None
        if coefficients.shape != keys.shape[:1] or coefficients.dtype != np.float64:
            raise VerificationError(
                f"{self.name}: {name} has coefficients of shape {coefficients.shape}", code="archive-array-invalid"
            )
        for array in (values, groups):
            if array is not None and array.shape[:1] != keys.shape[:1]:
                raise VerificationError(
                    f"{self.name}: {name} has an array of {array.shape[0]} rows", code="archive-array-invalid"
                )
        if not (0.0 < cap <= 1.0 and 1e-150 <= sigma <= 1e150 and math.isfinite(offset)):
            raise VerificationError(f"{self.name}: {name} has cap {cap}, width {sigma} and offset {offset}", code=code)
        return RecordedState(keys, coefficients, offset, cap, sigma, values, groups, row)

    def _points(self, unit: str, expression: str) -> Matrix:
        found = self._array(unit, expression)
        if found.ndim != 2 or found.dtype != np.float64:
            raise VerificationError(
                f"{self.name}: {expression} of {unit} is not a matrix of numbers", code="archive-array-invalid"
            )
        return found

    def _array(self, unit: str, expression: str) -> AnyArray:
        """The array that an expression stands for: ``name``, or ``name[index]`` for rows of it."""
        parsed = _EXPRESSION.fullmatch(expression or "")
        arrays = self._arrays(unit)
        if parsed is None or any(name is not None and name not in arrays for name in parsed.groups()):
            raise VerificationError(f"{self.name}: {unit} has no array {expression!r}", code="archive-array-invalid")
        name, index = parsed.groups()
        found = arrays[name]
        if index is None:
            return found
        rows = arrays[index]
        if rows.ndim != 1 or rows.dtype.kind != "i" or (rows.size and not 0 <= rows.min() <= rows.max() < len(found)):
            raise VerificationError(
                f"{self.name}: {index} of {unit} does not list rows of {name}", code="archive-array-invalid"
            )
        return found[rows]

    def _arrays(self, unit: str) -> dict[str, AnyArray]:
        if self._unit is not None and self._unit[0] == unit:
            return self._unit[1]
        if not isinstance(unit, str) or not _UNIT.fullmatch(unit):
            raise VerificationError(f"{self.name}: {unit!r} is no unit of states", code="archive-array-invalid")
        path = self.folder / "states" / f"{unit}.npz"
        try:
            with zipfile.ZipFile(path) as packed:
                check_unpacked(packed, path.stat().st_size)
            with np.load(path, allow_pickle=False) as loaded:
                arrays = {name: loaded[name] for name in loaded.files}
        except Exception as problem:  # NumPy and zipfile raise many kinds on foreign bytes
            raise VerificationError(
                f"{path} is not a usable file of arrays: {problem}", code="archive-array-invalid"
            ) from None
        for name, array in arrays.items():
            if array.dtype.kind not in "if" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
                raise VerificationError(
                    f"{path}: {name} holds something that is not a finite number", code="archive-array-invalid"
                )
        self._unit = (unit, arrays)
        return arrays


def _close(told: float, value: float, tolerance: tuple[float, float]) -> bool:
    # Nothing is close to infinity but infinity.
    if told == value or not (math.isfinite(told) and math.isfinite(value)):
        return told == value
    absolute, relative = tolerance
    return abs(told - value) <= max(absolute, relative * max(abs(told), abs(value)))
