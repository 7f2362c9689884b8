"""The benchmark of random conversations: its model knows the rules, its search finds marks, and a short run passes."""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
import sys
from pathlib import Path
from random import Random
from subprocess import PIPE

import pytest

from agents.expected import Entry, Expected, Hold, Outcome
from agents.marks import marks_in, marks_in_files, marks_in_process, new_mark
from agents.programs import OVERWRITING
from conversations import Group, run_group, verdict


def entry(memory: str, name: str, subject: str | None, *sources: tuple[str, str], ends: float | None = None) -> Entry:
    return Entry((memory, name), subject, name, frozenset({f"mark of {name}", f"mark of {subject}"}), sources, ends)


def outcome(gone: list[tuple[str, str]], *kept: str) -> Outcome:
    return Outcome(frozenset(gone), frozenset(kept))


def small_store() -> Expected:
    """Ann's note, a summary of it and of Bob's, a fact about the summary elsewhere, and a note of Bob's that ends."""
    expected = Expected()
    expected.add(entry("notes", "a", "ann"))
    expected.add(entry("notes", "b", "bob", ends=100.0))
    expected.add(entry("notes", "both", None, ("notes", "a"), ("notes", "b")))
    expected.add(entry("facts", "f", "cat", ("notes", "both")))
    return expected


def test_what_was_made_from_an_entry_goes_with_it() -> None:
    expected = small_store()
    done = expected.outcome_of_subject("ann")
    assert done == outcome([("notes", "a"), ("notes", "both"), ("facts", "f")])
    expected.remove(done.gone)
    assert expected.entries.keys() == {("notes", "b")}
    assert expected.erased == {f"mark of {name}" for name in ("a", "ann", "both", "None", "f", "cat")}
    expected.add(entry("notes", "again", "ann"))
    assert "mark of ann" not in expected.erased


def test_a_memory_with_a_hold_keeps_all_that_was_to_go_from_it() -> None:
    expected = small_store()
    expected.holds[1] = Hold("notes", subject="bob", marks=frozenset({"reason"}))
    assert expected.outcome_of_subject("ann").kept == frozenset()
    expected.holds[2] = Hold("notes", name="both")
    done = expected.outcome_of_subject("ann")
    assert done == outcome([], "notes")
    # A hold on what was made elsewhere keeps that alone; without its source it goes once the hold has ended.
    expected.holds = {3: Hold("facts", name="f")}
    done = expected.outcome({"notes": {"a"}})
    assert done == outcome([("notes", "a"), ("notes", "both")], "facts")
    expected.remove(done.gone)
    assert expected.due(0.0) == set()
    expected.release(3)
    assert expected.due(0.0) == {("facts", "f")}


def test_a_sweep_takes_what_has_ended_but_what_is_held() -> None:
    expected = small_store()
    assert expected.due(99.0) == set()
    assert expected.due(100.0) == {("notes", "b"), ("notes", "both"), ("facts", "f")}
    expected.holds[1] = Hold("notes", name="both")
    assert expected.due(100.0) == {("notes", "b")}
    assert expected.doubtful(100.5)
    assert not expected.doubtful(102.0)


@pytest.mark.parametrize("before", range(4))
def test_marks_are_found_however_they_are_written(tmp_path: Path, before: int) -> None:
    mark = new_mark(Random(before))
    text = "x" * before + f"a note {mark} and more"
    for data in (
        text.encode(),
        text.encode("utf-16-le"),
        base64.b64encode(text.encode()),
        base64.urlsafe_b64encode(text.encode()),
        text.encode().hex().encode(),
    ):
        assert marks_in(b"\0" * before + data + b"\0") == {mark}
    assert marks_in(text.encode()[: before + 20]) == set()
    (tmp_path / "some").write_bytes(text.encode())
    (tmp_path / "none").write_bytes(b"nothing")
    assert marks_in_files(sorted(tmp_path.iterdir())) == {"some": {mark}}


# LanceDB's client puts notes into Arrow's memory, which is a pool of its own unless Arrow is asked to do without.
ARROW = """
import pyarrow as pa
from random import Random
from agents.marks import new_mark

table = pa.Table.from_pylist([{"text": new_mark(Random(row))} for row in range(100)])
input("kept\\n")
del table
input("freed\\n")
"""


def test_a_program_that_overwrites_what_it_frees_keeps_nothing_in_arrows_memory() -> None:
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", ARROW], env={**os.environ, **OVERWRITING, **path}, stdin=PIPE, stdout=PIPE
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        found = []
        for state in (b"kept\n", b"freed\n"):
            assert program.stdout.readline() == state
            found.append(marks_in_process(program.pid))
            program.stdin.write(b"\n")
            program.stdin.flush()
    assert found[0] >= {new_mark(Random(row)) for row in range(100)}
    assert found[1] == set()


@pytest.mark.slow
@pytest.mark.long
def test_a_few_conversations() -> None:
    seed = secrets.randbits(32)
    found = run_group(Group(0, "sqlite", 4, seed, overwriting=True, mirrors={"notes": "lancedb"}))
    assert verdict(found.counts, found.failures, overwriting=True) == [], f"seed {seed}"
    assert found.counts["leaves verified"] > 20
    assert found.counts["processes searched"] == 4
