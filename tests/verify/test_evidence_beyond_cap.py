"""Evidence of memories without entries, of erasures beyond the cap, and of admissions of many entries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from expunge import Memory, VerificationError
from expunge.verify.evidence import verify_evidence
from verify.cases import LOG_KEYS, ORIGIN, TRUSTED, WARD, Journal, Ledger

KEYS = np.random.default_rng(0).standard_normal((20, 3))
VALUES = np.random.default_rng(1).standard_normal((20, 2))
IDS = [f"ENTRY-{row}" for row in range(20)]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A memory that is empty at first, grows, shrinks beyond its cap, is emptied, and begins again."""
    ledger = Ledger(tmp_path_factory.mktemp("evidence"))
    memory = Memory.fit(np.empty((0, 3)), np.empty((0, 2)), sigma=2.0, nu=0.5)
    memory.initial_size = None
    journal = Journal(ledger, memory, WARD, "ward")
    journal.do("filled", lambda: memory.admit_many(KEYS, VALUES, ids=IDS), prove=True)
    journal.do("rebuilt", lambda: memory.rebuild(nu=0.6, sigma=3.0), prove=True)
    journal.do("narrowed", lambda: memory.rebuild(sigma=2.0))
    journal.do("archived", lambda: memory.prune("archive"))
    journal.do("refitted", lambda: memory.delete(IDS[:12]), prove=True)
    journal.do("emptied", lambda: memory.delete(IDS[12:]), prove=True)
    journal.do("noop", lambda: memory.rebuild(nu=0.5))
    journal.do("again", lambda: memory.admit(KEYS[0], VALUES[0], id="ENTRY-AGAIN"))
    return ledger


@pytest.mark.parametrize(
    ("name", "outcome", "entries"),
    [
        ("created", "created", 0),
        ("filled", "admitted", 20),
        ("rebuilt", "rebuilt", 20),
        ("refitted", "refitted", 8),
        ("emptied", "emptied", 0),
        ("noop", "noop", 0),
        ("again", "admitted", 1),
    ],
)
def test_a_stranger_recomputes_it(ledger: Ledger, name: str, outcome: str, entries: int, tmp_path: Path) -> None:
    data = ledger.cases[f"ward-{name}"].evidence
    found = verify_evidence(data, TRUSTED, log_keys=LOG_KEYS, origin=ORIGIN)
    assert (found.receipt.outcome, found.state.entries, found.receipt.after.live) == (outcome, entries, entries)
    if name == "refitted":
        assert found.receipt.applied.count == len(found.receipt.applied.commitments) == 12
        assert found.bundle.prior is not None
        assert found.bundle.cap == 2 * found.bundle.prior.cap
        assert found.receipt.covers == "fresh_fit_at_new_cap"
    if name == "rebuilt":
        assert found.bundle.prior is not None
        assert (found.bundle.prior.sigma, found.bundle.sigma, found.receipt.problem.sigma) == (2.0, 3.0, 3.0)
    if name == "emptied":
        assert (found.bundle.proof, found.bundle.cap, found.receipt.applied.count) == (None, 1.0, 8)


def test_the_bundle_of_an_empty_state_has_one_form(ledger: Ledger) -> None:
    emptied, created = (ledger.cases[f"ward-{name}"] for name in ("emptied", "created"))
    assert emptied.predicate.state_after == created.predicate.state_after
    # With the receipt of another state the bundle says so.
    full = ledger.cases["ward-again"]
    with pytest.raises(VerificationError) as wrong:
        verify_evidence(emptied.evidence.replace(emptied.envelope, full.envelope), TRUSTED)
    assert wrong.value.code.startswith("evidence-")
