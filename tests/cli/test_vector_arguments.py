"""Measurements by column name, and coordinates, as they are typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli.command_runner import answer, answers, call
from expunge.preprocessing import Column, Preprocessing, as_key_rows
from expunge.store import open as open_store

COLUMNS = Preprocessing(
    keys=(Column("HR", "/min", centre=80.0, scale=16.0, fill=84.0), Column("Temp, core", "°C", centre=37.0, scale=0.5)),
    values=(Column("SpO2", "%", fill=97.0), Column("event")),
)
# One query in the memory's own measurements.
QUERY = {"HR": 90.0, "Temp, core": 37.5}
TYPED = json.dumps(QUERY)


@pytest.fixture
def vitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a memory that scales its columns, one whose columns are as they are, and one without columns."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    keys = rng.standard_normal((40, 2))
    values = np.column_stack([96.0 + rng.standard_normal(40), rng.integers(0, 2, 40)])
    ids = [f"h{row}" for row in range(40)]
    plain = Preprocessing((Column("a", fill=0.25), Column("b")), COLUMNS.values)
    with open_store("sqlite:///expunge.db") as store:
        for name, columns in (("icu", COLUMNS), ("plain", plain), ("bare", None)):
            store.create(name, keys, values, sigma=2.0, nu=0.3, ids=ids, preprocessing=columns)
    return tmp_path


def test_measurements_are_asked_by_name(vitals: Path) -> None:
    Path("q.json").write_text(json.dumps([QUERY, {"HR": 70, "Temp, core": 36.5}]), encoding="utf-8")
    found = answers("read", "icu", "--at", TYPED, "--at", "@q.json")
    with open_store("sqlite:///expunge.db") as store:
        memory = store["icu"]
        read = memory.read([QUERY, QUERY, {"HR": 70, "Temp, core": 36.5}]).tolist()
        coordinates = as_key_rows(QUERY, COLUMNS, 2)
        assert coordinates.tolist() == [[10 / 16, 1.0]]
        assert memory.read(coordinates).tolist() == read[:1]
        hits = [hit.id for hit in memory.search(QUERY, 5)]
        near = [one.id for one in memory.nearest(QUERY, 5)]
    assert [row["readout"] for row in found] == read
    assert found[0]["values"] == {"SpO2": read[0][0], "event": read[0][1]}
    assert found[0]["filled"] == []
    assert [hit["id"] for hit in answers("search", "icu", "--at", TYPED)] == hits
    assert [one["id"] for one in answers("nearest", "icu", "--at", TYPED)] == near
    shown = call("read", "icu", "--at", TYPED, env={"COLUMNS": "80"}).stdout
    assert re.search(rf"SpO2 +{read[0][0]:.6g} %", shown)
    assert re.search(rf"event +{read[0][1]:.6g}", shown)


def test_pairs_are_names_and_numbers(vitals: Path) -> None:
    pairs = answers("read", "plain", "--at", " a = 0.5 , b=-1e-1")
    assert pairs == answers("read", "plain", "--at", "b=-0.1,a=0.5")
    assert pairs[0]["readout"] == answers("read", "plain", "--at", "0.5,-0.1")[0]["readout"]
    assert pairs[0]["readout"] == answers("read", "bare", "--at", "0.5,-0.1")[0]["readout"]
    assert "values" not in answers("read", "bare", "--at", "0.5,-0.1")[0]


@pytest.mark.parametrize(
    "typed", ["b=1", "a=,b=1", "a=NaN,b=1", "a=NA,b=1", '{"a": null, "b": 1}', '{"a": NaN, "b": 1}']
)
def test_a_missing_measurement_is_filled_and_that_is_said(vitals: Path, typed: str) -> None:
    done = call("read", "plain", "--at", typed)
    assert "Not given, so the memory's fill was used: a=0.25" in done.stderr
    (row,) = answers("read", "plain", "--at", typed)
    assert row["filled"] == ["a"]
    assert row["readout"] == answers("read", "plain", "--at", "a=0.25,b=1")[0]["readout"]
    assert "a=0.25" in call("search", "plain", "--at", typed).stderr
    assert "a=0.25" in call("nearest", "plain", "--at", typed).stderr


def test_coordinates_are_refused_where_the_memory_scales(vitals: Path) -> None:
    np.save("q.npy", np.zeros((1, 2)))
    for typed in ("90,37.5", "[90, 37.5]", "@q.npy"):
        for command in (("read", "icu"), ("search", "icu"), ("nearest", "icu"), ("admit", "icu", "--value", "97,0")):
            complaint = call(*command, "--at", typed, code=2).stderr
            assert "(HR − 80)/16" in complaint
            assert """--at '{"HR": 80.0, "Temp, core": 37.0}'""" in complaint


@pytest.mark.parametrize(
    ("memory", "typed", "said"),
    [
        ("icu", "HR=90", "'Temp, core' is missing, and the memory has no fill for it"),
        ("icu", "HR=90,pulse=3", "no key column 'pulse'; the key columns are HR, Temp, core"),
        ("plain", "a=1,a=2,b=1", "'a' is given twice"),
        ("plain", "a=1,b=low", "b is 'low', which is not a number"),
        ("plain", "a=1,2", "'2' is no NAME=NUMBER"),
        ("plain", "a=1,b=inf", "must be finite"),
        ("plain", '{"a": true, "b": 1}', "a is True, which is not a number"),
        ("plain", '[{"a": 1, "b": 1}, [1, 2]]', "do not go into one array"),
        ("plain", '{"a": 1', "is not a JSON array or object"),
        ("plain", "{}", "needs at least one of the columns a, b"),
        ("bare", "a=1,b=2", "this memory has no columns"),
    ],
)
def test_what_is_wrong_is_named(vitals: Path, memory: str, typed: str, said: str) -> None:
    assert said in call("read", memory, "--at", typed, code=2).stderr.replace("\n", " ")


def test_an_entry_is_admitted_by_name(vitals: Path) -> None:
    call("admit", "icu", "--at", TYPED, "--value", "SpO2=93,event=1", "--id", "new")
    done = call("admit", "icu", "--at", '{"Temp, core": 37.5}', "--value", "event=0", "--id", "filled")
    assert "HR=84 /min" in done.stderr
    with open_store("sqlite:///expunge.db") as store:
        memory = store["icu"]
        rows = [memory.ids.index(name) for name in ("new", "filled")]
        assert memory.keys[rows].tolist() == [[10 / 16, 1.0], [4 / 16, 1.0]]
        assert memory.values[rows].tolist() == [[93.0, 1.0], [97.0, 0.0]]
    assert "SpO2 93 %, event 1" in call("show", "icu", "new").stdout
    assert answer("show", "icu", "new")["id"] == "new"
