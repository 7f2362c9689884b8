"""Sealing: what comes out is what went in, and nothing comes out of anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expunge import VerificationError
from expunge.store.encryption import (
    Content,
    decrypt,
    decrypt_entries,
    decrypt_request,
    encrypt,
    encrypt_entries,
    encrypt_request,
    new_secret,
    request_key_hash,
    row_mark,
    subject_tag,
)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
vectors = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(words, st.none() | words, vectors, vectors, st.none() | st.binary(min_size=1, max_size=300))
def test_content_comes_back_as_it_was(
    name: str, subject: str | None, key: list[float], value: list[float], payload: bytes | None
) -> None:
    salt = new_secret()
    content = Content(name, subject, np.array(key), np.array(value), payload)
    (mark, encrypted), *none = encrypt_entries(b"store", [(salt, content)])
    assert none == []
    assert mark == row_mark(salt, subject_tag(b"store", subject))
    (opened,) = decrypt_entries([(salt, encrypted)])
    assert (opened.id, opened.subject, opened.payload) == (name, subject, payload)
    assert opened.key.tobytes() == np.array(key).tobytes()
    assert opened.value.tobytes() == np.array(value).tobytes()


def test_an_altered_ciphertext_does_not_open() -> None:
    secret = new_secret()
    encrypted = encrypt(secret, "state", b"plain")
    assert decrypt(secret, "state", encrypted) == b"plain"
    for wrong in (
        (new_secret(), "state", encrypted),
        (secret, "entry", encrypted),
        (secret, "state", encrypted[:-1]),
        (secret, "state", bytes([encrypted[0] ^ 1]) + encrypted[1:]),
        (secret, "state", b""),
        (bytes(32), "state", encrypted),
    ):
        with pytest.raises(VerificationError, match="altered"):
            decrypt(*wrong)


@pytest.mark.parametrize("plain", [b"", b"\x00" * 10, b"\xff" * 20, b"\x05\x00\x00\x00" * 5 + b"abc"])
def test_content_that_is_not_well_formed_is_refused(plain: bytes) -> None:
    salt = new_secret()
    with pytest.raises(VerificationError):
        decrypt_entries([(salt, encrypt(salt, "entry", plain))])


def test_a_request_opens_under_its_own_key_alone() -> None:
    encrypted = encrypt_request("scope", "key", {"asked": 1})
    assert decrypt_request("scope", "key", encrypted) == {"asked": 1}
    assert encrypt_request("scope", "key", {"asked": 1}) != encrypted
    for scope, key, data in (
        ("other", "key", encrypted),
        ("scope", "other", encrypted),
        ("scope", "key", encrypted[:10]),
    ):
        with pytest.raises(VerificationError):
            decrypt_request(scope, key, data)
    assert request_key_hash("scope", "key") != request_key_hash("scope", "other") != request_key_hash("other", "other")


def test_a_tag_finds_a_subject_and_does_not_name_it() -> None:
    secret = new_secret()
    assert subject_tag(secret, None) is None
    assert subject_tag(secret, "a") == subject_tag(secret, "a")
    assert subject_tag(secret, "a") != subject_tag(secret, "b")
    assert subject_tag(secret, "a") != subject_tag(new_secret(), "a")


def test_a_mark_hangs_on_the_secret_of_its_row() -> None:
    secret = new_secret()
    assert row_mark(secret, None) is None
    assert row_mark(secret, b"a" * 16) == row_mark(secret, b"a" * 16)
    assert row_mark(secret, b"a" * 16) != row_mark(secret, b"b" * 16)
    assert row_mark(secret, b"a" * 16) != row_mark(new_secret(), b"a" * 16)
