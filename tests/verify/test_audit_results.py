"""An audit's results, altered in every column: each alteration has a name."""

from __future__ import annotations

import hashlib
import io
import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from audit.small_audits import made
from expunge.audit.results import contents_digest
from expunge.errors import InputError, StoreError
from expunge.verify.audit_results import ROUNDING, STATISTIC, _close, verify_audit_results
from raising import raises_code

EXPERIMENTS = ("expiry", "records", "projection", "deletion")

# They begin with an audit.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("whole")
    made(folder, *EXPERIMENTS)
    return folder


@pytest.fixture
def results(whole: Path, tmp_path: Path) -> Path:
    """A copy of one's own."""
    return Path(shutil.copytree(whole, tmp_path / "results"))


def relist(folder: Path) -> None:
    """Make the manifest list the files as they are: who alters results can do that too."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {
        found.relative_to(folder).as_posix(): hashlib.sha256(found.read_bytes()).hexdigest()
        for found in sorted([*folder.glob("*.parquet"), *folder.glob("states/*.npz")])
    }
    manifest["digest"] = contents_digest(manifest["files"])
    path.write_text(json.dumps(manifest))


def alter(folder: Path, table: str, column: str, change: Callable[[Any], Any], row: int = 0) -> None:
    """Change one cell, the first that is not empty from a row on, and list the file anew."""
    path = folder / f"{table}.parquet"
    frame = polars.read_parquet(path)
    cells = frame[column].to_list()
    place = next(place for place in range(row, len(cells)) if cells[place] is not None)
    cells[place] = change(cells[place])
    frame.with_columns(polars.Series(column, cells, dtype=frame.schema[column])).write_parquet(path)
    relist(folder)


def change_arrays(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the arrays of the first unit, and list the file anew."""
    path = sorted(folder.glob("states/*.npz"))[0]
    with np.load(path) as loaded:
        arrays = dict(loaded)
    change(arrays)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    path.write_bytes(buffer.getvalue())
    relist(folder)


def test_what_was_written_verifies(whole: Path) -> None:
    seen: Counter[str] = Counter()
    verify_audit_results(whole, watch=lambda word: seen.update([word]))
    assert seen["experiment"] == len(EXPERIMENTS)
    for word in ("file", "trial", "state", "comparison", "projection", "reading", "answer", "number"):
        assert seen[word] > 0, word
    verify_audit_results(whole / "expiry")


COLUMNS: list[tuple[str, str, str, Callable[[Any], Any], str]] = [
    *(
        ("deletion", "states", column, lambda x: x + 1e-9, "archive-state-mismatch")
        for column in ("offset", "mass", "box", "stationarity", "worst")
    ),
    ("deletion", "states", "cap", lambda x: 0.9 * x, "archive-state-mismatch"),
    ("deletion", "states", "sigma", lambda x: x + 1e-6, "archive-state-mismatch"),
    ("deletion", "states", "size", lambda x: x + 1, "archive-state-mismatch"),
    ("deletion", "states", "passed", lambda x: not x, "archive-state-mismatch"),
    ("deletion", "states", "state", lambda x: x + "?", "archive-state-unknown"),
    ("deletion", "states", "coefficients", lambda x: x + "?", "archive-array-invalid"),
    ("deletion", "states", "keys", lambda x: "nothing", "archive-array-invalid"),
    ("deletion", "states", "unit", lambda x: "../deletion", "archive-array-invalid"),
    ("deletion", "states", "source", lambda x: "daqp", "archive-reference-dependent"),
    *(
        ("deletion", "comparisons", column, lambda x: x + 1e-8, "archive-comparison-mismatch")
        for column in (
            "score_difference",
            "score_range",
            "score_percent",
            "readout_difference",
            "readout_range",
            "value_range",
            "readout_percent",
            "value_percent",
            "coefficient_difference",
            "objective_gap",
            "strictness",
        )
    ),
    ("deletion", "comparisons", "conditioning", lambda x: 2.0 * x, "archive-comparison-mismatch"),
    ("deletion", "comparisons", "partition_match", lambda x: not x, "archive-comparison-mismatch"),
    ("deletion", "comparisons", "grouping", lambda x: "recorded", "archive-comparison-mismatch"),
    ("deletion", "comparisons", "grouping", lambda x: "luck", "archive-comparison-mismatch"),
    ("deletion", "comparisons", "probes", lambda x: x[::-1][:1], "archive-comparison-mismatch"),
    ("deletion", "comparisons", "reference", lambda x: "nothing", "archive-state-unknown"),
    *(
        ("projection", "projections", column, lambda x: x + 1e-9, "archive-projection-mismatch")
        for column in (
            *("objective", "allowed", "mass", "box", "excess", "stationarity", "complementarity", "movement"),
        )
    ),
    ("projection", "projections", "multiplier", lambda x: 0.5 * x + 1.0, "archive-projection-mismatch"),
    ("expiry", "readings", "value", lambda x: x + 1e-9, "archive-reading-mismatch"),
    ("expiry", "readings", "quantity", lambda x: "charm", "archive-reading-mismatch"),
    ("records", "answers", "answer", lambda x: (x + 1) % 8, "archive-answer-mismatch"),
    ("records", "answers", "right", lambda x: not x, "archive-answer-mismatch"),
    ("records", "answers", "expected", lambda x: (x + 1) % 8, "archive-answer-mismatch"),
    ("deletion", "summary", "value", lambda x: x * (1.0 + 1e-9) + 1e-9, "archive-number-mismatch"),
    ("deletion", "summary", "count", lambda x: x + 1, "archive-number-mismatch"),
    ("deletion", "summary", "of", lambda x: x + 1, "archive-number-mismatch"),
    ("deletion", "summary", "where", lambda x: "[]", "archive-number-mismatch"),
    ("deletion", "summary", "column", lambda x: "nothing", "archive-number-mismatch"),
    ("deletion", "summary", "statistic", lambda x: "luck", "archive-number-mismatch"),
    ("deletion", "summary", "table", lambda x: "nothing", "archive-number-mismatch"),
    *(
        ("deletion", table, column, lambda x: math.inf, error)
        for table, column, error in (
            ("states", "mass", "archive-state-mismatch"),
            ("comparisons", "score_percent", "archive-comparison-mismatch"),
            ("comparisons", "readout_difference", "archive-comparison-mismatch"),
            ("summary", "value", "archive-number-mismatch"),
        )
    ),
    # So narrow a width makes every error undefined, and a narrower one has no square.
    *(
        ("expiry", "states", "sigma", lambda x, sigma=sigma: sigma, "archive-state-mismatch")
        for sigma in (3e-162, 1e-200, 1e151, 1e200, math.inf, math.nan)
    ),
    ("deletion", "trials", "status", lambda x: "fine", "archive-table-invalid"),
    ("deletion", "trials", "arm", lambda x: "decay", "archive-rows-missing"),
    ("deletion", "trials", "state", lambda x: "nothing", "archive-state-unknown"),
]


@pytest.mark.parametrize(
    ("experiment", "table", "column", "change", "error"),
    COLUMNS,
    ids=[f"{c[1]}-{c[2]}-{n}" for n, c in enumerate(COLUMNS)],
)
def test_an_altered_cell_is_found(
    results: Path, experiment: str, table: str, column: str, change: Callable[[Any], Any], error: str
) -> None:
    alter(results / experiment, table, column, change)
    with raises_code(error):
        verify_audit_results(results / experiment)


@pytest.mark.parametrize("tolerance", [ROUNDING, STATISTIC])
def test_nothing_is_close_to_infinity_but_infinity(tolerance: tuple[float, float]) -> None:
    for number in (0.0, 0.5, 1e308, -math.inf, math.nan):
        assert not _close(number, math.inf, tolerance)
        assert not _close(math.inf, number, tolerance)
    assert not _close(math.nan, math.nan, tolerance)
    assert _close(math.inf, math.inf, tolerance)
    assert _close(0.5, 0.5, tolerance)


UNUSABLE: list[tuple[str, str, Callable[[polars.DataFrame], polars.DataFrame]]] = [
    *(("expiry", "states", lambda x, name=name: x.drop(name)) for name in ("passed", "mass", "size")),
    *(("expiry", "summary", lambda x, name=name: x.drop(name)) for name in ("number", "table", "count", "value")),
    ("expiry", "comparisons", lambda x: x.drop("conditioning")),
    ("expiry", "comparisons", lambda x: x.with_columns(probes=polars.lit(None))),
    ("expiry", "comparisons", lambda x: x.with_columns(probes=polars.lit([], dtype=polars.List(polars.String)))),
    ("expiry", "comparisons", lambda x: x.with_columns(threshold=polars.lit(None))),
    ("expiry", "comparisons", lambda x: x.with_columns(state=polars.concat_list("state"))),
    ("expiry", "readings", lambda x: x.with_columns(row=polars.lit(99))),
    ("expiry", "readings", lambda x: x.with_columns(row=polars.lit("first"), quantity=polars.lit("coefficient"))),
    ("expiry", "readings", lambda x: x.with_columns(value=polars.lit("much"))),
    ("expiry", "summary", lambda x: x.with_columns(statistic=polars.lit(None))),
    ("expiry", "summary", lambda x: x.with_columns(where=polars.lit("[" * 100_000))),
    ("expiry", "trials", lambda x: x.with_columns(status=polars.concat_list("status"))),
    ("expiry", "trials", lambda x: x.with_columns(state=polars.concat_list("state"))),
    ("projection", "projections", lambda x: x.with_columns(multiplier=polars.lit(-1.0))),
    ("records", "answers", lambda x: x.with_columns(answer=polars.lit(None))),
]


@pytest.mark.parametrize(
    ("experiment", "table", "change"), UNUSABLE, ids=[f"{c[1]}-{n}" for n, c in enumerate(UNUSABLE)]
)
def test_an_unusable_row_is_named(
    results: Path, experiment: str, table: str, change: Callable[[polars.DataFrame], polars.DataFrame]
) -> None:
    path = results / experiment / f"{table}.parquet"
    change(polars.read_parquet(path)).write_parquet(path)
    relist(results / experiment)
    with raises_code("archive-table-invalid", match=f"{experiment}: {table} has "):
        verify_audit_results(results / experiment)


def test_points_of_another_dimension_are_named(results: Path) -> None:
    change_arrays(results / "expiry", lambda arrays: arrays.update(query=np.ones((1, 7))))
    alter(results / "expiry", "comparisons", "probes", lambda x: ["query"])
    with raises_code("archive-array-invalid", match="7 coordinates"):
        verify_audit_results(results / "expiry")


def test_a_failure_cannot_be_dropped(results: Path) -> None:
    for drop in (slice(1, None), slice(0, -1)):
        path = results / "deletion" / "trials.parquet"
        before = path.read_bytes()
        polars.read_parquet(path)[drop].write_parquet(path)
        relist(results / "deletion")
        with raises_code("archive-rows-missing", match="3 rows of 4 scheduled"):
            verify_audit_results(results / "deletion")
        path.write_bytes(before)
    frame = polars.read_parquet(path)
    polars.concat([frame[1:], frame[1:2]]).write_parquet(path)
    relist(results / "deletion")
    with raises_code("archive-rows-missing", match="twice"):
        verify_audit_results(results / "deletion")


def test_results_that_report_nothing_are_not_verified(results: Path) -> None:
    path = results / "deletion" / "summary.parquet"
    polars.read_parquet(path)[:0].write_parquet(path)
    relist(results / "deletion")
    with raises_code("archive-rows-missing", match="no number is reported"):
        verify_audit_results(results / "deletion")


def test_an_experiment_without_a_manifest_is_not_passed_over(results: Path) -> None:
    (results / "deletion" / "manifest.json").unlink()
    with raises_code("archive-file-missing", match="deletion has tables"):
        verify_audit_results(results)


def test_a_file_that_cannot_be_read_is_named(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) if path.suffix == ".json" else denied(path))
    with pytest.raises(StoreError, match="Permission denied"):
        verify_audit_results(results / "expiry")


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("000/keys"),
        lambda arrays: arrays.update({"000/keys": arrays["000/keys"][:, 0]}),
        lambda arrays: arrays.update({"000/keys": np.full_like(arrays["000/keys"], np.nan)}),
        lambda arrays: arrays.update({"000/kept": arrays["000/kept"] + 100}),
        lambda arrays: arrays.update({"000/kept": arrays["000/kept"].astype(float)}),
        lambda arrays: arrays.update({name: arrays[name][1:] for name in list(arrays) if name.endswith("/alpha")}),
    ],
)
def test_unusable_arrays_are_named(results: Path, change: Callable[[dict[str, Any]], None]) -> None:
    change_arrays(results / "deletion", change)
    with raises_code("archive-array-invalid"):
        verify_audit_results(results / "deletion")


def test_a_moved_key_is_found(results: Path) -> None:
    def move(arrays: dict[str, Any]) -> None:
        arrays["000/keys"][0, 0] += 1e-6

    change_arrays(results / "deletion", move)
    with raises_code("archive-state-mismatch"):
        verify_audit_results(results / "deletion")


def test_pickles_are_not_opened(results: Path) -> None:
    path = sorted((results / "deletion").glob("states/*.npz"))[0]
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    relist(results / "deletion")
    with raises_code("archive-array-invalid"):
        verify_audit_results(results / "deletion")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda m: m.update(format="expunge/audit/v9"), "archive-format-unsupported"),
        (lambda m: m.update(finished=False), "archive-unfinished"),
        (lambda m: m.pop("files"), "archive-manifest-invalid"),
        (lambda m: m.update(scheduled=[]), "archive-manifest-invalid"),
        (lambda m: m.update(experiment="other"), "archive-manifest-invalid"),
        (lambda m: m.update(digest="0" * 64), "archive-digest-mismatch"),
        (lambda m: m["files"].update({"more.parquet": "0"}), "archive-file-missing"),
        (lambda m: m["files"].update({"../manifest.json": "0"}), "archive-file-missing"),
        *(
            (lambda m, name=name: m["files"].update({name: "0"}), "archive-file-missing")
            for name in ("/etc/hostname", "manifest.json", "", "x" * 5000, "a\0", "\udcff.parquet", "states/../a.npz")
        ),
        (lambda m: m["files"].pop("trials.parquet"), "archive-file-unknown"),
        (lambda m: m["files"].update({"trials.parquet": "0"}), "archive-file-mismatch"),
        (lambda m: m["scheduled"].update({"three keys/ours": 5}), "archive-rows-missing"),
        (lambda m: m["scheduled"].clear(), "archive-rows-missing"),
    ],
)
def test_an_altered_manifest_is_found(results: Path, change: Callable[[dict[str, Any]], Any], error: str) -> None:
    path = results / "expiry" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with raises_code(error):
        verify_audit_results(results / "expiry")


def test_foreign_bytes_are_named(results: Path, tmp_path: Path) -> None:
    (results / "expiry" / "trials.parquet").write_bytes(b"PAR1 not really")
    relist(results / "expiry")
    with raises_code("archive-table-invalid"):
        verify_audit_results(results / "expiry")
    for text in ("{", "[]"):
        (results / "expiry" / "manifest.json").write_text(text)
        with raises_code("archive-manifest-invalid"):
            verify_audit_results(results / "expiry")
    with pytest.raises(InputError, match="holds no audit"):
        verify_audit_results(tmp_path)
    with pytest.raises(StoreError, match="there is no folder"):
        verify_audit_results(tmp_path / "none")


def test_every_column_that_is_measured_is_altered_above() -> None:
    """A new column of a measured table needs an alteration of its own."""
    from expunge.audit.result_tables import TABLES

    places = {"regime", "arm", "trial", "operation"}
    names = {"state", "unit", "values", "groups", "role", "against", "tolerance", "given", "threshold", "name"}
    names |= {"question", "probe", "candidates", "row", "number"}
    altered = {(case[1], case[2]) for case in COLUMNS}
    for table in ("states", "comparisons", "projections", "readings", "answers", "summary"):
        for column in set(TABLES[table]) - places - names:
            assert (table, column) in altered, (table, column)


def test_verifying_loads_nothing_that_made_it(whole: Path) -> None:
    program = (
        "import sys; from expunge.verify.audit_results import verify_audit_results; verify_audit_results(sys.argv[1]); "
        "print('\\n'.join(sys.modules))"
    )
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program, str(whole / "expiry")], capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    for name in ("audit", "solver", "memory", "certificates", "attestation", "store"):
        assert not {module for module in loaded if module.startswith(f"expunge.{name}")}
    assert not {"daqp", "clarabel", "proxsuite", "sklearn", "joblib", "ray", "torch"} & loaded
