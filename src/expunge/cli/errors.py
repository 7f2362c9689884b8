"""What goes wrong, as one line and an exit code: 0 ok, 1 verification failed, 2 usage, 3 refused, 4 store.

Beside these, as shells have them: 130 for an interrupt, 141 for a reader that went away, and 70 for a defect in
expunge itself.
"""

from __future__ import annotations

import re
from typing import Any

from expunge import error_codes
from expunge.errors import ExpungeError, Refused

__all__ = [
    "DECLINED",
    "DEFECT",
    "GONE",
    "PASSPHRASE",
    "USAGE",
    "code_of",
    "described",
    "exit_code",
    "one_line",
    "visible",
]

PASSPHRASE = "EXPUNGE_PASSPHRASE"  # noqa: S105 — the variable's name

USAGE, DECLINED, GONE = 2, 3, 141
DEFECT = error_codes.DEFECT.exit

# Terminals obey these, and no stream takes the bytes of a name that is not UTF-8.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

# What to do about errors whose own words cannot know of the command line.
_HINTS = {
    "evidence-prior-missing": "it was exported later? --no-prior leaves that state to the log",
    "evidence-inclusion-missing": "--no-log does without",
    "envelope-signer-unknown": "is --trust the key that this was signed with?",
    "note-signer-unknown": "is --trust the key of this log?",
    "signing-key-locked": f"set ${PASSPHRASE}",
}


def exit_code(problem: BaseException) -> int:
    """Exit code of an error; 70 for one that should not have come this far."""
    return error_codes.outside_of(problem).exit


def code_of(problem: BaseException) -> str:
    """Code of an error; the name of its class where it is not one of ours."""
    return problem.code if isinstance(problem, ExpungeError) else type(problem).__name__


def described(problem: BaseException) -> dict[str, Any]:
    """An error as ``--json`` prints it."""
    content: dict[str, Any] = {
        "error": type(problem).__name__,
        "code": code_of(problem),
        "message": one_line(problem),
        "exit_code": exit_code(problem),
    }
    if isinstance(problem, Refused):
        content |= {"measured": problem.measured, "allowed": problem.allowed}
    return content


def one_line(problem: BaseException) -> str:
    """The message on one line, with what to do about it where that is not obvious."""
    message = " ".join(str(problem).split()) or "no message"
    hint = _HINTS.get(code_of(problem))
    return message if hint is None else f"{message} ({hint})"


def visible(text: str) -> str:
    """Foreign text for a terminal: a name, a reason or a path may hold what would move its cursor or repaint it."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
