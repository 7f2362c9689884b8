"""Signed heads of the log: ``expunge checkpoint`` and ``verify checkpoint``, with witnesses."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from cli.command_runner import TRUST, answer, call, changed, code_of
from expunge.ledger.checkpoint import Witness
from expunge.ledger.note import parse_note
from expunge.ledger.signing import SigningKey
from expunge.store import open as open_store


def test_checkpoints(ward: Path) -> None:
    note = call("checkpoint", "export").stdout
    assert answer("checkpoint", "export")["text"] == note
    call("checkpoint", "export", "--out", "kept.txt")
    call("checkpoint", "export", "--out", "kept.txt", code=2)
    assert Path("kept.txt").read_text() == note
    call("delete", "--yes", "other", "h000")
    found = answer("checkpoint", "check", "kept.txt")
    assert (found["kept"]["size"], found["now"]["size"]) == (3, 4)
    assert "extend" in call("checkpoint", "check", "kept.txt", *TRUST).stdout
    call("checkpoint", "export", "--since", "kept.txt", "--out", "extension.txt")
    call("checkpoint", "export", "--out", "new.txt")
    assert "consistency" in answer("verify", "checkpoint", "extension.txt", "--older", "kept.txt", *TRUST)["checked"]
    assert answer("verify", "checkpoint", "new.txt", *TRUST)["size"] == 4
    changed("new.txt", "bad.txt", b"\n4\n", b"\n5\n")
    assert code_of("verify", "checkpoint", "bad.txt", *TRUST) == "note-signature-invalid"
    assert code_of("verify", "checkpoint", "new.txt", "--older", "kept.txt", *TRUST, code=2) == "input-error"
    assert (
        code_of("verify", "checkpoint", "extension.txt", "--older", "new.txt", *TRUST) == "log-proof-old-size-mismatch"
    )


def test_an_extension_is_kept_as_well_as_a_head(ward: Path) -> None:
    """What a monitor has after its first comparison is an extension proof, with a newer head in it."""
    call("checkpoint", "export", "--out", "kept.txt")
    for number, older in enumerate(("kept.txt", "extension-0.txt")):
        call("delete", "--yes", "other", f"h00{number}")
        call("checkpoint", "export", "--since", older, "--out", f"extension-{number}.txt")
    newest = ("verify", "checkpoint", "extension-1.txt", *TRUST, "--older")
    assert answer(*newest, "extension-0.txt")["size"] == 5
    assert code_of(*newest, "kept.txt") == "log-proof-old-size-mismatch"
    assert answer("checkpoint", "check", "extension-0.txt", *TRUST)["kept"]["size"] == 4
    call("keygen", "w.pem")
    mine = ("--name", "w.example", *TRUST, "--signing-key", "w.pem")
    assert answer("checkpoint", "cosign", "extension-0.txt", "--first", *mine)["extends"] is False
    assert answer("checkpoint", "cosign", "extension-1.txt", *mine)["extends"] is True


def test_a_witness_keeps_what_it_cosigned(ward: Path) -> None:
    call("keygen", "w.pem")
    mine = ("--name", "w.example", *TRUST, "--signing-key", "w.pem")
    call("checkpoint", "export", "--out", "old.txt")
    assert code_of("checkpoint", "cosign", "old.txt", *mine, code=2) == "input-error"
    call("checkpoint", "cosign", "old.txt", "--first", *mine, "--out", "cosigned.txt")
    assert code_of("checkpoint", "cosign", "old.txt", "--first", *mine, code=2) == "input-error"
    origin = str(answer("checkpoint", "export")["origin"])
    for named in ((), (origin,)):
        told = call("checkpoint", "kept", *named, "--signing-key", "w.pem").stdout
        assert told == Path("cosigned.txt").read_text()
    call("delete", "--yes", "other", "h000")
    call("checkpoint", "export", "--out", "new.txt")
    assert "--since" in call("checkpoint", "cosign", "new.txt", *mine, code=2).stderr
    call("checkpoint", "kept", origin, "--signing-key", "w.pem", "--out", "kept.txt")
    call("checkpoint", "export", "--since", "kept.txt", "--out", "extension.txt")
    assert answer("checkpoint", "cosign", "extension.txt", *mine)["size"] == 4
    assert answer("checkpoint", "cosign", "new.txt", *mine)["size"] == 4
    assert code_of("checkpoint", "cosign", "old.txt", *mine) == "consistency-sizes-reversed"
    assert code_of("checkpoint", "cosign", "extension.txt", *mine) == "log-proof-old-size-mismatch"
    own = ("--name", "w.example", *TRUST, "--signing-key", "expunge.db.key", "--first", "--state", "s.heads")
    assert code_of("checkpoint", "cosign", "new.txt", *own, code=2) == "witness-is-log"
    assert code_of("checkpoint", "kept", "strange", "--signing-key", "w.pem", code=2) == "input-error"


def test_a_bare_line_is_put_under_its_head(ward: Path) -> None:
    made = answer("keygen", "w.pem", "--witness", "w.example")
    call("checkpoint", "export", "--out", "head.txt")
    words = ("checkpoint", "cosign", "head.txt", "--first", "--name", "w.example", *TRUST, "--signing-key", "w.pem")
    line = call(*words).stdout.splitlines()[-1]
    Path("line.txt").write_text(f"{line}\n")
    call("checkpoint", "merge", "head.txt", "line.txt", "--out", "cosigned.txt")
    asked = (*TRUST, "--witness", made["witness"])
    assert "cosignatures" in answer("verify", "checkpoint", "cosigned.txt", *asked)["checked"]
    assert "cosignatures" in answer("verify", "checkpoint", "cosigned.txt", *asked, "--max-age", 600)["checked"]
    assert code_of("verify", "checkpoint", "cosigned.txt", *TRUST, "--max-age", 600, code=2) == "input-error"
    Path("line.txt").write_text(f"{line}\n\n{line}\n")
    assert code_of("checkpoint", "merge", "head.txt", "line.txt") == "note-signature-line-malformed"


def test_the_present_head_was_cosigned_this_week(ward: Path) -> None:
    """A receipt under an older head stays verifiable: there no age is asked for."""
    call("checkpoint", "export", "--out", "head.txt")
    note = parse_note(Path("head.txt").read_bytes())
    witness = Witness("w.example", SigningKey.generate())
    asked = (*TRUST, "--witness", witness.verifier.to_text())
    for days in (6, 8):
        line = witness.cosignature(note.text, int(time.time()) - 86400 * days)
        Path(f"{days}.txt").write_bytes(note.with_signature(line).to_bytes())
    assert "cosignatures" in answer("verify", "checkpoint", "6.txt", *asked)["checked"]
    assert code_of("verify", "checkpoint", "6.txt", *asked, "--max-age", 86400) == "cosignature-too-old"
    assert code_of("verify", "checkpoint", "8.txt", *asked) == "cosignature-too-old"
    for age in ("none", 9 * 86400):
        assert "cosignatures" in answer("verify", "checkpoint", "8.txt", *asked, "--max-age", age)["checked"]
    for text in ("-1", "1.5", "never", "", "9" * 16):
        assert code_of("verify", "checkpoint", "8.txt", *asked, "--max-age", text, code=2) == "input-error"
    call("log", "1", "--out", "receipt.json", "--head", "8.txt")
    assert "cosignatures" in answer("verify", "receipt", "receipt.json", *asked)["checked"]


def test_there_is_no_extension_of_a_head_of_another_log(ward: Path) -> None:
    call("create", "ward", "hours.csv", "--sigma", 2, "--nu", 0.3, "--store", "sqlite:///strange.db")
    call("checkpoint", "export", "--out", "strange.txt", "--store", "sqlite:///strange.db")
    since = ("checkpoint", "export", "--since", "strange.txt", "--out", "extension.txt")
    assert code_of(*since) == "note-signer-unknown"
    assert not Path("extension.txt").exists()


def test_witnesses(ward: Path) -> None:
    call("checkpoint", "export", "--out", "kept.txt")
    call("delete", "--yes", "other", "h000")
    call("checkpoint", "export", "--since", "kept.txt", "--out", "extension.txt")
    keys = []
    for name in ("w1", "w2"):
        call("keygen", f"{name}.pem")
        mine = ("--name", f"{name}.example", *TRUST, "--signing-key", f"{name}.pem")
        call("checkpoint", "cosign", "kept.txt", "--first", *mine)
        made = answer("checkpoint", "cosign", "extension.txt", *mine, "--out", f"{name}.txt")
        assert made["extends"] is True
        keys.append(made["witness"])
    quorum = ("--witness", keys[0], "--witness", keys[1])
    both = ("verify", "checkpoint", "w1.txt", *TRUST, *quorum)
    assert code_of(*both) == "cosignature-quorum-missed"
    assert "cosignatures" in answer(*both, "--quorum", 1)["checked"]
    # A witness that is named twice is still one, and its cosignature is enough.
    twice = ("--witness", keys[0], "--witness", keys[0])
    assert "cosignatures" in answer("verify", "checkpoint", "w1.txt", *TRUST, *twice)["checked"]
    assert code_of(*both, "--quorum", 3, code=2) == "input-error"
    # A key without a name is no witness, and is not passed over beside one either.
    assert code_of(*both, "--witness", "w2.pub", "--quorum", 1, code=2) == "input-error"
    assert code_of("verify", "checkpoint", "w2.txt", *TRUST, "--witness", keys[0]) == "cosignature-quorum-missed"
    call("keygen", "w3.pem")
    seen = call(
        "checkpoint", "cosign", "kept.txt", "--first", "--name", "w1.example", *TRUST, "--signing-key", "w3.pem"
    )
    assert "w1.example" in seen.stdout
    assert "witness key" in seen.stderr
    assert code_of("checkpoint", "cosign", "kept.txt", "--first", "--name", "w", *TRUST, code=2) == "input-error"
    changed("kept.txt", "bad.txt", b"\n3\n", b"\n2\n")
    bad = ("checkpoint", "cosign", "bad.txt", "--first", "--name", "w", *TRUST, "--signing-key", "w1.pem")
    assert code_of(*bad) == "note-signature-invalid"
    assert code_of("verify", "receipt", "hours.csv", *TRUST, "--witness", "log.pem", code=4) == "store-error"


def test_a_receipt_in_the_log_that_a_witness_has_seen(ward: Path) -> None:
    """From the witness's key to a verified receipt, with what the commands write and nothing else."""
    made = answer("keygen", "w.pem", "--witness", "w.example/1")
    assert Path("w.vkey").read_text() == made["witness"] + "\n"
    call("delete", "--yes", "other", "h000")
    call("checkpoint", "export", "--out", "head.txt")
    words = ("checkpoint", "cosign", "head.txt", "--first", "--name", "w.example/1", *TRUST, "--signing-key", "w.pem")
    assert answer(*words, "--out", "cosigned.txt")["witness"] == made["witness"]
    call("delete", "--yes", "other", "h001")
    asked = (*TRUST, "--witness", "w.vkey")
    call("log", 3, "--out", "seen.json", "--head", "cosigned.txt")
    told = answer("verify", "receipt", "seen.json", *asked)
    assert told["checked"] == ["signature", "form", "inclusion", "cosignatures"]
    assert told["log"].startswith("leaf 3 of ")
    # Without that head the proof leads to one that nobody cosigned; a leaf that came later is not under it.
    call("log", 3, "--out", "unseen.json")
    assert code_of("verify", "receipt", "unseen.json", *asked) == "cosignature-quorum-missed"
    assert "leaf 4 came later" in call("log", 4, "--out", "late.json", "--head", "cosigned.txt", code=2).stderr
    assert not Path("late.json").exists()
    for line in (("log", 3), ("log", "--out", "log.jsonl"), ("log",)):
        assert "--head goes with INDEX and --out" in call(*line, "--head", "cosigned.txt", code=2).stderr
    changed("cosigned.txt", "bad.txt", b"\n4\n", b"\n3\n")
    assert code_of("log", 1, "--out", "bad.json", "--head", "bad.txt") == "note-signature-invalid"
    assert not Path("bad.json").exists()
    # A bundle is of the latest edit, here of a memory that was not edited since the head.
    call("export-evidence", "ward", "--out", "e.zip", "--head", "cosigned.txt")
    assert "cosignatures" in answer("verify", "evidence", "e.zip", "--no-prior", *asked)["checked"]
    assert "came later" in call("export-evidence", "other", "--out", "f.zip", "--head", "head.txt", code=2).stderr


def test_a_witness_is_trusted_for_its_cosignatures_alone(ward: Path) -> None:
    """The key of a witness, which signs nothing else, would verify a receipt that it signed."""
    call("keygen", "w.pem")
    call("checkpoint", "export", "--out", "head.txt")
    words = ("checkpoint", "cosign", "head.txt", "--first", "--name", "w.example", *TRUST, "--signing-key", "w.pem")
    witness = answer(*words)["witness"]
    own = ("--store", "sqlite:///own.db", "--signing-key", "w.pem")
    call("create", "ward", "hours.csv", "--sigma", 2, "--nu", 0.3, *own)
    call("log", 0, "--out", "own.json", *own)
    Path("own.tlog-proof").unlink()
    assert code_of("verify", "receipt", "own.json", "--trust", witness, code=2) == "verifier-key-unsupported"
    both = ("--trust", witness, *TRUST, "--origin", "w.example")
    assert code_of("verify", "receipt", "own.json", *both, code=2) == "verifier-key-unsupported"


def test_witnesses_of_evidence_cosign_the_log(ward: Path) -> None:
    """A bundle's head has no cosignature here, so that none can be found; without the log, none is looked for."""
    call("delete", "--yes", "other", "h000", "--evidence", "e.zip")
    call("keygen", "w.pem")
    call("checkpoint", "export", "--out", "head.txt")
    words = ("checkpoint", "cosign", "head.txt", "--first", "--name", "w.example", *TRUST, "--signing-key", "w.pem")
    asked = ("--witness", answer(*words)["witness"])
    for quorum in ((), ("--quorum", 1)):
        assert code_of("verify", "evidence", "e.zip", *TRUST, *asked, *quorum) == "cosignature-quorum-missed"
        assert code_of("verify", "evidence", "e.zip", *TRUST, "--no-log", *asked, *quorum, code=2) == "input-error"
        assert "an audit is in none" in call("verify", "evidence", ".", *asked, *quorum, code=2).stderr
    assert code_of("verify", "evidence", "e.zip", *TRUST, "--no-log", "--quorum", 1, code=2) == "input-error"
    checked = answer("verify", "evidence", "e.zip", *TRUST, "--no-log")["checked"]
    assert not {"inclusion", "cosignatures"} & set(checked)


def test_a_witness_cosigns_nothing_that_does_not_extend_its_last_head(ward: Path) -> None:
    """The same key signs two histories: a witness of one of them must not cosign the other."""
    call("keygen", "w.pem")
    mine = ("--name", "w.example", *TRUST, "--signing-key", "w.pem")
    shutil.copy("expunge.db", "fork.db")
    fork = ("--store", "sqlite:///fork.db", "--signing-key", "expunge.db.key")
    call("delete", "--yes", "other", "h000")
    call("checkpoint", "export", "--out", "head.txt")
    assert "--first" in call("checkpoint", "cosign", "head.txt", *mine, code=2).stderr
    call("checkpoint", "cosign", "head.txt", "--first", *mine, "--out", "last.txt")
    # The fork: as many leaves, then more, none of them the witness's.
    call("delete", "--yes", "other", "h001", *fork)
    call("delete", "--yes", "other", "h002", *fork)
    since = ("checkpoint", "export", "--since", "last.txt", "--out", "forked.txt", *fork)
    assert code_of(*since) == "consistency-new-root-mismatch"
    with open_store("sqlite:///fork.db", "expunge.db.key") as store:
        Path("forked.txt").write_bytes(store.consistency(4).to_bytes())
    assert code_of("checkpoint", "cosign", "forked.txt", *mine) == "consistency-new-root-mismatch"
    call("checkpoint", "export", "--out", "forked-head.txt", *fork)
    assert code_of("checkpoint", "cosign", "forked-head.txt", *mine, code=2) == "input-error"
    # Older than the last: cut off.
    call("delete", "--yes", "other", "h001")
    call("checkpoint", "export", "--since", "last.txt", "--out", "extension.txt")
    call("checkpoint", "cosign", "extension.txt", *mine, "--out", "newest.txt")
    assert code_of("checkpoint", "cosign", "extension.txt", *mine) == "log-proof-old-size-mismatch"
