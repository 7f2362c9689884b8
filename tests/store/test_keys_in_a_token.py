"""A store whose keys are in a PKCS#11 token: ECDSA receipts, Ed25519 heads, and no private key anywhere else."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import expunge
from expunge.errors import InputError, StoreError
from expunge.ledger.signing import SigningKey
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey
from expunge.verify import verify_consistency, verify_inclusion, verify_ledger, verify_receipt
from raising import raises_code
from softhsm import HEADS, PIN, RECEIPTS, make_token

KEYS = np.random.default_rng(3).standard_normal((24, 3))
NAMES = [f"e{number}" for number in range(24)]


def test_receipts_and_heads_from_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").mkdir()
    make_token(tmp_path / "token", monkeypatch)
    url = f"sqlite:///{tmp_path / 'ward.db'}"
    with raises_code("head-key-needed"):
        expunge.open(url, RECEIPTS)
    with raises_code("head-key-needed"):
        expunge.open(url, RECEIPTS, head_key=RECEIPTS)
    with expunge.open(url, RECEIPTS, head_key=HEADS) as store:
        first = store.checkpoint().to_bytes()
        memory = store.create(
            "icu", KEYS, KEYS[:, 0], sigma=2.0, nu=0.4, ids=NAMES, subjects=["p" if n < 2 else None for n in range(24)]
        )
        memory.admit(np.ones(3), 1.0, id="new")
        memory.delete("e5", idempotency_key="ticket")
        store.erase_subject("p")
        assert store.public_key.algorithm is KeyAlgorithm.ECDSA_P256
        signs_heads = store.log_key.public
        assert isinstance(signs_heads, VerifyingKey)
        assert signs_heads.algorithm is KeyAlgorithm.ED25519
        receipts, heads, origin = store.public_keys, store.log_keys, store.origin
        leaves = [leaf.envelope for leaf in store.receipts()]
        head, proof = store.checkpoint().to_bytes(), store.inclusion(2).to_bytes()
        extension = store.consistency(0).to_bytes()
        store.verify()
    # Offline, with public keys alone.
    assert verify_receipt(leaves[2], receipts).action == "deletion"
    verify_inclusion(leaves[2], proof, heads, origin)
    verify_consistency(first, extension, heads, origin)
    verify_ledger(leaves, head, receipts, heads, origin)
    # Opened again, a repeated request is known: the pepper has a file of its own.
    pepper = tmp_path / "ward.db.pepper"
    assert (pepper.stat().st_mode & 0o777, len(pepper.read_bytes())) == (0o600, 32)
    with expunge.open(url, RECEIPTS, head_key=HEADS) as store:
        assert store["icu"].delete("e5", idempotency_key="ticket").index == 2
    # No private key in this process, and none on disk outside the token.
    gc.collect()
    public = {key.to_pem() for key in (*receipts, signs_heads)}
    for thing in gc.get_objects():
        # By its type: other libraries' lazy objects answer isinstance() with a warning.
        if issubclass(type(thing), SigningKey):
            assert thing.public.to_pem() not in public
    files = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert files <= {"ward.db", "ward.db-wal", "ward.db-shm", "ward.db.pepper"}
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"PRIVATE KEY" not in content
    assert PIN.encode() not in pepper.read_bytes()


def test_a_pepper_that_is_gone_or_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").mkdir()
    make_token(tmp_path / "token", monkeypatch)
    url, pepper = f"sqlite:///{tmp_path / 'ward.db'}", tmp_path / "ward.db.pepper"
    expunge.open(url, RECEIPTS, head_key=HEADS).close()
    kept = pepper.read_bytes()
    pepper.unlink()
    with raises_code("pepper-missing"):
        expunge.open(url, RECEIPTS, head_key=HEADS)
    for wrong, code in ((bytes(32), "pepper-wrong"), (kept[:-1], "pepper-malformed")):
        pepper.write_bytes(wrong)
        pepper.chmod(0o600)
        with raises_code(code):
            expunge.open(url, RECEIPTS, head_key=HEADS)
    elsewhere = tmp_path / "safe"
    elsewhere.write_bytes(kept)
    elsewhere.chmod(0o600)
    expunge.open(url, RECEIPTS, head_key=HEADS, pepper=elsewhere).close()
    with pytest.raises(StoreError, match="another key"):
        expunge.open(url, SigningKey.generate(), pepper=elsewhere)


def test_a_token_that_stops_answering_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").mkdir()
    make_token(tmp_path / "token", monkeypatch)
    with expunge.open(f"sqlite:///{tmp_path / 'ward.db'}", RECEIPTS, head_key=HEADS) as store:
        memory = store.create("icu", KEYS, KEYS[:, 0], sigma=2.0, nu=0.4, ids=NAMES)
        monkeypatch.delenv("PYKCS11LIB")
        with pytest.raises(InputError, match="PYKCS11LIB"):
            memory.delete("e3")
        monkeypatch.setenv("PYKCS11LIB", "/nowhere.so")
        with raises_code("signer-failed"):
            memory.delete("e3")
        assert (store.size, "e3" in memory.ids) == (1, True)
