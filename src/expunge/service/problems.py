"""Errors as RFC 9457 problem details, from the table in :mod:`expunge.error_codes`.

``type`` is a URN with the error's code in it, ``title`` the meaning of that code, ``detail``
the message, ``instance`` the request. Refusals carry both sides of the comparison and the receipt, unusable bodies
the places that are wrong. What the client sent is not echoed beyond what the message itself says, and nothing of it
is logged.
"""

from __future__ import annotations

from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from expunge.error_codes import CODES, outside_of
from expunge.errors import Busy, ExpungeError, InputError, Refused, StoreError, VerificationError
from expunge.service.disclosure import disclosed
from expunge.service.json_response import JsonResponse
from expunge.service.request_limits import TooMany

__all__ = ["MEDIA_TYPE", "Unusable", "as_expunge_error", "problem_details", "problem_response"]

MEDIA_TYPE = "application/problem+json"
_MEANINGS = {code: meaning for kinds in CODES.values() for codes in kinds.values() for code, meaning in codes.items()}
# Status of an error that the framework raises → code and message.
_FRAMEWORK_ERRORS: dict[int, tuple[str, str]] = {
    400: ("malformed", "the body could not be read as JSON"),
    404: ("not-found", "there is nothing here"),
    405: ("method-not-allowed", "this resource does not know that method"),
    413: ("too-large", "the body has more bytes than the limit"),
}


class Unusable(InputError):
    """A body or a parameter that does not fit its schema."""

    default_code = "unusable"

    def __init__(self, fields: list[dict[str, Any]]) -> None:
        first = fields[0]
        super().__init__(f"{'.'.join(map(str, first['where']))}: {first['message']}")
        self.fields = fields


def as_expunge_error(problem: Exception) -> Exception:
    """The error itself, or the package's own error in place of one that the framework raised."""
    if isinstance(problem, RequestValidationError):
        errors = problem.errors()
        if any(error["type"] == "json_invalid" for error in errors):
            return InputError("the body is not valid JSON", code="malformed")
        return Unusable(
            [{"where": [*error["loc"]], "message": error["msg"].removeprefix("Value error, ")} for error in errors]
        )
    if isinstance(problem, HTTPException) and problem.status_code in _FRAMEWORK_ERRORS:
        code, message = _FRAMEWORK_ERRORS[problem.status_code]
        return InputError(message, code=code)
    return problem


def problem_details(problem: BaseException, request_id: str | None = None) -> dict[str, Any]:
    """Problem details of an error."""
    outside, known = outside_of(problem), isinstance(problem, ExpungeError)
    code = problem.code if isinstance(problem, ExpungeError) else "defect"
    content: dict[str, Any] = {
        "type": f"urn:expunge:problem:{code}",
        "title": _MEANINGS[code] if known else "A defect in expunge.",
        "status": outside.status,
        # The message of a defect may quote content.
        "detail": " ".join(str(problem).split()) if known else "Nothing half-done was kept.",
        "error": type(problem).__name__ if known else "Defect",
        "code": code,
        "exit_code": outside.exit,
    }
    if request_id is not None:
        content["instance"] = f"urn:uuid:{request_id}"
    if isinstance(problem, Refused):
        receipt = problem.receipt.to_json()
        refusal = receipt["refusal"] or {"measured": None, "allowed": None}
        content |= {"measured": refusal["measured"], "allowed": refusal["allowed"], "receipt": receipt}
    if isinstance(problem, Unusable):
        content["fields"] = problem.fields
    return content


def problem_response(request: Request, problem: Exception) -> Response:
    """The response to a request that ended in an error."""
    error = as_expunge_error(problem)
    if isinstance(error, VerificationError) and not getattr(request.state, "artifact", False):
        # The client sent nothing to verify: it is the store that does not verify.
        error = StoreError(str(error), code="damaged")
    content = problem_details(error, getattr(request.state, "id", None))
    headers: dict[str, str] = {}
    code = content["code"]
    if code == "unauthenticated":
        headers["WWW-Authenticate"] = 'Bearer realm="expunge"'
    elif code == "forbidden":
        headers["WWW-Authenticate"] = 'Bearer realm="expunge", error="insufficient_scope"'
    elif isinstance(error, TooMany):
        headers["Retry-After"] = str(error.seconds)
    elif content["status"] == 503:
        headers["Retry-After"] = "1" if isinstance(error, Busy) else "10"
    elif isinstance(problem, HTTPException) and problem.headers:
        headers |= {name: value for name, value in problem.headers.items() if name.lower() == "allow"}
    request.state.error = code
    caller = getattr(request.state, "caller", None)
    content = disclosed(content, frozenset() if caller is None else caller.scopes)
    return JsonResponse(content, status_code=content["status"], headers=headers, media_type=MEDIA_TYPE)
