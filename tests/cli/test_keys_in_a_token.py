"""A store whose keys are in a token, from the terminal: what it prints to be trusted is what verifies its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_runner import TRUST, answer, call, code_of, hours
from softhsm import HEADS, RECEIPTS, make_token

KEYS = ("--signing-key", RECEIPTS, "--head-key", HEADS)


def test_what_it_hands_out_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ECDSA receipts and Ed25519 heads: two keys, in one file for `--trust`."""
    (tmp_path / "token").mkdir()
    make_token(tmp_path / "token", monkeypatch)
    monkeypatch.chdir(tmp_path)
    table = hours(Path("hours.csv"))
    call(*KEYS, "create", "ward", table, "--sigma", 2, "--nu", 0.3, "--subject-column", "patient")
    leaf = answer(*KEYS, "erase-subject", "p-2", "--yes")["index"]
    Path("log.vkey").write_text(call(*KEYS, "show", "--verifier-key").stdout)
    call(*KEYS, "checkpoint", "export", "--out", "head.txt")
    call(*KEYS, "log", "--out", "ledger.jsonl")
    call(*KEYS, "log", leaf, "--out", "receipt.json")
    call(*KEYS, "certificate", leaf, "--out", "erasure.html")
    call(*KEYS, "export", "tiles", "--out", "public")
    call("verify", "checkpoint", "head.txt", *TRUST)
    call("verify", "ledger", "ledger.jsonl", "--checkpoint", "head.txt", *TRUST)
    call("verify", "receipt", "receipt.json", *TRUST)
    call("verify", "certificate", "erasure.html", *TRUST)
    call("verify", "tiles", "public", *TRUST)
    # Each key in a file of its own will do as well.
    verifier_key, pem = Path("log.vkey").read_text().split("\n", 1)
    Path("heads.vkey").write_text(verifier_key)
    Path("receipts.pem").write_text(pem)
    call("verify", "receipt", "receipt.json", "--trust", "heads.vkey", "--trust", "receipts.pem")
    assert code_of("verify", "receipt", "receipt.json", "--trust", "heads.vkey") == "envelope-signer-unknown"
    # A witness knows the log by the key of its heads.
    call("keygen", "w.pem")
    witness = ("--name", "witness.example/w", "--signing-key", "w.pem")
    call("checkpoint", "cosign", "head.txt", "--first", *witness, *TRUST, "--out", "cosigned.txt")
