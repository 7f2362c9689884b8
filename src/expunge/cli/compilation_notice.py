"""A word on standard error before the first compilation, which keeps a newcomer waiting."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expunge.cli.context import CommandContext

__all__ = ["compilation_noted"]


class _Notes(logging.Handler):
    def __init__(self, context: CommandContext) -> None:
        super().__init__(logging.INFO)
        self._context = context

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record as a note."""
        message = record.getMessage()
        self._context.note(message[:1].upper() + message[1:])


@contextmanager
def compilation_noted(context: CommandContext) -> Iterator[None]:
    """Print the records of the logger ``expunge.compilation`` as notes meanwhile; with ``--json`` nothing is noted."""
    logger, notes = logging.getLogger("expunge.compilation"), _Notes(context)
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)
