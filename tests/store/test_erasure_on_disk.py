"""After an erasure nothing of the entry is in the database's files: raw bytes are scanned, in every file there is.

Content is encrypted under the entry's salt (docs/guides/erasure-on-disk.md), so what proves an erasure is that the
salt is gone. Keys, values and payloads are looked for all the same. So are the tags of subjects, which would confirm a
guess at who was here: they are in no file at any time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from expunge import AdmissionRefused, Memory, VerificationError
from expunge.memory.snapshot import build_memory
from expunge.store import SignedReceipt, Store, StoredMemory, rows
from expunge.store.backends import tables
from expunge.store.edits import crash_points
from expunge.store.encryption import decrypt_entries, decrypt_state
from expunge.store.maintenance import integrity
from expunge.verify.ledger import verify_ledger

from .byte_search import admit_random, files_under, needles_of, random_memory, traces
from .conftest import Place


def readable_content(store: Store) -> dict[str, bytes]:
    """What a thief of the whole database can open: ids and payloads of what is there."""
    with store._database.reading() as connection:
        rows = connection.execute(
            select(tables.entries.c.content, tables.secrets.c.secret).join(
                tables.secrets, tables.secrets.c.number == tables.entries.c.number
            )
        )
        opened = decrypt_entries((row.secret, row.content) for row in rows)
    return {content.id: content.payload or b"" for content in opened}


@pytest.fixture
def sqlite_files(sqlite_place: Place, folder: Path) -> Callable[[], list[Path]]:
    return lambda: files_under(folder)


@pytest.fixture
def store(sqlite_place: Place) -> Store:
    return sqlite_place.open()


def test_the_scan_would_find_what_is_there(store: Store, sqlite_files: Callable[[], list[Path]]) -> None:
    """Salts are found while the entry lives, tags never; content is there too, encrypted, and opens under its salt."""
    memory = random_memory(store)
    names = list(memory.ids)
    needles = needles_of(memory, names)
    found = traces(sqlite_files(), needles)
    assert found == {f"salt of {name}" for name in names}
    assert readable_content(store) == {
        name: memory.version.entries.payloads[memory.version.slot(name) or 0] for name in names
    }


Erase = Callable[[Store, StoredMemory], object]
ERASURES: dict[str, Erase] = {
    "delete one": lambda _, memory: memory.delete(memory.ids[3]),
    "delete several": lambda _, memory: memory.delete(memory.ids[5:11]),
    "delete a subject": lambda _, memory: memory.delete(subject="patient-2-of-icu"),
    "erase a subject everywhere": lambda store, _: store.erase_subject("patient-2-of-icu", idempotency_key="k"),
    "forget": lambda _, memory: memory.prune("forget"),
    "forget, then delete": lambda _, memory: (memory.prune("forget"), memory.delete(memory.warranties()[0].id)),
    "archive, then delete": lambda _, memory: (memory.prune("archive"), memory.delete(subject="patient-1-of-icu")),
    "rebuild, then delete": lambda _, memory: (memory.prune(), memory.rebuild(nu=0.5), memory.delete(memory.ids[-1])),
    "drop": lambda store, _: store.drop("icu"),
    "delete all but five": lambda _, memory: memory.delete(memory.ids[5:]),
    "archive, then all but two": lambda _, memory: (
        memory.prune(),
        memory.delete([*memory.ids, *archived(memory)][2:]),
    ),
    "forget, then all but two": lambda _, memory: (memory.prune("forget"), memory.delete(memory.ids[2:])),
    "delete all": lambda _, memory: memory.delete(memory.ids),
    "archive, then delete all": lambda _, memory: (memory.prune(), memory.delete([*memory.ids, *archived(memory)])),
    "forget, then delete all": lambda _, memory: (memory.prune("forget"), memory.delete(memory.ids)),
    "delete all, and begin again": lambda _, memory: (memory.delete(memory.ids), memory.admit([1.0] * 4, [1.0, 2.0])),
}


def archived(memory: StoredMemory) -> list[str]:
    return list(memory.version.warranties.archive)


@pytest.mark.parametrize("erase", list(ERASURES.values()), ids=list(ERASURES))
@pytest.mark.parametrize("watched", [False, True], ids=["alone", "beside a reader"])
def test_nothing_of_an_erased_entry_is_in_the_files(
    sqlite_place: Place, sqlite_files: Callable[[], list[Path]], erase: Erase, watched: bool
) -> None:
    store = sqlite_place.open()
    random_memory(store, "other", seed=1)
    memory = random_memory(store)
    rng = np.random.default_rng(1)
    for _ in range(6):
        admit_random(memory, rng, far=3.0, subject="patient-2-of-icu")
    before = needles_of(memory, memory.ids)
    reader = sqlite_place.open()["icu"] if watched else None
    if reader is not None:
        assert len(reader) == len(memory)
    erase(store, memory)
    left: set[str] = set()
    if "icu" in store:
        left = {*memory.ids, *memory.version.warranties.archive}
    erased = {what: needle for what, needle in before.items() if what.split(" of ")[1] not in left}
    assert erased
    assert traces(sqlite_files(), erased) == set()
    staying = {what: needle for what, needle in before.items() if what not in erased and what.startswith("salt")}
    assert traces(sqlite_files(), staying) == set(staying)
    # Not the names either, once nothing needs them any more.
    known = {row.id for row in memory.warranties()} | left if "icu" in store else set()
    names = {name: name.encode() for name in {what.split(" of ")[1] for what in erased} - known}
    assert traces(sqlite_files(), names) == set()
    store.verify()


def test_nothing_is_left_that_a_mark_of_an_erased_subject_hangs_on(
    store: Store, sqlite_files: Callable[[], list[Path]]
) -> None:
    """Stale marks may stay in pages. They confirm nothing without the secrets of their rows, records included."""
    memory = random_memory(store)
    memory.prune("forget")
    rng = np.random.default_rng(1)
    for _ in range(12):
        admit_random(memory, rng, far=3.0)
    memory.delete(memory.ids[0])
    before = marked(store)
    assert traces(sqlite_files(), before) == set(before)
    assert store.erase_subject("patient-2-of-icu").complete
    left = set(marked(store).values())
    gone = {what: secret for what, secret in before.items() if secret not in left}
    assert {what.split()[0] for what in gone} == {"expunge_entries", "expunge_forgotten"}
    assert traces(sqlite_files(), gone) == set()
    store.verify()


def marked(store: Store) -> dict[str, bytes]:
    """Secrets of the rows that have a mark."""
    found: dict[str, bytes] = {}
    with store._database.reading() as connection:
        for table in (tables.entries, tables.forgotten):
            rows = connection.execute(
                select(table.c.number, tables.secrets.c.secret)
                .join(tables.secrets, tables.secrets.c.number == table.c.number)
                .where(table.c.mark.is_not(None))
            )
            found |= {f"{table.name} {row.number}": bytes(row.secret) for row in rows}
    return found


def test_content_that_was_refused_is_nowhere(
    store: Store, sqlite_files: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = random_memory(store)
    key, value, payload = np.full(4, 1 / 3), np.array([1 / 7, 1 / 11]), secrets.token_bytes(5000)
    needles = {"key": key.tobytes(), "value": value.tobytes(), "payload": payload}

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("injected")

    with monkeypatch.context() as patch:
        for target in (
            "expunge.solver.path.admit",
            "expunge.memory.pending_edit.fit",
            "expunge.solver.backends.solve_reference",
        ):
            patch.setattr(target, broken)
        with pytest.raises(AdmissionRefused):
            memory.admit(4.0 * key, value, payload=payload)
    assert traces(sqlite_files(), needles) == set()
    store.verify()


class Stopped(Exception):
    """Raised at a point."""


@pytest.fixture
def stop_at() -> Iterator[Callable[[str], None]]:
    def arm(point: str) -> None:
        def listener(reached: str) -> None:
            if reached == point:
                raise Stopped(point)

        crash_points.set_hook(listener)

    yield arm
    crash_points.set_hook(None)


BEFORE_THE_COMMIT = crash_points.CRASH_POINTS[: crash_points.CRASH_POINTS.index("committed")]


@pytest.mark.parametrize("point", BEFORE_THE_COMMIT)
def test_content_of_an_admission_that_failed_is_nowhere(
    store: Store, sqlite_files: Callable[[], list[Path]], stop_at: Callable[[str], None], point: str
) -> None:
    """Rolled back at any point, also one so large that its pages would be spilled."""
    memory = random_memory(store)
    size, digest = store.size, memory.digest
    payload = secrets.token_bytes(3_000_000)
    stop_at(point)
    with pytest.raises(Stopped):
        memory.admit(np.full(4, 1 / 3), np.array([1 / 7, 1 / 11]), payload=payload)
    crash_points.set_hook(None)
    files = sqlite_files()
    assert traces(files, {"payload": payload, "key": np.full(4, 1 / 3).tobytes()}) == set()
    assert sum(file.stat().st_size for file in files) < 2_000_000
    assert (store.size, memory.digest) == (size, digest)
    memory.admit(np.full(4, 1 / 3), np.array([1 / 7, 1 / 11]))
    store.verify()


@pytest.mark.parametrize("seed", range(4))
def test_a_long_life_leaves_no_trace(sqlite_place: Place, sqlite_files: Callable[[], list[Path]], seed: int) -> None:
    """Pages split and merge, entries of all sizes come and go: nothing that is gone is anywhere."""
    rng = np.random.default_rng(seed)
    store = sqlite_place.open()
    memory = random_memory(store, dimension=(2, 4, 12, 48)[seed], seed=seed)
    gone: dict[str, bytes] = {}
    for _ in range(40):
        choice = rng.random()
        if choice < 0.6:
            for _ in range(int(rng.integers(1, 4))):
                admit_random(
                    memory, rng, payload=int(rng.choice([0, 20, 300, 9000])), far=float(rng.choice([0.2, 1.0, 3.0]))
                )
        elif choice < 0.9:
            room = min(6, memory.deletable - 2)
            if room > 0:
                names = rng.choice(memory.ids, size=int(rng.integers(1, room + 1)), replace=False).tolist()
                gone |= needles_of(memory, names)
                memory.delete(names)
        else:
            before = needles_of(memory, memory.ids)
            for name in memory.prune("forget" if rng.random() < 0.5 else "archive").applied:
                if name not in memory.version.warranties.archive:
                    gone |= {what: needle for what, needle in before.items() if what.endswith(name)}
    assert len(gone) > 40
    assert traces(sqlite_files(), gone) == set()
    store.vacuum()
    assert traces(sqlite_files(), gone) == set()
    store.verify()
    store.close()
    assert traces(sqlite_files(), gone) == set()


def test_coefficients_of_earlier_states_are_nowhere(store: Store, sqlite_files: Callable[[], list[Path]]) -> None:
    """Beside the remaining keys, the exact weights of a state give away a key that was part of it."""
    memory = random_memory(store)
    old: dict[str, bytes] = {}
    states: list[bytes] = []
    secrets_of = select(tables.secrets.c.secret)
    for step in range(10):
        view = memory.version
        margin = view.state.alpha[view.state.margin.members]
        old[f"weights at {step}"] = margin.tobytes()
        with store._database.reading() as connection:
            states.append(bytes(connection.execute(select(tables.states.c.state)).scalar_one()))
            # It opens under the secrets of its own time, and under no others.
            assert decrypt_state(b"".join(connection.execute(secrets_of).scalars()), states[-1])
        # The last two leave too few for the cap, and none.
        few = {8: memory.ids[3:], 9: memory.ids}
        memory.delete(few.get(step) or memory.ids[int(memory.partition.bound[0])])
        with store._database.reading() as connection:
            for state in states:
                with pytest.raises(VerificationError):
                    decrypt_state(b"".join(connection.execute(secrets_of).scalars()), state)
    assert len(memory) == 0
    assert traces(sqlite_files(), old) == set()


def test_requests_keep_no_names(store: Store, sqlite_files: Callable[[], list[Path]]) -> None:
    memory = random_memory(store)
    rng = np.random.default_rng(0)
    name = admit_random(memory, rng, idempotency_key="come", subject="somebody-in-particular")
    memory.delete(name, idempotency_key="go")
    needles = {"id": name.encode(), "subject": b"somebody-in-particular", "key": b"come-and-go"}
    assert traces(sqlite_files(), needles) == set()


def test_a_hold_leaves_no_terms_behind(store: Store, sqlite_files: Callable[[], list[Path]]) -> None:
    random_memory(store)
    reason = f"reason {secrets.token_hex(20)}"
    hold = store.hold("icu", subject="somebody-in-particular", reason=reason)
    store.release(hold)
    assert traces(sqlite_files(), {"reason": reason.encode(), "subject": b"somebody-in-particular"}) == set()
    store.verify()


def test_a_reader_that_stays_delays_the_truncation_and_no_more(
    sqlite_place: Place, sqlite_files: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot held open pins the old log; the erasure counts at once and its traces go with the next."""
    monkeypatch.setattr("expunge.store.backends.sqlite._TRUNCATE_WAIT", 0.1)
    store, other = sqlite_place.open(), sqlite_place.open()
    memory = random_memory(store)
    first, second = memory.ids[3], memory.ids[4]
    needles = needles_of(memory, [first, second])
    with other._database.reading() as connection:
        connection.execute(select(tables.memories)).all()
        receipt = memory.delete(first, idempotency_key="k")
        assert receipt.applied == (first,)
        assert f"salt of {first}" in traces(sqlite_files(), needles)
        # The answer says so, and so does the same answer once more; the signed receipt does not.
        assert "reader" in (receipt.waiting or "")
        assert "reader" in (memory.delete(first, idempotency_key="k").waiting or "")
        assert b"reader" not in receipt.envelope
        store.retry_erasures()
        assert store.erasures_waiting() == (1, receipt.waiting)
    receipt = memory.delete(second)
    assert receipt.waiting is None
    assert store.waiting() is None
    assert memory.delete(first, idempotency_key="k").waiting is None
    assert traces(sqlite_files(), needles) == set()


@pytest.mark.parametrize("what", ["delete", "erase_subject", "drop"])
def test_a_delayed_erasure_is_completed_without_another_edit(
    sqlite_place: Place, sqlite_files: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("expunge.store.backends.sqlite._TRUNCATE_WAIT", 0.1)
    store, other = sqlite_place.open(), sqlite_place.open()
    memory = random_memory(store)
    subject = "patient-2-of-icu"
    needles = needles_of(
        memory, [name for name, owner in zip(memory.ids, memory.subjects, strict=True) if owner == subject]
    )
    with other._database.reading() as connection:
        connection.execute(select(tables.memories)).all()
        if what == "delete":
            assert memory.delete(subject=subject).waiting
        elif what == "erase_subject":
            assert store.erase_subject(subject).waiting
        else:
            store.drop("icu")
        assert store.waiting()
    assert traces(sqlite_files(), needles)
    store.retry_erasures()
    assert store.waiting() is None
    assert traces(sqlite_files(), needles) == set()


def test_a_verification_holds_no_transaction_while_it_computes(
    store: Store, sqlite_files: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may verify cannot keep the write-ahead log, and with it a salt, by verifying again and again."""
    memory = random_memory(store)
    name = memory.ids[3]
    needles = needles_of(memory, [name])
    receipts = []

    def slow(*args: Any, **options: Any) -> Any:
        receipts.append(memory.delete(name))
        assert traces(sqlite_files(), needles) == set()
        return verify_ledger(*args, **options)

    monkeypatch.setattr(integrity, "verify_ledger", slow)
    assert store.verify().entries == len(memory) + 1
    assert [receipt.applied for receipt in receipts] == [(name,)]
    assert receipts[0].waiting is None


def test_loading_a_memory_holds_no_transaction_while_it_computes(
    sqlite_place: Place, sqlite_files: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.store.backends.sqlite._TRUNCATE_WAIT", 0.1)
    store, other = sqlite_place.open(), sqlite_place.open()
    memory = random_memory(store)
    name = memory.ids[3]
    needles = needles_of(memory, [name])
    reader = other["icu"]
    receipts: list[SignedReceipt] = []

    def slow(*args: Any, **options: Any) -> Memory:
        if not receipts:
            receipts.append(memory.delete(name))
        return build_memory(*args, **options)

    monkeypatch.setattr(rows, "build_memory", slow)
    assert reader.ids
    assert receipts[0].waiting is None
    assert traces(sqlite_files(), needles) == set()
    assert name not in reader.ids


def test_a_process_that_died_before_the_cut_leaves_it_to_the_next(
    sqlite_place: Place, sqlite_files: Callable[[], list[Path]], stop_at: Callable[[str], None]
) -> None:
    store = sqlite_place.open()
    memory = random_memory(store)
    name = memory.ids[3]
    needles = needles_of(memory, [name])
    stop_at("committed")
    with pytest.raises(Stopped):
        memory.delete(name)
    crash_points.set_hook(None)
    assert traces(sqlite_files(), needles) == {f"salt of {name}"}
    assert name not in memory
    sqlite_place.open()
    assert traces(sqlite_files(), needles) == set()
    store.verify()
