"""Commands that change nothing: read, search, nearest, warranties, prove, show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.command_runner import answer, answers, call, damage
from expunge.cli.commands import show_store
from expunge.store import open as open_store


def test_questions(ward: Path) -> None:
    np.save("queries.npy", np.zeros((3, 2)))
    assert len(answers("read", "ward", "--at", "@queries.npy", "--at", "1,1")) == 4
    (row,) = answers("read", "ward", "--at", "0.1,0.2")
    (hit, *_) = answers("search", "ward", "--at", "0.1,0.2")
    with open_store("sqlite:///expunge.db") as store:
        memory = store["ward"]
        assert row["readout"] == memory.read([0.1, 0.2])[0].tolist()
        (judged,) = memory.judge([0.1, 0.2])
        assert {name: row[name] for name in vars(judged)} == vars(judged)
        first = memory.search([0.1, 0.2], 1)[0]
    assert (hit["id"], hit["share"], hit["payload"]) == (first.id, first.share, first.payload)
    assert "similarity" in call("search", "ward", "--like", first.id).stdout
    assert "readout" in call("read", "ward", "--like", first.id).stdout
    assert "one query at a time" in call("search", "ward", "--at", "@queries.npy", code=2).stderr


def test_inside_outside_and_nothing_nearby(ward: Path) -> None:
    """In words, and never as the sign of a score: the boundary is 1 − 2ρ."""
    with open_store("sqlite:///expunge.db") as store:
        memory = store["ward"]
        inner = memory.ids[int(memory.partition.margin[0])]
        outer = memory.ids[int(memory.partition.bound[0])]
        far = memory.search([50.0, 50.0], 1)[0]
    for query, words in ((inner, " inside "), (outer, " outside ")):
        for columns in ("80", "120"):
            lines = call("read", "ward", "--like", query, env={"COLUMNS": columns}).stdout.splitlines()
            assert words.strip() + ", " in lines[0]
            assert max(map(len, lines)) <= int(columns)
    assert "inside, +" in call("search", "ward", "--like", inner).stdout
    assert "outside, no entry nearby" in call("read", "ward", "--at", "50,50").stdout
    found = call("search", "ward", "--at", "50,50").stdout
    assert "no entry nearby" in found
    assert f"{far.share:.1%}" not in found
    assert answers("search", "ward", "--at", "50,50")[0]["nearby"] is False
    assert "where" in call("show", "other", "h000").stdout
    assert "positive means" not in call("read", "--help").stdout


def test_an_answer_is_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"laboratory value {place}" for place in range(8)]
    rows = np.random.default_rng(3).normal(50.0, 5.0, (30, 8)).round(2)
    lines = [",".join(f"{name} [mmol/l]" for name in names), *(",".join(map(str, row)) for row in rows)]
    Path("t.csv").write_text("\n".join(lines))
    call("create", "labs", "t.csv")
    query = f"{names[0]}=50"
    one = call("read", "labs", "--at", query, env={"COLUMNS": "80"}).stdout
    assert one.count("mmol/l") == 8
    two = call("read", "labs", "--at", query, "--at", f"{names[1]}=40", env={"COLUMNS": "80"}).stdout
    assert two.count("mmol/l") == 16
    shown = call("show", "labs", env={"COLUMNS": "80"}).stdout
    assert all(name in shown for name in names)
    assert shown.count("key+value") == 8
    stated = answer("show", "labs")["preprocessing"]["keys"]
    assert [(column["name"], column["unit"]) for column in stated] == [(name, "mmol/l") for name in names]
    assert "of 0 subjects" not in shown


def test_nearest(ward: Path) -> None:
    with open_store("sqlite:///expunge.db") as store:
        memory = store["ward"]
        key = memory.keys[int(memory.partition.bound[0])]
        archived = next(one for one in memory.nearest(key, 100) if one.archived)
        expected = [one.id for one in memory.nearest(key, 7)]
    query = ",".join(map(str, key.tolist()))
    found = answers("nearest", "ward", f"--at={query}", "-n", 7)
    assert [one["id"] for one in found] == expected
    assert [one["distance"] for one in found] == sorted(one["distance"] for one in found)
    shown = call("nearest", "ward", f"--at={query}", "-n", 100)
    assert "archived" in shown.stdout
    everything = answers("nearest", "ward", f"--at={query}", "-n", 100)
    live = answers("nearest", "ward", f"--at={query}", "-n", 100, "--live")
    assert archived.id in {one["id"] for one in everything} - {one["id"] for one in live}
    assert answers("nearest", "ward", "--like", archived.id, "-n", 1)[0]["id"] == archived.id
    assert "no entry nearby" in call("nearest", "ward", "--at", "50,50").stdout
    assert "one query at a time" in call("nearest", "ward", "--at", "1,1", "--at", "2,2", code=2).stderr


def test_show(ward: Path) -> None:
    found = answer("show")
    assert [row["name"] for row in found["memories"]] == ["other", "ward"]
    assert found["verifier_key"] == Path("log.vkey").read_text().strip()
    assert "verifies under" in call("show").stdout
    assert {row["checked"] for row in found["memories"]} == {"entries, digest"}
    whole = answer("show", "--check")["memories"]
    assert [row | {"checked": "all entries"} for row in found["memories"]] == whole
    memory = answer("show", "ward")
    assert memory["margin"] + memory["bound"] + memory["reserve"] == memory["entries"]
    assert memory["check"]["passed"] is True
    assert "passed" in call("show", "ward").stdout
    pruned = answers("warranties", "ward")[0]["id"]
    assert answer("show", "ward", pruned)["pruned"] is True
    groups = {answer("show", "other", f"h{row:03d}")["group"] for row in range(40)}
    assert groups == {"margin", "bound", "reserve"}
    assert "removing it" in call("show", "other", "h000").stdout
    call("show", "ward", "--verifier-key", code=2)


def test_a_damaged_memory_is_named_and_hides_no_other(ward: Path) -> None:
    damage("ward")
    found = answer("show", code=1)
    assert [row["name"] for row in found["memories"]] == ["other"]
    assert "altered" in found["damaged"]["ward"]
    assert "DAMAGED" in call("show", code=1).stdout


def test_a_large_memory_is_shown_from_its_state_unless_a_check_is_asked_for(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = answer("show", "ward")
    monkeypatch.setattr(show_store, "LOADED", 3)
    brief = answer("show", "ward")
    assert (whole["checked"], brief["checked"]) == ("all entries", "state")
    unknown = ("subjects", "warranties_valid", "fit", "ending", "first_end", "due", "check")
    assert [brief[name] for name in unknown] == [None] * len(unknown)
    same = whole.keys() - {*unknown, "checked"}
    assert {name: brief[name] for name in same} == {name: whole[name] for name in same}
    assert answer("show", "ward", "--check") == whole
    assert "--check" in call("show", "ward").stdout
    assert [row["checked"] for row in answer("show")["memories"]] == ["state", "state"]
    assert [row["checked"] for row in answer("show", "--check")["memories"]] == ["all entries"] * 2
    assert "--check" in call("show").stderr


def test_read_says_what_was_checked(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large memory that nobody names an entry of, the active entries."""
    assert answers("read", "ward", "--at", "0.5,0.5")[0]["checked"] == "all entries"
    monkeypatch.setattr("expunge.store.version_cache.LOADED_WHOLE", 0)
    at, like = answers("read", "ward", "--at", "0.5,0.5")[0], answers("read", "ward", "--like", "h001")[0]
    assert (at["checked"], like["checked"]) == ("active entries", "all entries")


def test_an_empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///expunge.db").close()
    assert answer("show")["memories"] == []
    assert "No memory yet" in call("show").stderr
    assert answers("log") == []
    call("log")
    assert "verified" in call("verify", "ledger").stdout


def test_a_failed_proof_has_its_exit_code(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer("prove", "ward", "--out", "w.proof")["outcome"] == "proved"
    call("prove", "ward", "--out", "w.proof", code=2)
    assert "exactly zero" in call("prove", "ward", "--out", "w.proof", "--force").stdout
    from dataclasses import replace

    import expunge.certificates.proof as prover

    prove = prover.prove_state

    def undecided(*state: Any, **problem: Any) -> prover.Proof:
        outcome: Any = {"outcome": "undecidable", "reason": "a slack contains 0", "witness": None, "weights": None}
        return replace(prove(*state, **problem), **outcome)

    monkeypatch.setattr(prover, "prove_state", undecided)
    said = call("prove", "ward", code=1).stdout
    assert "undecidable: a slack contains 0" in said
    assert "weights" not in said
    assert "not proved" in said
    assert "proof-not-proved" in call("export-evidence", "ward", "--out", "w.zip", "--proof", code=1).stderr
    assert not Path("w.zip").exists()
