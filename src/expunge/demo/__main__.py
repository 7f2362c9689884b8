"""``python -m expunge.demo``: the same as ``expunge demo``."""

from __future__ import annotations

import sys

from expunge.cli.app import app

__all__: list[str] = []

if __name__ == "__main__":
    app(["demo", *sys.argv[1:]], prog_name="expunge")
