"""``expunge verify`` and ``expunge checkpoint``: what holds, and what was changed."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.ward import answer, call, hours, shell
from expunge.cli.trust_options import parse_trust
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.ledger.signing import SigningKey, load_signing_key, save_verifying_key
from expunge.ledger.statement import Statement, Subject
from expunge.store import open as open_store

TRUST = ("--trust", "log.vkey")


def refused(*words: object, code: int = 1) -> str:
    """The class of the error that a command ends with."""
    done = call(*words, code=code)
    (line,) = done.stderr.splitlines()
    found = re.match(r"error: ([a-z0-9-]+): .", line)
    assert found, line
    assert "verified" not in done.stdout
    assert answer(*words, code=code)["code"] == found.group(1)
    return found.group(1)


def changed(source: str, target: str, old: bytes, new: bytes) -> str:
    data = Path(source).read_bytes()
    assert old in data
    Path(target).write_bytes(data.replace(old, new, 1))
    return target


def test_a_receipt(ward: Path) -> None:
    call("log", 2, "--out", "r.json")
    found = answer("verify", "receipt", "r.json", *TRUST)
    assert found["checked"] == ["signature", "form", "inclusion"]
    assert found["receipt"]["outcome"] == "pruned"
    assert "inclusion ✓" in call("verify", "receipt", "r.json", *TRUST).stdout
    changed("r.json", "forged.json", b'"payload":"ey', b'"payload":"ez')
    assert refused("verify", "receipt", "forged.json", *TRUST) == "envelope-signature-invalid"
    with open_store("sqlite:///expunge.db") as store:
        save_verifying_key(store.public_key, "store.pub")
        origin = store.origin
    save_verifying_key(SigningKey.generate().public, "stranger.pub")
    assert refused("verify", "receipt", "r.json", "--trust", "stranger.pub") == "envelope-signer-unknown"
    assert "is --trust the key" in call("verify", "receipt", "r.json", "--trust", "stranger.pub", code=1).stderr
    assert refused("verify", "receipt", "r.json", "--trust", "store.pub", code=2) == "input-error"
    call("verify", "receipt", "r.json", "--trust", "store.pub", "--origin", origin)
    Path("r.tlog-proof").rename("elsewhere")
    assert answer("verify", "receipt", "r.json", "--trust", "store.pub")["checked"] == ["signature", "form"]
    call("verify", "receipt", "r.json", *TRUST, "--inclusion", "elsewhere")
    call("log", 0, "--out", "first.json")
    assert refused("verify", "receipt", "first.json", *TRUST, "--inclusion", "elsewhere") == "inclusion-root-mismatch"
    assert refused("verify", "receipt", "r.json", *TRUST, "--threshold", 2, code=2) == "input-error"


def test_an_event_that_is_none(ward: Path) -> None:
    """Signed by the store's own key, and still of no form: it has a name, and is no defect of the command."""
    with open_store("sqlite:///expunge.db") as store:
        identity = store._identity
        wrong: list[dict[str, Any]] = [{}, {"memories": [{}]}, {"hold": "\x1b[2J"}]
        for facts in wrong:
            predicate = {"event": "held", "memory": None, "time": "now", "facts": facts}
            statement = Statement((Subject("state", "ab" * 32),), "urn:expunge:store-event:v1", predicate)
            Path("event.json").write_bytes(identity.sign(statement))
            assert refused("verify", "receipt", "event.json", *TRUST) == "statement-event-invalid"


def test_a_log_with_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verifier key is longer than a file's name can be, and is still a key; what is neither is named."""
    monkeypatch.chdir(tmp_path)
    hours(tmp_path / "hours.csv")
    with open_store("sqlite:///expunge.db", origin="ledger.example." + "x" * 300):
        pass
    call("create", "ward", "hours.csv", "--sigma", 2, "--nu", 0.3)
    key = call("show", "--verifier-key").stdout.strip()
    call("log", 0, "--out", "r.json")
    assert "inclusion" in answer("verify", "receipt", "r.json", "--trust", key)["checked"]
    assert refused("verify", "evidence", "x" * 300, "--trust", key, code=4) == "store-error"


def test_a_name_cannot_steer_the_terminal(ward: Path) -> None:
    """Whoever sends a file names it: with colours, with a cleared screen, with a verdict of its own."""
    name = "\x1b[2J\x9b32mverified.json"
    call("log", 2, "--out", name)
    done = call("verify", "receipt", name, *TRUST)
    failed = call("verify", "receipt", f"no {name}", *TRUST, code=4)
    for said in (done.stdout, failed.stderr, call("verify", "receipt", f"no {name}", *TRUST, "--json", code=4).stdout):
        assert not {"\x1b", "\x9b"} & set(said)
        assert r"\u001b[2J\u009b32mverified.json" in said
    assert answer("log", 1, "--out", f"1{name}")["receipt"] == f"1{name}"


def test_a_name_that_is_not_utf_8(ward: Path) -> None:
    """Streams are strict where a locale is set; the verdict must not hang on a file's name."""
    shell("expunge log 2 --out $'\\xff.json'", ward, PYTHONIOENCODING="utf-8")
    done = shell("expunge verify receipt $'\\xff.json' --trust log.vkey", ward, PYTHONIOENCODING="utf-8")
    assert r"verified: \udcff.json" in done.stdout
    told = shell("expunge log 1 --out $'1\\xff.json' --json", ward, PYTHONIOENCODING="utf-8").stdout
    assert json.loads(told)["receipt"] == "1\udcff.json"


def test_evidence(ward: Path) -> None:
    call("delete", "other", "h000", "--evidence", "e.zip")
    checked = answer("verify", "evidence", "e.zip", *TRUST)["checked"]
    assert checked == ["signature", "form", "inclusion", "commitments", "state", "prior state", "optimality"]
    call("verify", "evidence", "e.zip", *TRUST, "--no-log")
    call("export-evidence", "other", "--out", "later.zip", "--proof")
    assert refused("verify", "evidence", "later.zip", *TRUST) == "evidence-prior-missing"
    assert "--no-prior" in call("verify", "evidence", "later.zip", *TRUST, code=1).stderr
    assert "proof" in answer("verify", "evidence", "later.zip", *TRUST, "--no-prior")["checked"]
    call("export-evidence", "other", "--out", "later.zip", code=2)
    call("export-evidence", "other", "--out", "later.zip", "--force")
    data = bytearray(Path("e.zip").read_bytes())
    for place in np.random.default_rng(0).choice(len(data), 20, replace=False):
        data[place] ^= 1
        Path("bad.zip").write_bytes(data)
        data[place] ^= 1
        assert refused("verify", "evidence", "bad.zip", *TRUST).startswith(("evidence-", "json-", "envelope-"))


def test_evidence_of_an_edit_that_is_not_the_latest(ward: Path) -> None:
    """A hold is no edit; a refusal is the latest receipt, of the state as it stands."""
    call("hold", "ward", "--subject", "p-1", "--reason", "x")
    call("delete", "ward", "--subject", "p-1", code=3)
    assert answer("export-evidence", "ward", "--out", "w.zip")["outcome"] == "refused"
    call("verify", "evidence", "w.zip", *TRUST)


def test_the_log(ward: Path) -> None:
    assert answer("verify", "log")["trust"] == "store"
    assert "own key was trusted" in call("verify", "log").stderr
    assert answer("verify", "log", *TRUST)["trust"] == "given"
    call("log", "--out", "log.jsonl")
    call("verify", "log", "log.jsonl", *TRUST)
    lines = Path("log.jsonl").read_bytes().splitlines(keepends=True)
    for kept, error in (
        (lines[:-1], "log-size-mismatch"),
        ([*lines, lines[0]], "log-creation-repeated"),
        ([lines[1], lines[0], lines[2]], "log-root-mismatch"),
        ([lines[0], lines[1].replace(b"ey", b"ez", 1), lines[2]], "log-receipt-invalid"),
        ([], "log-size-mismatch"),
    ):
        Path("cut.jsonl").write_bytes(b"".join(kept))
        assert refused("verify", "log", "cut.jsonl", "--checkpoint", "log.jsonl.checkpoint", *TRUST) == error
    assert refused("verify", "log", "--checkpoint", "log.jsonl.checkpoint", code=2) == "input-error"
    assert refused("verify", "log", "none.jsonl", *TRUST, code=4) == "store-error"


def test_a_proof(ward: Path) -> None:
    call("prove", "ward", "--out", "w.proof")
    assert answer("verify", "proof", "w.proof", "--memory", "ward")["verified"] is True
    assert refused("verify", "proof", "w.proof", "--memory", "other") == "proof-size-mismatch"
    with open_store("sqlite:///expunge.db") as store:
        memory = store["ward"]
        np.save("keys.npy", memory.keys)
        cap, sigma = repr(memory.cap), repr(memory.sigma)
    call("verify", "proof", "w.proof", "--keys", "keys.npy", "--cap", cap, "--sigma", sigma)
    wrong = ("verify", "proof", "w.proof", "--keys", "keys.npy", "--cap", cap, "--sigma", 3)
    assert refused(*wrong) == "proof-digest-mismatch"
    assert refused("verify", "proof", "w.proof", code=2) == "input-error"
    assert refused("verify", "proof", "w.proof", "--memory", "ward", "--cap", cap, code=2) == "input-error"


def test_checkpoints(ward: Path) -> None:
    note = call("checkpoint", "export").stdout
    assert answer("checkpoint", "export")["text"] == note
    call("checkpoint", "export", "--out", "kept.txt")
    call("checkpoint", "export", "--out", "kept.txt", code=2)
    assert Path("kept.txt").read_text() == note
    call("delete", "other", "h000")
    found = answer("checkpoint", "check", "kept.txt")
    assert (found["kept"]["size"], found["now"]["size"]) == (3, 4)
    assert "extend" in call("checkpoint", "check", "kept.txt", *TRUST).stdout
    call("checkpoint", "export", "--since", "kept.txt", "--out", "extension.txt")
    call("checkpoint", "export", "--out", "new.txt")
    assert "consistency" in answer("verify", "checkpoint", "extension.txt", "--older", "kept.txt", *TRUST)["checked"]
    assert answer("verify", "checkpoint", "new.txt", *TRUST)["size"] == 4
    changed("new.txt", "bad.txt", b"\n4\n", b"\n5\n")
    assert refused("verify", "checkpoint", "bad.txt", *TRUST) == "note-signature-invalid"
    assert refused("verify", "checkpoint", "new.txt", "--older", "kept.txt", *TRUST, code=2) == "input-error"
    assert (
        refused("verify", "checkpoint", "extension.txt", "--older", "new.txt", *TRUST) == "log-proof-old-size-mismatch"
    )


def test_an_extension_is_kept_as_well_as_a_head(ward: Path) -> None:
    """What a monitor has after its first comparison is an extension proof, with a newer head in it."""
    call("checkpoint", "export", "--out", "kept.txt")
    for number, older in enumerate(("kept.txt", "extension-0.txt")):
        call("delete", "other", f"h00{number}")
        call("checkpoint", "export", "--since", older, "--out", f"extension-{number}.txt")
    newest = ("verify", "checkpoint", "extension-1.txt", *TRUST, "--older")
    assert answer(*newest, "extension-0.txt")["size"] == 5
    assert refused(*newest, "kept.txt") == "log-proof-old-size-mismatch"
    assert answer("checkpoint", "check", "extension-0.txt", *TRUST)["kept"]["size"] == 4
    call("keygen", "w.pem")
    mine = ("--name", "w.example", *TRUST, "--signing-key", "w.pem")
    assert answer("checkpoint", "cosign", "extension-1.txt", "--older", "extension-0.txt", *mine)["extends"] is True


def test_there_is_no_extension_of_a_head_of_another_log(ward: Path) -> None:
    call("create", "ward", "hours.csv", "--sigma", 2, "--nu", 0.3, "--store", "sqlite:///strange.db")
    call("checkpoint", "export", "--out", "strange.txt", "--store", "sqlite:///strange.db")
    since = ("checkpoint", "export", "--since", "strange.txt", "--out", "extension.txt")
    assert refused(*since) == "note-signer-unknown"
    assert not Path("extension.txt").exists()


def test_witnesses(ward: Path) -> None:
    call("checkpoint", "export", "--out", "kept.txt")
    call("delete", "other", "h000")
    call("checkpoint", "export", "--since", "kept.txt", "--out", "extension.txt")
    keys = []
    for name in ("w1", "w2"):
        call("keygen", f"{name}.pem")
        words = ("checkpoint", "cosign", "extension.txt", "--older", "kept.txt", "--name", f"{name}.example")
        made = answer(*words, *TRUST, "--signing-key", f"{name}.pem", "--out", f"{name}.txt")
        assert made["extends"] is True
        keys.append(made["witness"])
    quorum = ("--witness", keys[0], "--witness", keys[1])
    both = ("verify", "checkpoint", "w1.txt", *TRUST, *quorum)
    assert refused(*both) == "cosignature-quorum-missed"
    assert "cosignatures" in answer(*both, "--quorum", 1)["checked"]
    # A witness that is named twice is still one, and its cosignature is enough.
    twice = ("--witness", keys[0], "--witness", keys[0])
    assert "cosignatures" in answer("verify", "checkpoint", "w1.txt", *TRUST, *twice)["checked"]
    assert refused(*both, "--quorum", 3, code=2) == "input-error"
    # A key without a name is no witness, and is not passed over beside one either.
    assert refused(*both, "--witness", "w2.pub", "--quorum", 1, code=2) == "input-error"
    assert refused("verify", "checkpoint", "w2.txt", *TRUST, "--witness", keys[0]) == "cosignature-quorum-missed"
    seen = call(
        "checkpoint", "cosign", "kept.txt", "--first", "--name", "w1.example", *TRUST, "--signing-key", "w1.pem"
    )
    assert "w1.example" in seen.stdout
    assert "witness key" in seen.stderr
    assert refused("checkpoint", "cosign", "kept.txt", "--first", "--name", "w", *TRUST, code=2) == "input-error"
    changed("kept.txt", "bad.txt", b"\n3\n", b"\n2\n")
    bad = ("checkpoint", "cosign", "bad.txt", "--first", "--name", "w", *TRUST, "--signing-key", "w1.pem")
    assert refused(*bad) == "note-signature-invalid"
    assert refused("verify", "receipt", "hours.csv", *TRUST, "--witness", "log.pem", code=4) == "store-error"


def test_a_receipt_in_the_log_that_a_witness_has_seen(ward: Path) -> None:
    """From the witness's key to a verified receipt, with what the commands write and nothing else."""
    made = answer("keygen", "w.pem", "--witness", "w.example/1")
    assert Path("w.vkey").read_text() == made["witness"] + "\n"
    call("delete", "other", "h000")
    call("checkpoint", "export", "--out", "head.txt")
    words = ("checkpoint", "cosign", "head.txt", "--first", "--name", "w.example/1", *TRUST, "--signing-key", "w.pem")
    assert answer(*words, "--out", "cosigned.txt")["witness"] == made["witness"]
    call("delete", "other", "h001")
    asked = (*TRUST, "--witness", "w.vkey")
    call("log", 3, "--out", "seen.json", "--head", "cosigned.txt")
    told = answer("verify", "receipt", "seen.json", *asked)
    assert told["checked"] == ["signature", "form", "inclusion", "cosignatures"]
    assert told["log"].startswith("leaf 3 of ")
    # Without that head the proof leads to one that nobody cosigned; a leaf that came later is not under it.
    call("log", 3, "--out", "unseen.json")
    assert refused("verify", "receipt", "unseen.json", *asked) == "cosignature-quorum-missed"
    assert "leaf 4 came later" in call("log", 4, "--out", "late.json", "--head", "cosigned.txt", code=2).stderr
    assert not Path("late.json").exists()
    for line in (("log", 3), ("log", "--out", "log.jsonl"), ("log",)):
        assert "--head goes with INDEX and --out" in call(*line, "--head", "cosigned.txt", code=2).stderr
    changed("cosigned.txt", "bad.txt", b"\n4\n", b"\n3\n")
    assert refused("log", 1, "--out", "bad.json", "--head", "bad.txt") == "note-signature-invalid"
    assert not Path("bad.json").exists()
    # A bundle is of the latest edit, here of a memory that was not edited since the head.
    call("export-evidence", "ward", "--out", "e.zip", "--head", "cosigned.txt")
    assert "cosignatures" in answer("verify", "evidence", "e.zip", "--no-prior", *asked)["checked"]
    assert "came later" in call("export-evidence", "other", "--out", "f.zip", "--head", "head.txt", code=2).stderr


def test_a_witness_key_is_written_whole_or_not_at_all(ward: Path) -> None:
    Path("w.vkey").write_text("taken")
    assert refused("keygen", "w.pem", "--witness", "w.example", code=4) == "signing-key-exists"
    assert refused("keygen", "v.pem", "--witness", "w example", code=2) == "input-error"
    assert not any(Path(name).exists() for name in ("w.pem", "w.pub", "v.pem", "v.pub", "v.vkey"))


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
    assert refused("verify", "receipt", "own.json", "--trust", witness, code=2) == "verifier-key-unsupported"
    both = ("--trust", witness, *TRUST, "--origin", "w.example")
    assert refused("verify", "receipt", "own.json", *both, code=2) == "verifier-key-unsupported"


def test_witnesses_of_evidence_cosign_the_log(ward: Path) -> None:
    """A bundle's head has no cosignature here, so that none can be found; without the log, none is looked for."""
    call("delete", "other", "h000", "--evidence", "e.zip")
    call("keygen", "w.pem")
    call("checkpoint", "export", "--out", "head.txt")
    words = ("checkpoint", "cosign", "head.txt", "--first", "--name", "w.example", *TRUST, "--signing-key", "w.pem")
    asked = ("--witness", answer(*words)["witness"])
    for quorum in ((), ("--quorum", 1)):
        assert refused("verify", "evidence", "e.zip", *TRUST, *asked, *quorum) == "cosignature-quorum-missed"
        assert refused("verify", "evidence", "e.zip", *TRUST, "--no-log", *asked, *quorum, code=2) == "input-error"
        assert "an audit is in none" in call("verify", "evidence", ".", *asked, *quorum, code=2).stderr
    assert refused("verify", "evidence", "e.zip", *TRUST, "--no-log", "--quorum", 1, code=2) == "input-error"
    checked = answer("verify", "evidence", "e.zip", *TRUST, "--no-log")["checked"]
    assert not {"inclusion", "cosignatures"} & set(checked)


def test_a_witness_cosigns_nothing_that_does_not_extend_its_last_head(ward: Path) -> None:
    """The same key signs two histories: a witness of one of them must not cosign the other."""
    call("keygen", "w.pem")
    mine = ("--name", "w.example", *TRUST, "--signing-key", "w.pem")
    shutil.copy("expunge.db", "fork.db")
    fork = ("--store", "sqlite:///fork.db", "--signing-key", "expunge.db.key")
    call("delete", "other", "h000")
    call("checkpoint", "export", "--out", "head.txt")
    assert "--first" in call("checkpoint", "cosign", "head.txt", *mine, code=2).stderr
    both = ("--first", "--older", "head.txt")
    assert refused("checkpoint", "cosign", "head.txt", *both, *mine, code=2) == "input-error"
    call("checkpoint", "cosign", "head.txt", "--first", *mine, "--out", "last.txt")
    # The fork: as many leaves, then more, none of them the witness's.
    call("delete", "other", "h001", *fork)
    call("delete", "other", "h002", *fork)
    since = ("checkpoint", "export", "--since", "last.txt", "--out", "forked.txt", *fork)
    assert refused(*since) == "consistency-new-root-mismatch"
    with open_store("sqlite:///fork.db", "expunge.db.key") as store:
        Path("forked.txt").write_bytes(store.consistency(4).to_bytes())
    assert (
        refused("checkpoint", "cosign", "forked.txt", "--older", "last.txt", *mine) == "consistency-new-root-mismatch"
    )
    call("checkpoint", "export", "--out", "forked-head.txt", *fork)
    assert refused("checkpoint", "cosign", "forked-head.txt", "--older", "last.txt", *mine, code=2) == "input-error"
    # Older than the last: cut off.
    call("delete", "other", "h001")
    call("checkpoint", "export", "--since", "last.txt", "--out", "extension.txt")
    call("checkpoint", "cosign", "extension.txt", "--older", "last.txt", *mine, "--out", "newest.txt")
    assert (
        refused("checkpoint", "cosign", "extension.txt", "--older", "newest.txt", *mine)
        == "log-proof-old-size-mismatch"
    )


def test_a_log_that_was_cut_or_replaced_does_not_pass(ward: Path, tmp_path: Path) -> None:
    call("delete", "other", "h000")
    call("checkpoint", "export", "--out", "kept.txt")
    Path("before.db").write_bytes(b"")
    table = hours(tmp_path / "again.csv")
    shorter = ("--store", "sqlite:///shorter.db", "--signing-key", "expunge.db.key")
    call("create", "ward", table, "--sigma", 2, "--nu", 0.3, *shorter)
    assert refused("checkpoint", "check", "kept.txt", *shorter) == "consistency-sizes-reversed"
    stranger = ("--store", "sqlite:///stranger.db")
    for name in "abcde":
        call("create", name, table, "--sigma", 2, "--nu", 0.3, *stranger)
    assert refused("checkpoint", "check", "kept.txt", *stranger) == "note-signer-unknown"


def test_a_store_that_was_written_to_behind_its_back(ward: Path) -> None:
    with sqlite3.connect("expunge.db") as database:
        database.execute(
            "UPDATE expunge_leaves SET envelope = CAST(replace(envelope, 'ey', 'ez') AS BLOB) WHERE number = 1"
        )
    database.close()
    assert refused("verify", "log") == "log-receipt-invalid"


def test_a_verifier_key_signs_no_log_but_its_own(ward: Path) -> None:
    """Two logs, and a trust file for both: the key of one forges neither a head nor a receipt of the other."""
    table = hours(Path("again.csv"))
    stranger = ("--store", "sqlite:///stranger.db")
    call("create", "ward", table, "--sigma", 2, "--nu", 0.3, *stranger)
    Path("other.vkey").write_text(call("show", "--verifier-key", *stranger).stdout)
    call("checkpoint", "export", "--out", "head.txt")
    call("log", 0, "--out", "theirs.json", *stranger)
    Path("theirs.tlog-proof").unlink()
    with open_store("sqlite:///expunge.db") as store, open_store("sqlite:///stranger.db") as other:
        mine, theirs = store.origin, other.origin
        save_verifying_key(store.public_key, "store.pub")
        save_verifying_key(other.public_key, "other.pub")
    forger = load_signing_key("stranger.db.key")
    Path("forged.txt").write_bytes(sign_checkpoint(Checkpoint(mine, 3, bytes(32)), forger).to_bytes())
    both = (*TRUST, "--trust", "other.vkey")
    assert refused("verify", "checkpoint", "head.txt", *both, code=2) == "input-error"
    call("verify", "checkpoint", "head.txt", *both, "--origin", mine)
    assert refused("verify", "checkpoint", "forged.txt", *both, "--origin", mine) == "note-signer-unknown"
    assert refused("verify", "receipt", "theirs.json", *both, "--origin", mine) == "envelope-signer-unknown"
    call("verify", "receipt", "theirs.json", *both, "--origin", theirs)
    # A verifier key that is of another log than the chosen one, alone or beside a PEM file.
    assert (
        refused("verify", "checkpoint", "forged.txt", "--trust", "other.vkey", "--origin", mine, code=2)
        == "input-error"
    )
    beside = ("--trust", "store.pub", "--trust", "other.vkey", "--origin", mine)
    assert refused("verify", "checkpoint", "head.txt", *beside, code=2) == "input-error"
    assert refused("verify", "log", "--origin", theirs, code=2) == "input-error"
    # A PEM file has no name: it is of the log that is chosen, by --origin or by the one verifier key.
    call("verify", "checkpoint", "head.txt", "--trust", "store.pub", "--origin", mine)
    call("verify", "receipt", "theirs.json", *TRUST, "--trust", "other.pub")
    found = parse_trust(["log.vkey", "other.vkey", "store.pub"], mine)
    assert [key.name for key in found.log_keys] == [mine]
    assert len(found.keys) == 1


def test_a_witness_is_no_log(ward: Path) -> None:
    """A witness's verifier key stays one, even under the log's own name."""
    call("checkpoint", "export", "--out", "head.txt")
    with open_store("sqlite:///expunge.db") as store:
        key = NoteKey(store.origin, store.public_key, NoteAlgorithm.COSIGNATURE_V1)
    assert refused("verify", "checkpoint", "head.txt", "--trust", key.to_text(), code=2) == "verifier-key-unsupported"


@pytest.mark.parametrize("text", ["", "no key", "a+b+c", "x+00000000+AAAA"])
def test_keys_that_are_none(ward: Path, text: str) -> None:
    call("log", 0, "--out", "r.json")
    Path("bad.vkey").write_text(text)
    done = call("verify", "receipt", "r.json", "--trust", "bad.vkey", code=2)
    assert len(done.stderr.splitlines()) == 1
    if "+" in text:
        call("verify", "receipt", "r.json", "--trust", text, code=2)


def test_trust_is_never_assumed(ward: Path) -> None:
    call("log", 0, "--out", "r.json")
    assert "whom do you trust?" in call("verify", "receipt", "r.json", code=2).stderr
    Path("other.vkey").write_text("other" + Path("log.vkey").read_text()[Path("log.vkey").read_text().index("+") :])
    call("verify", "receipt", "r.json", "--trust", "other.vkey", code=2)
