"""Opening a store: URLs, keys, timeouts, and places that cannot be opened."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

import expunge
import expunge.store
from expunge import InputError, MissingExtra, StoreError
from expunge.cli.context import CommandContext
from expunge.ledger.signing import SigningKey, load_signing_key, save_signing_key
from expunge.store.backends.connect import url_without_password
from raising import raises_code

from ..conftest import Place
from ..postgres_server import Server
from ..sample_memory import fill


def test_the_package_opens_stores(folder: Path) -> None:
    assert expunge.open is expunge.store.open
    assert "open" not in expunge.__all__
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        assert isinstance(store, expunge.store.Store)


def test_a_sqlite_store_loads_no_extra(folder: Path) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}"):
        pass
    program = (
        f"import sys, expunge; expunge.open('sqlite:///{folder / 'ward.db'}').close(); "
        "print([name for name in ('psycopg', 'torch', 'fastapi', 'daqp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_a_sqlite_store_keeps_its_key_beside_itself(folder: Path) -> None:
    url = f"sqlite:///{folder / 'ward.db'}"
    with expunge.open(url) as store:
        public = store.public_key
        assert store.origin == f"expunge/{store.uuid}"
    key = folder / "ward.db.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert (folder / "ward.db").stat().st_mode & 0o777 == 0o600
    assert load_signing_key(key).public == public
    with expunge.open(url) as store:
        assert store.public_key == public
    key.chmod(0o644)
    with raises_code("signing-key-exposed"):
        expunge.open(url)
    key.unlink()
    with raises_code("signing-key-missing"):
        expunge.open(url)


def test_a_store_that_cannot_be_written_is_named_as_such(folder: Path) -> None:
    """As on a read-only file system: here a folder stands where SQLite would put its log."""
    url = f"sqlite:///{folder / 'ward.db'}"
    expunge.open(url).close()
    (folder / "ward.db-wal").mkdir()
    with pytest.raises(StoreError, match="copy the store and its key to a folder that you can write to"):
        expunge.open(url)


def test_a_key_may_be_given(place: Place, folder: Path) -> None:
    key = SigningKey.generate()
    store = place.open(signing_key=key, origin="ledger.example/one")
    assert store.public_key == key.public
    fill(store)
    save_signing_key(key, folder / "saved.pem")
    for given in (folder / "saved.pem", str(folder / "saved.pem"), key):
        assert place.open(signing_key=given).names() == ["icu"]
    with pytest.raises(StoreError, match="another key"):
        place.open(signing_key=SigningKey.generate())
    with raises_code("signing-key-missing"):
        place.open(signing_key=folder / "missing.pem")
    assert place.open(signing_key=key, origin="ledger.example/one").origin == "ledger.example/one"
    with pytest.raises(StoreError, match="origin"):
        place.open(signing_key=key, origin="ledger.example/two")
    for wrong in (key.private, key.public, 7):
        with pytest.raises(InputError, match="signing_key is"):
            place.open(signing_key=wrong)


def test_postgresql_needs_a_key(server: Server) -> None:
    with pytest.raises(InputError, match="signing_key"):
        expunge.open(server.new_schema())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ward.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:ward.db?mode=memory&uri=true",
        "mysql://localhost/ward",
        "postgresql://host:port/ward",
        3,
        None,
        Path("ward.db"),
    ],
)
def test_what_is_no_url_of_a_store_is_bad_input(url: Any) -> None:
    with pytest.raises(InputError):
        expunge.open(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@host:port/ward",
        "postgresql:/ann:hunter2@host/ward",
        " postgresql://ann:hunter2@host/ward",
        "postgresql://ann:hunter2@[::1/ward",
        "postgresql://ann:x@hunter2@host/ward",
        "ann:hunter2@host/ward",
        "host=localhost password=hunter2",
        b"postgresql://ann:hunter2@host/ward",
    ],
)
def test_a_url_that_is_none_keeps_its_password_to_itself(url: Any) -> None:
    with pytest.raises(InputError) as caught:
        expunge.open(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_url_is_shown_without_its_password() -> None:
    for url in (
        "postgresql://ann:hunter2@host/ward",
        "postgresql://ann@host/ward?password=hunter2&sslpassword=hunter2",
    ):
        for shown in (url_without_password(make_url(url)), CommandContext(url).displayed_url):
            assert shown.startswith("postgresql://ann")
            assert "hunter2" not in shown
    assert CommandContext("sqlite:///a:b@c.db").displayed_url == "sqlite:///a:b@c.db"


@pytest.mark.parametrize("timeout", [0, -1, "3", None, True, float("nan"), 1e9])
def test_a_timeout_is_a_number_of_seconds(folder: Path, timeout: Any) -> None:
    with pytest.raises(InputError, match="timeout"):
        expunge.open(f"sqlite:///{folder / 'ward.db'}", timeout=timeout)


def test_an_origin_must_be_able_to_name_a_key(folder: Path) -> None:
    with pytest.raises(InputError):
        expunge.open(f"sqlite:///{folder / 'ward.db'}", origin="has a space")
    with expunge.open(f"sqlite:///{folder / 'ward.db'}", origin="ledger.example/ward") as store:
        assert store.origin == "ledger.example/ward"


def test_a_place_that_cannot_be_opened_is_a_store_error(folder: Path) -> None:
    with pytest.raises(StoreError, match="no folder"):
        expunge.open(f"sqlite:///{folder / 'nowhere' / 'ward.db'}")
    (folder / "junk.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        expunge.open(f"sqlite:///{folder / 'junk.db'}")
    (folder / "folder.db").mkdir()
    with pytest.raises(StoreError):
        expunge.open(f"sqlite:///{folder / 'folder.db'}")
    for url in ("postgresql://nobody@localhost:1/ward", f"postgresql:///ward?host={folder}"):
        with pytest.raises(StoreError):
            expunge.open(url, signing_key=folder / "key.pem")


def test_postgresql_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "psycopg":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name == "psycopg" or name.startswith("psycopg.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"expunge\[postgres\]"):
        expunge.open("postgresql://localhost/ward", signing_key=folder / "key.pem")
