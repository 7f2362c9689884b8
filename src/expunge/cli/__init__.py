"""The command line ``expunge``: one module per kind of command, each of which calls the library and prints.

It may import every other package, but heavy ones only inside functions, so that ``expunge --help`` loads neither NumPy
nor a database. Start with `app.py`, which has the common options and the list of commands.
"""

from __future__ import annotations

import gc

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the ``expunge`` script."""
    # Modules last as long as the process. To look for garbage among them takes a tenth of the time of a short command.
    gc.disable()
    from expunge.cli.app import app

    gc.freeze()
    gc.enable()
    app(prog_name="expunge")
