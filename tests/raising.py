"""Expect an error by its code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch

import pytest

from expunge.errors import ExpungeError

__all__ = ["raises_code"]


@contextmanager
def raises_code(*codes: str, match: str | None = None) -> Iterator[pytest.ExceptionInfo[ExpungeError]]:
    """Like `pytest.raises`, for an ExpungeError with one of these codes; ``proof-*`` stands for a family."""
    with pytest.raises(ExpungeError, match=match) as caught:
        yield caught
    assert any(fnmatch(caught.value.code, code) for code in codes), caught.value.code
