"""What a child process does to a store: one edit that dies at a chosen moment, or edits until the time is up."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlalchemy import event

import expunge
from expunge import InputError, Memory, Refused
from expunge.store import Busy, Conflict, Store, StoredMemory
from expunge.store.edits import crash_points

from ..sample_memory import arrival

__all__ = ["EDITS", "WORK", "warm_up"]


def warm_up() -> None:
    """Compile and load what edits need, so that children find it ready."""
    rng = np.random.default_rng(0)
    memory = Memory.fit(rng.standard_normal((60, 4)), np.zeros(60), sigma=2.0, nu=0.3)
    memory.prune()
    for number in range(5):
        memory.admit(**{**arrival(number, far=3.0), "value": [0.0]})
    memory.delete(memory.ids[0])
    memory.rebuild(nu=0.4)
    memory.bounds()


EDITS: dict[str, Callable[[StoredMemory, Store, int, list[str], str], Any]] = {
    "admit": lambda memory, _, number, names, key: memory.admit(**arrival(number, far=2.0), idempotency_key=key),
    "delete": lambda memory, _, number, names, key: memory.delete(names, idempotency_key=key),
    "archive": lambda memory, _, number, names, key: memory.prune("archive", sketch=1, idempotency_key=key),
    "forget": lambda memory, _, number, names, key: memory.prune("forget", sketch=1, idempotency_key=key),
    "rebuild": lambda memory, _, number, names, key: memory.rebuild(nu=0.3, idempotency_key=key),
    "subject": lambda _, store, number, names, key: store.erase_subject(names[0], idempotency_key=key),
}


def edit(
    url: str, key: str, name: str, verb: str, number: int, names: list[str], moment: list[Any] | None
) -> dict[str, Any]:
    """One edit; the moment of death is ("point", name), or ("before" | "after", k) for the k-th statement, or None."""
    store = expunge.open(url, key)
    statements = 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if moment is not None and moment[0] == "point":
        crash_points.set_hook(lambda point: die() if point == moment[1] else None)
    elif moment is not None:

        def count(*_: Any) -> None:
            nonlocal statements
            statements += 1
            if statements == moment[1]:
                die()

        event.listen(store._database.engine, f"{moment[0]}_cursor_execute", count)
    try:
        done = EDITS[verb](store[name], store, number, names, f"key-{number}")
    except Refused as problem:
        return {"outcome": "refused", "reason": problem.reason}
    except InputError as problem:
        return {"outcome": "impossible", "reason": str(problem)}
    return {"outcome": getattr(done, "outcome", "subject"), "index": done.index}


def edit_until(url: str, key: str, names: list[str], worker: int, seconds: float, timeout: float) -> dict[str, Any]:
    """Edit memories until the time is up: admit, delete what one admitted oneself, retry under the same key, read.

    A machine that is busy gives little time; a few steps are made in any case.
    """
    store = expunge.open(url, key, timeout=timeout)
    rng = random.Random(worker)
    mine: dict[str, set[str]] = {name: set() for name in names}
    tally = {"admitted": 0, "deleted": 0, "retried": 0, "conflicts": 0, "busy": 0, "refused": 0, "read": 0}
    deadline = time.monotonic() + seconds
    step = 0
    while time.monotonic() < deadline or step < 8:
        step += 1
        name = rng.choice(names)
        memory = store[name]
        request = f"{worker}/{step}"
        try:
            if rng.random() < 0.2:
                memory.read(np.zeros(4))
                tally["read"] += 1
            elif not mine[name] or rng.random() < 0.5:
                entry = {**arrival(1_000_000 * worker + step, far=2.0), "id": f"{worker}-{step}"}
                expected = memory.digest if rng.random() < 0.3 else None
                first = memory.admit(**entry, expected=expected, idempotency_key=request)
                mine[name].add(entry["id"])
                tally["admitted"] += 1
                if rng.random() < 0.3:
                    assert memory.admit(**entry, idempotency_key=request) == first
                    tally["retried"] += 1
            else:
                victim = rng.choice(sorted(mine[name]))
                first = memory.delete(victim, idempotency_key=request)
                mine[name].remove(victim)
                tally["deleted"] += 1
                if rng.random() < 0.3:
                    assert memory.delete(victim, idempotency_key=request) == first
                    tally["retried"] += 1
        except Conflict:
            tally["conflicts"] += 1
        except Busy:
            tally["busy"] += 1
        except Refused:
            tally["refused"] += 1
    store.close()
    return {"tally": tally, "mine": {name: sorted(ids) for name, ids in mine.items()}}


def shared_request(url: str, key: str, name: str, number: int) -> dict[str, Any]:
    """The same request as everybody else's, under the same key."""
    store = expunge.open(url, key)
    receipt = store[name].admit(**arrival(number, far=2.0), idempotency_key=f"shared-{number}")
    return {"index": receipt.index, "edit": receipt.edit}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "edit": edit,
    "edit_until": edit_until,
    "shared_request": shared_request,
}
