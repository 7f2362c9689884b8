"""Signing keys and the files that hold them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from expunge.errors import InputError
from expunge.ledger.signing import (
    SigningKey,
    VerifyingKey,
    load_signing_key,
    load_verifying_key,
    save_signing_key,
    save_verifying_key,
)
from raising import raises_code

from .make_vectors import LOG_KEY


def test_rfc_8032_test_1() -> None:
    assert LOG_KEY.public.raw.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert LOG_KEY.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b"
    )


@pytest.mark.parametrize("passphrase", [None, "correct horse", "пароль"])
def test_files_round_trip(tmp_path: Path, passphrase: str | None) -> None:
    key = SigningKey.generate()
    save_signing_key(key, tmp_path / "key.pem", passphrase)
    save_verifying_key(key.public, tmp_path / "key.pub")
    loaded = load_signing_key(str(tmp_path / "key.pem"), passphrase)
    assert loaded.public == key.public == load_verifying_key(tmp_path / "key.pub")
    assert loaded.key_id == key.key_id
    assert key.public.verifies(loaded.sign(b"message"), b"message")
    assert not key.public.verifies(loaded.sign(b"message"), b"another")
    assert not key.public.verifies(b"", b"message")


def test_a_private_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        save_signing_key(LOG_KEY, tmp_path / "key.pem")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o777])
def test_an_exposed_private_key_is_refused(tmp_path: Path, mode: int) -> None:
    save_signing_key(LOG_KEY, tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(mode)
    with raises_code("signing-key-exposed", match=f"{mode:04o}"):
        load_signing_key(tmp_path / "key.pem")


def test_a_private_key_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_signing_key(LOG_KEY, tmp_path / "key.pem")
    status = list((tmp_path / "key.pem").stat())
    status[stat.ST_UID] = os.geteuid() + 1
    monkeypatch.setattr(os, "fstat", lambda descriptor: os.stat_result(status))
    with raises_code("signing-key-exposed"):
        load_signing_key(tmp_path / "key.pem")


def test_a_read_only_private_key_is_fine(tmp_path: Path) -> None:
    save_signing_key(LOG_KEY, tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o400)
    load_signing_key(tmp_path / "key.pem")


@pytest.mark.parametrize("private", [True, False])
def test_saving_never_overwrites(tmp_path: Path, private: bool) -> None:
    def save(path: Path) -> None:
        if private:
            save_signing_key(LOG_KEY, path)
        else:
            save_verifying_key(LOG_KEY.public, path)

    taken, link = tmp_path / "taken", tmp_path / "link"
    taken.write_text("precious")
    link.symlink_to(tmp_path / "elsewhere")
    for path in (taken, link):
        with raises_code("signing-key-exists"):
            save(path)
    assert taken.read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raises_code("signing-key-unwritable", match="No space"):
        save_signing_key(LOG_KEY, tmp_path / "key.pem")
    assert not (tmp_path / "key.pem").exists()


def test_missing_and_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for load in (load_signing_key, load_verifying_key):
        with raises_code("signing-key-missing"):
            load(tmp_path / "nothing")
        for path in (tmp_path, pipe, "\0"):
            with raises_code("signing-key-unreadable"):
                load(path)
    with raises_code("signing-key-unwritable"):
        save_signing_key(LOG_KEY, tmp_path / "no folder" / "key.pem")

    def denied(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    save_signing_key(LOG_KEY, tmp_path / "key.pem")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", denied)
        with raises_code("signing-key-unreadable", match="Permission denied"):
            load_signing_key(tmp_path / "key.pem")
    monkeypatch.setattr(os, "open", denied)
    with raises_code("signing-key-unreadable", match="Permission denied"):
        load_signing_key(tmp_path / "key.pem")


def private_file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", b"\xff" * 100, LOG_KEY.public.to_pem(), LOG_KEY.to_pem()[:60], b"x" * 20_000],
)
def test_files_that_hold_no_private_key(tmp_path: Path, content: bytes) -> None:
    with raises_code("signing-key-malformed"):
        load_signing_key(private_file(tmp_path / "key.pem", content))


@pytest.mark.parametrize("content", [b"", b"nonsense", LOG_KEY.to_pem(), LOG_KEY.public.to_pem()[:60], b"x" * 20_000])
def test_files_that_hold_no_public_key(tmp_path: Path, content: bytes) -> None:
    with raises_code("signing-key-malformed"):
        load_verifying_key(private_file(tmp_path / "key.pub", content))


def test_keys_of_another_kind(tmp_path: Path) -> None:
    key = generate_private_key(SECP384R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with raises_code("signing-key-wrong-type"):
        load_signing_key(private_file(tmp_path / "key.pem", private))
    with raises_code("signing-key-wrong-type"):
        load_verifying_key(private_file(tmp_path / "key.pub", public))


def test_passphrases(tmp_path: Path) -> None:
    save_signing_key(LOG_KEY, tmp_path / "locked.pem", "secret")
    save_signing_key(LOG_KEY, tmp_path / "open.pem")
    assert LOG_KEY.to_pem() == (tmp_path / "open.pem").read_bytes()
    with raises_code("signing-key-locked"):
        load_signing_key(tmp_path / "locked.pem")
    with raises_code("signing-key-passphrase-wrong"):
        load_signing_key(tmp_path / "locked.pem", "wrong")
    with raises_code("signing-key-passphrase-wrong"):
        load_signing_key(tmp_path / "locked.pem", "")
    with raises_code("signing-key-passphrase-wrong"):
        load_signing_key(tmp_path / "open.pem", "secret")
    with pytest.raises(InputError):
        save_signing_key(LOG_KEY, tmp_path / "empty.pem", "")
    long = "é" * 511 + "e"
    assert SigningKey.from_pem(LOG_KEY.to_pem(long), long).public == LOG_KEY.public
    with pytest.raises(InputError, match="1023 bytes"):
        save_signing_key(LOG_KEY, tmp_path / "long.pem", long + "e")
    assert not (tmp_path / "long.pem").exists()


@pytest.mark.parametrize("kind", [Ed448PrivateKey, X25519PrivateKey])
def test_a_key_for_something_else_signs_nothing(kind: Any) -> None:
    with raises_code("signing-key-wrong-type"):
        SigningKey(kind.generate())


@pytest.mark.parametrize(
    "build",
    [lambda: VerifyingKey(b""), lambda: VerifyingKey(bytes(33)), lambda: SigningKey.from_seed(bytes(31))],
)
def test_wrong_lengths_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        build()


def test_no_secret_shows() -> None:
    key = SigningKey.generate()
    seed = key.private.private_bytes_raw()
    assert seed.hex() not in repr(key)
    assert repr(seed) not in repr(key)
    assert repr(key.public.raw) in repr(key)
