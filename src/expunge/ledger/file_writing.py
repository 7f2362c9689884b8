"""Writing a file so that it is there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from expunge.errors import StoreError

__all__ = ["new_file"]

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def new_file(path: Path, *, replace: bool = False, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to. It is flushed to disk when the block ends, and removed when anything is raised inside.

    An existing file raises FileExistsError; with `replace` it stays until a file beside it is written, which is then
    moved into its place. `mode` is as in `os.open`. Any other OSError is raised as a StoreError.
    """
    target = path.with_name(f"{path.name}.{secrets.token_hex(4)}") if replace else path
    try:
        # Exclusive creation refuses an existing file and does not follow a link, whatever happens in between.
        file = open(target, "xb", opener=lambda name, flags: os.open(name, flags | _NO_LINK, mode))  # noqa: SIM115
    except FileExistsError:
        raise
    except (OSError, ValueError) as problem:
        raise _unwritable(path, problem) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            target.replace(path)
    except BaseException as problem:
        target.unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise _unwritable(path, problem) from None
        raise


def _unwritable(path: Path, problem: OSError | ValueError) -> StoreError:
    return StoreError(f"cannot write {path}: {getattr(problem, 'strerror', None) or problem}")
