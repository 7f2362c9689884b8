"""A file is there whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge.errors import StoreError
from expunge.ledger.file_writing import new_file


def test_a_new_file_is_new(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with new_file(path, mode=0o600) as file:
        file.write(b"one")
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError), new_file(path):
        raise AssertionError("not reached")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError), new_file(tmp_path / "link"):
        raise AssertionError("not reached")
    assert path.read_bytes() == b"one"


def test_a_replaced_file_stays_until_the_other_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with new_file(path, replace=True) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("raised", "caught"),
    [(OSError(28, "No space left"), StoreError), (KeyboardInterrupt(), KeyboardInterrupt), (KeyError(1), KeyError)],
)
def test_half_a_file_is_removed(
    tmp_path: Path, replace: bool, raised: BaseException, caught: type[BaseException]
) -> None:
    def write() -> None:
        with new_file(tmp_path / "file", replace=replace) as file:
            file.write(b"half")
            raise raised

    with pytest.raises(caught):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["nowhere/file", "x" * 300, "nul\0"])
def test_a_path_that_cannot_be_written_is_a_store_error(tmp_path: Path, name: str) -> None:
    for replace in (False, True):
        with pytest.raises(StoreError, match="cannot write"), new_file(tmp_path / name, replace=replace):
            raise AssertionError("not reached")
