"""``expunge witness serve`` in a process of its own, and ``expunge checkpoint witness`` against it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.command_runner import TRUST, answer, call, code_of


@contextmanager
def witness_process(*words: str) -> Iterator[dict[str, str]]:
    """A witness in another process, as the second party runs it; what it printed first."""
    command = [sys.executable, "-m", "expunge", "witness", "serve", *words, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


def test_two_witnesses_and_a_policy(ward: Path) -> None:
    names = ("w1", "w2")
    for name, more in zip(names, ((), ("--ml-dsa",)), strict=True):
        call("keygen", f"{name}.pem", "--witness", f"w.example/{name}", *more)
    keys = {name: Path(f"{name}.vkey").read_text().strip() for name in names}
    asked = [("--name", f"w.example/{name}", "--signing-key", f"{name}.pem", "--log", "log.vkey") for name in names]
    with witness_process(*asked[0]) as one, witness_process(*asked[1]) as two:
        assert (one["witness"], one["state"]) == (keys["w1"], "w1.heads")
        Path("both.policy").write_text(
            f"witness a {keys['w1']} {one['url']}\nwitness b {keys['w2']} {two['url']}\n"
            "group both all a b\nquorum both\n"
        )
        call("checkpoint", "witness", "--policy", "both.policy", "--out", "first.txt")
        assert (
            "cosignatures" in answer("verify", "checkpoint", "first.txt", *TRUST, "--policy", "both.policy")["checked"]
        )
        call("delete", "--yes", "other", "h000")
        # One witness alone, by its address and key; then both, of which one is a head behind.
        alone = ("--witness-url", one["url"], "--witness", "w1.vkey")
        made = answer("checkpoint", "witness", *alone, "--out", "alone.txt")
        assert len(made["signatures"]) == 2
        assert (
            code_of("verify", "checkpoint", "alone.txt", *TRUST, "--policy", "both.policy")
            == "cosignature-quorum-missed"
        )
        made = answer("checkpoint", "witness", "--policy", "both.policy", "--head", "alone.txt", "--out", "both.txt")
        assert made["signatures"][1:] == ["w.example/w1", "w.example/w2"]
        # Keys of both in one file, with a comment.
        Path("both.vkey").write_text("# the witnesses\n" + "\n".join(keys.values()) + "\n")
        assert answer("verify", "checkpoint", "both.txt", *TRUST, "--witness", "both.vkey")["size"] == 4
        call("log", 3, "--out", "erased.json", "--head", "both.txt")
        assert (
            "cosignatures" in answer("verify", "receipt", "erased.json", *TRUST, "--policy", "both.policy")["checked"]
        )
        call("checkpoint", "witness", *alone, "--out", "both.txt", code=2)
    # Nobody is there any more.
    assert answer("checkpoint", "witness", "--policy", "both.policy", code=4)["code"] == "server-unreachable"


def test_one_witness_of_two_is_away(ward: Path) -> None:
    for name in ("w1", "w2"):
        call("keygen", f"{name}.pem", "--witness", f"w.example/{name}")
    keys = [Path(f"{name}.vkey").read_text().strip() for name in ("w1", "w2")]
    with witness_process("--name", "w.example/w1", "--signing-key", "w1.pem", "--log", "log.vkey") as one:
        witnesses = (
            f"witness a {keys[0]} {one['url']}\nwitness b {keys[1]} http://127.0.0.1:1\ngroup g {{}} a b\nquorum g\n"
        )
        Path("any.policy").write_text(witnesses.format("any"))
        Path("all.policy").write_text(witnesses.format("all"))
        done = call("checkpoint", "witness", "--policy", "any.policy", "--out", "one.txt")
        assert "server-unreachable" in done.stderr
        call("checkpoint", "witness", "--policy", "all.policy", "--out", "none.txt", code=1)
        assert not Path("none.txt").exists()


def test_what_is_not_asked_rightly(ward: Path) -> None:
    call("keygen", "w1.pem", "--witness", "w.example/w1")
    for words in (
        (),
        ("--witness", "w1.vkey"),
        ("--witness-url", "http://127.0.0.1:1"),
        ("--witness", "w1.vkey", "--witness-url", "file:///etc/passwd"),
        ("--witness", "w1.vkey", "--policy", "w1.vkey"),
    ):
        assert code_of("checkpoint", "witness", *words, code=2) == "input-error"
    Path("bad.policy").write_text("quorum w\n")
    assert code_of("checkpoint", "witness", "--policy", "bad.policy", code=2) == "witness-policy-invalid"
    serve = ("witness", "serve", "--name", "w.example/w1")
    assert code_of(*serve, "--log", "log.vkey", code=2) == "input-error"
    assert code_of(*serve, "--log", "w1.vkey", "--signing-key", "w1.pem", code=2) == "input-error"
    assert code_of(*serve, "--log", "log.vkey", "--signing-key", "expunge.db.key", code=2) == "witness-is-log"
    open_to_all = ("--log", "log.vkey", "--signing-key", "w1.pem", "--host", "0.0.0.0")  # noqa: S104
    assert code_of(*serve, *open_to_all, code=2) == "input-error"
    call("keygen", "w3.pem", "--ml-dsa", code=2)
