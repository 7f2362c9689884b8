"""The edits that wait in this process: they are committed together, those of one memory in the order of their coming.

Whoever comes when nobody is at work leads: it takes the lock of its memory, and then its own edit and those that have
come meanwhile; when it has carried them out it makes the next in the queue lead. The others wait until a leader has
carried out theirs. Groups are taken under the lock: the longer another process holds it, the more edits go together.
Whoever had an answer from the last group and asks again at once is waited for, for a moment: else the first of them
would be committed alone, and the others after it. A queue may hold edits of several memories: those whose memory the
leader cannot lock at once wait for the next.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from expunge.errors import Busy

__all__ = ["EditQueue", "QueuedEdit", "Take"]

# As many edits as are committed together at most: each waits until the last one is solved.
MOST = 64
# A leader waits for those who had an answer from the group before, as long as one of them comes within PAUSE seconds,
# and for LONGEST_WAIT or a quarter of what that group took at most.
PAUSE, LONGEST_WAIT, PART_WAITED = 0.002, 0.02, 4.0


@dataclass(eq=False)
class QueuedEdit:
    """An edit that waits.

    ``alone`` says that it is not to be committed with others; ``key`` is that of its request, and ``scope`` the UUID of
    its memory.
    """

    alone: bool = False
    scope: str = ""
    key: str | None = None
    done: bool = False
    taken: bool = False
    woken: threading.Event = field(default_factory=threading.Event)


Edit = TypeVar("Edit", bound=QueuedEdit)


# Given the first edits of other memories: the scopes of those whose edits may come along.
Joins: TypeAlias = Callable[[list[Edit]], Collection[str]]


class Take(Protocol[Edit]):
    """Takes the group that a leader carries out, its own edit first."""

    def __call__(self, joins: Joins[Edit] = ...) -> list[Edit]:
        """The group, the same at every call."""
        ...


def _nobody(_: Sequence[QueuedEdit]) -> Collection[str]:
    return ()


class EditQueue(Generic[Edit]):
    """Edits of one memory or of several that wait for their turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Edit] = deque()
        self._led = False
        self._pending = 0
        # Of the last group: how many edits it had, how long it took, and when it was over.
        self._last = (0, 0.0, 0.0)

    def __len__(self) -> int:
        """How many edits have come and are not over, those that are being carried out included."""
        return self._pending

    def carry_out(self, edit: Edit, commit: Callable[[Edit, Take[Edit]], None], timeout: float) -> None:
        """Wait until an edit is carried out, by this thread, with others, or by another one; ``commit`` does it.

        ``commit`` is given the edit that leads, and what takes the group: it is called once the memory is locked, or
        could not be. Raises Busy, with nothing done, where its turn does not come within ``timeout`` seconds. What
        ``commit`` raises is for this thread alone: it has to tell each edit what became of it.
        """
        if not self._join(edit):
            try:
                self._wait(edit, timeout)
            except BaseException:
                self._leave(edit)
                raise
        if edit.done:
            return
        if not edit.alone:
            self._gather()
        started = time.monotonic()
        group: list[Edit] = []

        def take(joins: Joins[Edit] = _nobody) -> list[Edit]:
            if not group:
                group.extend(self._take(edit, joins))
            return group

        try:
            commit(edit, take)
        finally:
            for one in take():
                one.done = True
                one.woken.set()
            ended = time.monotonic()
            self._last = len(group), ended - started, ended
            self._pass_on(len(group))

    def _gather(self) -> None:
        """Wait for as many edits as the last group had, where it is just over; no longer than they keep coming."""
        size, took, ended = self._last
        begun = time.monotonic()
        if begun - ended > took:
            return
        waited = min(LONGEST_WAIT, took / PART_WAITED)
        while (came := len(self._waiting)) < size and time.monotonic() - begun < waited:
            time.sleep(PAUSE)
            if len(self._waiting) == came:
                return

    def _join(self, edit: Edit) -> bool:
        """Join the queue; whether this edit leads."""
        with self._lock:
            self._waiting.append(edit)
            self._pending += 1
            leads, self._led = not self._led, True
            return leads

    def _wait(self, edit: Edit, timeout: float) -> None:
        """Wait until the edit is done, or leads."""
        if edit.woken.wait(timeout):
            return
        with self._lock:
            if not edit.taken and not edit.woken.is_set():
                raise Busy(f"another thread has been editing for {timeout:g} s; nothing was done, try again")
        # A leader is at work on it: only the leader knows what becomes of it.
        edit.woken.wait()

    def _leave(self, edit: Edit) -> None:
        """Leave the queue, and let another edit lead in the place of this one."""
        with self._lock:
            if edit.taken:
                return
            self._waiting.remove(edit)
            self._pending -= 1
            led = edit.woken.is_set()
        if led:
            self._pass_on(0)

    def _take(self, leader: Edit, joins: Joins[Edit]) -> list[Edit]:
        """The leader's edit, which is the first in the queue, and those after it that go with it."""
        with self._lock:
            # The first edit of each other memory.
            others = {edit.scope: edit for edit in reversed(self._waiting) if edit.scope != leader.scope}
        goes: set[str] = set()
        if not leader.alone:
            goes = {leader.scope, *joins([edit for edit in others.values() if not edit.alone])}
        with self._lock:
            group, left = [self._waiting.popleft()], deque[Edit]()
            keys = {(leader.scope, leader.key)}
            while self._waiting and goes and len(group) < MOST:
                edit = self._waiting.popleft()
                # What comes after an edit that stays, in its memory, stays, too.
                if edit.alone or (edit.key is not None and (edit.scope, edit.key) in keys):
                    goes.discard(edit.scope)
                if edit.scope in goes:
                    group.append(edit)
                    keys.add((edit.scope, edit.key))
                else:
                    left.append(edit)
            self._waiting.extendleft(reversed(left))
            for edit in group:
                edit.taken = True
            return group

    def _pass_on(self, done: int) -> None:
        """Let the next edit lead after this many."""
        with self._lock:
            self._pending -= done
            self._led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].woken.set()
