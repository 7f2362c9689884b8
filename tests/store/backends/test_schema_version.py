"""A store with tables of another version is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

import expunge
import expunge.store
from expunge import StoreError
from expunge.store.backends.schema_version import SCHEMA_VERSION

from ..conftest import Place
from ..sample_memory import appearance, fill


def test_a_newer_schema_is_refused_and_left_alone(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    seen = appearance(memory)
    with store._database.engine.connect() as connection:
        connection.execute(text("UPDATE expunge_schema SET version = '9999'"))
        connection.commit()
    with pytest.raises(StoreError, match=r"9999.*use the version of expunge that wrote it"):
        place.open()
    with store._database.engine.connect() as connection:
        connection.execute(text("UPDATE expunge_schema SET version = :version"), {"version": SCHEMA_VERSION})
        connection.commit()
    assert appearance(place.open()["icu"]) == seen


@pytest.mark.parametrize("version", ["0001", "0003"])
def test_an_older_schema_is_refused_with_the_way_to_take_its_memories_over(
    place: Place, folder: Path, version: str
) -> None:
    store = place.open()
    memory = fill(store)
    with store._database.engine.connect() as connection:
        connection.execute(text("ALTER TABLE expunge_schema RENAME COLUMN version TO version_num"))
        connection.execute(text("UPDATE expunge_schema SET version_num = :version"), {"version": version})
        connection.commit()
    with pytest.raises(StoreError, match=rf"schema {version}.*\.save\(.*Memory\.load\(.*create\(\)"):
        place.open()
    # A store that is open stands for the version that wrote it.
    memory.save(folder / "icu.memory")
    kept = expunge.Memory.load(folder / "icu.memory")
    with expunge.open(f"sqlite:///{folder / 'new.db'}") as fresh:
        taken = fresh.create(
            "icu",
            kept.keys,
            kept.values,
            sigma=kept.sigma,
            cap=kept.cap,
            ids=kept.ids,
            subjects=kept.subjects,
            payloads=[kept.payload(name) for name in kept.ids],
        )
        same = ("ids", "subjects", "payloads", "keys", "values", "coefficients", "cap", "sigma")
        assert {name: appearance(taken)[name] for name in same} == {name: appearance(memory)[name] for name in same}
