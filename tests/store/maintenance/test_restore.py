"""What comes back from a backup, and what must not."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest

import expunge
from expunge import DeletionRefused, StoreError, VerificationError
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import SigningKey
from expunge.store import Store, parse_event
from expunge.verify.ledger import verify_ledger

from ..byte_search import files_under, needles_of, traces
from ..conftest import Place
from ..postgres_server import Server
from ..sample_memory import SIGMA, appearance, arrival, entries, fill


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    """Somewhere else to restore to, with the same signing key."""
    if request.param == "sqlite":
        (folder / "new").mkdir()
        place = Place("sqlite", f"sqlite:///{folder / 'new' / 'ward.db'}", folder / "ward.pem")
    else:
        server: Server = request.getfixturevalue("server")
        place = Place("postgresql", server.new_schema(), folder / "ward.pem")
    yield place
    place.close()


def test_holds_and_drops_name_the_state_that_came_back(place: Place, new_place: Place, folder: Path) -> None:
    """Neither loads the memory: what they say of it is what the restoration said, not what was lost."""
    store = place.open()
    memory = fill(store)
    hold = store.hold("icu", "e5", reason="court")
    store.backup(folder / "copy.db")
    memory.admit(**arrival(1, far=3.0))
    with new_place.open() as fresh:
        assert fresh.restore(folder / "copy.db", ledger=store).edits_lost == 1
        digest = fresh["icu"].digest
        assert digest != memory.digest
        assert parse_event(fresh.release(hold).statement).subject.sha256 == digest
        assert parse_event(fresh.drop("icu", expected=digest).statement).subject.sha256 == digest
        fresh.verify()


def test_a_backup_brings_everything_back(place: Place, new_place: Place, folder: Path) -> None:
    store = place.open(origin="ledger.example/ward")
    memory = fill(store)
    memory.prune("archive", sketch=1)
    memory.admit(**arrival(1, far=3.0))
    other = fill(store, "other", seed=1)
    other.prune("forget")
    answer = other.delete(other.ids[0], idempotency_key="k")
    hold = store.hold("icu", "e5", reason="court")
    head = store.checkpoint()
    store.backup(folder / "copy.db")
    assert (folder / "copy.db").stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in folder.glob("copy.db*")) == ["copy.db"]
    fresh = new_place.open()
    restored = fresh.restore(folder / "copy.db")
    assert restored.memories == ("icu", "other")
    assert (restored.erased_again, restored.dropped, restored.lost, restored.edits_lost) == ({}, (), {}, 0)
    assert restored.holds_lost == 0
    for name in store:
        assert appearance(fresh[name]) == appearance(store[name])
        assert (fresh[name].digest, fresh[name].edit) == (store[name].digest, store[name].edit)
    assert [leaf.envelope for leaf in fresh.receipts()] == [leaf.envelope for leaf in store.receipts()]
    assert (fresh.uuid, fresh.origin, fresh.checkpoint()) == (store.uuid, store.origin, head)
    assert fresh["other"].delete(answer.applied[0], idempotency_key="k") == answer
    assert fresh.holds() == [hold]
    with pytest.raises(DeletionRefused, match="court"):
        fresh["icu"].delete("e5")
    assert fresh.verify().entries == len(memory) + len(other)
    # It goes on like any other store, also when opened anew.
    again = new_place.open()
    again.release(hold)
    again["icu"].delete(subject="patient-3")
    again.erase_subject("patient-4")
    again.verify()


def test_erasures_since_the_backup_are_applied_again(place: Place, new_place: Place, folder: Path) -> None:
    """By a newer ledger, from the store itself or a file; matched by commitment; erased content is never written."""
    store = place.open()
    memory = fill(store)
    fill(store, "gone", seed=1)
    fill(store, "calm", seed=2)
    archive = fill(store, "archive", seed=3)
    archive.prune("archive")
    forgets = fill(store, "forgets", seed=4)
    forgets.prune("forget")
    held = store.hold("icu", subject="patient-1", reason="court")
    salts = {name: needle for name, needle in needles_of(memory, memory.ids).items() if name.startswith("salt")}
    store.backup(folder / "copy.db")
    # Life goes on.
    memory.admit(**arrival(1, far=3.0))
    memory.delete(["e5", "e7"])
    store.release(held)
    memory.delete(subject="patient-1")
    cold = archive.warranties()[0].id
    archive.delete(cold)
    forgotten = [row.id for row in forgets.warranties()][:2]
    forgets.delete(forgotten)
    store["calm"].prune("archive")
    store["calm"].rebuild(nu=0.5)
    reserve = store["icu"].prune("forget").applied
    store.hold("calm", subject="patient-2", reason="too late")
    store.drop("gone")
    erased = {name for name in entries()["ids"] if name not in memory and name not in reserve}
    digests = {name: store[name].digest for name in store}
    head = store.export_ledger(folder / "ledger.jsonl")
    fresh = new_place.open()
    restored = fresh.restore(folder / "copy.db", ledger=folder / "ledger.jsonl", checkpoint=head)
    assert restored.memories == ("archive", "calm", "forgets", "icu")
    assert restored.dropped == ("gone",)
    assert set(restored.erased_again["icu"]) == erased | set(reserve)
    assert restored.erased_again["archive"] == (cold,)
    assert set(restored.erased_again["forgets"]) == set(forgotten)
    assert set(restored.erased_again) == {"icu", "archive", "forgets"}
    assert restored.edits_lost == 4
    assert fresh["calm"].cap != store["calm"].cap
    assert fresh.holds() == []
    assert restored.holds_lost == 1
    for name in erased:
        assert name not in fresh["icu"]
    assert {row.id for row in fresh["forgets"].warranties()}.isdisjoint(forgotten)
    # Archiving was undone, because it erased nothing; the ledger says so.
    assert fresh["calm"].digest != digests["calm"]
    kinds = [leaf.kind for leaf in fresh.receipts("calm")]
    assert kinds == ["created", "pruned", "rebuilt", "held", "restored", "released"]
    assert parse_predicate(fresh.receipts("calm")[-2].statement).state_before == digests["calm"]
    assert parse_event(fresh.receipts("calm")[-1].statement).subject.sha256 == fresh["calm"].digest
    fresh.verify()
    verify_ledger(
        [leaf.envelope for leaf in fresh.receipts()],
        fresh.checkpoint().to_bytes(),
        [store.public_key],
        [store.log_key],
        store.origin,
    )
    if new_place.kind == "sqlite":
        gone = {what: needle for what, needle in salts.items() if what.split(" of ")[1] not in fresh["icu"]}
        assert traces(files_under(folder / "new"), gone) == set()
    # The same from the store itself, had it survived.
    second = folder / "second"
    second.mkdir()
    with expunge.open(f"sqlite:///{second / 'ward.db'}", folder / "ward.pem") as other:
        assert other.restore(folder / "copy.db", ledger=store).erased_again == restored.erased_again
        assert other["icu"].ids == fresh["icu"].ids
        other.verify()


@pytest.mark.parametrize("mode", ["archive", "forget"])
def test_what_was_erased_before_the_backup_does_not_count_as_back(
    sqlite_place: Place, folder: Path, mode: Literal["archive", "forget"]
) -> None:
    """The digest of a state does not tell whether a pruned entry was erased; the restored edit does."""
    store = sqlite_place.open()
    memory = fill(store)
    memory.prune(mode)
    receipt = memory.delete(memory.warranties()[0].id)
    assert receipt.state_before == receipt.state_after
    edit = memory.edit
    store.backup(folder / "copy.db")
    memory.admit(**arrival(1))
    with expunge.open(f"sqlite:///{folder / 'second.db'}", folder / "ward.pem") as second:
        assert second.restore(folder / "copy.db", ledger=store).erased_again == {}
        assert parse_predicate(second.receipts("icu")[-1].statement).restored_edit == edit
        second.verify()
        second.backup(folder / "later.db")
        with expunge.open(f"sqlite:///{folder / 'third.db'}", folder / "ward.pem") as third:
            third.restore(folder / "later.db", ledger=second)
            third.verify()


def test_an_older_backup_and_then_a_newer_one(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    memory = fill(store)
    store.backup(folder / "monday.db")
    memory.delete("e3")
    store.backup(folder / "tuesday.db")
    memory.admit(**arrival(1))
    with (
        expunge.open(f"sqlite:///{folder / 'second.db'}", folder / "ward.pem") as second,
        expunge.open(f"sqlite:///{folder / 'third.db'}", folder / "ward.pem") as third,
    ):
        assert second.restore(folder / "monday.db", ledger=store).erased_again == {"icu": ("e3",)}
        assert third.restore(folder / "tuesday.db", ledger=second).erased_again == {}
        third.verify()


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_of_backups_and_restores(sqlite_place: Place, folder: Path, seed: int) -> None:
    """Whatever is restored, in whatever order: the log verifies, and no erased entry is there."""
    rng = random.Random(seed)
    store = sqlite_place.open()
    fill(store, size=25)
    backups: list[Path] = []
    erased: set[str] = set()
    with ExitStack() as opened:
        for step in range(30):
            memory = store["icu"]
            pruned = [row.id for row in memory.warranties()]
            match rng.choice(["admit", "admit", "delete", "prune", "prune", "backup", "backup", "restore", "restore"]):
                case "admit":
                    memory.admit(**arrival(step))
                case "delete" if pruned or len(memory) > 15:
                    name = rng.choice(pruned or memory.ids)
                    memory.delete(name)
                    erased.add(name)
                case "prune":
                    memory.prune(rng.choice(["archive", "forget"]))
                case "backup":
                    backups.append(folder / f"copy-{step}.db")
                    store.backup(backups[-1])
                case "restore" if backups:
                    fresh = expunge.open(f"sqlite:///{folder / f'ward-{step}.db'}", folder / "ward.pem")
                    opened.enter_context(fresh).restore(rng.choice(backups), ledger=store)
                    store = fresh
                    assert erased.isdisjoint({*store["icu"].ids, *(row.id for row in store["icu"].warranties())})
                    store.verify()
        store.verify()


@pytest.mark.parametrize("mode", [None, "archive", "forget"])
def test_a_memory_that_its_erasures_leave_too_small_comes_back_at_a_larger_cap(
    place: Place, new_place: Place, folder: Path, mode: Literal["archive", "forget"] | None
) -> None:
    """All but five of 20 were erased since, and in another memory all: neither is lost."""
    store = place.open()
    memory = store.create("icu", **entries(20), sigma=SIGMA, nu=0.8)
    emptied = fill(store, "emptied", size=9, seed=1)
    if mode is not None:
        memory.prune(mode)
        emptied.prune(mode)
    store.backup(folder / "copy.db")
    for number in range(15):
        memory.admit(**arrival(number))
        memory.delete(f"e{number}")
    emptied.delete([*emptied.ids, *(row.id for row in emptied.warranties())])
    fresh = new_place.open()
    restored = fresh.restore(folder / "copy.db", ledger=store)
    assert (restored.memories, restored.lost) == (("emptied", "icu"), {})
    assert set(restored.erased_again["icu"]) == {f"e{number}" for number in range(15)}
    assert len(restored.erased_again["emptied"]) == 9
    assert [fresh.receipts(name)[-1].kind for name in ("icu", "emptied")] == ["refitted", "emptied"]
    left = set(fresh["icu"].ids) | {row.id for row in fresh["icu"].warranties()}
    assert left == {f"e{number}" for number in range(15, 20)}
    assert fresh["icu"].cap > memory.cap
    assert (len(fresh["emptied"]), fresh["emptied"].warranties()) == (0, [])
    fresh.verify()
    fresh["emptied"].admit(**arrival(1))
    new_place.open().verify()


def test_an_empty_memory_is_backed_up_and_restored(place: Place, new_place: Place, folder: Path) -> None:
    store = place.open()
    fill(store).delete(subject="patient-1")
    store["icu"].delete(store["icu"].ids)
    store.backup(folder / "copy.db")
    store["icu"].admit(**arrival(1))
    fresh = new_place.open()
    restored = fresh.restore(folder / "copy.db", ledger=store)
    assert (restored.memories, restored.erased_again, restored.edits_lost) == (("icu",), {}, 1)
    assert (len(fresh["icu"]), fresh["icu"].dimension) == (0, 4)
    fresh["icu"].admit(**arrival(2))
    fresh.verify()


def test_a_memory_made_after_the_backup_is_gone_and_the_ledger_says_so(
    place: Place, new_place: Place, folder: Path
) -> None:
    store = place.open()
    fill(store)
    store.backup(folder / "copy.db")
    fill(store, "late", seed=1).delete("e3")
    store.hold("late", subject="patient-1", reason="court")
    fill(store, "brief", seed=2)
    store.drop("brief")
    late = store["late"]
    with new_place.open() as fresh:
        restored = fresh.restore(folder / "copy.db", ledger=store)
        assert restored.memories == ("icu",)
        assert restored.edits_lost == 2
        last = fresh.receipts()[-1]
        assert (last.kind, last.memory) == ("dropped", late.uuid)
        assert parse_event(last.statement).subject.sha256 == late.digest
        assert fresh.verify().memories == 1
        fill(fresh, "late", seed=3)
        assert fresh.verify().memories == 2


@pytest.mark.parametrize("at_once", [False, True])
def test_more_erasures_than_a_receipt_names_are_applied_again(
    sqlite_place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """Lists that are too long for their receipt follow it in parts, and are found there."""
    for module in ("attestation.statements", "ledger.event"):
        monkeypatch.setattr(f"expunge.{module}.MAX_LISTED", 3)
    store = sqlite_place.open()
    memory = fill(store)
    store.backup(folder / "copy.db")
    names = [f"e{number}" for number in range(7)]
    for some in [names] if at_once else names:
        memory.delete(some)
    assert [leaf.kind for leaf in store.receipts()].count("listed") == 14 + 3 * at_once
    with expunge.open(f"sqlite:///{folder / 'new.db'}", folder / "ward.pem") as fresh:
        assert sorted(fresh.restore(folder / "copy.db", ledger=store).erased_again["icu"]) == names
        assert [leaf.kind for leaf in fresh.receipts()].count("restored") == 1
        assert set(names).isdisjoint(fresh["icu"].ids)
        fresh.verify()
    store.verify()


def _cut(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


def _tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def _swap(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[0], lines[1] = lines[1], lines[0]
    path.write_bytes(b"".join(lines))


def _forge(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b'"sig":"', b'"sig":"AAAA')
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("harm", [_cut, _tear, _swap, _forge], ids=["cut", "torn", "swapped", "forged"])
def test_a_ledger_that_does_not_hold_up_is_refused(sqlite_place: Place, folder: Path, harm: Any) -> None:
    store = sqlite_place.open()
    memory = fill(store)
    store.backup(folder / "copy.db")
    memory.delete("e5")
    memory.delete("e6")
    head = store.export_ledger(folder / "ledger.jsonl")
    harm(folder / "ledger.jsonl")
    (folder / "new").mkdir()
    with expunge.open(f"sqlite:///{folder / 'new' / 'ward.db'}", folder / "ward.pem") as fresh:
        with pytest.raises(VerificationError):
            fresh.restore(folder / "copy.db", ledger=folder / "ledger.jsonl", checkpoint=head)
        # Nothing was taken over, and it can be tried again.
        assert fresh.names() == []
        assert fresh.size == 0
        fresh.restore(folder / "copy.db", ledger=store, checkpoint=head)
        assert "e6" not in fresh["icu"]


def test_what_cannot_be_restored_says_why(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    fill(store)
    store.backup(folder / "copy.db")
    with pytest.raises(StoreError, match="never overwritten"):
        store.backup(folder / "copy.db")
    with pytest.raises(StoreError, match="cannot write"):
        store.backup(folder / "nowhere" / "copy.db")
    with pytest.raises(StoreError, match="never overwritten"):
        store.backup("/")
    store.export_ledger(folder / "ledger.jsonl")
    with pytest.raises(StoreError, match="never overwritten"):
        store.export_ledger(folder / "ledger.jsonl")
    with pytest.raises(StoreError, match="cannot write"):
        store.export_ledger(folder / "nowhere" / "ledger.jsonl")
    with pytest.raises(StoreError, match="into an empty one"):
        store.restore(folder / "copy.db")
    (folder / "junk.db").write_bytes(b"not a database" * 100)
    (folder / "empty.db").write_bytes(b"")
    shutil.copy(folder / "copy.db", folder / "open.db")
    (folder / "open.db-wal").write_bytes(b"x")

    def fresh(name: str, **options: Any) -> Store:
        (folder / name).mkdir()
        return expunge.open(f"sqlite:///{folder / name / 'ward.db'}", **options)

    with fresh("a", signing_key=SigningKey.generate()) as stranger, pytest.raises(StoreError, match="another key"):
        stranger.restore(folder / "copy.db")
    with fresh("b", signing_key=folder / "ward.pem") as target:
        for name, complaint in (
            ("missing.db", "no backup"),
            ("junk.db", "not a database"),
            ("empty.db", "schema None"),
            ("open.db", "in use"),
        ):
            with pytest.raises(StoreError, match=complaint):
                target.restore(folder / name)
        with pytest.raises(StoreError, match="cannot read"):
            target.restore(folder / "copy.db", ledger=folder / "missing.jsonl")
        with fresh("c") as other:
            fill(other)
            with pytest.raises(VerificationError, match="does not extend"):
                target.restore(folder / "copy.db", ledger=other)
        assert target.restore(folder / "copy.db").memories == ("icu",)


def test_a_hold_placed_after_the_backup_does_not_give_its_number_to_another(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    fill(store)
    store.backup(folder / "copy.db")
    lost = store.hold("icu", "e5", reason="court")
    with expunge.open(f"sqlite:///{folder / 'new.db'}", folder / "ward.pem") as fresh:
        assert fresh.restore(folder / "copy.db", ledger=store).holds_lost == 1
        assert fresh.hold("icu", "e5", reason="court").number > lost.number
        fresh.verify()
