"""Random histories of a real store: every act that a store has, crashes, backups, restores and moves.

A history is a function of (seed, number), on SQLite or PostgreSQL. What a store writes is honest, so each of its
ledgers must verify: the last one, and those that a restore or a move left behind. In one history of eight, receipts
have room for few entries, so that longer lists follow them in parts.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from expunge.errors import ExpungeError, Refused
from expunge.store.edits.crash_points import CRASH_POINTS, MIRROR_CRASH_POINTS, set_hook

from .store_acts import ACTS, create, move, restore, rotate_key, sync_mirrors
from .store_history import StoreHistory

__all__ = ["discard", "play"]


class Killed(BaseException):
    """The process ends here, as far as the store can tell: nothing catches this."""


def play(seed: int, number: int, folder: Path, new_url: Callable[[], str] | None = None) -> StoreHistory:
    """Play history `number` of a seed in an empty folder; its store is still open."""
    rng = random.Random(f"{seed} {number}")
    history = StoreHistory(folder, rng, new_url)
    with history.patched():
        create(history)
        for act in rng.choices(list(ACTS), list(ACTS.values()), k=rng.randint(5, 15)):
            if not list(history.store):
                create(history)
            points = MIRROR_CRASH_POINTS if act is sync_mirrors else CRASH_POINTS
            can_die = act not in (restore, rotate_key, move)
            _act(history, act, rng.choice(points) if can_die and rng.random() < 0.15 else None)
    return history


def _act(history: StoreHistory, act: Callable[[StoreHistory], None], killed_at: str | None) -> None:
    dead = False

    def kill(point: str) -> None:
        nonlocal dead
        dead = dead or point == killed_at
        if dead:
            raise Killed

    set_hook(kill if killed_at is not None else None)
    try:
        act(history)
        history.acts[act.__name__] += 1
    except Refused:
        history.acts["refused"] += 1
    except Killed:
        history.acts["killed"] += 1
        set_hook(None)
        history.store.close()
        history.open_store()
    except ExpungeError as problem:
        # Such as a subject that is not there; nothing was done.
        history.acts[type(problem).__name__] += 1
    finally:
        set_hook(None)


def discard(history: StoreHistory) -> None:
    """Close the store and delete its folder."""
    history.store.close()
    shutil.rmtree(history.folder)
