"""BM25 over notes: what is a term, which notes count, and what an erased note leaves behind."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from expunge.integrations.text_search import (
    LENGTH_SHARE,
    SATURATION,
    STOP_WORDS,
    TextIndex,
    query_terms,
    terms,
)

NOTES = [
    "Ada drinks green tea",
    "Bob painted the tea house green, green!",
    "",
    "?!",
    "Painting is what Ada does",
    "tea",
]


def plain(payload: bytes | None) -> str | None:
    return None if payload is None else payload.decode()


def index_of(texts: Iterable[str | None]) -> TextIndex:
    payloads = [None if text is None else text.encode() for text in texts]
    index = TextIndex(plain)
    index.read_up_to(len(payloads), payloads)
    return index


def everything(index: TextIndex, query: str, count: int) -> list[float]:
    found: list[float] = index.scores(query_terms(query), np.ones(count, dtype=bool)).tolist()
    return found


def slow_scores(texts: list[str], query: str) -> list[float]:
    """BM25 as it is written down, over a list of texts."""
    counted = [Counter(terms(text)) for text in texts]
    mean = sum(sum(one.values()) for one in counted) / len(texts)
    scores = []
    for one in counted:
        norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * sum(one.values()) / mean)
        score = 0.0
        for term in query_terms(query):
            having = sum(term in other for other in counted)
            rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            score += rarity * one[term] * (SATURATION + 1) / (one[term] + norm)
        scores.append(score)
    return scores


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada's painting, PAINTED!", ["ada", "s", "paint", "paint"]),
        ("snake_case and C3PO", ["snake", "case", "and", "c3po"]),
        ("Cafe\u0301 café CAFE ﬁne", ["cafe", "cafe", "cafe", "fine"]),
        ("Straße İstanbul", ["stras", "istan"]),
        ("東京都に行く", ["東京", "京都", "都に", "に行", "行く"]),
        ("ＡＢＣ 猫 abc猫", ["abc", "猫", "abc", "猫"]),
        ("हिन्दी में", ["हिन्द", "में"]),
        ("한국어", ["한국", "국어"]),
        ("?! _ 🙂", []),
        ("\ud800word", ["word"]),
    ],
)
def test_terms_of_a_text(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_stop_words_are_passed_over_unless_there_is_nothing_else() -> None:
    assert query_terms("What is the colour of the tea?") == ["colou", "tea"]
    assert query_terms("Who are you?") == ["are", "who", "you"]
    assert query_terms("") == []
    assert all(terms(word) == [word] or len(word) > 5 for word in STOP_WORDS)


def test_scores_are_those_of_the_definition() -> None:
    words = [f"w{number:02}x{number % 7}" for number in range(40)]
    rng = random.Random(5)
    texts = [" ".join(rng.choices(words, k=rng.randrange(1, 30))) for _ in range(120)]
    index = index_of(texts)
    for _ in range(20):
        query = " ".join(rng.choices(words, k=4))
        assert everything(index, query, len(texts)) == pytest.approx(slow_scores(texts, query), rel=1e-13)


def test_notes_that_are_not_visible_change_no_bit() -> None:
    rng = random.Random(6)
    words = ["tea", "house", "green", "ada", "walks", "river", "night"]
    texts = [" ".join(rng.choices(words, k=rng.randrange(1, 9))) for _ in range(60)]
    visible = np.array([rng.random() < 0.4 for _ in texts])
    alone = index_of([text for text, seen in zip(texts, visible, strict=True) if seen])
    for query in ("green tea", "ada", "river at night", "nothing of it"):
        together = index_of(texts).scores(query_terms(query), visible)
        assert together[visible].tolist() == everything(alone, query, int(visible.sum()))
        assert not together[~visible].any()


def test_notes_without_a_text_are_not_counted() -> None:
    with_others = index_of([NOTES[0], None, NOTES[1], None])
    assert len(with_others) == 2
    assert everything(with_others, "green", 4)[::2] == everything(index_of([NOTES[0], NOTES[1]]), "green", 2)
    assert everything(index_of([None, "", "?!"]), "green", 3) == [0.0, 0.0, 0.0]
    assert everything(index_of([]), "green", 0) == []


def held(index: TextIndex, word: str) -> bool:
    """Whether any array of the index holds the term of a word."""
    arrays = [part for part in vars(index).values() if isinstance(part, np.ndarray)]
    return any((array == hash(terms(word)[0])).any() for array in arrays)


def test_a_forgotten_note_is_overwritten_and_counts_no_more() -> None:
    index = index_of([*NOTES, "zebra " * 3])
    assert held(index, "zebra")
    index.forget([6, 99])
    assert not held(index, "zebra")
    seen = np.array([True] * 6 + [False])
    assert index.scores(["green"], seen)[:6].tolist() == everything(index_of(NOTES), "green", 6)
    assert len(index) == 6


def test_a_slot_that_is_written_anew_has_the_new_words() -> None:
    index = index_of([*NOTES, "zebra"])
    index.rewind(5)
    assert not held(index, "zebra")
    index.read_up_to(6, [text.encode() for text in [*NOTES[:5], "giraffe"]])
    assert held(index, "giraffe")
    assert everything(index, "giraffe tea", 6) == everything(index_of([*NOTES[:5], "giraffe"]), "giraffe tea", 6)
    index.rewind(0)
    assert not any(held(index, word) for word in ("giraffe", "tea", "green"))
    assert len(index) == 0


def test_growth_leaves_no_copy_behind() -> None:
    """Arrays that were replaced by larger ones are overwritten: a reference kept from before shows zeros."""
    index = index_of(["zebra"])
    old = [part for part in vars(index).values() if isinstance(part, np.ndarray)]
    texts = [b"zebra", *(b"word%d other%d more%d" % (number, number, number) for number in range(100))]
    index.read_up_to(len(texts), texts)
    new = [part for part in vars(index).values() if isinstance(part, np.ndarray)]
    replaced = [array for array in old if not any(array is kept for kept in new)]
    assert len(replaced) == 6
    assert all((array == array[0]).all() for array in replaced)
    assert everything(index, "zebra", 101)[0] > 0.0
