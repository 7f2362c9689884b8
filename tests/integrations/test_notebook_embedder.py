"""Notes are embedded by one embedder, whose name and digest belong to their memory; another one is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import expunge
from expunge import InputError, Memory
from expunge.integrations.embedding import DIMENSION, WORDS, Embedder, words
from expunge.integrations.notebook import Notebook
from expunge.preprocessing import Column, EmbedderIdentity, Preprocessing
from expunge.store import Store
from expunge.types import Matrix


def backwards(texts: Sequence[str]) -> Matrix:
    """Vectors of the same dimension that mean something else."""
    return words([text[::-1] for text in texts])


OTHERS = {
    "name": Embedder("backwards", WORDS.digest, backwards),
    "digest": Embedder("words", "0" * 64, backwards),
    "no digest": Embedder("words", None, backwards),
    "function": backwards,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'notes.db'}") as store:
        yield store


def remember(notebook: Notebook, *texts: str) -> None:
    notebook.write_many([*notebook.keys_of(texts)], ids=list(texts), payloads=list(texts))


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_another_embedder_is_refused(store: Store, other: Embedder) -> None:
    notebook = Notebook(store, "notes", embed=WORDS)
    remember(notebook, "green tea", "a harbour", "cold tea")
    wrong = Notebook(store, "notes", embed=other)
    before = len(store.receipts())
    for refused in (
        lambda: remember(wrong, "black tea"),
        lambda: wrong.write(words(["black tea"])[0]),
        lambda: wrong.search("tea", mode="meaning"),
        lambda: wrong.search("tea", mode="hybrid"),
        lambda: notebook.search("tea", embed=other, mode="hybrid"),
    ):
        with pytest.raises(InputError, match="words") as problem:
            refused()
        assert problem.value.code == "embedder-mismatch"
    assert (len(notebook), len(store.receipts())) == (3, before)
    # Words need no embedder, and an erasure does not either.
    assert [hit.id for hit in wrong.search("harbour", mode="text")] == ["a harbour"]
    wrong.erase("a harbour")
    assert {hit.id for hit in notebook.search("tea", mode="meaning")} == {"green tea", "cold tea"}


def test_the_identity_outlives_processes_rebuilds_and_files(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'notes.db'}"
    with expunge.open(url) as store:
        remember(Notebook(store, "notes", embed=WORDS), *(f"tea number {number}" for number in range(9)))
        store["notes"].rebuild(cap=1.0)
        store["notes"].save(tmp_path / "notes.expunge")
    assert Memory.load(tmp_path / "notes.expunge").embedder == WORDS.identity
    with expunge.open(url) as store:
        memory = store["notes"]
        assert (memory.embedder, memory.preprocessing) == (WORDS.identity, None)
        with pytest.raises(InputError, match="backwards"):
            remember(Notebook(store, "notes", embed=backwards), "coffee")
        # Whoever has keys of an unknown origin may bring them.
        Notebook(store, "notes").write(words(["coffee"])[0], id="coffee")
        assert len(store["notes"].ids) == 10


def test_an_empty_notebook_takes_another_embedder(store: Store) -> None:
    """The memory is replaced, so that nothing tells of the first embedder."""
    notebook = Notebook(store, "notes", embed=WORDS)
    remember(notebook, "green tea")
    notebook.erase("green tea")
    other = Notebook(store, "notes", embed=backwards)
    assert other.search("tea", mode="hybrid") == []
    remember(other, "a harbour")
    assert store["notes"].embedder == EmbedderIdentity(f"{__name__}:backwards")
    assert store["notes"].dimension == DIMENSION
    with pytest.raises(InputError, match="backwards"):
        remember(notebook, "green tea")


def test_keys_of_unknown_origin_are_compared_with_any(store: Store) -> None:
    plain = Notebook(store, "notes")
    plain.write(words(["green tea"])[0], id="tea", payload="green tea")
    assert store["notes"].embedder is None
    assert [hit.id for hit in Notebook(store, "notes", embed=backwards).search("tea", mode="meaning")] == ["tea"]
    with pytest.raises(InputError, match="give embed"):
        plain.keys_of(["tea"])


def test_it_is_kept_beside_the_columns_and_changes_no_digest() -> None:
    identity = EmbedderIdentity("minilm", "ab" * 32)
    for bare in (Preprocessing(), Preprocessing((Column("k"),), (Column("v"),))):
        made = Preprocessing(bare.keys, bare.values, embedder=identity)
        assert Preprocessing.from_json(json.loads(json.dumps(made.to_json()))) == made
        assert "embedder" not in bare.to_json()
        assert made.to_bytes() == bare.to_bytes()
    wrongs: tuple[Any, ...] = (
        None,
        {"name": "a"},
        {"name": "a", "digest": "b"},
        {"name": "a", "digest": None, "b": 1},
        [],
    )
    for wrong in wrongs:
        with pytest.raises(InputError):
            Preprocessing.from_json({**Preprocessing().to_json(), "embedder": wrong})
    rows = np.eye(4)
    plain = Memory.fit(rows, rows, sigma=1.0, cap=1.0, ids=list("abcd"))
    assert plain.embedder is None
