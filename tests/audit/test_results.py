"""What is written is whole, or it is not there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from audit.small_audits import shortened
from expunge.audit.engine import Plan, run_experiment
from expunge.audit.result_tables import TABLES
from expunge.audit.results import (
    AuditResults,
    ResultFolder,
    contents_digest,
    open_results,
    pack_arrays,
    write_atomically,
)
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import InputError, StoreError

HEADER = {"experiment": "e", "settings": {}, "scheduled": {}, "versions": {}}


def task_record(unit: str) -> TaskRecord:
    made = TaskRecord(unit)
    made.array("x", np.arange(3.0))
    made.trial(RowLabels("r", "a", 0), "fit", "returned", "", state=None)
    return made


def test_an_outcome_counts_only_whole(tmp_path: Path) -> None:
    with ResultFolder.begin(tmp_path / "e", HEADER, resume=False) as folder:
        for unit in ("a", "b", "c", "d"):
            folder.write(task_record(unit))
        (tmp_path / "e" / "states" / "a.npz").unlink()
        (tmp_path / "e" / "states" / "b.npz").write_bytes(b"half")
        rows = tmp_path / "e" / "parts" / "c.json"
        rows.write_bytes(rows.read_bytes()[:-9])
        assert folder.done() == {"d"}


def test_equal_arrays_are_equal_bytes() -> None:
    arrays = {"b": np.arange(4.0), "a": np.arange(3)}
    assert pack_arrays(arrays) == pack_arrays(dict(reversed(arrays.items())))


def test_the_digest_leaves_times_out() -> None:
    files = {"trials.parquet": "0", "timings.parquet": "1", "speeds.parquet": "2", "states/timings-1.npz": "3"}
    assert contents_digest(files) == contents_digest({**files, "timings.parquet": "9", "speeds.parquet": "9"})
    assert contents_digest(files) != contents_digest({**files, "states/timings-1.npz": "9"})
    assert contents_digest(files) != contents_digest({**files, "trials.parquet": "9"})


def test_nothing_is_left_of_a_write_that_failed(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        write_atomically(tmp_path / "missing" / "file", b"x")
    write_atomically(tmp_path / "file", b"one")
    write_atomically(tmp_path / "file", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_results_are_read_by_name(small_results: AuditResults) -> None:
    frame = small_results.table("deletion", "comparisons")
    assert set(TABLES["comparisons"]) == set(frame.columns)
    with pytest.raises(InputError, match="deletion has no table 'nothing'; it has comparisons"):
        small_results.table("deletion", "nothing")
    with pytest.raises(InputError, match="no finished audit of 'nothing'"):
        small_results.manifest("nothing")
    arrays = small_results.arrays("expiry", "three-keys")
    assert arrays["before"].shape == (3, 2)


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (None, InputError, "holds no finished audit"),
        ("{", InputError, "is not JSON"),
        ('{"format": "other"}', InputError, "is not the manifest of an audit"),
    ],
)
def test_what_holds_no_results_is_named(
    tmp_path: Path, content: str | None, error: type[Exception], words: str
) -> None:
    if content is not None:
        (tmp_path / "e").mkdir()
        (tmp_path / "e" / "manifest.json").write_text(content)
    with pytest.raises(error, match=words):
        open_results(tmp_path)
    with pytest.raises(StoreError, match="there is no folder"):
        open_results(tmp_path / "none")


def test_seeds_and_versions_are_on_record(small_results: AuditResults) -> None:
    manifest = small_results.manifest("sequential")
    assert manifest["versions"].keys() >= {"python", "expunge", "numpy", "daqp", "clarabel"}
    assert [point["seed"] for point in manifest["settings"]["grid"]] == [41000, 41000]
    assert manifest["run"]["jobs"] == 1
    assert small_results.manifest("deletion")["settings"]["seed"] == 0


def test_a_name_stands_for_one_array() -> None:
    made = TaskRecord("u")
    made.array("x", np.arange(3.0))
    made.array("x", np.arange(3.0))
    with pytest.raises(ValueError, match="two different arrays"):
        made.array("x", np.zeros(3))
    with pytest.raises(ValueError, match="no name"):
        made.array("x y", np.zeros(3))
    with pytest.raises(ValueError, match="no array expression"):
        made.get("x[")


def test_a_finished_audit_leaves_no_parts(tmp_path: Path) -> None:
    with shortened(2):
        run_experiment("records", tmp_path, Plan(quick=True))
    names = {path.name for path in (tmp_path / "records").iterdir()}
    assert not {"parts"} & names
    listed = json.loads((tmp_path / "records" / "manifest.json").read_text())["files"]
    assert {name for name in names if name.endswith(".parquet")} == {n for n in listed if n.endswith(".parquet")}
