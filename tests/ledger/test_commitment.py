"""Commitments bind every field, keep the fields apart and open only with their salt or blind."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import astuple, dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError
from expunge.ledger.commitment import (
    SALT_BYTES,
    blind,
    combined,
    commit,
    new_salts,
    state_digest,
    verify_commitment,
    verify_vectors,
    weights_digest,
)
from raising import raises_code


@dataclass(frozen=True)
class Entry:
    salt: bytes
    name: str
    subject: str | None
    key: bytes
    value: bytes
    payload: bytes | None

    @property
    def blind(self) -> bytes:
        return blind(self.salt, self.name, self.subject, self.payload)

    @property
    def commitment(self) -> str:
        return commit(self.blind, self.key, self.value).hex()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ENTRIES = st.builds(
    Entry,
    salt=st.binary(min_size=32, max_size=32),
    name=TEXTS,
    subject=st.none() | TEXTS,
    key=st.binary(max_size=4),
    value=st.binary(max_size=4),
    payload=st.none() | st.binary(min_size=1, max_size=4),
)
SAMPLE = Entry(bytes(range(32)), "a", "p", b"key", b"value", b"bx")


def fields(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def test_the_preimages_are_as_documented() -> None:
    salt = bytes(range(32))
    inner = hashlib.sha256(b"expunge/blind/v1\n" + salt + fields(b"a", b"sp", b"bx")).digest()
    assert inner == SAMPLE.blind
    assert SAMPLE.commitment == hashlib.sha256(b"expunge/entry/v1\n" + inner + fields(b"key", b"value")).hexdigest()
    bare = hashlib.sha256(b"expunge/blind/v1\n" + salt + fields(b"a", b"", b"")).digest()
    assert blind(salt, "a", None, None) == bare


def test_the_digests_of_a_state_are_as_documented() -> None:
    blinds, commitments = (
        np.arange(64, dtype=np.uint8).reshape(2, 32),
        np.arange(64, 128, dtype=np.uint8).reshape(2, 32),
    )
    weights = weights_digest(0.5, np.array([0.25, 0.75]), combined(blinds))
    veil = bytes(a ^ b for a, b in zip(range(32), range(32, 64), strict=True))
    preimage = struct.pack("<dQ", 0.5, 2) + veil + struct.pack("<2d", 0.25, 0.75)
    assert weights == hashlib.sha256(b"expunge/weights/v1\n" + preimage).digest()
    preimage = struct.pack("<ddQ", 0.8, 2.0, 2) + bytes(range(64, 128)) + weights
    assert state_digest(0.8, 2.0, commitments, weights) == hashlib.sha256(b"expunge/state/v1\n" + preimage).hexdigest()


@given(ENTRIES)
def test_a_commitment_opens(entry: Entry) -> None:
    verify_commitment(entry.commitment, *astuple(entry))
    verify_vectors(entry.commitment, entry.blind, entry.key, entry.value)


@given(ENTRIES, ENTRIES)
def test_different_entries_have_different_commitments(one: Entry, other: Entry) -> None:
    if one == other:
        return
    assert one.commitment != other.commitment
    with raises_code("commitment-mismatch"):
        verify_commitment(one.commitment, *astuple(other))


@pytest.mark.parametrize(
    "other",
    [
        replace(SAMPLE, salt=bytes(32)),
        replace(SAMPLE, name="b"),
        replace(SAMPLE, subject="q"),
        replace(SAMPLE, subject=None),
        replace(SAMPLE, key=b"kez"),
        replace(SAMPLE, value=b"valuf"),
        replace(SAMPLE, payload=b"by"),
        replace(SAMPLE, payload=None),
    ],
    ids=lambda entry: next(k for k in entry.__dataclass_fields__ if getattr(entry, k) != getattr(SAMPLE, k)),
)
def test_every_field_counts(other: Entry) -> None:
    with raises_code("commitment-mismatch"):
        verify_commitment(SAMPLE.commitment, *astuple(other))


def test_bytes_do_not_move_between_fields() -> None:
    salt = bytes(32)
    entries = {
        Entry(salt, "ab", "c", b"d", b"e", b"f"),
        Entry(salt, "a", "bc", b"d", b"e", b"f"),
        Entry(salt, "a", "b", b"cd", b"e", b"f"),
        Entry(salt, "a", "b", b"c", b"de", b"f"),
        Entry(salt, "a", "b", b"c", b"d", b"ef"),
        Entry(salt, "a", None, b"c", b"d", b"sb"),
        Entry(salt, "abcdef", None, b"", b"", None),
        Entry(salt, "abcdef", "", b"", b"", None),
    }
    assert len({entry.commitment for entry in entries}) == len({entry.blind for entry in entries}) + 1 == 8


@pytest.mark.parametrize("commitment", ["", "0" * 63, "A" * 64, "0" * 64 + "\n"])
def test_malformed_commitments(commitment: str) -> None:
    with raises_code("commitment-malformed"):
        verify_commitment(commitment, *astuple(SAMPLE))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(SAMPLE, salt=bytes(31)),
        replace(SAMPLE, name="\ud800"),
        replace(SAMPLE, subject="\ud800"),
        replace(SAMPLE, payload=b""),
    ],
    ids=["salt", "name", "subject", "payload"],
)
def test_wrong_arguments_are_refused(wrong: Entry) -> None:
    with pytest.raises(InputError):
        verify_commitment("0" * 64, *astuple(wrong))


def test_a_short_blind_is_refused() -> None:
    with pytest.raises(InputError):
        verify_vectors("0" * 64, bytes(31), b"", b"")


def test_salts_are_fresh() -> None:
    drawn = new_salts(100)
    assert len(drawn) == 100 * SALT_BYTES
    assert len({drawn[at : at + SALT_BYTES] for at in range(0, len(drawn), SALT_BYTES)}) == 100


def test_the_digest_of_a_state_does_not_confirm_guesses_at_an_erased_entry() -> None:
    """All that is left of an entry is its commitment; without its blind the right coefficients prove nothing."""
    blinds = np.frombuffer(new_salts(3), dtype=np.uint8).reshape(3, 32)
    coefficients = np.array([0.25, 0.25, 0.5])
    weights = weights_digest(0.5, coefficients, combined(blinds))
    guessed = blinds.copy()
    guessed[1] = 0
    assert weights_digest(0.5, coefficients, combined(guessed)) != weights
