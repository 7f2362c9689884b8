"""``python -m expunge.demo``: the same as ``expunge demo``."""

from __future__ import annotations

import sys

from expunge.cli.app import app

__all__ = ["main"]


def main() -> None:
    """Run the demo as the command line does."""
    app(["demo", *sys.argv[1:]], prog_name="expunge")


if __name__ == "__main__":
    main()
