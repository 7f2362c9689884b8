"""``expunge key``: spare keys, rotation, revocation."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command_runner import TRUST, answer, call, code_of


def ids() -> dict[tuple[str, bool], list[str]]:
    found: dict[tuple[str, bool], list[str]] = {}
    for line in call("key", "list", "--json").stdout.splitlines():
        known = json.loads(line)
        found.setdefault((known["use"], known["revoked"]), []).append(known["key_id"])
    return found


def test_a_key_is_rotated(ward: Path) -> None:
    call("log", 0, "--out", "old.json")
    call("checkpoint", "export", "--out", "old.txt")
    call("delete", "--yes", "other", "h000", "--idempotency-key", "ticket-1")
    call("keygen", "new.pem")
    (first,) = ids()["receipts", False]
    made = answer("key", "rotate", "new.pem")
    assert code_of("delete", "--yes", "other", "h001", code=4) == "signing-key-revoked"
    new = ("--signing-key", "new.pem")
    assert Path("expunge.db.pepper").stat().st_mode & 0o777 == 0o600
    # The same request is known again under the new key.
    assert answer("delete", "--yes", "other", "h000", "--idempotency-key", "ticket-1", *new)["index"] == 3
    call("delete", "--yes", "other", "h001", *new)
    call("verify", "store", *new)
    listed = call("key", "list", "--json", *new).stdout
    assert (listed.count('"revoked": true'), listed.count(first)) == (2, 2)
    assert made["key_id"] in listed
    # A receipt of before verifies under the old key, one of after under the new one.
    call("log", 8, "--out", "new.json", *new)
    call("verify", "receipt", "old.json", *TRUST)
    call("verify", "receipt", "new.json", "--trust", made["verifier_key"])
    assert code_of("verify", "receipt", "new.json", *TRUST) == "envelope-signer-unknown"
    call("checkpoint", "export", "--since", "old.txt", "--out", "extension.txt", *new)
    assert code_of("key", "rotate", "new.pem", *new, code=2) == "input-error"


def test_a_spare_key_takes_over_from_one_that_was_lost(ward: Path) -> None:
    (first,) = ids()["receipts", False]
    call("keygen", "spare.pem")
    told = answer("key", "add", "spare.pub")
    assert ids() == {("receipts", False): [first, told["key_id"]], ("heads", False): [first, told["key_id"]]}
    assert code_of("key", "add", "spare.pub", code=2) == "input-error"
    assert code_of("key", "revoke", first, "--reason", "lost", code=2) == "input-error"
    Path("expunge.db.key").rename("gone.key")
    spare = ("--signing-key", "spare.pem")
    assert code_of("key", "revoke", "SHA256:nobody", "--reason", "lost", *spare, code=2) == "input-error"
    assert len(answer("key", "revoke", first, "--reason", "lost", *spare)["leaves"]) == 2
    assert answer("key", "revoke", first, "--reason", "lost", *spare)["leaves"] == []
    call("delete", "--yes", "other", "h000", *spare)
    call("verify", "store", *spare)
    assert code_of("show", "--signing-key", "gone.key", code=4) == "signing-key-revoked"
    # A backup knows its keys, and is restored with one that is valid in it.
    call("backup", "backup.db", *spare)
    Path("expunge.db.pepper").rename("restored.db.pepper")
    assert (
        "signing-key-revoked"
        in call("restore", "backup.db", "--store", "sqlite:///other.db", "--signing-key", "gone.key", code=4).stderr
    )
    call("restore", "backup.db", "--store", "sqlite:///restored.db", *spare)
    call("verify", "store", "--store", "sqlite:///restored.db", *spare)
