"""Structured logs: one JSON object per line, with no content in it.

Requests appear by their route's template, never by the path of the request, because names, ids and cursors are in
that; tokens by their names, memories by their UUIDs. Of a defect the log has the class and the places in the code it
passed through, but not its message, which may quote what it stumbled over.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

__all__ = ["JsonLines", "configure_logging", "traceback_places"]


class JsonLines(logging.Formatter):
    """Time, level, logger, event, and what the event is about."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            "pid": record.process,
            **getattr(record, "about", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["at"] = traceback_places(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def traceback_places(problem: BaseException) -> list[str]:
    """Class of an error and the places that it passed through, innermost last, without its message."""
    frames = traceback.extract_tb(problem.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
    return [type(problem).__name__, *places]


def configure_logging(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """Send every log of this process to a stream, as JSON lines."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("expunge", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(level)
    # It would print the path of every request.
    logging.getLogger("uvicorn.access").disabled = True
