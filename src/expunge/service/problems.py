"""Errors as RFC 9457 problem details, from the one table in :mod:`expunge.error_codes`.

``type`` is a URN with the error's class in it, ``title`` the first line of the class's own description, ``detail``
the message, ``instance`` the request. Refusals carry both sides of the comparison and the receipt, unusable bodies
the places that are wrong. What the client sent is not echoed beyond what the message itself says, and nothing of it
is logged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from expunge.error_codes import code_of
from expunge.errors import ExpungeError, InputError, Refused, VerificationError
from expunge.service.json_response import Answer, receipt_content
from expunge.service.request_errors import (
    Damaged,
    Forbidden,
    Malformed,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    Unauthenticated,
)
from expunge.store import Busy

__all__ = ["MEDIA_TYPE", "Unusable", "answer_of", "problem_of", "understood"]

MEDIA_TYPE = "application/problem+json"
# What the framework raises by itself, in our words.
_SERVED: dict[int, tuple[type[ExpungeError], str]] = {
    400: (Malformed, "the body could not be read as JSON"),
    404: (NotFound, "there is nothing here"),
    405: (MethodNotAllowed, "this resource does not know that method"),
    413: (TooLarge, "the body has more bytes than the limit"),
}


class Unusable(InputError):
    """A body or a parameter that does not have the form that is asked for."""

    def __init__(self, fields: list[dict[str, Any]]) -> None:
        first = fields[0]
        super().__init__(f"{'.'.join(map(str, first['where']))}: {first['message']}")
        self.fields = fields


def understood(problem: Exception) -> Exception:
    """The same failure as an error of ours, where it came from the framework."""
    if isinstance(problem, RequestValidationError):
        found = problem.errors()
        if any(error["type"] == "json_invalid" for error in found):
            return Malformed("the body is not valid JSON")
        return Unusable(
            [{"where": [*error["loc"]], "message": error["msg"].removeprefix("Value error, ")} for error in found]
        )
    if isinstance(problem, HTTPException) and problem.status_code in _SERVED:
        kind, message = _SERVED[problem.status_code]
        return kind(message)
    return problem


def problem_of(problem: BaseException, request_id: str | None = None) -> dict[str, Any]:
    """Problem details of an error."""
    code, kind = code_of(problem), type(problem)
    ours = isinstance(problem, ExpungeError)
    title = (kind.__doc__ or kind.__name__).strip().splitlines()[0]
    content: dict[str, Any] = {
        "type": f"urn:expunge:problem:{_dashed(kind.__name__) if ours else 'defect'}",
        "title": title if ours else "A defect in expunge.",
        "status": code.status,
        # What a defect has to say may quote content; its place is the log, and only the place.
        "detail": " ".join(str(problem).split()) if ours else "Nothing half-done was kept.",
        "error": kind.__name__ if ours else "Defect",
        "exit_code": code.exit,
    }
    if request_id is not None:
        content["instance"] = f"urn:uuid:{request_id}"
    if isinstance(problem, Refused):
        content |= {"measured": problem.measured, "allowed": problem.allowed}
        content["receipt"] = receipt_content(problem.receipt)
    if isinstance(problem, Unusable):
        content["fields"] = problem.fields
    return content


def answer_of(request: Request, problem: Exception) -> Response:
    """The response that an error leaves as."""
    found = understood(problem)
    if isinstance(found, VerificationError) and not getattr(request.state, "artifact", False):
        # Nobody sent us anything to verify: it is the store that does not check out.
        found = Damaged(str(found))
    content = problem_of(found, getattr(request.state, "id", None))
    headers: dict[str, str] = {}
    if isinstance(found, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="expunge"'
    elif isinstance(found, Forbidden):
        headers["WWW-Authenticate"] = 'Bearer realm="expunge", error="insufficient_scope"'
    elif isinstance(found, Busy):
        headers["Retry-After"] = "1"
    elif isinstance(problem, HTTPException) and problem.headers:
        headers |= _kept(problem.headers)
    request.state.error = content["error"]
    return Answer(content, status_code=content["status"], headers=headers, media_type=MEDIA_TYPE)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() == "allow"}


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
