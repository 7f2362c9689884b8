"""Tokens at rest, and the commands that make and end them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import expunge
from cli.command_runner import answer, answers, call
from expunge.errors import InputError
from expunge.service.tokens import SCOPES, Tokens

FORM = re.compile(r"expunge_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


def test_a_token_is_found_by_its_text_alone(folder: Path) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        tokens = Tokens(store)
        text, token = tokens.create(["read", "erase"], memory="icu", note="executor")
        assert FORM.fullmatch(text)
        assert tokens.find(text) == token
        assert token.scopes == {"read", "erase"}
        assert [tokens.create(["read"])[0] for _ in range(20)].count(text) == 0
        assert tokens.find(text + "x") is None
        assert tokens.find("") is None
        assert tokens.find("\udcff") is None


def test_what_is_stored_does_not_open_anything(folder: Path) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        texts = [Tokens(store).create(["admin"])[0] for _ in range(3)]
        store.backup(folder / "copy.db")
    for file in folder.iterdir():
        raw = file.read_bytes()
        for text in texts:
            assert text.encode() not in raw
            # The secret may itself hold underscores.
            assert text.split("_", 2)[2].encode() not in raw


def test_a_restored_store_has_no_tokens(folder: Path) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        text, _ = Tokens(store).create(["read"])
        store.backup(folder / "copy.db")
    with expunge.open(f"sqlite:///{folder / 'new.db'}", folder / "ward.db.key") as store:
        store.restore(folder / "copy.db")
        assert Tokens(store).all() == []
        assert Tokens(store).find(text) is None


@pytest.mark.parametrize(
    ("scopes", "given"),
    [
        ([], {}),
        (["everything"], {}),
        (["read", "Write"], {}),
        (["read"], {"memory": "nobody"}),
        (["read"], {"note": "a\nb"}),
        (["read"], {"note": "x" * 201}),
        (["read"], {"lifetime": 0.0}),
        (["read"], {"lifetime": float("nan")}),
        (["read"], {"lifetime": 1e12}),
    ],
)
def test_unusable_tokens_are_not_made(folder: Path, scopes: list[str], given: dict[str, object]) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        with pytest.raises(InputError):
            Tokens(store).create(scopes, **given)  # type: ignore[arg-type]
        assert Tokens(store).all() == []


def test_the_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    store = ("--store", "sqlite:///ward.db")
    made = answer("token", "create", "--scope", "read", "--scope", "erase", "--memory", "icu", *store)
    assert FORM.fullmatch(made["token"])
    assert (made["scopes"], made["memory"]) == (["erase", "read"], "icu")
    shown = call("token", "create", "--scope", "all", "--expires", "30d", "--note", "executor", *store)
    assert FORM.fullmatch(shown.stdout.strip())
    listed = answers("token", "list", *store)
    assert len(listed) == 2
    assert "token" not in listed[0]
    assert made["token"] not in call("token", "list", *store).stdout
    assert {row["name"]: sorted(row["scopes"]) for row in listed}[made["name"]] == ["erase", "read"]
    assert any(sorted(row["scopes"]) == sorted(SCOPES) and row["expires"] for row in listed)
    ended = answer("token", "revoke", made["name"], *store)
    assert ended["revoked"] is not None
    assert "revoked" in call("token", "list", *store).stdout
    assert answer("token", "revoke", made["token"], *store)["revoked"] == ended["revoked"]
    with expunge.open("sqlite:///ward.db") as opened:
        assert Tokens(opened).find(made["token"]) is None


def test_commands_that_cannot_be_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    store = ("--store", "sqlite:///ward.db")
    for words in (
        ("token", "create"),
        ("token", "create", "--scope", "root"),
        ("token", "create", "--scope", "read", "--memory", "nobody"),
        ("token", "create", "--scope", "read", "--expires", "soon"),
        ("token", "revoke", "nothing"),
        ("token", "revoke", "000000000000"),
        ("serve", "--host", "::"),
        ("serve", "--host", "192.0.2.1"),
        ("serve", "--host", "nowhere.invalid", "--insecure"),
        ("serve", "--tls-cert", "ward.db"),
        ("serve", "--report", "nothing.html"),
    ):
        assert call(*words, *store, code=2).stderr.startswith("error: input-error")
    assert "no store" in call("serve", "--store", "sqlite:///nothing.db", "--port", "0", code=4).stderr
    assert not Path("nothing.db").exists()
