"""Signing keys: ``keygen``, passphrases, and a witness's verifier key."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_runner import answer, call, code_of, hours


def test_keygen_and_a_store_of_ones_own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = answer("keygen", "mine.pem")
    assert made["encrypted"] is False
    assert Path(made["private"]).stat().st_mode & 0o777 == 0o600
    table = hours(tmp_path / "hours.csv")
    call("create", "ward", table, "--sigma", 2, "--nu", 0.3, "--signing-key", "mine.pem")
    assert not Path("expunge.db.key").exists()
    assert call("show", code=4).stderr.startswith("error: signing-key-missing")
    assert answer("show", "--signing-key", "mine.pem")["memories"][0]["name"] == "ward"
    assert answer("show", env={"EXPUNGE_SIGNING_KEY": "mine.pem"})["leaves"] == 1


def test_no_private_key_is_left_where_the_public_one_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.pub").touch()
    assert "mine.pub exists" in call("keygen", "mine.pem", code=4).stderr
    assert not Path("mine.pem").exists()


def test_a_key_under_a_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secret = {"EXPUNGE_PASSPHRASE": "long and random"}
    assert answer("keygen", "mine.pem", env=secret)["encrypted"] is True
    table = hours(tmp_path / "hours.csv")
    words = ("create", "ward", table, "--sigma", 2, "--nu", 0.3, "--signing-key", "mine.pem")
    assert "set $EXPUNGE_PASSPHRASE" in call(*words, code=2).stderr
    call(*words, env=secret)
    assert answer("show", "--signing-key", "mine.pem", env=secret)["leaves"] == 1


def test_a_passphrase_and_the_key_beside_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secret = {"EXPUNGE_PASSPHRASE": "long and random"}
    words = ("create", "ward", hours(tmp_path / "hours.csv"), "--sigma", 2, "--nu", 0.3)
    for options, key in (
        ((), "expunge.db.key"),
        (("--store", "sqlite:///new.db", "--signing-key", "new.pem"), "new.pem"),
    ):
        call(*words, *options, env=secret)
        assert "ENCRYPTED" in Path(key).read_text()
        assert answer("show", *options, env=secret)["leaves"] == 1
        assert "set $EXPUNGE_PASSPHRASE" in call("show", *options, code=2).stderr
    # A key without encryption needs no passphrase, whatever is set.
    call(*words, "--store", "sqlite:///clear.db")
    assert answer("show", "--store", "sqlite:///clear.db", env=secret)["leaves"] == 1


def test_a_witness_key_is_written_whole_or_not_at_all(ward: Path) -> None:
    Path("w.vkey").write_text("taken")
    assert code_of("keygen", "w.pem", "--witness", "w.example", code=4) == "signing-key-exists"
    assert code_of("keygen", "v.pem", "--witness", "w example", code=2) == "input-error"
    assert not any(Path(name).exists() for name in ("w.pem", "w.pub", "v.pem", "v.pub", "v.vkey"))
