"""Sealing: what comes out is what went in, and nothing comes out of anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expunge import VerificationError
from expunge.store.encryption import (
    Content,
    new_secret,
    open_content,
    seal,
    seal_content,
    seal_request,
    subject_tag,
    tag_mark,
    token,
    unseal,
    unseal_request,
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
    opened = open_content(salt, seal_content(salt, content))
    assert (opened.id, opened.subject, opened.payload) == (name, subject, payload)
    assert opened.key.tobytes() == np.array(key).tobytes()
    assert opened.value.tobytes() == np.array(value).tobytes()


def test_an_altered_seal_does_not_open() -> None:
    secret = new_secret()
    sealed = seal(secret, "state", b"plain")
    assert unseal(secret, "state", sealed) == b"plain"
    for wrong in (
        (new_secret(), "state", sealed),
        (secret, "entry", sealed),
        (secret, "state", sealed[:-1]),
        (secret, "state", bytes([sealed[0] ^ 1]) + sealed[1:]),
        (secret, "state", b""),
        (bytes(32), "state", sealed),
    ):
        with pytest.raises(VerificationError, match="altered"):
            unseal(*wrong)


@pytest.mark.parametrize("plain", [b"", b"\x00" * 10, b"\xff" * 20, b"\x05\x00\x00\x00" * 5 + b"abc"])
def test_content_that_is_not_well_formed_is_refused(plain: bytes) -> None:
    salt = new_secret()
    with pytest.raises(VerificationError):
        open_content(salt, seal(salt, "entry", plain))


def test_a_request_opens_under_its_own_key_alone() -> None:
    sealed = seal_request("scope", "key", {"asked": 1})
    assert unseal_request("scope", "key", sealed) == {"asked": 1}
    assert seal_request("scope", "key", {"asked": 1}) != sealed
    for scope, key, data in (("other", "key", sealed), ("scope", "other", sealed), ("scope", "key", sealed[:10])):
        with pytest.raises(VerificationError):
            unseal_request(scope, key, data)
    assert token("scope", "key") != token("scope", "other") != token("other", "other")


def test_a_tag_finds_a_subject_and_does_not_name_it() -> None:
    secret = new_secret()
    assert subject_tag(secret, None) is None
    assert subject_tag(secret, "a") == subject_tag(secret, "a")
    assert subject_tag(secret, "a") != subject_tag(secret, "b")
    assert subject_tag(secret, "a") != subject_tag(new_secret(), "a")


def test_a_mark_hangs_on_the_secret_of_its_row() -> None:
    secret = new_secret()
    assert tag_mark(secret, None) is None
    assert tag_mark(secret, b"a" * 16) == tag_mark(secret, b"a" * 16)
    assert tag_mark(secret, b"a" * 16) != tag_mark(secret, b"b" * 16)
    assert tag_mark(secret, b"a" * 16) != tag_mark(new_secret(), b"a" * 16)
