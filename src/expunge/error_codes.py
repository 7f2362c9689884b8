"""One table for every border: error class → HTTP status → exit code.

The command line (:mod:`expunge.cli.errors`) and the service (:mod:`expunge.service.problems`) both read it. Classes
are named rather than imported, so that asking for an exit code loads neither a database nor a web framework; the
nearest class of an error's ancestry that is listed decides. What is not listed is a defect in expunge itself.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODES", "DEFECT", "Code", "code_of"]


@dataclass(frozen=True)
class Code:
    """What the outside is told: an HTTP status, and an exit code (1 verification, 2 usage, 3 refused, 4 store)."""

    status: int
    exit: int


CODES: dict[str, Code] = {
    "VerificationError": Code(422, 1),
    "InputError": Code(422, 2),
    "MissingExtra": Code(501, 2),
    "Refused": Code(409, 3),
    "SolveError": Code(422, 3),
    "StoreError": Code(503, 4),
    "Busy": Code(503, 4),
    "Conflict": Code(409, 4),
    "Stale": Code(412, 4),
    # What only the service can say.
    "Malformed": Code(400, 2),
    "Unauthenticated": Code(401, 2),
    "Forbidden": Code(403, 2),
    "NotFound": Code(404, 2),
    "MethodNotAllowed": Code(405, 2),
    "Taken": Code(409, 2),
    "TooLarge": Code(413, 2),
    "UnsupportedMediaType": Code(415, 2),
    "Damaged": Code(500, 1),
}

DEFECT = Code(500, 70)


def code_of(problem: BaseException) -> Code:
    """Status and exit code of an error."""
    return next((CODES[kind.__name__] for kind in type(problem).__mro__ if kind.__name__ in CODES), DEFECT)
