"""The QR code of a certificate document, as a path of its dark modules; extra ``certificate``."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from expunge.errors import MissingExtra

__all__ = ["qr_code"]

# Modules that stay light around the code, as readers ask for.
_BORDER: Final = 4


def qr_code(text: str) -> tuple[int, str]:
    """Size in modules with its border, and the path of the dark modules, row by row, of a code that holds a text."""
    try:
        import segno
    except ImportError as problem:
        raise MissingExtra("a QR code needs segno: pip install 'expunge[certificate]'") from problem
    # Text of one mode and one level of correction, so that one text has one code.
    code = segno.make(text, error="m", mode="byte", boost_error=False, micro=False)
    path = []
    for y, row in enumerate(code.matrix):
        x = 0
        for dark, modules in groupby(row):
            length = len(list(modules))
            if dark:
                path.append(f"M{x + _BORDER} {y + _BORDER}h{length}v1h-{length}z")
            x += length
    return len(code.matrix) + 2 * _BORDER, "".join(path)
