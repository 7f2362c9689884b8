"""No traceback on any bad input: one line, the right exit code, and nothing changed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.command_runner import answers, call, hours, shell
from expunge.cli.errors import report_error

TRUST = "--trust log.vkey"

BAD: list[tuple[str, int, str]] = [
    ("nonsense", 2, "No such command"),
    ("--nonsense", 2, "No such option"),
    ("create", 2, "Missing argument"),
    ("create ward2 hours.csv --sigma x --nu 0.3", 2, "--sigma is a number or auto"),
    ("create ward2 --dimension 2", 2, "no keys to choose a width from"),
    ("create ward2 --dimension 2 --sigma 1 --preview", 2, "--preview shows a FILE"),
    ("create ward2 hours.csv --missing never", 2, "--missing is median or drop or refuse"),
    ("create ward2 hours.csv --columns-file log.vkey", 2, "log.vkey is not JSON"),
    ("create ward2 hours.csv --sigma 2 --nu 0.3 --cap 1", 2, "exactly one of nu"),
    ("create ward2 hours.csv --sigma -1 --nu 0.3", 2, "sigma must be a positive width"),
    ("create ward2 hours.csv --sigma nan --nu 0.3", 2, "sigma must be finite"),
    ("create ward2 hours.csv --sigma 2 --nu 3", 2, r"nu must lie in \(0, 1\]"),
    ("create ward2 hours.csv --sigma 2 --cap 0.001", 2, "infeasible for 40 keys"),
    ("create ward hours.csv --sigma 2 --nu 0.3", 2, "there is a memory 'ward' already"),
    ("create ward2 none.csv --sigma 2 --nu 0.3", 4, "there is no such file"),
    ("create ward2 log.vkey --sigma 2 --nu 0.3", 2, "log.vkey has no rows"),
    ("create ward2 log.vkey --sigma 2 --nu 0.3 --format xml", 2, "--format is csv or"),
    ("create ward2 log.vkey --sigma 2 --nu 0.3 --format parquet", 2, "not a usable Parquet file"),
    ("create ward2 hours.csv --sigma 2 --nu 0.3 --key-columns hr", 2, "no column 'hr'"),
    ("create ward2 hours.csv --sigma 2 --nu 0.3 --value-columns note", 2, r"row 1 \(line 2\), column 'note'"),
    ("create hours.csv", 2, "expunge create hours hours.csv"),
    ("create hours.csv trial", 2, "expunge create hours hours.csv"),
    ("import nobody hours.csv", 2, "there is no memory 'nobody'"),
    ("import ward - --format parquet", 2, "not a usable Parquet file"),
    ("import ward -", 2, "standard input is empty"),
    ("admit ward --at 1 --value 1", 2, "--at must have 2 coordinates"),
    ("admit ward --at 1,x --value 1", 2, "'x' is not a number"),
    ("admit ward --at [1,2 --value 1", 2, "not a JSON array"),
    ("admit ward --at 1,nan --value 1", 2, "--at must be finite"),
    ("admit ward --at 1,1e999 --value 1", 2, "--at must be finite"),
    ("admit ward --at @none.npy --value 1", 4, "there is no such file"),
    ("admit ward --at @hours.csv --value 1", 2, "is not a number"),
    ("admit ward --at @log.npy --value 1", 2, "holds no vector"),
    ("admit ward --at [[1,2],[3,4]] --value 1", 2, "2 keys, and 1 values"),
    ("admit ward --at [[[1]]] --value 1", 2, "a vector has"),
    ("admit ward --at [] --value 1", 2, "a vector has"),
    ("admit ward --at ['a'] --value 1", 2, "not a JSON array"),
    ('admit ward --at ["a"] --value 1', 2, "not a"),
    ("admit ward --at 1,2 --value 1 --on-expiry never", 2, "report or refuse"),
    ("admit ward --at 1,2 --value 1 --payload @none", 4, "cannot read none"),
    ("delete ward", 2, "say what to delete"),
    ("delete ward h000 --subject p-1", 2, "say what to delete"),
    ("delete --yes ward --subject nobody", 2, "no entry belongs to subject 'nobody'"),
    ("delete --yes nobody h000", 2, "there is no memory"),
    ("delete --yes ward h000 h000", 2, "listed twice"),
    ("delete --yes ward h000 --idempotency-key ''", 2, "idempotency key"),
    ("prune ward --mode burn", 2, "archive or forget"),
    ("prune ward --sketch -1", 2, "--sketch"),
    ("prune --yes other --mode forget --sketch 9", 2, "is the content again"),
    ("erase-subject --yes ''", 2, "subject"),
    ("hold ward --reason x", 2, "a hold is on an id, or on a subject"),
    ("hold ward h000 --subject p-1 --reason x", 2, "exactly one"),
    ("hold ward --subject p-1", 2, "a hold needs"),
    ("hold ward nobody --reason x", 2, "no entry has id"),
    ("release 1", 2, "there is no hold 1"),
    ("release x", 2, "HOLD"),
    ("read ward", 2, "say where to ask"),
    ("read ward --at 1,2 --like h000", 2, "say where to ask"),
    ("read ward --at 1,2 --at 1", 2, "--at must have 2 coordinates"),
    ("read ward --at 1,2,3", 2, "--at must have 2 coordinates"),
    ("search ward --like nobody", 2, "no entry has id 'nobody'"),
    ("search ward --at 1,2 -n 0", 2, "--count"),
    ("show nobody", 2, "there is no memory"),
    ("show ward nobody", 2, "no entry has id"),
    ("show --store sqlite:///none.db", 4, "there is no store at none.db; name one with --store"),
    ("show --store sqlite:///log.vkey", 4, "database"),
    ("show --store nonsense", 2, "is not a URL"),
    ("show --store mysql://host/x", 2, "is not a store|could not"),
    ("show --store sqlite://", 2, "needs a file"),
    ("show --signing-key log.vkey", 4, "needs 0600"),
    ("show --signing-key none.pem", 4, "no key file"),
    ("warranties ward --status maybe", 2, "valid, expired or ended"),
    ("warranties nobody", 2, "there is no memory"),
    ("prove nobody", 2, "there is no memory"),
    ("prove ward --out none/x.proof", 4, "cannot write"),
    ("log 99", 2, "no leaf 99"),
    ("log -1", 2, "No such option|INDEX"),
    ("log --memory nobody", 2, "there is no memory"),
    ("log 0 --out none/x.json", 4, "cannot write"),
    ("log 0 --out .", 2, "exists; choose another name$"),
    ("log 0 --memory ward", 2, "--memory goes with the list"),
    ("log --memory ward --out x.jsonl", 2, "the log is written whole"),
    ("log --out none/x.jsonl", 4, "cannot write"),
    ("checkpoint export --since hours.csv", 1, "empty line|note"),
    ("checkpoint export --out none/head.txt", 4, "cannot write"),
    ("checkpoint check none.txt", 4, "cannot read"),
    ("checkpoint check hours.csv", 1, "note|line"),
    (f"checkpoint cosign hours.csv --first --name w --signing-key expunge.db.key {TRUST}", 1, "note|line"),
    (f"checkpoint cosign hours.csv --name w --signing-key expunge.db.key {TRUST}", 1, "note|line"),
    ("checkpoint nonsense", 2, "No such command"),
    (f"verify receipt none.json {TRUST}", 4, "cannot read"),
    (f"verify receipt hours.csv {TRUST}", 1, "JSON"),
    (f"verify receipt . {TRUST}", 4, "cannot read"),
    (f"verify evidence hours.csv {TRUST}", 1, "archive|bundle|container|ZIP"),
    (f"verify proof hours.csv --memory ward {TRUST}", 2, "No such option"),
    ("verify proof hours.csv --memory ward", 1, "JSON"),
    (f"verify checkpoint hours.csv {TRUST}", 1, "note|line"),
    (f"verify ledger hours.csv {TRUST}", 4, "cannot read"),
    (f"verify ledger hours.csv --checkpoint hours.csv {TRUST}", 1, "note|line"),
    ("verify receipt hours.csv --trust none.vkey", 4, "cannot read"),
    ("verify receipt hours.csv --trust expunge.db", 2, "more than 65536 bytes"),
    ("verify receipt hours.csv --trust expunge.db.key", 2, "not a PEM public key"),
    ("export-evidence nobody --out x.zip", 2, "there is no memory"),
    ("export-evidence ward --out none/x.zip", 4, "cannot write"),
    ("export-evidence ward --out .", 2, "exists"),
    ("backup none/x.db", 4, "cannot write"),
    ("backup .", 4, "exists"),
    ("restore none.db --store sqlite:///x.db --signing-key expunge.db.key", 4, "there is no backup"),
    ("restore hours.csv --store sqlite:///x.db --signing-key expunge.db.key", 4, "database|schema"),
    ("restore hours.csv --store sqlite:///x.db --signing-key expunge.db.key --checkpoint none", 4, "cannot read"),
    ("keygen log.vkey", 4, "exists"),
    ("serve --tls-cert hours.csv --tls-key hours.csv", 2, "no certificate and private key of one another"),
    ("keygen none/x.pem", 4, "cannot write"),
    ("keygen .", 4, "exists"),
    ("demo --folder hours.csv", 2, "was not made by the demo"),
    ("demo --folder .", 2, "was not made by the demo"),
    ("demo --folder hours.csv/x", 4, "cannot make"),
]


@pytest.mark.parametrize(("line", "code", "message"), BAD, ids=[line for line, _, _ in BAD])
def test_one_line_and_the_right_code(ward: Path, line: str, code: int, message: str) -> None:
    Path("log.npy").write_bytes(b"\x93NUMPY nothing of the kind")
    words = _split(line)
    before = answers("log")
    done = call(*words, code=code)
    (complaint,) = done.stderr.splitlines()
    assert re.match(r"error: [a-z0-9-]+: .*(" + message + ")", complaint), complaint
    assert done.stdout == ""
    found = answers(*words, code=code)
    assert len(found) == 1
    assert found[0]["exit_code"] == code
    assert set(found[0]) >= {"error", "message", "exit_code"}
    assert answers("log") == before


def _split(line: str) -> list[str]:
    """Words, with quotes kept where JSON needs them."""
    return ["" if word == "''" else word for word in line.split()]


def test_a_defect_is_called_one(
    ward: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("expunge.store.open", broken)
    done = call("show", code=70)
    assert done.stderr.startswith("error: ZeroDivisionError: division by zero (a defect in expunge;")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        call("show", env={"EXPUNGE_TRACEBACK": "1"}, code=70)
    assert report_error(ValueError(), as_json=True) == 70
    assert '"exit_code": 70' in capsys.readouterr().out


@pytest.mark.slow
def test_exit_codes_of_real_processes(ward: Path) -> None:
    shell("expunge show ward", ward, code=0)
    shell("expunge log 0 --out r.json && sed 's/ey/ez/' r.json > bad.json", ward)
    assert "envelope-signature-invalid" in shell(f"expunge verify receipt bad.json {TRUST}", ward, code=1).stderr
    shell("expunge show nobody", ward, code=2)
    shell("expunge hold ward --subject p-1 --reason x && expunge delete ward --subject p-1 --yes", ward, code=3)
    shell("expunge show --store sqlite:///none.db", ward, code=4)


@pytest.mark.slow
def test_a_reader_that_goes_away(ward: Path) -> None:
    done = shell("expunge search ward --at 0,0 -n 50 --json | head -0; exit ${PIPESTATUS[0]}", ward, code=141)
    assert done.stderr == ""
    # In the help and in errors, too: 1 would say that a verification failed.
    for words in ("", "--help", "delete --help", "verify", "--version", "show nobody --json", "nonsense --json"):
        shell(f"expunge {words} | head -0; exit ${{PIPESTATUS[0]}}", ward, code=141)


@pytest.mark.slow
def test_standard_output_that_is_full(ward: Path) -> None:
    size = len(answers("log"))
    done = shell("expunge delete ward h000 --yes > /dev/full", ward, code=4)
    assert done.stderr == (
        "error: store-error: cannot write to standard output: No space left on device; "
        "expunge log tells what was done\n"
    )
    assert len(answers("log")) == size + 1
    shell("expunge show nobody --json > /dev/full", ward, code=4)
    shell("expunge --help > /dev/full", ward, code=4)


@pytest.mark.slow
def test_standard_streams_that_are_closed(ward: Path) -> None:
    size = len(answers("log"))
    shell("expunge delete ward h000 --yes <&-", ward)
    shell("expunge delete ward h001 --yes >&-", ward)
    shell("expunge delete ward h002 --yes 2>&-", ward)
    shell("expunge delete ward h003 --yes <&- >&- 2>&-", ward)
    assert len(answers("log")) == size + 4
    shell("expunge show nobody 2>&-", ward, code=2)
    call("verify", "ledger")


@pytest.mark.slow
def test_standard_output_that_knows_only_ascii(ward: Path) -> None:
    done = shell("expunge log 0", ward, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert "outcome" in done.stdout
    done = shell("expunge admit ward --at 0,0 --value 97 --id ü --json", ward, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert r'"applied": ["\u00fc"]' in done.stdout


@pytest.mark.slow
def test_an_interrupt(ward: Path) -> None:
    """Sent while a long import is under way: what was admitted is whole, and the rest can follow."""
    hours(ward / "many.csv", count=3000, seed=9)
    text = (ward / "many.csv").read_text().replace("\nh", "\nm")
    (ward / "many.csv").write_text(text)
    words = [sys.executable, "-m", "expunge", "import", "ward", "many.csv", "--each"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EXPUNGE_")}
    with subprocess.Popen(words, cwd=ward, stderr=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        size = len(answers("log"))
        while process.poll() is None and len(answers("log", "-n", 3000)) < size + 5:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert "Traceback" not in complaint
    call("verify", "ledger")
    call("show", "ward")
