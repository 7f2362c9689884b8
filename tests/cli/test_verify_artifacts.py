"""``expunge verify`` of receipts, evidence and proofs, and the keys that a verifier trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.command_runner import TRUST, answer, call, changed, code_of, hours
from expunge import Memory
from expunge.cli.trust_options import parse_trust
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.event import EVENT_TYPE
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.ledger.signing import SigningKey, load_signing_key, save_verifying_key
from expunge.ledger.statement import Statement, Subject
from expunge.store import open as open_store


def test_a_receipt(ward: Path) -> None:
    call("log", 2, "--out", "r.json")
    found = answer("verify", "receipt", "r.json", *TRUST)
    assert found["checked"] == ["signature", "form", "inclusion"]
    assert found["receipt"]["outcome"] == "pruned"
    assert "inclusion ✓" in call("verify", "receipt", "r.json", *TRUST).stdout
    changed("r.json", "forged.json", b'"payload":"ey', b'"payload":"ez')
    assert code_of("verify", "receipt", "forged.json", *TRUST) == "envelope-signature-invalid"
    with open_store("sqlite:///expunge.db") as store:
        save_verifying_key(store.public_key, "store.pub")
        origin = store.origin
    save_verifying_key(SigningKey.generate().public, "stranger.pub")
    assert code_of("verify", "receipt", "r.json", "--trust", "stranger.pub") == "envelope-signer-unknown"
    assert "is --trust the key" in call("verify", "receipt", "r.json", "--trust", "stranger.pub", code=1).stderr
    assert code_of("verify", "receipt", "r.json", "--trust", "store.pub", code=2) == "input-error"
    call("verify", "receipt", "r.json", "--trust", "store.pub", "--origin", origin)
    Path("r.tlog-proof").rename("elsewhere")
    assert answer("verify", "receipt", "r.json", "--trust", "store.pub")["checked"] == ["signature", "form"]
    call("verify", "receipt", "r.json", *TRUST, "--inclusion", "elsewhere")
    call("log", 0, "--out", "first.json")
    assert code_of("verify", "receipt", "first.json", *TRUST, "--inclusion", "elsewhere") == "inclusion-root-mismatch"
    assert code_of("verify", "receipt", "r.json", *TRUST, "--threshold", 2, code=2) == "input-error"


def test_an_event_that_is_none(ward: Path) -> None:
    """Signed by the store's own key, and still of no form: it has a name, and is no defect of the command."""
    with open_store("sqlite:///expunge.db") as store:
        identity = store._identity
        wrong: list[dict[str, Any]] = [{}, {"memories": [{}]}, {"hold": "\x1b[2J"}]
        for facts in wrong:
            request = {"id": "6f1c8f1e-6a43-4d0c-9c0a-2b9d4b1f7a11", "case": None, "actor": None}
            predicate = {"event": "held", "memory": None, "time": "now", "request": request, "facts": facts}
            statement = Statement((Subject("state", "ab" * 32),), EVENT_TYPE, predicate)
            Path("event.json").write_bytes(identity.sign(statement))
            assert code_of("verify", "receipt", "event.json", *TRUST) == "statement-event-invalid"


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
    assert code_of("verify", "evidence", "x" * 300, "--trust", key, code=4) == "store-error"


def test_evidence(ward: Path) -> None:
    call("delete", "--yes", "other", "h000", "--evidence", "e.zip")
    checked = answer("verify", "evidence", "e.zip", *TRUST)["checked"]
    assert checked == ["signature", "form", "inclusion", "commitments", "state", "prior state", "weights"]
    call("verify", "evidence", "e.zip", *TRUST, "--no-log")
    call("export-evidence", "other", "--out", "later.zip", "--proof")
    assert code_of("verify", "evidence", "later.zip", *TRUST) == "evidence-prior-missing"
    assert "--no-prior" in call("verify", "evidence", "later.zip", *TRUST, code=1).stderr
    assert "proof" in answer("verify", "evidence", "later.zip", *TRUST, "--no-prior")["checked"]
    call("export-evidence", "other", "--out", "later.zip", code=2)
    call("export-evidence", "other", "--out", "later.zip", "--force")
    data = bytearray(Path("e.zip").read_bytes())
    for place in np.random.default_rng(0).choice(len(data), 20, replace=False):
        data[place] ^= 1
        Path("bad.zip").write_bytes(data)
        data[place] ^= 1
        assert code_of("verify", "evidence", "bad.zip", *TRUST).startswith(("evidence-", "json-", "envelope-"))


def test_a_proof(ward: Path) -> None:
    call("prove", "ward", "--out", "w.proof")
    assert answer("verify", "proof", "w.proof", "--memory", "ward")["verified"] is True
    assert code_of("verify", "proof", "w.proof", "--memory", "other") == "proof-size-mismatch"
    with open_store("sqlite:///expunge.db") as store:
        memory = store["ward"]
        np.save("keys.npy", memory.keys)
        cap, sigma = repr(memory.cap), repr(memory.sigma)
    call("verify", "proof", "w.proof", "--keys", "keys.npy", "--cap", cap, "--sigma", sigma)
    wrong = ("verify", "proof", "w.proof", "--keys", "keys.npy", "--cap", cap, "--sigma", 3)
    assert code_of(*wrong) == "proof-digest-mismatch"
    assert code_of("verify", "proof", "w.proof", code=2) == "input-error"
    assert code_of("verify", "proof", "w.proof", "--memory", "ward", "--cap", cap, code=2) == "input-error"


def test_a_state(ward: Path) -> None:
    found = answer("verify", "state", "--memory", "other")
    assert found["checked"] == ["coefficients", "offset"]
    assert (found["entries"], found["margin"] + found["bound"] + found["reserve"]) == (40, 40)
    assert (found["bounded"], found["bits"]) == (0, 128)
    assert "to the last bit" in call("verify", "state", "--memory", "ward").stdout
    with open_store("sqlite:///expunge.db") as store:
        Memory.fit(store["other"].keys, store["other"].values, sigma=1.0, nu=0.5).save("other.memory")
    assert answer("verify", "state", "other.memory") == found
    data = Path("other.memory").read_bytes()
    Path("damaged.memory").write_bytes(data[:-200])
    assert code_of("verify", "state", "damaged.memory") == "state-file-invalid"
    assert code_of("verify", "state", "missing.memory", code=4) == "store-error"
    assert code_of("verify", "state", code=2) == "input-error"
    assert code_of("verify", "state", "other.memory", "--memory", "other", code=2) == "input-error"


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
    assert code_of("verify", "checkpoint", "head.txt", *both, code=2) == "input-error"
    call("verify", "checkpoint", "head.txt", *both, "--origin", mine)
    assert code_of("verify", "checkpoint", "forged.txt", *both, "--origin", mine) == "note-signer-unknown"
    assert code_of("verify", "receipt", "theirs.json", *both, "--origin", mine) == "envelope-signer-unknown"
    call("verify", "receipt", "theirs.json", *both, "--origin", theirs)
    # A verifier key that is of another log than the chosen one, alone or beside a PEM file.
    assert (
        code_of("verify", "checkpoint", "forged.txt", "--trust", "other.vkey", "--origin", mine, code=2)
        == "input-error"
    )
    beside = ("--trust", "store.pub", "--trust", "other.vkey", "--origin", mine)
    assert code_of("verify", "checkpoint", "head.txt", *beside, code=2) == "input-error"
    assert code_of("verify", "ledger", "--origin", theirs, code=2) == "input-error"
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
    assert code_of("verify", "checkpoint", "head.txt", "--trust", key.to_text(), code=2) == "verifier-key-unsupported"


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
