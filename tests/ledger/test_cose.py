"""COSE messages of leaves, verified by two libraries that neither wrote them nor share code."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import scitt_cose
from cbor2 import CBORTag, dumps, loads

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.cose import CONTENT_TYPE, cose_statement
from expunge.ledger.envelope import sign_statement
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import Statement, Subject

with warnings.catch_warnings():
    # Of its dependencies, about algorithms that are not used here.
    warnings.simplefilter("ignore")
    from cwt import COSE, COSEKey

KEY = SigningKey.from_seed(b"\x01" * 32)
PEM = KEY.public.to_pem()
ORIGIN = "ledger.example/icu-7"
LEAVES = [
    sign_statement(Statement((Subject("icu-7", "0" * 64),), "urn:example:leaf", {"n": number}), KEY).to_bytes()
    for number in range(13)
]
TREE = HashTree(map(leaf_hash, LEAVES))


def message(index: int, size: int) -> bytes:
    head = sign_checkpoint(Checkpoint(ORIGIN, size, TREE.root(size)), KEY)
    return cose_statement(LEAVES[index], InclusionProof(index, TREE.inclusion_path(index, size), head), KEY)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 13])
def test_two_libraries_agree(size: int) -> None:
    key = COSEKey.from_pem(PEM, kid=KEY.public.key_id.encode())
    for index in range(size):
        data = message(index, size)
        parsed = scitt_cose.parse_signed_statement(data, public_key_pem=PEM)
        assert parsed["signature_verified"] is True
        assert (parsed["issuer"], parsed["subject"], parsed["content_type"]) == (ORIGIN, "icu-7", CONTENT_TYPE)
        assert parsed["payload"] == LEAVES[index]
        (receipt,) = scitt_cose.extract_receipts(data)
        found = scitt_cose.verify_receipt(receipt, leaf_entry_hex=LEAVES[index].hex(), log_public_key_pem=PEM)
        assert found.ok, found.errors
        assert (found.leaf_index, found.tree_size, found.root) == (index, size, TREE.root(size).hex())
        # The second library knows COSE, and no receipts: it is given the root.
        headers, _, payload = COSE.new().decode_with_headers(data, key)
        assert (headers[3], payload) == (CONTENT_TYPE, LEAVES[index])
        assert COSE.new().decode(receipt, key, detached_payload=TREE.root(size)) == TREE.root(size)


def test_what_is_changed_is_refused_by_both() -> None:
    data = message(3, 8)
    (receipt,) = scitt_cose.extract_receipts(data)
    other = scitt_cose.verify_receipt(receipt, leaf_entry_hex=LEAVES[4].hex(), log_public_key_pem=PEM)
    stranger = SigningKey.from_seed(b"\x02" * 32).public.to_pem()
    strange = scitt_cose.verify_receipt(receipt, leaf_entry_hex=LEAVES[3].hex(), log_public_key_pem=stranger)
    assert not other.ok
    assert not strange.ok
    header, unprotected, payload, signature = loads(data).value
    for parts in ([header, unprotected, payload + b" ", signature], [header, {}, payload, bytes(64)]):
        changed = dumps(CBORTag(18, parts))
        assert scitt_cose.parse_signed_statement(changed, public_key_pem=PEM)["signature_verified"] is False
        with pytest.raises(Exception, match="verify"):
            COSE.new().decode(changed, COSEKey.from_pem(PEM, kid=KEY.public.key_id.encode()))


def test_the_same_leaf_has_the_same_bytes() -> None:
    assert message(3, 8) == message(3, 8)
    assert message(3, 8) != message(3, 13)


def test_a_leaf_in_another_place() -> None:
    head = sign_checkpoint(Checkpoint(ORIGIN, 8, TREE.root(8)), KEY)
    proof = InclusionProof(3, TREE.inclusion_path(3, 8), head)
    with pytest.raises(VerificationError):
        cose_statement(LEAVES[3][:-1], proof, KEY)
    wrong = cose_statement(LEAVES[3], replace(proof, index=4), KEY)
    (receipt,) = scitt_cose.extract_receipts(wrong)
    assert not scitt_cose.verify_receipt(receipt, leaf_entry_hex=LEAVES[3].hex(), log_public_key_pem=PEM).ok
