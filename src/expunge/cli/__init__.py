"""The command line ``expunge``: one module per kind of command, each of which calls the library and prints.

It may import every other package, but heavy ones only inside functions, so that ``expunge --help`` loads neither NumPy
nor a database. Start with `app.py`, which has the common options and the list of commands.
"""

from __future__ import annotations

from expunge.cli.app import main

__all__ = ["main"]
