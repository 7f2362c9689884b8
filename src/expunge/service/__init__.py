"""The store over HTTP: tokens, problems, jobs, metrics, and the page. :mod:`expunge.service.app` is the way in.

Read it first (what is put together), then :mod:`expunge.service.auth` (who gets in) and
:mod:`expunge.service.executor` (where the work happens). The guide is ``docs/guides/service.md``.
"""

from __future__ import annotations

from importlib.util import find_spec

from expunge.errors import MissingExtra

__all__ = ["require"]


def require() -> None:
    """Raise MissingExtra unless the web framework is installed."""
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        if find_spec(name) is None:
            raise MissingExtra(f"the service needs {name}: pip install 'expunge[service]'")
