"""The answer to an erasure says what would be chosen from the rest, and nothing that is kept says so."""

from __future__ import annotations

import numpy as np
import pytest

from expunge import Preview
from expunge.memory import version
from preprocessing.wide_ward import ward

from .conftest import Place


def test_answers_of_a_store_say_so_and_the_ledger_does_not(place: Place) -> None:
    """It is part of the answer, also of a repeated one and of a dry run, and of nothing that is kept."""
    columns, plain = ward()
    store = place.open()
    stored = store.create(
        "icu", plain.keys, np.zeros(32), nu=0.3, subjects=plain.subjects, ids=plain.ids, preprocessing=columns
    )
    plain.delete(subject="wide")
    preview = stored.delete(subject="wide", dry_run=True)
    assert isinstance(preview, Preview)
    assert preview.outdated == plain.outdated
    receipt = stored.delete(subject="wide", idempotency_key="once")
    assert receipt.outdated == plain.outdated
    assert receipt.to_json()["outdated"] == list(plain.outdated)
    again = stored.delete(subject="wide", idempotency_key="once")
    assert again.outdated == plain.outdated
    assert b"outdated" not in receipt.envelope
    assert stored.admit([0.0, 0.0], 0.0).outdated == ()


def test_nobody_waits_for_a_choice_among_many_entries(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "LARGEST_MARGIN", 10)
    columns, plain = ward()
    stored = place.open().create("icu", plain.keys, np.zeros(32), nu=0.3, ids=plain.ids, preprocessing=columns)
    assert stored.delete(plain.ids[0], dry_run=True).outdated is None
    receipt = stored.delete(plain.ids[0])
    assert receipt.to_json()["outdated"] is None
    assert "memory.outdated" in receipt._repr_html_()
    plain.delete(plain.ids[0])
    assert stored.outdated == plain.outdated
