"""Edits that are asked for twice, or too late, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from expunge import DeletionRefused, StoreError
from expunge.ledger.signing import SigningKey
from expunge.store import (
    Conflict,
    Store,
)
from expunge.store.backends.tables import requests
from expunge.store.edits.idempotency import peppered_key
from expunge.store.encryption import decrypt_request, request_key_hash
from expunge.store.pepper import load_pepper

from ..conftest import Place
from ..sample_memory import SIGMA, arrival, entries, fill, reloaded


def test_an_edit_of_a_state_that_has_moved_on_is_a_conflict(place: Place) -> None:
    first, second = place.open(), place.open()
    fill(first)
    seen = first["icu"].digest
    second["icu"].delete("e5")
    with pytest.raises(Conflict, match="somebody edited it"):
        first["icu"].delete("e6", expected=seen)
    assert "e6" in first["icu"]
    receipt = first["icu"].delete("e6", expected=first["icu"].digest)
    assert receipt.state_after == second["icu"].digest
    assert isinstance(Conflict("x"), StoreError)


def test_a_repeated_request_is_answered_again_and_applied_once(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    first = memory.delete(["e5", "e6"], idempotency_key="one")
    size = store.size
    for handle in (memory, reloaded(place)):
        assert handle.delete(["e6", "e5"], idempotency_key="one") == first
    assert store.size == size
    # Another request under the key, whatever differs.
    for other in (
        lambda: memory.delete("e7", idempotency_key="one"),
        lambda: memory.delete(subject="patient-1", idempotency_key="one"),
        lambda: memory.prune(idempotency_key="one"),
        lambda: memory.admit(**arrival(1), idempotency_key="one"),
    ):
        with pytest.raises(Conflict, match="another request"):
            other()
    assert store.size == size
    # The first answer comes before the caller's expectation, which a retry repeats as it was.
    assert memory.delete(["e5", "e6"], idempotency_key="one", expected=first.state_before) == first
    subject = memory.delete(subject="patient-2", idempotency_key="two")
    assert memory.delete(subject="patient-2", idempotency_key="two") == subject
    assert memory.prune("forget", idempotency_key="three") == memory.prune("forget", idempotency_key="three")
    half = np.float32(0.5)
    assert memory.rebuild(nu=half, idempotency_key="four") == memory.rebuild(nu=half, idempotency_key="four")  # type: ignore[arg-type]
    store.verify()


def test_keys_of_two_memories_have_nothing_to_do_with_each_other(store: Store) -> None:
    one, two = fill(store, "one"), fill(store, "two", seed=1)
    assert one.delete("e5", idempotency_key="k").memory == one.uuid
    assert two.delete("e5", idempotency_key="k").memory == two.uuid


def test_a_repeated_admission_must_bring_the_same_entry(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    entry = arrival(1, far=3.0)
    first = memory.admit(**entry, idempotency_key="k")
    assert memory.admit(**entry, idempotency_key="k") == first
    for change in ({"key": [0.0] * 4}, {"value": [0.0, 0.0]}, {"payload": "other"}, {"id": "x"}, {"subject": "x"}):
        with pytest.raises(Conflict):
            memory.admit(**{**entry, **change}, idempotency_key="k")
    # An entry without an id gets one; the retry names none either.
    unnamed = {**entry, "id": None}
    given = memory.admit(**unnamed, idempotency_key="u")
    assert memory.admit(**unnamed, idempotency_key="u") == given
    # Archived, it is still known; erased, it is not admitted again.
    memory.delete("new-1")
    assert memory.admit(**entry, idempotency_key="k") == first
    assert "new-1" not in memory
    store.verify()


def test_repeated_admissions_must_bring_the_same_entries(place: Place) -> None:
    """As many, each with its key, value and payload as far as it is still there, in the same order."""
    store = place.open()
    memory = fill(store)
    rows = [arrival(number, far=3.0) for number in range(3)]
    many: dict[str, Any] = {f"{field}s": [row[field] for row in rows] for field in rows[0]}
    first = memory.admit_many(**many, idempotency_key="k")
    for handle in (memory, reloaded(place)):
        assert handle.admit_many(**many, idempotency_key="k") == first
    for field, column in many.items():
        other = [*column[:2], {"keys": [0.0] * 4, "values": [0.0, 0.0]}.get(field, "other")]
        for change in (other, column[::-1]):
            with pytest.raises(Conflict):
                memory.admit_many(**many | {field: change}, idempotency_key="k")
    for fewer in ({field: column[:2] for field, column in many.items()}, {"keys": np.empty((0, 4)), "values": []}):
        with pytest.raises(Conflict):
            memory.admit_many(**fewer, idempotency_key="k")
    with pytest.raises(Conflict):
        memory.admit(**rows[0], idempotency_key="k")
    unnamed: dict[str, Any] = many | {"ids": None}
    assert memory.admit_many(**unnamed, idempotency_key="u") == memory.admit_many(**unnamed, idempotency_key="u")
    # What was erased since is not admitted again, and what is left is still compared.
    memory.delete("new-1")
    assert memory.admit_many(**many, idempotency_key="k") == first
    with pytest.raises(Conflict):
        memory.admit_many(**many | {"payloads": ["x"] * 3}, idempotency_key="k")
    memory.delete(memory.ids)
    assert memory.admit_many(**many, idempotency_key="k") == first
    assert len(memory) == 0
    store.verify()


def test_a_repeated_refusal_is_refused_again_with_the_same_receipt(place: Place) -> None:
    store = place.open()
    memory = store.create("icu", **entries(), sigma=SIGMA, nu=0.9)
    store.hold("icu", "e7", reason="court")
    names = list(memory.ids[:20])
    with pytest.raises(DeletionRefused) as first:
        memory.delete(names, idempotency_key="k")
    size = store.size
    with pytest.raises(DeletionRefused) as again:
        reloaded(place).delete(names, idempotency_key="k")
    assert again.value.receipt == first.value.receipt
    assert (again.value.reason, again.value.measured, again.value.allowed) == (
        first.value.reason,
        first.value.measured,
        first.value.allowed,
    )
    assert store.size == size


def test_a_guessable_key_opens_nothing_without_the_signing_key(place: Place) -> None:
    """Whoever has the database, and so the store's UUID and secret, tries the tickets that there may be."""
    store = place.open()
    memory = fill(store)
    store.erase_subject("patient-1", idempotency_key="ticket-4711")
    memory.delete("e3", idempotency_key="ticket-4712")
    with store._database.reading() as connection:
        rows = {row.key_hash: row.answer for row in connection.execute(select(requests))}
    assert len(rows) >= 2
    for scope in (store.uuid, memory.uuid):
        for number in range(4700, 4720):
            assert request_key_hash(scope, f"ticket-{number}") not in rows
    pepper = store._identity.pepper
    strong = peppered_key(pepper, "ticket-4711")
    assert (
        decrypt_request(store.uuid, strong, rows[request_key_hash(store.uuid, strong)])["asked"]["subject"]
        == "patient-1"
    )
    # Another signing key is another pepper; the same one is the same on every machine.
    assert place.open()._identity.pepper == pepper != load_pepper(None, SigningKey.generate(), create=False)
