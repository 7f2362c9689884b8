"""From edits to statements: what is found out, and what must be said."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, get_args

import pytest

from expunge import Memory, Refused
from expunge.attestation.statements import (
    attest,
    attest_creation,
    commitment_of,
    drop_statements,
    expiry_predicate,
    statements_of,
)
from expunge.errors import InputError
from expunge.ledger.event import parse_event
from expunge.ledger.receipt_format import Listed, Predicate, Refusal, RequestStated, Sizes
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement
from expunge.memory.receipt import Action, Receipt, RefusalReason
from expunge.memory.version import Version
from expunge.problem.tolerances import PUBLISHED
from expunge.solver.attempts import Attempt
from verify.cases import WARD, case, clock, ward_memory


def edited(act: Any, memory: Memory | None = None) -> tuple[Version, Version, Receipt, dict[str, Any]]:
    """The three things that a journal gets, and what it could find out while it had them."""
    memory = ward_memory() if memory is None else memory
    kept: list[Any] = []

    def journal(before: Version, after: Version, receipt: Receipt) -> None:
        found = {name: commitment_of(before, name) or commitment_of(after, name) for name in receipt.applied}
        kept[:] = [before, after, receipt, found]

    memory.journal = journal
    with suppress(Refused):
        act(memory)
    before, after, receipt, found = kept
    return before, after, receipt, found


def stated(before: Version, after: Version, receipt: Receipt, **options: Any) -> Predicate:
    statement, *_ = attest(receipt, before, after, **{"memory": WARD, "edit": 1, "clock": clock, **options})
    return parse_predicate(statement)


def test_entries_are_named_by_their_commitments() -> None:
    memory = ward_memory()
    names = memory.ids[3], memory.ids[8]
    wanted = sorted((commitment_of(memory.version, name) or b"").hex() for name in names)
    made: list[Predicate] = []
    memory.journal = lambda before, after, receipt: made.append(stated(before, after, receipt))
    memory.delete(names)
    memory.admit([0.0, 0.0, 9.0], [1.0, 2.0], id="NEW")
    assert list(made[0].applied.commitments) == wanted
    assert made[1].applied.commitments == ((commitment_of(memory.version, "NEW") or b"").hex(),)
    assert commitment_of(memory.version, names[0]) is None


def test_salt_and_blind_die_with_the_entry() -> None:
    memory = ward_memory()
    entries = memory.version.entries
    slot = entries.slot_of["ENTRY-3"]
    salt, hidden = entries.salts[slot], entries.blinds[slot].tobytes()
    memory.delete("ENTRY-3")
    for held in (entries, memory.version.entries):
        assert salt not in held.salts
        assert hidden not in held.blinds.tobytes()
        assert not held.blinds[slot].any()


def test_an_archived_entry_keeps_its_commitment() -> None:
    memory = ward_memory()
    before = {name: commitment_of(memory.version, name) for name in memory.ids}
    memory.prune("archive")
    assert memory.version.warranties.archive
    for name in memory.version.warranties.archive:
        assert commitment_of(memory.version, name) == before[name]
    memory.rebuild(nu=0.5)
    assert {name: commitment_of(memory.version, name) for name in before} == before


def test_a_forgotten_entry_is_named_by_a_commitment_that_somebody_kept() -> None:
    memory = ward_memory()
    memory.prune("forget")
    name = next(iter(memory.version.warranties.forgotten))
    before, after, receipt, _ = edited(lambda memory: memory.delete(name), memory)
    with pytest.raises(InputError, match="no known commitment"):
        stated(before, after, receipt)
    known = stated(before, after, receipt, forgotten={name: bytes(32)})
    assert known.applied == Listed(("00" * 32,), 1)


def test_views_of_another_edit_are_refused() -> None:
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, 0.0, 9.0], [1.0, 2.0]))
    with pytest.raises(InputError, match="within its journal"):
        stated(after, before, receipt)
    with pytest.raises(InputError, match="within its journal"):
        stated(before, before, receipt)


@pytest.mark.parametrize("memory", ["icu-7", "", "6F1C8F1E-6A43-4D0C-9C0A-2B9D4B1F7A11", "x" * 36])
def test_a_memory_is_a_uuid(memory: str) -> None:
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, 0.0, 9.0], [1.0, 2.0]))
    with pytest.raises(InputError, match="receipt-memory-invalid"):
        stated(before, after, receipt, memory=memory)


def test_the_clock() -> None:
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, 0.0, 9.0], [1.0, 2.0]))
    east = timezone(timedelta(hours=5))
    there = stated(before, after, receipt, clock=lambda: datetime(2026, 1, 1, 2, 3, 4, tzinfo=east))
    assert there.time == "2025-12-31T21:03:04Z"
    with pytest.raises(InputError, match="time zone"):
        stated(before, after, receipt, clock=lambda: datetime(2026, 1, 1))
    assert stated(before, after, receipt, clock=clock).time == "2026-03-01T12:30:05Z"
    assert parse_predicate(attest(receipt, before, after, memory=WARD, edit=1)[0]).time > "2025"


def test_what_was_refused_and_why_is_told_in_fields_and_not_in_words() -> None:
    memory = Memory.fit([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], [1.0, 2.0, 9.0], sigma=5.0, cap=1.0)
    memory.prune("archive")
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, -10.0], 3.0, on_expiry="refuse"), memory)
    assert (receipt.outcome, receipt.action) == ("refused", "admission")
    told = stated(before, after, replace(receipt, covers="nothing at all"))
    assert told.action == "admission"
    assert told.refusal == Refusal("would_end_warranties", 1, 0)
    for action in get_args(Action):
        assert stated(before, after, replace(receipt, action=action)).action == action
    with pytest.raises(InputError, match="receipt-refusal-mismatch"):
        stated(before, after, replace(receipt, refusal=None))


def test_no_residual_is_in_a_refusal() -> None:
    before, after, receipt, _ = edited(lambda memory: memory.delete([]))
    grounds = RefusalReason("no_acceptable_state", 3e-5, PUBLISHED)
    told = stated(before, after, replace(receipt, outcome="refused", refusal=grounds))
    assert told.refusal == Refusal("no_acceptable_state", None, None)


def test_a_state_that_did_not_pass_the_check_has_no_receipt() -> None:
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, 0.0, 9.0], [1.0, 2.0]))
    with pytest.raises(InputError, match="did not pass"):
        stated(before, after, replace(receipt, check=replace(receipt.check, mass=3e-5)))
    with pytest.raises(InputError, match="did not pass"):
        attest_creation(replace(after, known_check=replace(after.check, box=3e-5)), memory=WARD, clock=clock)


def test_a_rescue_is_told_in_the_process_and_not_in_the_statement() -> None:
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, 0.0, 9.0], [1.0, 2.0]))
    failed = Attempt("path", None, 0.5, "SolveError: no way")
    rescued = replace(receipt, outcome="rescued", rescued_to="admitted", attempts=(failed, *receipt.attempts))
    asked = RequestStated.new()
    assert stated(before, after, rescued, request=asked) == stated(before, after, receipt, request=asked)


def test_an_exclusion_without_a_code_is_refused() -> None:
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, 0.0, 9.0], [1.0, 2.0]))
    with pytest.raises(InputError, match="no code"):
        stated(before, after, replace(receipt, does_not_cover=("what ENTRY-3 said",)))


def test_each_receipt_has_a_request_of_its_own() -> None:
    before, after, receipt, _ = edited(lambda memory: memory.delete([]))
    assert stated(before, after, receipt).request.id != stated(before, after, receipt).request.id
    asked = RequestStated.new("ab" * 32, "cd" * 32)
    assert stated(before, after, receipt, request=asked).request == asked


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> int:
    """The most entries that a statement lists, made small."""
    for module in ("attestation.statements", "ledger.event"):
        monkeypatch.setattr(f"expunge.{module}.MAX_LISTED", 4)
    return 4


def carried(statements: list[Statement]) -> dict[str, list[str]]:
    """The lists that events carry, whole, by name."""
    found: dict[str, list[str]] = {}
    parts: dict[str, list[tuple[Any, Any]]] = {}
    for statement in statements:
        event = parse_event(statement)
        facts: Any = event.facts
        assert (event.kind, event.memory) == ("listed", WARD)
        found.setdefault(facts["list"], []).extend(facts["commitments"])
        parts.setdefault(facts["list"], []).append((facts["part"], facts["parts"]))
    for numbers in parts.values():
        assert numbers == [(number + 1, len(numbers)) for number in range(len(numbers))]
    return found


@pytest.mark.parametrize("count", [4, 5, 8, 9])
def test_a_list_that_is_too_long_follows_its_receipt(most: int, count: int) -> None:
    made: list[Statement] = []
    memory = ward_memory()
    names = memory.ids[:count]
    wanted = sorted((commitment_of(memory.version, name) or b"").hex() for name in names)
    memory.journal = lambda before, after, receipt: made.extend(
        attest(receipt, before, after, memory=WARD, edit=1, clock=clock)
    )
    memory.delete(names)
    first, *rest = made
    told = parse_predicate(first)
    assert told.applied.count == count
    if count <= most:
        assert (told.applied.commitments, told.applied.root, rest) == (tuple(wanted), None, [])
        return
    assert told.applied == Listed.root_of(wanted)
    assert carried(rest) == {"applied": wanted}
    assert {parse_event(part).facts["receipt"] for part in rest} == {told.request.id}
    assert {parse_event(part).time for part in rest} == {told.time}
    assert len(rest) == -(-count // most)


def test_only_the_longest_lists_leave_a_receipt(most: int) -> None:
    """Together they have no room: one entry is erased, and 20 certificates end with it."""
    made: list[Statement] = []
    memory = ward_memory()
    pruned = {name: commitment_of(memory.version, name) or b"" for name in memory.ids}
    ended = memory.prune("forget").applied
    memory.journal = lambda before, after, receipt: made.extend(
        attest(receipt, before, after, memory=WARD, edit=1, clock=clock, forgotten=pruned)
    )
    memory.delete(memory.ids[0])
    first, *rest = made
    told = parse_predicate(first)
    wanted = sorted(pruned[name].hex() for name in ended)
    assert len(wanted) > most
    assert (len(told.applied.commitments), told.applied.root) == (1, None)
    assert told.ended == Listed.root_of(wanted)
    assert carried(rest) == {"ended": wanted}


def test_creations_and_drops_carry_their_lists(most: int) -> None:
    version = ward_memory().version
    wanted = sorted(bytes(row).hex() for row in version.entries.commitments[version.slots])
    first, *rest = attest_creation(version, memory=WARD, clock=clock)
    assert parse_predicate(first).applied == Listed.root_of(wanted)
    assert carried(rest) == {"applied": wanted}
    first, *rest = drop_statements(version, version.digest, Sizes(version.size, 0), memory=WARD, clock=clock)
    dropped = parse_event(first)
    assert dropped.listed == Listed.root_of(wanted)
    assert carried(rest) == {"entries": wanted}
    assert {parse_event(part).facts["receipt"] for part in rest} == {dropped.request.id}


def test_creations_and_expiries_stand_by_themselves() -> None:
    memory = ward_memory()
    created = parse_predicate(attest_creation(memory.version, memory=WARD, clock=clock)[0])
    assert created.applied.count == len(created.applied.commitments) == 30
    assert created.problem.initial_entries is None
    before, after, receipt, _ = edited(lambda memory: memory.admit([0.0, 0.0, 9.0], [1.0, 2.0]))
    with pytest.raises(InputError, match="receipt-entries-mismatch"):
        statements_of(expiry_predicate(receipt, before, after, memory=WARD, edit=1, clock=clock))
    notice, edit = case("example-admitted-expiring-notice").predicate, case("example-admitted-expiring").predicate
    assert notice.expired == edit.expired
    assert notice.state_before == notice.state_after == edit.state_after
    assert not set(edit.applied.commitments) & set(notice.expired.commitments)
