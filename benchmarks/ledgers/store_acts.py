"""What is done to a real store in a random history, act by act.

Deletions leave as many entries as the cap needs, fewer (the memory is refitted), or none (it is emptied).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import numpy as np

from expunge import Memory
from expunge.errors import StoreError
from expunge.ledger.event import KeyUse
from expunge.ledger.signing import SigningKey
from expunge.mirrors.address import Address
from expunge.store import Store

from .store_history import SUBJECTS, StoreHistory

__all__ = ["ACTS"]

USES: Final[tuple[KeyUse, ...]] = ("receipts", "heads")


def create(history: StoreHistory) -> None:
    rng, count = history.rng, history.rng.choice([0, 1, 2, *range(4, 10), *range(4, 10)])
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    name = f"m{history.number()}"
    history.store.create(
        name,
        numbers.standard_normal((count, 2)),
        numbers.standard_normal((count, 1)),
        sigma=rng.choice([1.0, 2.0, 5.0]),
        nu=rng.uniform(0.3, 0.8),
        ids=[f"{name}-{row}" for row in range(count)],
        subjects=[rng.choice(SUBJECTS) for _ in range(count)],
        **history.asked(),
    )


def admit(history: StoreHistory) -> None:
    rng = history.rng
    far = rng.choice([0.3, 1.0, 6.0])
    history.memory().admit(
        [far * rng.gauss(0.0, 1.0), far * rng.gauss(0.0, 1.0)],
        rng.gauss(0.0, 1.0),
        id=f"n{history.number()}",
        subject=rng.choice(SUBJECTS),
        expires=rng.choice([None, None, history.now + timedelta(days=rng.randint(1, 20))]),
        derived_from=history.sources(),
        on_expiry=rng.choice(["report", "report", "refuse"]),
        idempotency_key=rng.choice([None, f"k{history.number()}"]),
        **history.asked(),
    )


def admit_many(history: StoreHistory) -> None:
    rng, count = history.rng, history.rng.randint(0, 4)
    history.memory().admit_many(
        np.array([[rng.gauss(0.0, 1.0), rng.gauss(0.0, 1.0)] for _ in range(count)]).reshape(count, 2),
        np.array([[rng.gauss(0.0, 1.0)] for _ in range(count)]).reshape(count, 1),
        ids=[f"n{history.number()}" for _ in range(count)],
        subjects=[rng.choice(SUBJECTS) for _ in range(count)],
        on_expiry=rng.choice(["report", "report", "refuse"]),
        **history.asked(),
    )


def delete(history: StoreHistory) -> None:
    memory, rng = history.memory(), history.rng
    names = history.ids(memory)
    memory.delete(rng.sample(names, min(rng.randint(1, 3), len(names))), **history.asked())


def delete_most(history: StoreHistory) -> None:
    memory, rng = history.memory(), history.rng
    names = history.ids(memory)
    if names:
        memory.delete(rng.sample(names, rng.randint(len(names) // 2, len(names))), **history.asked())


def repeat(history: StoreHistory) -> None:
    memory = history.memory()
    if names := history.ids(memory):
        name, key = history.rng.choice(names), f"k{history.number()}"
        first = memory.delete(name, idempotency_key=key)
        assert memory.delete(name, idempotency_key=key) == first


def archive(history: StoreHistory) -> None:
    history.memory().prune("archive")


def forget(history: StoreHistory) -> None:
    history.memory().prune("forget", sketch=history.rng.randint(0, 1))


def rebuild(history: StoreHistory) -> None:
    memory, rng = history.memory(), history.rng
    if memory.version.size:
        nu = rng.choice([None, rng.uniform(0.3, 0.8)])
        memory.rebuild(nu=nu, sigma=rng.choice(["auto", rng.uniform(0.5, 4.0), *([] if nu is None else [None])]))


def hold(history: StoreHistory) -> None:
    memory = history.memory()
    if memory.ids and history.rng.random() < 0.5:
        history.store.hold(memory.name, history.rng.choice(history.ids(memory)), reason="court")
    else:
        history.store.hold(memory.name, subject=history.rng.choice(["ada", "bo"]), reason="court")


def release(history: StoreHistory) -> None:
    if placed := history.store.holds():
        history.store.release(history.rng.choice(placed))


def drop(history: StoreHistory) -> None:
    # Refused where the memory has a hold.
    history.store.drop(history.memory().name, **history.asked())


def erase_subject(history: StoreHistory) -> None:
    rng = history.rng
    subject = rng.choice(["ada", "bo", "cy"])
    found = [history.store[name] for name in history.store if history.store[name].has_subject(subject)]
    key = f"k{history.number()}"
    if found and rng.random() < 0.4:
        # One memory fails, and the request is tried again.
        broken = rng.choice(found)

        def fail(*_: object, **__: object) -> None:
            raise StoreError("the disk is full")

        broken.__dict__["erase_part"] = fail
        try:
            history.store.erase_subject(subject, idempotency_key=key)
        finally:
            del broken.__dict__["erase_part"]
    history.store.erase_subject(subject, idempotency_key=key)


def erase_later(history: StoreHistory) -> None:
    rng = history.rng
    history.store.erase_subject(
        rng.choice(["ada", "bo", "cy"]), after=timedelta(days=rng.randint(1, 30)), **history.asked()
    )


def cancel(history: StoreHistory) -> None:
    if waiting := history.store.erasures():
        history.store.cancel_erasure(history.rng.choice(waiting).leaf, **history.asked())


def wait(history: StoreHistory) -> None:
    """Some are due; those for which there is a hold are held back. Some entries have ended."""
    history.now += timedelta(days=history.rng.randint(1, 40))
    history.store.carry_out_erasures()
    if history.rng.random() < 0.6:
        history.store.retain(**history.asked())


def release_all(history: StoreHistory) -> None:
    """What was held back is carried out."""
    for placed in history.store.holds():
        history.store.release(placed)
    history.store.carry_out_erasures()


def rotate_key(history: StoreHistory) -> None:
    new, use = SigningKey.from_seed(history.rng.randbytes(32)), history.rng.choice(USES)
    old = history.key if use == "receipts" else history.head_key
    history.store.add_key(new.public, use)
    history.store.close()
    if use == "receipts":
        history.key = new
    else:
        history.head_key = new
    history.open_store()
    if history.rng.random() < 0.7:
        history.store.revoke_key(old.public, use, history.rng.choice(["rotated", "lost", "compromised"]))


def attach_mirror(history: StoreHistory) -> None:
    """A mirror of one memory, or of all."""
    folder = history.folder / f"mirror-{history.number()}"
    folder.mkdir()
    name = history.rng.choice([None, history.memory().name])
    history.store.mirror(f"qdrant://{folder}", memory=name, **history.asked())


def sync_mirrors(history: StoreHistory) -> None:
    """Some systems go down or come up, some have a part restored by somebody else, and all get what is owed."""
    rng = history.rng
    for mirror in history.store.mirrors():
        folder = Address.of(mirror.url).folder
        for word in ("down", "keeps"):
            (folder / word).unlink(missing_ok=True)
            if rng.random() < 0.2:
                (folder / word).touch()
    history.store.sync_mirrors()
    for mirror in history.store.mirrors():
        history.store.check_mirror(mirror.leaf, delete=rng.random() < 0.5)


def remove_mirror(history: StoreHistory) -> None:
    if mirrors := history.store.mirrors():
        history.store.remove_mirror(history.rng.choice(mirrors).leaf, **history.asked())


def erase_cases(history: StoreHistory) -> None:
    """What opens the commitments to some cases goes; no leaf tells of it."""
    history.store.erase_cases(case=f"DSR-{history.rng.randint(1, 9)}")


def move(history: StoreHistory) -> None:
    """Take every memory over to a new store by files, as from a store of another version; its ledger begins anew."""
    old = history.store
    history.left.append(history.written())
    for name in old:
        old[name].save(history.folder / f"{name}.memory")
    history.key = SigningKey.from_seed(history.rng.randbytes(32))
    history.backup = None
    history.open_new()
    try:
        _take_over(history, old)
    finally:
        old.close()


def _take_over(history: StoreHistory, old: Store) -> None:
    for name in old:
        memory = Memory.load(history.folder / f"{name}.memory")
        if memory.version.size:
            memory.rebuild(cap=memory.cap)
        history.store.create(
            name,
            memory.keys,
            memory.values,
            sigma=memory.sigma,
            cap=memory.cap,
            ids=memory.ids,
            subjects=memory.subjects,
            payloads=[memory.payload(one) for one in memory.ids],
        )


def back_up(history: StoreHistory) -> None:
    history.backup = history.folder / f"copy-{history.number()}.db"
    history.store.backup(history.backup)


def restore(history: StoreHistory) -> None:
    if history.backup is None:
        return
    old = history.store
    history.left.append(history.written())
    history.open_new()
    try:
        history.store.restore(history.backup, ledger=old)
    finally:
        old.close()


ACTS: dict[Callable[[StoreHistory], None], int] = {
    create: 2,
    admit: 8,
    admit_many: 3,
    delete: 7,
    delete_most: 2,
    repeat: 1,
    archive: 5,
    forget: 5,
    rebuild: 2,
    hold: 3,
    release: 2,
    drop: 2,
    erase_subject: 3,
    erase_later: 3,
    cancel: 1,
    wait: 3,
    release_all: 1,
    rotate_key: 2,
    erase_cases: 1,
    attach_mirror: 3,
    sync_mirrors: 3,
    remove_mirror: 1,
    move: 1,
    back_up: 4,
    restore: 3,
}
