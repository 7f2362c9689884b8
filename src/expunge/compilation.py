"""Compiled functions: made at the first call of one, kept on disk, and a word before the first compilation.

numba takes longer to load than most commands take in all, so it is loaded when a compiled function is first called and
not when one is defined (`njit`). From then on every compiled function is numba's own.

numba keeps the machine code of a fresh install beside the source or in the user's cache directory, so that it is made
once. Where neither can be written (a read-only file system, no home directory), a private directory for temporary
files takes it, and where there is none of these the code is made anew in every process. $NUMBA_CACHE_DIR names another
directory. ``expunge warm`` makes all of it in advance.

Before the first compilation of a process the logger ``expunge.compilation`` has one record at INFO, which says how long
it takes. Whoever wants to show it adds a handler to that logger, as the command line does.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

__all__ = ["Compilations", "compilations", "njit", "private_directory"]

log = logging.getLogger("expunge.compilation")

_PACKAGE = __name__.partition(".")[0]


class Compilations:
    """What numba has compiled of this package in this process: number and place, for `expunge warm` and the notice."""

    def __init__(self) -> None:
        self.count = 0
        self.folder: str | None = None

    def started(self, function: Any) -> None:
        """Note that a function is being compiled; log that, once."""
        if function.py_func.__module__.partition(".")[0] != _PACKAGE:
            return
        if not self.count:
            log.info(_words(function.stats.cache_path))
        self.count += 1
        self.folder = function.stats.cache_path


compilations = Compilations()


class _Waiting:
    """A function that numba will compile, as long as numba is not loaded. The first call of one loads it for all."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.options = options
        self.compiled: Any = None

    def __call__(self, *given: Any) -> Any:
        """Call the compiled function."""
        return self._load()(*given)

    def __getattr__(self, name: str) -> Any:
        """What numba's function has besides, such as its statistics."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)

    def _load(self) -> Any:
        if self.compiled is None:
            _load_numba()
        return self.compiled


_lock = threading.RLock()
# In order of definition; None once numba is loaded.
_waiting: list[_Waiting] | None = []


def _load_numba() -> None:
    """Load numba, and let it have every function that waits for it, wherever these have been imported to."""
    global _waiting
    with _lock:
        if _waiting is None:
            return
        from numba.core import event

        class Listener(event.Listener):
            def on_start(self, event: Any) -> None:
                compilations.started(event.data["dispatcher"])

            def on_end(self, event: Any) -> None:
                """Do nothing: the compilation is over."""

        _load_arrays()
        event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]
        functions, _waiting = _waiting, None
        for waiting in functions:
            waiting.compiled = _with_cache(waiting.__wrapped__, waiting.options)
        for name, module in [*sys.modules.items()]:
            if name.partition(".")[0] == _PACKAGE:
                _replace_waiting(vars(module))
        for waiting in functions:
            _replace_waiting(waiting.__wrapped__.__globals__)


def _load_arrays() -> None:
    """Load numba's functions of arrays without SciPy.

    They load SciPy's linear algebra to see whether it is there, which takes a quarter of the time of loading a memory.
    It is always there, and a function that multiplies matrices loads it when it is compiled or first called.
    """
    from numba.np import linalg

    found = vars(linalg).get("ensure_blas")
    if found is None or "numba.np.arraymath" in sys.modules:
        return
    vars(linalg)["ensure_blas"] = lambda: None
    try:
        from numba.np import arraymath
    finally:
        vars(linalg)["ensure_blas"] = found
    vars(arraymath)["ensure_blas"] = found


def _replace_waiting(names: dict[str, Any]) -> None:
    """Give a module numba's functions: compiled functions look for others among the names of their module."""
    for name, value in [*names.items()]:
        if isinstance(value, _Waiting):
            names[name] = value.compiled


def _with_cache(function: Any, options: dict[str, Any]) -> Any:
    """`numba.njit`, in a cache where there is a place for one."""
    import numba

    cache = options.pop("cache", True)
    while cache:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:
            # numba found no directory that it can write to.
            if not _fall_back():
                break
    return numba.njit(**options)(function)


def _words(folder: str | None) -> str:
    if folder is None:
        return (
            "compiling (10 to 20 s), and again in every process: no directory for the result can be written, and "
            "$NUMBA_CACHE_DIR names none"
        )
    fresh = next(Path(folder).glob("*.nbi"), None) is None
    return f"compiling, once ({'10 to 20 s' if fresh else 'about 10 s'})"


def private_directory() -> Path | None:
    """A directory of this user alone among the temporary files, made if need be; None where there is none to be had.

    Cached code is executed when it is loaded, so a directory that another user made, or can write to, is not used.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    try:
        folder = Path(tempfile.gettempdir())
        if folder == Path.cwd():
            # The last resort of `tempfile`; nobody expects a cache there.
            return None
        path = folder / ("expunge-numba" if user is None else f"expunge-numba-{user}")
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    mine = user is None or (found.st_uid == user and not stat.S_IMODE(found.st_mode) & 0o077)
    return path if mine and stat.S_ISDIR(found.st_mode) and os.access(path, os.W_OK) else None


def _fall_back() -> bool:
    """Let numba keep machine code in the private directory; whether there is one, and it was not in use already."""
    import numba

    path = private_directory()
    if path is None or os.environ.get("NUMBA_CACHE_DIR") == str(path):
        return False
    # For this process and those it starts.
    os.environ["NUMBA_CACHE_DIR"] = str(path)
    # Part of numba's documented interface, without types.
    reload: Callable[[], None] = numba.config.reload_config
    reload()
    return True


if TYPE_CHECKING:
    from numba import njit
else:

    def njit(**options):
        """`numba.njit` of a function, once numba is loaded."""

        def compiled(function):
            with _lock:
                if _waiting is not None:
                    _waiting.append(_Waiting(function, options))
                    return _waiting[-1]
            # Another thread may have loaded numba after this module imported what it needs.
            _replace_waiting(function.__globals__)
            return _with_cache(function, options)

        return compiled
