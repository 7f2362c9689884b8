"""The command line: ``expunge``.

One file a kind of command; each command opens the store, calls the library and prints. Commands import the library
inside their functions, so that ``expunge --help`` loads neither NumPy nor a database.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the ``expunge`` script."""
    from expunge.cli.app import app

    app(prog_name="expunge")
