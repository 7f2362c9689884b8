"""The demo, start to finish, in a folder of its own."""

from __future__ import annotations

import io
import json
import shlex
import time
from pathlib import Path

import pytest
from rich.console import Console

from cli.command_runner import answer, call, shell
from expunge import InputError, demo
from expunge.demo.tour import MAX_WIDTH
from expunge.verify import verify_receipt

Tour = tuple[demo.DemoRun, str, float]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    """A finished demo, what it printed at 80 columns, and how long it took."""
    folder = tmp_path_factory.mktemp("demo") / "expunge demo"
    printed = io.StringIO()
    started = time.perf_counter()
    done = demo.run(folder, console=Console(file=printed, width=80, highlight=False))
    return done, printed.getvalue(), time.perf_counter() - started


def test_it_takes_seconds(tour: Tour) -> None:
    done, _, took = tour
    assert took < 40.0
    assert 0.0 < sum(step.seconds for step in done.steps) <= done.total <= took


def test_it_tells_the_whole_story(tour: Tour) -> None:
    done, text, _ = tour
    assert [step.name for step in done.steps] == ["fit", "ask", "prune", "erase", "verify", "tamper", "expire"]
    for said in (
        "I like rock music",
        "the same to the last bit",
        "receipt: everything of patient-10021487",
        "the same 72 answers",
        "signature",
        "inclusion",
        "consistency",
        "evidence",
        "its certificate is expired",
        "the entry is back, with weight 0.033",
        *done.next_commands,
    ):
        assert said in text, said
    assert set(done.tampering.values()) == {
        "envelope-signature-invalid",
        "envelope-signer-unknown",
        "inclusion-root-mismatch",
        "evidence-weights-mismatch",
        "ledger-summary-mismatch",
    }
    assert done.facts["erased"] == 72
    assert done.facts["difference"] < 1e-12
    assert done.facts["valid"] < done.facts["issued"]


def test_nothing_sticks_out(tour: Tour) -> None:
    """Within 80 columns, but for the commands, which must stay in one piece to be copied."""
    done, text, _ = tour
    commands = {f"  {line}" for line in (f"cd {shlex.quote(str(done.folder))}", *done.next_commands)}
    for line in text.splitlines():
        assert len(line) <= 80 or line in commands, line
    assert "\x1b" not in text
    assert "\n\n\n" not in text


@pytest.mark.slow
def test_the_next_three_commands_run_when_pasted(tour: Tour) -> None:
    done, text, _ = tour
    pasted = [line.strip() for line in text.splitlines()][-5:-1]
    assert pasted == [f"cd {shlex.quote(str(done.folder))}", *done.next_commands]
    assert len(done.next_commands) == 3
    outputs = [shell(line, done.folder).stdout for line in done.next_commands]
    assert "susan/2023-04-27/03" in outputs[0]
    assert "nothing was changed" in outputs[1]
    assert "weights ✓" in outputs[2]


def test_the_folder_is_as_its_readme_says(tour: Tour, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tour[0].folder
    named = [line.split()[0] for line in (folder / "README.txt").read_text().splitlines() if "   " in line]
    assert {path.name for path in folder.iterdir()} == {
        *(name.rstrip("/") for name in named if "*" not in name),
        *("NOTICE-icu.txt", "NOTICE-conversations.txt", "README.txt"),
    }
    monkeypatch.chdir(folder)
    trust = ("--trust", "log.vkey")
    call("verify", "receipt", "receipts/erasure.json", *trust)
    call("checkpoint", "check", "head-kept.txt")
    call("verify", "ledger", *trust)
    assert "envelope-signature-invalid" in call("verify", "receipt", "tampered/erasure.json", *trust, code=1).stderr
    assert "evidence-weights-mismatch" in call("verify", "evidence", "tampered/erasure.zip", *trust, code=1).stderr
    assert "patient-10021487" not in call("search", "icu", "--at", "@questions/next-hour.npy", "-n", 900).stdout
    assert [row["name"] for row in answer("show")["memories"]] == [
        *("conversations", "example-archive", "example-forget", "icu")
    ]
    with pytest.raises(InputError):
        verify_receipt((folder / "receipts" / "erasure.json").read_bytes(), [])


def test_it_never_overwrites_what_it_did_not_make(tour: Tour, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--fresh replaces it"):
        demo.run(tour[0].folder)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "README.txt").write_text("my own")
    for fresh in (False, True):
        with pytest.raises(InputError, match="was not made by the demo"):
            demo.run(mine, fresh=fresh)
    assert (mine / "README.txt").read_text() == "my own"


@pytest.mark.slow
def test_once_more_in_a_real_process(tmp_path: Path) -> None:
    """`expunge demo --fresh` is what `make demo` calls."""
    first = shell("expunge demo --json", tmp_path)
    found = json.loads(first.stdout)
    assert found["folder"] == "expunge-demo"
    assert len(found["next"]) == 3
    assert "error: input-error: expunge-demo has an earlier demo" in shell("expunge demo", tmp_path, code=2).stderr
    # With a store of one's own set, as the README has it.
    again = shell("expunge demo --fresh", tmp_path, COLUMNS="120", LC_ALL="C", EXPUNGE_STORE="sqlite:///ward.db")
    assert "Next" in again.stdout
    assert "\x1b" not in again.stdout
    assert max(len(line) for line in again.stdout.splitlines()[:-7]) <= MAX_WIDTH
    unset, *lines = again.stdout.splitlines()[-5:-1]
    assert unset.strip() == "unset EXPUNGE_STORE"
    for line in lines:
        shell(f"cd expunge-demo && {unset} && {line}", tmp_path, EXPUNGE_STORE="sqlite:///ward.db")
