"""Who sends a request: its token is looked up in the store, for every request.

Requests that come while a look-up is under way share the next one: it begins after all of them, so that a token that
was revoked before a request came is not found. Nothing of a look-up is kept.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias
from weakref import WeakKeyDictionary

from expunge.errors import InputError
from expunge.service.executor import Executor
from expunge.service.openid import OpenIdProvider
from expunge.service.request_limits import RequestLimits
from expunge.service.tokens import Token, Tokens

__all__ = ["Callers"]

# The text of a token, and who waits for it.
_Waiting: TypeAlias = list[tuple[str, "asyncio.Future[Token | None]"]]


class Callers:
    """Looks up the tokens of requests."""

    def __init__(
        self, tokens: Tokens, executor: Executor, limits: RequestLimits, provider: OpenIdProvider | None = None
    ) -> None:
        self._tokens = tokens
        self._limits = limits
        self._provider = provider
        self._executor = executor
        # Of each event loop in which a look-up is under way, of which a worker has one: what waits for the next.
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    async def find(self, header: str | None, address: str | None) -> Token:
        """The token in an Authorization header that came from an address.

        Raises InputError (``unauthenticated``) where it is not good now, and TooMany where the address has sent too
        many that were not, or the token was sent too often.
        """
        self._limits.check_address(address)
        scheme, _, text = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            raise InputError("send a token: Authorization: Bearer …", code="unauthenticated")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Token | None] = loop.create_future()
        waiting = self._waiting.get(loop)
        if waiting is not None:
            waiting.append((text.strip(), found))
        else:
            self._waiting[loop] = [(text.strip(), found)]
            task = loop.create_task(self._look_up(loop))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        token = await found
        if token is not None:
            self._limits.count_request(token.name)
        else:
            self._limits.count_bad_token(address)
            raise InputError("the token is unknown, expired or revoked", code="unauthenticated")
        return token

    async def _look_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look up what waits, until nothing does."""
        waiting: _Waiting = []
        try:
            while self._waiting[loop]:
                waiting, self._waiting[loop] = self._waiting[loop], []
                tokens = await self._executor.read(self._find_all, {text for text, _ in waiting})
                for text, found in waiting:
                    one = tokens[text]
                    if found.done():
                        continue
                    if isinstance(one, Exception):
                        found.set_exception(one)
                    else:
                        found.set_result(one)
        finally:
            for _, found in (*waiting, *self._waiting.pop(loop)):
                # Nobody is left waiting, unless this was ended from outside.
                found.cancel()

    def _find_all(self, texts: set[str]) -> dict[str, Token | Exception | None]:
        """The token with each of these texts, or what was raised."""
        found: dict[str, Token | Exception | None] = {}
        for text in texts:
            try:
                found[text] = self._tokens.find(text)
                if found[text] is None and self._provider is not None:
                    found[text] = self._provider.find(text)
            except Exception as problem:
                found[text] = problem
        return found
