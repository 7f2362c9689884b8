"""``expunge verifier``."""

from __future__ import annotations

import hashlib
from pathlib import Path

import expunge
from cli.command_runner import answer, code_of
from expunge.cli.commands.write_verifier import VERIFIER


def test_the_file_is_written_with_its_digest(ward: Path) -> None:
    done = answer("verifier", "--out", "v.html")
    written = (ward / "v.html").read_bytes()
    assert written == VERIFIER.read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    assert done == {"file": "v.html", "sha256": digest, "version": expunge.__version__}
    assert code_of("verifier", "--out", "v.html", code=2) == "input-error"
    answer("verifier", "--out", "v.html", "--force")
