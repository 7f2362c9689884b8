"""The guide names every policy; tests/test_docs.py runs its examples."""

from __future__ import annotations

from pathlib import Path

from expunge.selection import POLICIES

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "selection.md"


def test_every_policy_is_in_the_guide() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    for name in POLICIES:
        assert f"`{name.partition(',')[0]}`" in page
