"""Errors as RFC 9457 problem details, from the table in :mod:`expunge.error_codes`.

``type`` is a URN with the error's code in it, ``title`` the meaning of that code, ``detail``
the message, ``instance`` the request. Refusals carry both sides of the comparison and the receipt, unusable bodies
the places that are wrong. What the client sent is not echoed beyond what the message itself says, and nothing of it
is logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from expunge.error_codes import CODES, outside_of
from expunge.errors import Busy, ExpungeError, InputError, Refused, StoreError, VerificationError
from expunge.service.json_response import Answer

__all__ = ["MEDIA_TYPE", "Unusable", "answer_of", "problem_of", "understood"]

MEDIA_TYPE = "application/problem+json"
_MEANINGS = {code: meaning for codes in CODES.values() for code, (_, meaning) in codes.items()}
# What the framework raises by itself, in our words.
_SERVED: dict[int, tuple[str, str]] = {
    400: ("malformed", "the body could not be read as JSON"),
    404: ("not-found", "there is nothing here"),
    405: ("method-not-allowed", "this resource does not know that method"),
    413: ("too-large", "the body has more bytes than the limit"),
}


class Unusable(InputError):
    """A body or a parameter that does not have the form that is asked for."""

    default_code = "unusable"

    def __init__(self, fields: list[dict[str, Any]]) -> None:
        first = fields[0]
        super().__init__(f"{'.'.join(map(str, first['where']))}: {first['message']}")
        self.fields = fields


def understood(problem: Exception) -> Exception:
    """The same failure as an error of ours, where it came from the framework."""
    if isinstance(problem, RequestValidationError):
        found = problem.errors()
        if any(error["type"] == "json_invalid" for error in found):
            return InputError("the body is not valid JSON", code="malformed")
        return Unusable(
            [{"where": [*error["loc"]], "message": error["msg"].removeprefix("Value error, ")} for error in found]
        )
    if isinstance(problem, HTTPException) and problem.status_code in _SERVED:
        code, message = _SERVED[problem.status_code]
        return InputError(message, code=code)
    return problem


def problem_of(problem: BaseException, request_id: str | None = None) -> dict[str, Any]:
    """Problem details of an error."""
    outside, ours = outside_of(problem), isinstance(problem, ExpungeError)
    code = problem.code if isinstance(problem, ExpungeError) else "defect"
    content: dict[str, Any] = {
        "type": f"urn:expunge:problem:{code}",
        "title": _MEANINGS[code] if ours else "A defect in expunge.",
        "status": outside.status,
        # What a defect has to say may quote content; its place is the log, and only the place.
        "detail": " ".join(str(problem).split()) if ours else "Nothing half-done was kept.",
        "error": type(problem).__name__ if ours else "Defect",
        "code": code,
        "exit_code": outside.exit,
    }
    if request_id is not None:
        content["instance"] = f"urn:uuid:{request_id}"
    if isinstance(problem, Refused):
        content |= {"measured": problem.measured, "allowed": problem.allowed}
        content["receipt"] = problem.receipt.to_json()
    if isinstance(problem, Unusable):
        content["fields"] = problem.fields
    return content


def answer_of(request: Request, problem: Exception) -> Response:
    """The response that an error leaves as."""
    found = understood(problem)
    if isinstance(found, VerificationError) and not getattr(request.state, "artifact", False):
        # Nobody sent us anything to verify: it is the store that does not check out.
        found = StoreError(str(found), code="damaged")
    content = problem_of(found, getattr(request.state, "id", None))
    headers: dict[str, str] = {}
    code = content["code"]
    if code == "unauthenticated":
        headers["WWW-Authenticate"] = 'Bearer realm="expunge"'
    elif code == "forbidden":
        headers["WWW-Authenticate"] = 'Bearer realm="expunge", error="insufficient_scope"'
    elif isinstance(found, Busy):
        headers["Retry-After"] = "1"
    elif isinstance(problem, HTTPException) and problem.headers:
        headers |= _kept(problem.headers)
    request.state.error = code
    return Answer(content, status_code=content["status"], headers=headers, media_type=MEDIA_TYPE)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() == "allow"}
