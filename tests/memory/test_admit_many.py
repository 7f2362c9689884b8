"""Many entries in one edit: all of them or none, one version, one receipt, and the state of a fit of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agreement import assert_sound, snapshot
from expunge import AdmissionRefused, InputError, Memory, Receipt
from expunge.memory.version import Version

KEYS = np.random.default_rng(1).standard_normal((12, 3))
VALUES = np.random.default_rng(2).standard_normal((12, 2))
IDS = [f"n{row}" for row in range(12)]


def base() -> Memory:
    rng = np.random.default_rng(0)
    return Memory.fit(
        np.vstack([rng.standard_normal((20, 3)), KEYS[:2]]), rng.standard_normal((22, 2)), sigma=2.0, nu=0.4
    )


def empty() -> Memory:
    return Memory.fit(np.empty((0, 3)), np.empty((0, 2)), sigma=2.0, nu=0.4)


@pytest.mark.parametrize("start", [base, empty])
def test_one_edit_one_receipt_and_the_state_of_a_fit_of_all(start: Callable[[], Memory]) -> None:
    memory = start()
    before, edit = memory.ids, memory.version.edit
    calls: list[tuple[Version, Version, Receipt]] = []
    memory.journal = lambda *call: calls.append(call)
    owners = ["ada" if row % 2 else None for row in range(12)]
    receipt = memory.admit_many(KEYS, VALUES, ids=IDS, subjects=owners, payloads=[{"row": row} for row in range(12)])
    assert (receipt.action, receipt.outcome, receipt.applied) == ("admission", "admitted", tuple(IDS))
    assert (len(calls), memory.version.edit) == (1, edit + 1)
    assert memory.ids == (*before, *IDS)
    assert memory.subjects[-12:] == tuple(owners)
    assert memory.payload("n7") == {"row": 7}
    assert np.array_equal(memory.values[-12:], VALUES)
    assert "entries" in receipt.covers
    assert memory.refit().digest == memory.digest
    assert_sound(memory)
    one_by_one = start()
    for key, value in zip(KEYS, VALUES, strict=True):
        one_by_one.admit(key, value)
    assert one_by_one.coefficients.tobytes() == memory.coefficients.tobytes()
    assert one_by_one.offset == memory.offset


def test_one_is_an_admission_like_any() -> None:
    one, other = base(), base()
    first = one.admit(KEYS[5], VALUES[5], id="x", subject="ada", payload=b"p")
    second = other.admit_many(KEYS[[5]], VALUES[[5]], ids=["x"], subjects=["ada"], payloads=[b"p"])
    assert (first.covers, first.applied, first.details) == (second.covers, second.applied, second.details)
    assert one.coefficients.tobytes() == other.coefficients.tobytes()


def test_ids_of_its_own_and_values_of_one_number() -> None:
    memory = Memory.fit(np.empty((0, 3)), [], sigma=2.0, nu=0.4)
    names = memory.admit_many(KEYS, np.arange(12.0)).applied
    assert len(set(names)) == 12
    assert all(len(name) == 16 for name in names)
    assert memory.values[:, 0].tolist() == list(range(12))


BAD: dict[str, dict[str, Any]] = {
    "a key that is not finite": {"keys": np.where(np.arange(12)[:, None] == 11, np.nan, KEYS)},
    "keys of another dimension": {"keys": KEYS[:, :2]},
    "no array of keys": {"keys": KEYS[0, :2]},
    "values of another width": {"values": VALUES[:, :1]},
    "too few values": {"values": VALUES[:11]},
    "too few ids": {"ids": IDS[:11]},
    "an id twice": {"ids": [*IDS[:11], "n0"]},
    "an id that is taken": {"ids": [*IDS[:11], "3"]},
    "an id that is empty": {"ids": [*IDS[:11], ""]},
    "a subject that is a number": {"subjects": [*["ada"] * 11, 5]},
    "too few payloads": {"payloads": [None] * 11},
    "a payload that is no JSON": {"payloads": [*[None] * 11, object()]},
    "an unknown on_expiry": {"on_expiry": "ignore"},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_before_anything_is_touched(name: str) -> None:
    memory = base()
    before = snapshot(memory)
    given: dict[str, Any] = {"keys": KEYS, "values": VALUES, "ids": IDS} | BAD[name]
    with pytest.raises(InputError):
        memory.admit_many(given.pop("keys"), given.pop("values"), **given)
    memory.settle()
    assert snapshot(memory) == before


def test_all_or_nothing_where_the_entries_are_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = base()
    before = snapshot(memory)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("deliberate")

    with monkeypatch.context() as patch:
        for target in ("path.admit", "backends.solve_reference"):
            patch.setattr(f"expunge.solver.{target}", fail)
        patch.setattr("expunge.memory.pending_edit.fit", fail)
        with pytest.raises(AdmissionRefused, match="12 entries") as refused:
            memory.admit_many(KEYS, VALUES, ids=IDS)
    assert refused.value.receipt.applied == ()
    assert snapshot(memory) == before
    assert not {*IDS} & set(memory.version.entries.ids)
    assert not any(key.tobytes() in memory.version.site_of_key for key in KEYS[2:])
    assert memory.admit_many(KEYS, VALUES, ids=IDS).applied == tuple(IDS)
    assert memory.refit().digest == memory.digest


def test_certificates_that_it_would_end_are_told_or_refuse_it() -> None:
    memory = Memory.fit([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], [1.0, 2.0, 9.0], sigma=5.0, cap=1.0, ids=list("abc"))
    assert memory.prune("archive").applied == ("c",)
    before = snapshot(memory)
    far = [[0.0, -10.0], [0.0, -9.0]]
    with pytest.raises(AdmissionRefused, match="would end 1 certificates"):
        memory.admit_many(far, [3.0, 4.0], on_expiry="refuse")
    assert snapshot(memory) == before
    receipt = memory.admit_many(far, [3.0, 4.0])
    assert receipt.details["reactivated"] == ["c"]
    assert memory.refit().digest == memory.digest
