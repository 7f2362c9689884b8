"""Previews of an erasure that wait for their confirmation, by token.

A token is random, and is kept with the ids that it stands for in the memory of this process alone, for ten minutes: no
text, and nothing on disk. Only the caller who got the preview can confirm it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from expunge.errors import Conflict

__all__ = ["LIFETIME", "ForgetPreview", "ForgetPreviews"]

# Seconds that a preview can be confirmed.
LIFETIME = 600.0
# Previews that wait at a time; the oldest makes room.
MOST = 1000

_GONE = (
    "this token confirms nothing: it was used, is older than ten minutes, or is not of this caller; nothing was "
    "erased. Call forget with about again, and show the person the new preview"
)


@dataclass(frozen=True)
class ForgetPreview:
    """What a token stands for: the notes that were shown, whose notes the caller could see, and their state.

    ``closure`` is a digest of all that goes with them: other people's notes, and those of other memories, too.
    """

    caller: str | None
    subject: str | None
    ids: tuple[str, ...]
    state: str
    closure: str


@dataclass
class ForgetPreviews:
    """The previews of one server. ``clock`` tells seconds."""

    clock: Callable[[], float] = time.monotonic
    _waiting: dict[str, tuple[float, ForgetPreview]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def keep(self, preview: ForgetPreview) -> str:
        """Keep a preview, and return the token that confirms it."""
        token = secrets.token_urlsafe(16)
        with self._lock:
            self._drop_ended()
            while len(self._waiting) >= MOST:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[token] = (self.clock() + LIFETIME, preview)
        return token

    def find(self, token: str, caller: str | None) -> ForgetPreview:
        """The preview that a token of this caller confirms; Conflict (``preview-ended``) where there is none."""
        with self._lock:
            self._drop_ended()
            _, found = self._waiting.get(token, (0.0, None))
        if found is None or found.caller != caller:
            raise Conflict(_GONE, code="preview-ended")
        return found

    def end(self, token: str) -> None:
        """Let a preview go."""
        with self._lock:
            self._waiting.pop(token, None)

    def _drop_ended(self) -> None:
        # In order of their ends: the lifetime is the same for all.
        now = self.clock()
        while self._waiting and next(iter(self._waiting.values()))[0] <= now:
            del self._waiting[next(iter(self._waiting))]
