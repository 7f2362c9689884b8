"""``python -m expunge``: the command line."""

from __future__ import annotations

from expunge.cli import main

__all__: list[str] = ["main"]

if __name__ == "__main__":
    main()
