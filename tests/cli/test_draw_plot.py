"""``expunge plot`` writes pictures, and says what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_runner import answer, call

STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("what", ["map", "weights", "warranties"])
@pytest.mark.parametrize("kind", STARTS)
def test_pictures(ward: Path, what: str, kind: str) -> None:
    found = answer("plot", "ward", "--what", what, "--out", f"picture.{kind}")
    assert found == {"written": f"picture.{kind}", "what": what}
    first = Path(f"picture.{kind}").read_bytes()
    assert first.startswith(STARTS[kind])
    assert "exists" in call("plot", "ward", "--what", what, "--out", f"picture.{kind}", code=2).stderr
    call("plot", "ward", "--what", what, "--out", f"picture.{kind}", "--force")
    assert Path(f"picture.{kind}").read_bytes() == first


def test_a_deletion_is_drawn_and_nothing_is_deleted(ward: Path) -> None:
    before = answer("show", "ward")["digest"]
    call("plot", "ward", "--what", "deletion", "--subject", "p-1", "--columns", "k1,k0", "--out", "gone.png")
    assert answer("show", "ward")["digest"] == before
    assert Path("gone.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--out", "x.gif"), ".png, .svg or .pdf"),
        (("--out", "x.png", "--what", "deletion"), "--subject"),
        (("--out", "x.png", "--subject", "p1"), "deletion"),
        (("--out", "x.png", "--what", "weights", "--columns", "k0,k1"), "map"),
        (("--out", "x.png", "--columns", "k0,nothing"), "k0, k1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(ward: Path, words: tuple[str, ...], complaint: str) -> None:
    assert complaint in call("plot", "ward", *words, code=2).stderr
    assert not Path("x.png").exists()
