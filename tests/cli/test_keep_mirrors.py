"""``expunge mirror`` and ``expunge scan``, from adding a mirror to giving it up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import expunge
from expunge.store.mirroring import mirror_pass
from store.mirroring.test_mirrors import fill, ids_in, unreachable

from .command_runner import answer, answers, call


def test_a_mirror_from_its_first_to_its_last_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"lancedb://{tmp_path / 'lance'}#notes"
    with expunge.open("sqlite:///expunge.db") as store:
        fill(store)
    added = answer("mirror", "add", url, "--memory", "notes")
    assert (added["mirror"], added["writes_pending"], len(ids_in(url))) == (1, 0, 12)
    assert answer("show")["mirrors"] == [added]
    # The address may take more than one line.
    assert "instep" in "".join(call("show").output.split())
    call("delete", "notes", "note-0001", "--yes")
    assert "note-0001" not in ids_in(url)
    assert answer("mirror", "check", 1)["agrees"]
    assert "1 absent, of leaf 2" in call("log").output
    monkeypatch.setattr(mirror_pass, "open_mirror", unreachable)
    call("delete", "notes", "note-0002", "--yes")
    assert "PENDING" in call("show").output
    assert "nobody answers" in call("mirror", "sync", code=4).output
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert call("scan", url, "--subject", "person-2", code=1).output.startswith("FOUND")
    assert answer("verify", "ledger")["mirrors_pending"] == 1
    assert answers("mirror", "list")[0]["erasures_pending"] == 1
    (done,) = answers("mirror", "sync")
    assert (done["found"], done["pending"]) == ({"absent": 1, "in_files": 0, "not_checkable": 0}, 0)
    assert answer("mirror", "remove", 1)["erasures_given_up"] == 0
    assert answers("mirror", "list") == []
    like = tmp_path / "like.txt"
    like.write_text("what nobody has ever said or will say\n" + json.dumps(np.ones(3).tolist()))
    assert not answer("scan", url, "--like", like)["found"]
    assert "give a subject" in call("scan", url, code=2).output
    assert "PGPASSWORD" in call("mirror", "add", "postgresql://a:b@localhost/x#pgvector:y", code=2).output
