"""``expunge tune``: widths of a memory or a table, and nothing stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_runner import answer, call, hours

CREATE = ("--sigma", 2, "--nu", 0.3, "--subject-column", "patient", "--payload-column", "note")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    hours(tmp_path / "hours.csv")
    call("create", "ward", "hours.csv", *CREATE)
    return tmp_path


def test_a_memory_is_tuned_and_stays_what_it_is(store: Path) -> None:
    before = (store / "expunge.db").read_bytes()
    shown = call("tune", "ward", "--plot", "widths.png").stdout
    assert (store / "expunge.db").read_bytes() == before
    for word in ("default", "now", "deletable", "share of entries held out"):
        assert word in shown
    narrow = call("tune", "ward", "--nu", 0.3, env={"COLUMNS": "80"}).stdout
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert (store / "widths.png").read_bytes().startswith(b"\x89PNG")
    told = answer("tune", "ward", "--nu", 0.3)
    (now,) = [each for each in told["trials"] if each["present"]]
    assert (now["sigma"], now["nu"]) == (2.0, pytest.approx(0.3, rel=0.05))
    assert told["entries"] == 40


def test_a_table_is_tuned_without_any_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hours(tmp_path / "hours.csv")
    told = answer("tune", "hours.csv", "--nu", 0.1)
    assert [each["sigma"] for each in told["trials"] if each["default"]]
    assert not (tmp_path / "expunge.db").exists()


def test_what_cannot_be_tuned_is_named(store: Path) -> None:
    assert "neither a memory nor a file" in call("tune", "nobody", code=2).stderr
    assert "must end in .png" in call("tune", "ward", "--plot", "widths.gif", code=2).stderr
    assert "nu must lie" in call("tune", "ward", "--nu", 2, code=2).stderr
    call("tune", "ward", "--nu", 0.5, "--plot", "w.svg")
    assert "--force" in call("tune", "ward", "--nu", 0.5, "--plot", "w.svg", code=2).stderr
    call("create", "later", "--sigma", 2, "--dimension", 3)
    assert "the memory is empty" in call("tune", "later", code=2).stderr
