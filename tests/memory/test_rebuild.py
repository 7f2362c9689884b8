"""A rebuild at another width or cap: a different reference, which equals a fresh fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from expunge import InputError, Memory
from expunge.preprocessing.width import choose_width

RNG = np.random.default_rng(4)
KEYS, VALUES = RNG.standard_normal((60, 3)), RNG.standard_normal((60, 2))
IDS = [f"e{row}" for row in range(60)]


def memory(**options: Any) -> Memory:
    return Memory.fit(KEYS, VALUES, ids=IDS, **{"sigma": 0.7, "nu": 0.2} | options)


@pytest.mark.parametrize("options", [{"sigma": 2.5}, {"sigma": "auto"}, {"sigma": 1.5, "nu": 0.4}, {"nu": 0.4}])
def test_a_rebuild_equals_a_fresh_fit_to_the_bit(options: dict[str, Any]) -> None:
    rebuilt = memory()
    receipt = rebuilt.rebuild(**options)
    width = {"auto": choose_width(KEYS)}.get(options.get("sigma", 0.7), options.get("sigma", 0.7))
    fresh = memory(sigma=width, nu=options.get("nu", 0.2))
    assert (rebuilt.sigma, rebuilt.cap, rebuilt.offset) == (width, fresh.cap, fresh.offset)
    assert rebuilt.coefficients.tobytes() == fresh.coefficients.tobytes()
    assert receipt.outcome == "rebuilt"
    assert ("sigma" in receipt.details) == (width != 0.7)
    rebuilt.delete("e7")
    assert rebuilt.refit().coefficients.tobytes() == rebuilt.coefficients.tobytes()


def test_a_rebuild_for_the_width_alone_keeps_the_cap_and_what_it_was_set_for() -> None:
    kept = memory()
    kept.delete(IDS[:5])
    cap = kept.cap
    kept.rebuild(sigma=2.0)
    assert (kept.cap, kept.initial_size, kept.nu) == (cap, 60, 0.2)
    kept.rebuild(sigma=2.0, nu=0.4)
    assert (kept.initial_size, kept.nu) == (55, 0.4)


def test_what_was_archived_comes_back_and_counts_for_the_width() -> None:
    kept = memory()
    kept.prune("archive")
    assert len(kept) < 60
    kept.rebuild(sigma="auto")
    assert (len(kept), kept.sigma) == (60, choose_width(KEYS))


def test_certificates_of_forgotten_entries_end_with_the_width() -> None:
    kept = memory(sigma=2.0)
    kept.prune("forget")
    gone = [row.id for row in kept.warranties()]
    receipt = kept.rebuild(sigma=2.5)
    assert sorted(receipt.details["ended"]) == sorted(gone)
    assert {row.status for row in kept.warranties()} == {"ended"}


def test_an_empty_memory_keeps_its_width() -> None:
    empty = Memory.fit(np.empty((0, 2)), np.empty((0, 1)), sigma=2.0, nu=0.5)
    assert empty.rebuild(sigma=3.0).outcome == empty.rebuild(sigma="auto").outcome == "noop"
    assert empty.sigma == 2.0


@pytest.mark.parametrize("options", [{}, {"sigma": "wide"}, {"sigma": -1.0}, {"sigma": 2.0, "nu": 0.5, "cap": 0.5}])
def test_a_rebuild_that_makes_no_sense_changes_nothing(options: dict[str, Any]) -> None:
    kept = memory()
    before = kept.digest
    with pytest.raises(InputError):
        kept.rebuild(**options)
    assert kept.digest == before
