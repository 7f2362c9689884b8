"""Commands that change nothing: read, search, warranties, prove, show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.command_runner import answer, answers, call, damage
from expunge.store import open as open_store


def test_questions(ward: Path) -> None:
    np.save("queries.npy", np.zeros((3, 2)))
    assert len(answers("read", "ward", "--at", "@queries.npy", "--at", "1,1")) == 4
    (row,) = answers("read", "ward", "--at", "0.1,0.2")
    (hit, *_) = answers("search", "ward", "--at", "0.1,0.2")
    with open_store("sqlite:///expunge.db") as store:
        memory = store["ward"]
        assert row["readout"] == memory.read([0.1, 0.2])[0].tolist()
        assert row["score"] == memory.score([0.1, 0.2])[0]
        first = memory.search([0.1, 0.2], 1)[0]
    assert (hit["id"], hit["share"], hit["payload"]) == (first.id, first.share, first.payload)
    assert "similarity" in call("search", "ward", "--like", first.id).stdout
    assert "readout" in call("read", "ward", "--like", first.id).stdout
    assert "search takes one query" in call("search", "ward", "--at", "@queries.npy", code=2).stderr


def test_show(ward: Path) -> None:
    found = answer("show")
    assert [row["name"] for row in found["memories"]] == ["other", "ward"]
    assert found["verifier_key"] == Path("log.vkey").read_text().strip()
    assert "verifies under" in call("show").stdout
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


def test_an_empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///expunge.db").close()
    assert answer("show")["memories"] == []
    assert "No memory yet" in call("show").stderr
    assert answers("log") == []
    call("log")
    assert "verified" in call("verify", "log").stdout


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
