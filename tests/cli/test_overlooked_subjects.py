"""A person who is stored under several spellings, and memories without subjects: nothing is overlooked or confused."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest

from cli.command_runner import ROOT, answer, answers, call
from expunge.cli.output import shell_word

DECOMPOSED = unicodedata.normalize("NFD", "José")
ROWS = "0,0,1\n1,0,2\n0,1,3\n1,1,4\n"


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three memories: José decomposed, jose, and one whose entries have no subjects."""
    monkeypatch.chdir(tmp_path)
    for name, subject in (("cardiology", DECOMPOSED), ("icu", "jose")):
        lines = [f"{subject if row % 2 else 'Ann Lee'},{line}" for row, line in enumerate(ROWS.split())]
        Path(f"{name}.csv").write_text("\n".join(["who,k0,k1,v0", *lines]) + "\n", encoding="utf-8")
        call("create", name, f"{name}.csv", "--sigma", 1, "--nu", 0.5, "--subject-column", "who")
    Path("notes.csv").write_text("k0,k1,v0\n" + ROWS, encoding="utf-8")
    call("create", "notes", "notes.csv", "--sigma", 1, "--nu", 0.5)
    return tmp_path


UNSEARCHED = [{"memory": "notes", "unnamed": 4, "entries": 4}]
OFFERED = [
    {"subject": DECOMPOSED, "entries": 2, "memories": ["cardiology"]},
    {"subject": "jose", "entries": 2, "memories": ["icu"]},
]


def test_what_a_script_is_told(clinic: Path) -> None:
    for words in (("--dry-run",), ("--yes",), ("--after", "72h")):
        told = answer("erase-subject", "José", *words)
        assert (told["not_searched"], told["look_alikes"]) == (UNSEARCHED, OFFERED)
    size = len(answers("log"))
    shown = call("erase-subject", "José", "--yes").stdout
    assert "0 entries of José: no entry belongs to this subject" in shown
    assert r"did you mean  $'Jose\u0301' (2 entries in 1 memory)?" in shown
    assert "'jose' (2 entries in 1 memory)?" in shown
    assert "not searched  notes (4 of 4 entries without a subject)" in shown
    assert (
        "no entry belongs to subject 'José'; nothing was changed" in call("erase-subject", "José", "--dry-run").stdout
    )
    assert len(answers("log")) == size
    done = answer("erase-subject", "jose", "--yes")
    assert [part["name"] for part in done["memories"]] == ["icu"]
    assert done["look_alikes"] == OFFERED[:1]
    assert "did you mean" in call("erase-subject", "ann lee", "--dry-run").stdout


def test_a_deletion_in_one_memory_and_an_export_offer_them_too(clinic: Path) -> None:
    missed = call("delete", "cardiology", "--subject", "José", "--yes", code=2).stderr
    assert r"did you mean  $'Jose\u0301' (2 entries in 1 memory)?" in missed
    assert "error: input-error: no entry belongs to subject" in missed
    told = answer("export", "subject", "José", "--out", "file.json")
    assert (told["look_alikes"], told["not_searched"]) == (OFFERED, UNSEARCHED)
    assert "jose" not in Path("file.json").read_text(encoding="utf-8")
    assert "did you mean" in call("export", "subject", "José", "--out", "other.json").stdout


def test_what_a_delayed_erasure_and_its_end_tell(clinic: Path) -> None:
    shown = call("erase-subject", "jose", "--after", "1s").stdout
    assert "did you mean" in shown
    assert "no entry belongs" not in shown
    assert "what is there when it is due goes" in call("erase-subject", "Jim", "--after", "72h").stdout
    time.sleep(1.05)
    ended = " ".join(call("erasures", "run").stdout.split())
    assert "not searched notes" in ended
    assert "Jos" not in ended


@pytest.mark.parametrize("text", ["jose", "José", DECOMPOSED, "O'Brien", " a  b ", "tab\there", "a\u00a0b\\'", "☃ 🙂"])
def test_a_subject_that_is_shown_can_be_typed(text: str) -> None:
    command = f"printf %s {shell_word(text)}"
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, env=environment)  # noqa: S603, S607
    assert done.stdout.decode() == text


class Terminal:
    """A command at a terminal of its own, and somebody who types."""

    def __init__(self, *words: str) -> None:
        self.screen = ""
        self._master, slave = pty.openpty()
        path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EXPUNGE_")}
        self._process = subprocess.Popen(  # noqa: S603 — our own command
            [sys.executable, "-m", "expunge", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment | {"COLUMNS": "120", "TERM": "dumb", "PYTHONUTF8": "1", "PYTHONPATH": path},
            close_fds=True,
        )
        os.close(slave)

    def until(self, text: str) -> str:
        """What was printed since, up to this text."""
        deadline = time.monotonic() + 60
        while text not in self.screen:
            assert time.monotonic() < deadline, self.screen
            self._read()
        before, _, self.screen = self.screen.partition(text)
        return before

    def type(self, line: str) -> None:
        """A line, with the return key."""
        os.write(self._master, f"{line}\n".encode())

    def end(self, code: int) -> str:
        """The rest, once the command has exited with a code."""
        while self._read():
            pass
        os.close(self._master)
        assert self._process.wait(60) == code, self.screen
        return self.screen

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 60)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # what Linux says of a terminal that nobody writes to any more
            return False
        self.screen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode()).replace("\r", "")
        return bool(data)


@pytest.mark.slow
def test_a_person_at_a_terminal(clinic: Path) -> None:
    """José is looked for, not found, offered under two spellings, and erased by each of these names."""
    nobody = Terminal("erase-subject", "José").end(0)
    assert r"did you mean  $'Jose\u0301' (2 entries in 1 memory)?" in nobody
    assert "[y/N]" not in nobody
    asked = Terminal("erase-subject", DECOMPOSED)
    before = asked.until("[y/N]: ")
    assert "did you mean  'jose'" in before
    assert "not searched  notes" in before
    asked.type("n")
    assert "Nothing was done." in asked.end(3)
    for subject in (DECOMPOSED, "jose"):
        sure = Terminal("erase-subject", subject)
        sure.until("[y/N]: ")
        sure.type("y")
        assert "2 entries of" in sure.end(0)
    assert answer("erase-subject", "José", "--dry-run")["look_alikes"] == []
    asked = Terminal("delete", "notes", "0")
    asked.until("[y/N]: ")
    asked.type("")
    asked.end(3)
    call("verify", "store")
