"""What goes wrong, as one line and an exit code: 0 ok, 1 verification failed, 2 usage, 3 refused, 4 store.

Beside these, as shells have them: 130 for an interrupt, 141 for a reader that went away, and 70 for a defect in
expunge itself.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from expunge import error_codes
from expunge.cli.context import PASSPHRASE_VARIABLE, escape_controls, print_json_lines
from expunge.errors import ExpungeError, Refused

__all__ = ["DECLINED", "READER_GONE", "USAGE", "one_line", "print_error", "report_error"]

USAGE, DECLINED, READER_GONE = 2, 3, 141

# What to do about errors whose own words cannot know of the command line.
_HINTS = {
    "evidence-prior-missing": "it was exported later? --no-prior leaves that state to the log",
    "evidence-inclusion-missing": "--no-log does without",
    "envelope-signer-unknown": "is --trust the key that this was signed with?",
    "note-signer-unknown": "is --trust the key of this log?",
    "signing-key-locked": f"set ${PASSPHRASE_VARIABLE}",
    "ledger-size-mismatch": "get every leaf, and the head that was signed over them",
    "ledger-root-mismatch": "get every leaf, and the head that was signed over them",
    "ledger-receipt-invalid": "is --trust the key of this ledger, and is the file whole?",
    "ledger-time-future": "is this machine's clock right? --now states another time",
}
# Whoever has the keys said two things that cannot both be true.
_CONTRADICTION = "the ledger contradicts itself: keep this copy and its head, and ask whoever signed it to explain"


def report_error(problem: BaseException, *, as_json: bool) -> int:
    """Print an error, and return its exit code; 70 for one that should not have come this far."""
    exit_code = error_codes.outside_of(problem).exit
    if as_json:
        print_json_lines([_error_content(problem, exit_code)])
    if exit_code == error_codes.DEFECT.exit:
        print_error(
            f"error: {type(problem).__name__}: {one_line(problem)} (a defect in expunge; nothing half-done was kept; "
            "EXPUNGE_TRACEBACK=1 shows where)"
        )
    else:
        print_error(f"error: {_code(problem)}: {one_line(problem)}")
    return exit_code


def one_line(problem: BaseException) -> str:
    """The message on one line, with what to do about it where that is not obvious."""
    message = " ".join(str(problem).split()) or "no message"
    code = _code(problem)
    hint = _HINTS.get(code, _CONTRADICTION if code.startswith("ledger-") else None)
    return message if hint is None else f"{message} ({hint})"


def print_error(line: str) -> None:
    """Print one line on standard error."""
    line = escape_controls(line)
    if line.startswith("error:") and sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        line = line.replace("error:", "\x1b[1;31merror:\x1b[0m", 1)
    print(line, file=sys.stderr)


def _error_content(problem: BaseException, exit_code: int) -> dict[str, Any]:
    """An error as ``--json`` prints it."""
    content: dict[str, Any] = {
        "error": type(problem).__name__,
        "code": _code(problem),
        "message": one_line(problem),
        "exit_code": exit_code,
    }
    if isinstance(problem, Refused):
        none = dict.fromkeys(("reason", "measured", "allowed"))
        content |= problem.receipt.to_json()["refusal"] or none
    return content


def _code(problem: BaseException) -> str:
    """Code of an error; the name of its class where it is not one of ours."""
    return problem.code if isinstance(problem, ExpungeError) else type(problem).__name__
