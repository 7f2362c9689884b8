"""``expunge checkpoint timestamp``, and the stamp in the commands that verify heads and receipts."""

from __future__ import annotations

from pathlib import Path

from cli.command_runner import TRUST, answer, call, code_of
from witnessing.stamping_authority import make_authority, serve_answers, stamping_server


def test_a_stamped_head_dates_a_receipt(ward: Path) -> None:
    authority = make_authority(ward / "tsa")
    call("checkpoint", "export", "--out", "head.txt")
    root = ("--tsa-root", authority / "root.pem")
    with stamping_server(authority) as url:
        made = answer("checkpoint", "timestamp", "head.txt", "--tsa", url, *root)
        assert (made["file"], made["verified"], made["authority"]) == ("head.tsr", True, "CN=tsa")
        call("checkpoint", "timestamp", "head.txt", "--tsa", url, code=2)
        unverified = answer("checkpoint", "timestamp", "head.txt", "--tsa", url, "--out", "other.tsr")
        assert "stamped" not in unverified
    asked = ("--timestamp", "head.tsr", *root)
    told = answer("verify", "checkpoint", "head.txt", *TRUST, *asked)
    assert told["checked"] == ["signature", "timestamp"]
    assert told["stamped"] == made["stamped"]
    # A receipt under that head is older than the stamp.
    call("log", 0, "--out", "first.json", "--head", "head.txt")
    told = answer("verify", "receipt", "first.json", *TRUST, *asked)
    assert (told["checked"], told["stamped"]) == (["signature", "form", "inclusion", "timestamp"], made["stamped"])
    assert "stamped 2" in call("verify", "receipt", "first.json", *TRUST, *asked).stdout
    call("delete", "--yes", "other", "h000")
    call("checkpoint", "export", "--out", "later.txt")
    assert code_of("verify", "checkpoint", "later.txt", *TRUST, *asked) == "timestamp-imprint-mismatch"
    for half in (asked[:2], root):
        assert code_of("verify", "checkpoint", "head.txt", *TRUST, *half, code=2) == "input-error"
    Path("first.tlog-proof").unlink()
    assert code_of("verify", "receipt", "first.json", *TRUST, *asked, code=2) == "input-error"


def test_no_answer_leaves_no_file(ward: Path) -> None:
    call("checkpoint", "export", "--out", "head.txt")
    with serve_answers(lambda _: (200, "text/html", b"")) as url:
        assert code_of("checkpoint", "timestamp", "head.txt", "--tsa", url) == "timestamp-answer-unexpected"
    away = ("checkpoint", "timestamp", "head.txt", "--tsa", "http://127.0.0.1:1", "--timeout", 1)
    assert code_of(*away, code=4) == "server-unreachable"
    assert not Path("head.tsr").exists()
