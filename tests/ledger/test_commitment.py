"""Commitments bind every field, keep the fields apart and open only with their salt."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError
from expunge.ledger.commitment import SALT_SIZE, commit, new_salt, verify_commitment
from expunge.ledger.errors import CommitmentMalformed, CommitmentMismatch

SALTS = st.binary(min_size=32, max_size=32)
FIELDS = st.tuples(
    SALTS,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.binary(max_size=4),
    st.binary(max_size=4),
    st.none() | st.binary(max_size=4),
)


def test_the_preimage_is_as_documented() -> None:
    salt = bytes(range(32))
    preimage = b"expunge/commitment/v1\n" + salt + b"\x04"
    for field in (b"a", b"key", b"value", b""):
        preimage += len(field).to_bytes(8, "big") + field
    assert commit(salt, "a", b"key", b"value", b"") == hashlib.sha256(preimage).hexdigest()


@given(FIELDS)
def test_a_commitment_opens(fields: tuple[bytes, str, bytes, bytes, bytes | None]) -> None:
    verify_commitment(commit(*fields), *fields)


@given(FIELDS, FIELDS)
def test_different_entries_have_different_commitments(
    one: tuple[bytes, str, bytes, bytes, bytes | None], other: tuple[bytes, str, bytes, bytes, bytes | None]
) -> None:
    if one == other:
        return
    assert commit(*one) != commit(*other)
    with pytest.raises(CommitmentMismatch):
        verify_commitment(commit(*one), *other)


def test_bytes_do_not_move_between_fields() -> None:
    salt = bytes(32)
    commitments = {
        commit(salt, "ab", b"c", b"d", b"e"),
        commit(salt, "a", b"bc", b"d", b"e"),
        commit(salt, "a", b"b", b"cd", b"e"),
        commit(salt, "a", b"b", b"c", b"de"),
        commit(salt, "abcde", b"", b"", b""),
        commit(salt, "abcde", b"", b"", None),
    }
    assert len(commitments) == 6


@pytest.mark.parametrize("commitment", ["", "0" * 63, "A" * 64, "0" * 64 + "\n"])
def test_malformed_commitments(commitment: str) -> None:
    with pytest.raises(CommitmentMalformed):
        verify_commitment(commitment, bytes(32), "a", b"", b"")


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError):
        commit(bytes(31), "a", b"", b"")
    with pytest.raises(InputError):
        commit(bytes(32), "\ud800", b"", b"")


def test_salts_are_fresh() -> None:
    salts = {new_salt() for _ in range(100)}
    assert len(salts) == 100
    assert all(len(salt) == SALT_SIZE for salt in salts)
