"""A scan finds what is left of somebody in every system, and changes nothing there."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from expunge import InputError, StoreError
from expunge.mirrors import Address, Copy, open_mirror
from expunge.mirrors.scan import parse_like, scan

from .conftest import KINDS
from .contract import random_copies

NewUrl = Callable[[str], str]
SUBJECT = "ann.miller@example.org"


def entries() -> list[Copy]:
    """Notes of two people, twenty each."""
    rng = np.random.default_rng(3)
    return [
        Copy(
            id=f"note-{number:04d}",
            vector=rng.standard_normal(16).tolist(),
            text=f"a note in the words of mark-{number:04d}, of nobody else",
            metadata={"user": SUBJECT if number % 2 else "bob.jones@example.org"},
        )
        for number in range(40)
    ]


def digests(url: str) -> dict[str, str]:
    """Every file of a folder, with a hash of its content and when it was changed."""
    place = Address.of(url).folder
    files = [path for path in place.rglob("*") if path.is_file()] if place.is_dir() else [place]
    return {str(path): f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}" for path in files}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_there_is_found_and_nothing_is_changed(new_url: NewUrl, kind: str) -> None:
    url, notes = new_url(kind), entries()
    with open_mirror(url) as system:
        system.write(notes)
    before = {} if kind == "pgvector" else digests(url)
    found = scan(url, subject=SUBJECT, like=[Copy("", text=notes[4].text), Copy("", vector=notes[6].vector)])
    assert set(found.of_subject) == {f"note-{number:04d}" for number in range(1, 40, 2)}
    best = {one.given: one for one in sorted(found.alike, key=lambda one: one.similarity)}
    assert (best[0].id, best[0].by, best[1].id, best[1].by) == ("note-0004", "text", "note-0006", "vector")
    assert found.found
    assert found.entries == 40
    # LanceDB and Qdrant may compress a text; the ids and vectors of what was found are there in any case.
    assert sum(found.in_files.values()) > 20
    nobody = scan(url, subject="carol.smith@example.org")
    assert (nobody.found, nobody.of_subject, nobody.in_files) == (False, (), {})
    if kind != "pgvector":
        assert digests(url) == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_deleted_is_found_in_the_files_alone(new_url: NewUrl, kind: str) -> None:
    url, notes = new_url(kind), random_copies(40)
    name = notes[4].id
    with open_mirror(url) as system:
        system.write(notes)
        kept = system.read([name])[0]
        if kind == "chroma":
            # By the system's own means, as an application does it.
            system._collection().delete(ids=[name])  # type: ignore[attr-defined]
        else:
            system.delete([name])
    left = scan(url, like=[kept])
    assert not [one for one in left.alike if one.id == name]
    assert left.in_files["given"] > 0
    assert left.where
    with open_mirror(url) as system:
        system.reclaim()
    if kind != "chroma":
        assert scan(url, like=[Copy(name, kept.vector)]).in_files == {}


def test_a_file_of_sqlite_is_scanned(tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE notes (who TEXT, body TEXT)")
        connection.execute("INSERT INTO notes VALUES (?, 'one note')", [SUBJECT])
        connection.execute("INSERT INTO notes VALUES ('somebody', 'another note')")
        connection.commit()
    before = digests(f"sqlite://{file}")
    found = scan(f"sqlite://{file}", subject=SUBJECT)
    assert found.of_subject == ("notes:0",)
    assert found.in_files["subject"] >= 1
    assert digests(f"sqlite://{file}") == before
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM notes WHERE who = ?", [SUBJECT])
        connection.commit()
    deleted = scan(f"sqlite://{file}", subject=SUBJECT)
    assert deleted.of_subject == ()
    assert deleted.found == (SUBJECT.encode() in file.read_bytes())


def test_names_are_words_of_their_own(new_url: NewUrl) -> None:
    url = new_url("lancedb")
    with open_mirror(url) as system:
        system.write(
            [Copy("one", [1.0, 2.0], "Ann came"), Copy("two", [1.0, 3.0], "Anna came"), Copy("ann-3", [2.0, 1.0])]
        )
    found = scan(url, subject="Ann")
    assert found.of_subject == ("one",)
    assert found.too_short
    assert scan(url, subject="ann").of_subject == ("ann-3",)


def test_what_a_file_gives() -> None:
    given = parse_like('a text\n\n[1, 2.5]\n{"text": "t", "id": "x"}\n' + json.dumps({"vector": [1, 2]}))
    assert [(one.id, one.text, one.coordinates) for one in given] == [
        ("", "a text", []),
        ("", None, [1.0, 2.5]),
        ("x", "t", []),
        ("", None, [1.0, 2.0]),
    ]
    for wrong in ("[1, 'a']", '{"words": 1}', "{", '["a"]', "[]", '{"vector": [[1]]}'):
        with pytest.raises(InputError, match="line 1"):
            parse_like(wrong)


def test_a_scan_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="what is to be searched"):
        scan(f"lancedb://{tmp_path}#x")
    with pytest.raises(StoreError, match="there is no"):
        scan(f"chroma://{tmp_path / 'nowhere'}#x", subject="ann")
