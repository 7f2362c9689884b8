"""Everything of one person, in every memory, with the leaves that name it."""

from __future__ import annotations

import csv
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select, update

from expunge import InputError, VerificationError
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.preprocessing.preprocessing import Column, Preprocessing
from expunge.store import Store
from expunge.store.backends import tables

from .sample_memory import arrival, entries, fill, row_counts

csv.field_size_limit(sys.maxsize)


@pytest.fixture
def ward(store: Store) -> Store:
    fill(store)
    fill(store, "archive", seed=1).prune("archive")
    fill(store, "forgets", seed=2).prune("forget")
    fill(store, "others", seed=3, patients=2)
    plain = entries(6, seed=4)
    store.create("anonymous", plain["keys"], plain["values"], sigma=2.0, nu=0.5)
    return store


def test_everything_of_a_person_is_there(ward: Store) -> None:
    ward["icu"].admit(**arrival(3))
    hold = ward.hold("icu", subject="patient-3", reason="court")
    single = ward.hold("archive", "e3", reason="review")
    pending = ward.erase_subject("patient-3", after=timedelta(days=1))
    size, rows = ward.size, row_counts(ward)
    found = ward.export_subject("patient-3")
    assert found.memories == ("archive", "forgets", "icu")
    assert found.not_searched == ("anonymous", "archive", "forgets", "icu", "others")
    assert found.holds == (hold,)
    assert found.requested == (pending,)
    exported = list(found.entries())
    given = entries()
    mine = {name for name, owner in zip(given["ids"], given["subjects"], strict=True) if owner == "patient-3"}
    for memory in found.memories:
        here = [entry for entry in exported if entry.memory == memory]
        assert {entry.id for entry in here} == (mine | {"new-3"} if memory == "icu" else mine)
    for entry in exported:
        stored, row = ward[entry.memory], given["ids"].index(entry.id) if entry.id in given["ids"] else None
        if entry.state == "live":
            place = stored.ids.index(entry.id)
            assert entry.key == stored.keys[place].tolist()
            assert entry.value == stored.values[place].tolist()
            assert entry.payload == stored.payload(entry.id)
        elif entry.state == "archived":
            assert row is not None
            assert entry.payload == given["payloads"][row]
        else:
            assert entry.state == "forgotten"
            assert (entry.key, entry.value, entry.payload) == (None, None, None)
        assert entry.admitted is not None
        for leaf in entry.leaves:
            assert entry.commitment.encode() in ward.leaf(leaf.leaf).statement.to_bytes()
        if entry.memory == "archive":
            assert entry.holds == ((single,) if entry.id == "e3" else ())
            kinds = [leaf.kind for leaf in entry.leaves]
            assert kinds[:1] == ["created"]
            assert ("pruned" in kinds) == (entry.state == "archived")
    assert {entry.state for entry in exported} == {"live", "archived", "forgotten"}
    (new,) = (entry for entry in exported if entry.id == "new-3")
    assert new.admitted is not None
    assert parse_predicate(ward.leaf(new.admitted.leaf).statement).outcome == "admitted"
    assert new.holds == (hold,)
    # Nothing is left of it.
    assert (ward.size, row_counts(ward)) == (size, rows)
    assert ward.export_subject("nobody").memories == ()
    for wrong in ("", None, 3):
        with pytest.raises(InputError):
            ward.export_subject(wrong)  # type: ignore[arg-type]


def test_an_export_is_written_to_new_files_of_ones_own(ward: Store, tmp_path: Path) -> None:
    found = ward.export_subject("patient-3")
    count = found.write_json(tmp_path / "export.json")
    document = json.loads((tmp_path / "export.json").read_text())
    assert (tmp_path / "export.json").stat().st_mode & 0o777 == 0o600
    assert document["entries"] == [entry.to_json() for entry in found.entries()]
    assert count == len(document["entries"]) > 10
    assert document["about"]["not_searched"] == ["anonymous", "archive", "forgets", "icu", "others"]
    assert found.write_csv(tmp_path / "export") == count
    assert (tmp_path / "export").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "export" / "entries.csv").stat().st_mode & 0o777 == 0o600
    with (tmp_path / "export" / "entries.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    as_json = ("memory", "id", "state", "key", "value", "payload", "measurements", "expires", "derived_from")
    for row, entry in zip(rows, document["entries"], strict=True):
        assert {name: json.loads(row[name]) for name in as_json} == {name: entry[name] for name in as_json}
        assert row["commitment"] == entry["commitment"]
        assert int(row["admitted_leaf"]) == entry["admitted"]["leaf"]
    with pytest.raises(InputError, match="exists"):
        found.write_json(tmp_path / "export.json")
    with pytest.raises(InputError, match="exists"):
        found.write_csv(tmp_path / "export")
    assert json.loads((tmp_path / "export" / "derived.json").read_text()) == document["derived"]
    nothing = ward.export_subject("nobody")
    assert nothing.write_json(tmp_path / "nobody.json") == 0
    assert json.loads((tmp_path / "nobody.json").read_text())["entries"] == []


def test_measurements_ends_sources_and_what_was_made_from_it(ward: Store) -> None:
    """A person reads their measurements, and not coordinates; what an erasure would take along is listed."""
    columns = Preprocessing(
        (Column("HR", "1/min", 80.0, 16.0, None), Column("SpO2", "%", 96.0, 2.0, None)),
        (Column("MAP", "mmHg", 0.0, 1.0, None),),
    )
    rows, pressures = [[72.0, 98.0], [110.0, 91.0], [85.0, 96.0]], [[70.0], [101.0], [88.0]]
    ward.create(
        "vitals",
        columns.to_keys(np.array(rows)),
        np.array(pressures),
        sigma=1.0,
        nu=0.9,
        ids=["v0", "v1", "v2"],
        subjects=["ada", "ada", "bo"],
        preprocessing=columns,
    )
    end = datetime(2100, 1, 2, tzinfo=UTC)
    ward["vitals"].admit([0.1, 0.2], [90.0], id="v3", subject="ada", expires=end, derived_from=["v2", ("others", "e1")])
    ward["vitals"].admit([0.2, 0.1], [91.0], id="mean", derived_from=["v0"])
    ward["anonymous"].admit(
        entries(1, seed=9)["keys"][0],
        entries(1, seed=9)["values"][0],
        id="of the mean",
        derived_from=[("vitals", "mean")],
    )
    found = {entry.id: entry for entry in ward.export_subject("ada").entries()}
    assert found.keys() == {"v0", "v1", "v3"}
    assert found["v0"].measurements == {"keys": {"HR": 72.0, "SpO2": 98.0}, "values": {"MAP": 70.0}}
    assert (found["v1"].expires, found["v1"].derived_from) == (None, ())
    assert found["v3"].expires == "2100-01-02T00:00:00Z"
    assert found["v3"].derived_from == (("vitals", "v2"), ("others", "e1"))
    document = json.loads(b"".join(ward.export_subject("ada").json_lines()))
    listed = {(one["memory"], one["id"]): one["sources"] for one in document["derived"]["entries"]}
    assert listed == {
        ("vitals", "mean"): [["vitals", "v0"]],
        ("anonymous", "of the mean"): [["vitals", "mean"]],
    }
    assert document["derived"]["not_read"] == []
    gone = {(part.memory, name) for part in ward.erase_subject("ada").memories for name in part.applied}
    assert gone == {("vitals", name) for name in found} | listed.keys()


def test_a_memory_that_cannot_be_loaded_gives_its_entries(ward: Store) -> None:
    expected = [entry.to_json() for entry in ward.export_subject("patient-3").entries()]
    with ward._database.writing("test") as connection:
        condition = tables.states.c.memory == ward["icu"].number
        state = connection.value(select(tables.states.c.state).where(condition))
        connection.execute(update(tables.states).where(condition).values(state=state[:-1] + b"x"))
        connection.commit()
    ward["icu"].let_go()
    with pytest.raises(VerificationError):
        ward["icu"].version  # noqa: B018
    found = [entry.to_json() for entry in ward.export_subject("patient-3").entries()]

    def loaded(entry: dict[str, Any]) -> dict[str, Any]:
        return entry | {"state": "stored", "measurements": None} if entry["memory"] == "icu" else entry

    assert sorted(map(str, found)) == sorted(str(loaded(entry)) for entry in expected)
