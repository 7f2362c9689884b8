"""``expunge export tiles`` and ``expunge verify tiles``."""

from __future__ import annotations

import shutil
from pathlib import Path

import scitt_cose

from cli.command_runner import TRUST, answer, call, changed, code_of
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey


def test_a_published_log(ward: Path) -> None:
    assert answer("export", "tiles", "--out", "public")["size"] == 3
    assert answer("export", "tiles", "--out", "public")["written"] == 0
    call("checkpoint", "export", "--out", "head.txt")
    call("delete", "--yes", "other", "h000")
    # To the earlier head nothing is missing; to the new one, a tile, a bundle and the head.
    assert answer("export", "tiles", "--out", "public", "--head", "head.txt")["written"] == 0
    assert answer("export", "tiles", "--out", "public")["written"] == 3
    found = answer("verify", "tiles", "public", *TRUST)
    assert (found["size"], found["checked"]) == (4, ["signature", "entries", "tiles", "root"])
    assert "4 leaves" in call("verify", "tiles", "public", *TRUST).stdout
    assert code_of("export", "tiles", "--out", "public", "--head", "head.txt", code=2) == "input-error"
    entries = Path("public/tile/entries/000.p/4")
    assert Path("public/tile/0/000.p/4").stat().st_size == 4 * 32
    changed(str(entries), str(entries), b"payload", b"Payload")
    assert code_of("verify", "tiles", "public", *TRUST) == "tiles-hash-mismatch"


def test_a_folder_of_another_history_is_left_alone(ward: Path) -> None:
    shutil.copy("expunge.db", "fork.db")
    fork = ("--store", "sqlite:///fork.db", "--signing-key", "expunge.db.key")
    call("delete", "--yes", "other", "h000")
    call("export", "tiles", "--out", "public")
    call("delete", "--yes", "other", "h001", *fork)
    call("delete", "--yes", "other", "h002", *fork)
    before = Path("public/checkpoint").read_bytes()
    assert code_of("export", "tiles", "--out", "public", *fork).startswith("consistency-")
    call("create", "ward", "hours.csv", "--sigma", 2, "--nu", 0.3, "--store", "sqlite:///strange.db")
    for number in range(4):
        call("delete", "--yes", "ward", f"h00{number}", "--store", "sqlite:///strange.db")
    assert code_of("export", "tiles", "--out", "public", "--store", "sqlite:///strange.db") == "note-signer-unknown"
    assert Path("public/checkpoint").read_bytes() == before


def test_a_leaf_as_cose(ward: Path) -> None:
    call("checkpoint", "export", "--out", "head.txt")
    call("delete", "--yes", "other", "h000")
    made = answer("export", "cose", 3, "--out", "erasure.cose")
    assert (made["head"]["size"], made["bytes"]) == (4, Path("erasure.cose").stat().st_size)
    assert answer("export", "cose", 2, "--head", "head.txt", "--out", "earlier.cose")["head"]["size"] == 3
    data = Path("erasure.cose").read_bytes()
    public = NoteKey.from_text(Path("log.vkey").read_text().strip()).public
    assert isinstance(public, VerifyingKey)
    parsed = scitt_cose.parse_signed_statement(data, public_key_pem=public.to_pem())
    assert parsed["signature_verified"] is True
    (receipt,) = scitt_cose.extract_receipts(data)
    entry = parsed["payload"].hex()
    assert scitt_cose.verify_receipt(receipt, leaf_entry_hex=entry, log_public_key_pem=public.to_pem()).ok
    # The payload is a receipt as the log has it.
    Path("erasure.json").write_bytes(parsed["payload"])
    assert answer("verify", "receipt", "erasure.json", *TRUST)["verified"] is True
    assert code_of("export", "cose", 3, "--out", "erasure.cose", code=2) == "input-error"
    assert code_of("export", "cose", 3, "--head", "head.txt", "--out", "late.cose", code=2) == "input-error"
    assert code_of("export", "cose", 9, "--out", "none.cose", code=2) == "input-error"
