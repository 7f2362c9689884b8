"""The store over HTTP: tokens, problem details, jobs, metrics, and the page.

Imports the store and everything below it, and the packages of the extra ``service``; only the command line imports it.
Start with `app.py`, which builds the application, then `auth.py` and `routes/edits.py` (``docs/guides/service.md``).
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
