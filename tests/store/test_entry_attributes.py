"""Ends and sources of entries in a store: other memories by UUID, looked up when the entry is admitted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from expunge import Conflict, InputError
from expunge.integrations.notebook import Notebook
from expunge.memory.attributes import Attributes
from expunge.store import Store

from .conftest import Place

LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
KEYS = np.random.default_rng(5).standard_normal((12, 3))


def notes(store: Store, name: str, **options: object) -> None:
    store.create(name, KEYS, KEYS, sigma=1.5, nu=0.3, ids=[f"{name}-{row}" for row in range(12)], **options)  # type: ignore[arg-type]


def test_sources_are_kept_by_uuid_and_read_again(place: Place) -> None:
    store = place.open()
    notes(store, "talks")
    made_from = [[("talks", f"talks-{row}")] for row in range(12)]
    notes(store, "summaries", expires=[LATER] * 12, derived_from=made_from)
    talks, summaries = store["talks"], store["summaries"]
    summaries.admit(KEYS[0] + 1, KEYS[0], id="all", derived_from=["summaries-0", ("talks", "talks-1")])
    summaries.admit_many(KEYS[:1] + 2, KEYS[:1], ids=["own"], derived_from=[[("summaries", "all")]])
    expected = Attributes(None, ("summaries-0", (talks.uuid, "talks-1")))
    other = place.open()["summaries"]
    for memory in (summaries, other):
        assert memory.attributes("summaries-3") == Attributes(LATER, ((talks.uuid, "talks-3"),))
        assert memory.attributes("all") == expected
        assert memory.attributes("own") == Attributes(None, ("all",))
    store.verify()


@pytest.mark.parametrize("source", [("talks", "nobody"), ("nowhere", "talks-0"), "talks-0"])
def test_a_source_that_is_not_there(store: Store, source: str | tuple[str, str]) -> None:
    notes(store, "talks")
    notes(store, "summaries")
    memory, size = store["summaries"], store.size
    for dry_run in (True, False):
        with pytest.raises(InputError) as problem:
            memory.admit(KEYS[0] + 1, KEYS[0], derived_from=[source], dry_run=dry_run)
        assert problem.value.code == "source-unknown"
    with pytest.raises(InputError) as problem:
        notes(store, "more", derived_from=[[source], *[()] * 11])
    assert problem.value.code == "source-unknown"
    assert store.size == size
    assert store.names() == ["summaries", "talks"]


def test_an_end_is_judged_by_the_clock_of_the_store(place: Place) -> None:
    now = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    store = place.open(clock=lambda: now)
    notes(store, "talks", expires=[now + timedelta(seconds=1)] * 12)
    memory = store["talks"]
    memory.admit(KEYS[0] + 1, KEYS[0], id="f", expires=now + timedelta(seconds=1))
    with pytest.raises(InputError) as problem:
        memory.admit(KEYS[0] + 2, KEYS[0], expires=now)
    assert problem.value.code == "expires-past"


def test_a_repeated_admission_is_the_same_one_with_the_same_attributes_only(store: Store) -> None:
    notes(store, "talks")
    notes(store, "summaries")
    memory = store["summaries"]

    def admit(*made_from: str) -> int:
        sources = [("talks", name) for name in made_from]
        admitted = memory.admit(KEYS[0] + 1, KEYS[0], id="f", derived_from=sources, idempotency_key="k")
        return admitted.index

    assert admit("talks-1", "talks-2") == admit("talks-2", "talks-1")
    with pytest.raises(Conflict):
        admit("talks-1")
    store["talks"].delete(["talks-5"])
    memory.delete("f")
    store.drop("talks")
    # What it was made from is gone, and the answer is still that of then.
    assert isinstance(admit("talks-1", "talks-2"), int)


def test_a_notebook_passes_attributes_on(store: Store) -> None:
    talks, facts = Notebook(store, "talks"), Notebook(store, "facts")
    talks.write(KEYS[0], id="t", subject="ann", expires=LATER)
    facts.write(KEYS[1], id="f", derived_from=[("talks", "t")])
    facts.write_many(
        list(KEYS[2:4]), ids=["g", "h"], expires=[None, LATER], derived_from=[["f"], ["g", ("talks", "t")]]
    )
    uuid = store["talks"].uuid
    found = {note.id: note.attributes for note in (*talks.notes(), *facts.notes())}
    assert found == {
        "t": Attributes(LATER),
        "f": Attributes(None, ((uuid, "t"),)),
        "g": Attributes(None, ("f",)),
        "h": Attributes(LATER, ("g", (uuid, "t"))),
    }
