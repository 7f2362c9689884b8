"""The ledger as a state machine: every lie is refused under its own code, and nothing honest is."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import get_args

import pytest

from expunge.error_codes import CODES
from expunge.errors import VerificationError
from expunge.ledger.event import Event, Kind
from expunge.ledger.receipt_format import Outcome, Reason, Sizes
from expunge.store.mirroring.attached_mirror import AttachedMirror
from expunge.verify import verify_ledger
from expunge.verify.ledger import CONTRADICTIONS
from expunge.verify.replay.entry_table import Entry, EntryTable
from expunge.verify.replay.memory_history import OUTCOME_RULES
from expunge.verify.replay.replay import EVENT_RULES, Tally
from ledgers.lies import LIES, NOW, tell
from ledgers.model import ORIGIN, World
from ledgers.model_steps import STEPS, honest
from ledgers.store_histories import discard, play

# Enough for every kind of leaf to be among those that real stores write.
HISTORIES = 21
LEDGER_CODES = {
    code for kinds in CODES.values() for codes in kinds.values() for code in codes if code.startswith("ledger-")
}


def judge(world: World) -> Tally:
    envelopes, head = world.signed()
    return verify_ledger(envelopes, head, world.trusted, world.log_keys, ORIGIN, now=NOW, seen=world.seen).tally


def refused_at(name: str, number: int) -> set[str]:
    """Tell a lie, see it refused under its code, and return what the leaf is that was refused, and why."""
    world = tell(name, 11, number)
    with pytest.raises(VerificationError) as caught:
        judge(world)
    assert caught.value.code == LIES[name].code, str(caught.value)
    found = re.match(r"leaf (\d+)", str(caught.value))
    if found is None or int(found[1]) >= len(world.leaves):
        return set()
    leaf = world.leaves[int(found[1])]
    if isinstance(leaf, Event):
        return {leaf.kind}
    return {leaf.outcome} if leaf.refusal is None else {leaf.outcome, leaf.refusal.reason}


@pytest.mark.parametrize("name", LIES)
def test_every_lie_is_refused_under_its_code(name: str) -> None:
    for number in range(3):
        refused_at(name, number)


def test_every_code_has_a_lie() -> None:
    assert {lie.code for lie in LIES.values()} == LEDGER_CODES | CONTRADICTIONS


def test_every_outcome_reason_and_kind_of_event_has_a_rule_and_a_lie() -> None:
    """Whoever adds one adds both."""
    assert set(OUTCOME_RULES) == set(get_args(Outcome))
    assert set(EVENT_RULES) == set(get_args(Kind))
    wanted = {*get_args(Outcome), *get_args(Kind), *get_args(Reason)}
    for number in range(20):
        for name in LIES:
            if wanted and (number < 1 or LIES[name].code in ("ledger-leaf-repeated", "ledger-request-repeated")):
                wanted -= refused_at(name, number)
    assert not wanted, "no lie is told at a leaf of these kinds"


@pytest.mark.parametrize("number", range(25))
def test_honest_ledgers_of_the_model(number: int) -> None:
    world = honest(12, number)
    tally = judge(world)
    there = world.alive()
    assert tally.memories == len(there)
    assert tally.memories_dropped == len(world.memories) - len(there)
    assert tally.entries_live == sum(len(memory.live) for memory in there)
    assert tally.entries_archived == sum(len(memory.archived) for memory in there)
    assert tally.entries_forgotten == sum(len(memory.forgotten) for memory in there)
    assert tally.entries_erased == sum(len(memory.erased) for memory in world.memories)
    assert tally.holds_in_force == len(world.holds)
    assert (tally.requests_open, tally.requests_overdue) == (len(world.requests), len(world.requests))
    owed = [len(owed) for _, owed in world.mirrors.values()]
    assert (tally.mirrors, tally.mirrors_pending) == (len(owed), sum(owed))


def test_the_models_histories_have_every_step() -> None:
    done = {act for number in range(40) for act in honest(13, number).acts}
    assert done == {act.__name__ for act in STEPS}


@pytest.mark.slow
def test_ledgers_of_real_stores(tmp_path: Path) -> None:
    """Every act, crashes, restores and moves: together they write every kind of leaf. `make lies` plays thousands."""
    kinds: set[str] = set()
    for number in range(HISTORIES):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        history = play(26, number, folder)
        store = history.store
        for ledger in history.ledgers():
            kinds.update(ledger.kinds)
            tally = ledger.verify().tally
        assert tally.memories == len(store.names())
        assert tally.holds_in_force == len(store.holds())
        assert tally.requests_open == len(store.erasures())
        assert tally.entries_live == sum(len(store[name]) for name in store)
        assert (tally.mirrors, tally.mirrors_pending) == counted(store.mirrors())
        if number < 6:
            store.verify()
        discard(history)
    assert kinds == {*get_args(Kind), *get_args(Outcome)}


def counted(mirrors: list[AttachedMirror]) -> tuple[int, int]:
    """How many mirrors there are, and how many erasures they have not followed."""
    return len(mirrors), sum(mirror.erasures for mirror in mirrors)


def test_a_restored_table_is_the_one_that_was() -> None:
    """Random edits of a table, and restorations to earlier ones, against copies."""
    rng, table = random.Random(5), EntryTable()
    copies: list[tuple[dict[str, Entry], set[int], tuple[int, int]]] = []
    for edit in range(300):
        table.begin_edit()
        live = sorted(name for name, entry in table.now.items() if entry.status == "live")
        chosen = rng.sample(live, min(len(live), rng.randint(0, 3)))
        act = rng.choice(["admit", "archive", "forget", "erase", "restore"])
        if act == "restore" and edit > 3:
            target = rng.randrange(edit - 1)
            table.restore(target)
            assert (table.now, table.open_forgettings()) == copies[target][:2]
        elif act == "erase":
            table.end(table.forgettings_on(table.now[name] for name in chosen))
            for name in chosen:
                table.put(name, None)
        elif act in ("archive", "forget") and chosen:
            table.prune(chosen, forget=act == "forget")
        else:
            table.admit(f"{edit}")
        counted = Sizes(
            sum(entry.status == "live" for entry in table.now.values()),
            sum(entry.status != "live" for entry in table.now.values()),
        )
        assert table.sizes == counted
        assert table.certificates == sum(entry.anchor is not None for entry in table.now.values())
        copies.append((dict(table.now), table.open_forgettings(), table.live_set))
        assert all((copy[2] == table.live_set) or copy[0] != table.now for copy in copies)
