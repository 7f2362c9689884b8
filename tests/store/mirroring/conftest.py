"""Real systems to keep mirrors in."""

from mirrors.conftest import new_url

__all__ = ["new_url"]
