"""Options come from the command line, else from the environment, else from the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_runner import call


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration whose prefix is wrong, so that the service does not start, and says which one it took."""
    monkeypatch.chdir(tmp_path)
    written = tmp_path / "expunge.toml"
    written.write_text('[store]\nstore = "sqlite:///ward.db"\n[serve]\nport = 0\nprefix = "from-file"\n')
    return written


def test_what_is_typed_counts_before_the_environment_and_that_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.service_client import fill_store

    fill_store("sqlite:///ward.db")
    config = ("--config", str(file))
    assert "'from-file'" in call(*config, "serve", code=2).stderr
    monkeypatch.setenv("EXPUNGE_SERVE_PREFIX", "from-environment")
    assert "'from-environment'" in call(*config, "serve", code=2).stderr
    assert "'typed'" in call(*config, "serve", "--prefix", "typed", code=2).stderr
    monkeypatch.delenv("EXPUNGE_SERVE_PREFIX")
    monkeypatch.setenv("EXPUNGE_CONFIG", str(file))
    assert "'from-file'" in call("serve", code=2).stderr
    # The store of the file is that of every command.
    assert "icu" in call("show").stdout
    assert "no store" in call("show", "--store", "sqlite:///other.db", code=4).stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[serve]\nprot = 1", "no option prot"),
        ("[delete]\nyes = true", "no table [delete]"),
        ("serve = 1", "no table [serve]"),
        ("[serve]\nport = [1]", "takes one value"),
        ("[serve]\ninsecure = 1", "is true or false"),
        ("[serve]\nport = true", "takes a value"),
        ('[serve]\nport = "many"', "--port"),
        ("[serve", "is not TOML"),
    ],
)
def test_a_file_that_cannot_be_followed_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    assert words in call("--config", str(tmp_path / "bad.toml"), "serve", code=2).stderr


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert "cannot read" in call("--config", str(tmp_path / "none.toml"), "show", code=4).stderr
