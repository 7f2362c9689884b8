"""Evidence for receipts that give a list of entries by its root: it is compared with what the bundle shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from expunge import Memory
from expunge.ledger.envelope import sign_statement
from expunge.ledger.receipt_format import Listed
from expunge.verify.evidence import verify_evidence
from raising import raises_code

from .alter import rebundle
from .cases import SIGNER, TRUSTED, WARD, Journal, Ledger

KEYS = np.random.default_rng(0).standard_normal((20, 3))
IDS = [f"ENTRY-{row}" for row in range(20)]


def made(folder: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A memory that is filled, pruned, refitted and emptied, where a statement lists at most so many entries."""
    for module in ("attestation.statements", "ledger.event"):
        monkeypatch.setattr(f"expunge.{module}.MAX_LISTED", most)
    ledger = Ledger(folder)
    memory = Memory.fit(KEYS[:10], np.ones(10), sigma=2.0, nu=0.6, ids=IDS[:10])
    journal = Journal(ledger, memory, WARD, "ward")
    journal.do("admitted", lambda: memory.admit_many(KEYS[10:], np.ones(10), ids=IDS[10:]))
    journal.do("pruned", lambda: memory.prune("archive"))
    journal.do("called-back", lambda: memory.rebuild(nu=0.9))
    journal.do("pruned-again", lambda: memory.prune("archive"))
    journal.do("refitted", lambda: memory.delete(IDS[:14]))
    journal.do("emptied", lambda: memory.delete(IDS[14:]))
    return ledger


@pytest.mark.parametrize("most", [1, 5, 12])
def test_lists_by_root_are_recomputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    ledger = made(tmp_path, most, monkeypatch)
    roots = 0
    for case in ledger.cases.values():
        roots += sum(getattr(case.predicate, name).root is not None for name in ("applied", "reactivated"))
        assert verify_evidence(case.evidence, TRUSTED).receipt == case.predicate
    assert roots >= {1: 5, 5: 4, 12: 1}[most]


@pytest.mark.parametrize(
    ("name", "field", "error"),
    [
        ("created", "applied", "evidence-added-mismatch"),
        ("admitted", "applied", "evidence-added-mismatch"),
        ("pruned", "applied", "evidence-removed-mismatch"),
        ("called-back", "reactivated", "evidence-added-mismatch"),
        ("emptied", "applied", "evidence-removed-mismatch"),
    ],
)
def test_another_root_is_found_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    field: Literal["applied", "reactivated"],
    error: str,
) -> None:
    case = made(tmp_path, 1, monkeypatch).cases[f"ward-{name}"]
    stated: Listed = getattr(case.predicate, field)
    assert stated.root is not None
    other: dict[str, Any] = {field: replace(stated, root="ab" * 32)}
    lie = replace(case.predicate, **other)
    envelope = sign_statement(lie.to_statement(), SIGNER).to_bytes()
    bundle = rebundle(case.evidence, {"receipt.json": envelope})
    with raises_code(error):
        verify_evidence(bundle, TRUSTED)
