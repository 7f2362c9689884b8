"""Bodies of requests and responses about tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from expunge.service.schemas.requests import RequestBody, Text, example
from expunge.service.schemas.responses import ResponseBody
from expunge.service.tokens import Scope

__all__ = ["MadeToken", "NewToken", "TokenList", "TokenShown"]


class NewToken(RequestBody):
    """A token to make: what it may do, for which memory, and for how many seconds; without these for all, for ever."""

    model_config = example(scopes=["read"], note="executor", seconds=86_400)

    scopes: Annotated[list[Scope], Field(min_length=1, max_length=5)]
    memory: Text | None = None
    note: Annotated[str, Field(max_length=200)] = ""
    seconds: Annotated[int, Field(gt=0, lt=10_000_000_000)] | None = None


class TokenShown(ResponseBody):
    """A token without its secret."""

    id: str
    scopes: list[Scope]
    memory: str | None
    note: str
    created: str
    expires: str | None
    revoked: str | None


class MadeToken(TokenShown):
    """A token that was made just now, with its text."""

    token: str


class TokenList(ResponseBody):
    """Tokens in order of creation."""

    items: list[TokenShown]
