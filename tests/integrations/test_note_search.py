"""Searching notes by words, meaning and both: what is found, in which order, and who learns nothing from it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import expunge
from expunge import InputError
from expunge.integrations import text_search
from expunge.integrations.embedding import WORDS, embed_texts, words
from expunge.integrations.note_search import Hit, SearchMode
from expunge.integrations.notebook import Notebook
from expunge.store import Store

MODES: tuple[SearchMode, ...] = ("hybrid", "text", "meaning")
ANN = ["Ann drinks green tea", "Ann paints the harbour at night", "The harbour was quiet", "Ann's tea was cold"]
BOB = ["Bob drinks green green tea", "Tea, tea and tea", "Bob's harbour tour", "Nothing of note", "green harbour night"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'notes.db'}") as store:
        yield store


def write(notebook: Notebook, texts: list[str], subject: str | None, payloads: list[Any] | None = None) -> None:
    ids = [f"{subject}-{number}" for number in range(len(texts))]
    notebook.write_many(
        [*embed_texts(words, texts)], ids=ids, subjects=[subject] * len(texts), payloads=payloads or list(texts)
    )


def told(hits: list[Hit]) -> list[tuple[Any, ...]]:
    """All that a hit says but its weight, which is that of the fit to everybody's notes."""
    return [(hit.id, hit.subject, hit.payload, hit.score, hit.distance, hit.similarity) for hit in hits]


def search(notebook: Notebook, text: str, **options: Any) -> list[tuple[Any, ...]]:
    return told(notebook.search(text, **{"embed": WORDS, "count": 99, **options}))


def names(found: list[tuple[Any, ...]]) -> list[str]:
    return [hit[0] for hit in found]


def test_each_mode_finds_what_it_ranks(store: Store) -> None:
    notebook = Notebook(store, "notes")
    assert notebook.search("tea", embed=WORDS) == []
    write(notebook, ANN, "ann")
    text = notebook.search("Who paints harbours?")
    assert [hit.id for hit in text] == ["ann-1", "ann-2"]
    assert all(hit.distance is None and hit.similarity is None and hit.score > 0.0 for hit in text)
    point = embed_texts(words, ["Who paints harbours?"])[0]
    meaning = notebook.search("Who paints harbours?", embed=WORDS, mode="meaning", count=3)
    beside = notebook.nearest(point, 3)
    assert [(hit.id, hit.distance, hit.similarity, hit.weight) for hit in meaning] == [
        (found.id, found.distance, found.similarity, found.weight) for found in beside
    ]
    assert [hit.score for hit in meaning] == [-found.distance for found in beside]
    hybrid = notebook.search("Who paints harbours?", embed=WORDS, mode="hybrid")
    assert len(hybrid) == 4
    assert hybrid[0].id == "ann-1"
    assert all(0.0 <= hit.score <= 1.0 for hit in hybrid)
    # The function alone ranks by words; any other one by both.
    assert told(notebook.search("harbour", embed=words)) == search(notebook, "harbour", mode="text")
    assert told(notebook.search("harbour", embed=lambda texts: words(texts))) == search(
        notebook, "harbour", mode="hybrid"
    )


@pytest.mark.parametrize("mode", MODES)
def test_notes_of_others_change_no_bit(store: Store, mode: SearchMode) -> None:
    """Ann's answers are the same before Bob came, while he is there, and after he has left."""
    notebook = Notebook(store, "notes", sigma=2.0)
    write(notebook, ANN, "ann")
    queries = ("green tea", "the harbour at night", "Bob", "nothing like it")
    before = [search(notebook, query, mode=mode, subject="ann") for query in queries]
    alone = [search(notebook, query, mode=mode) for query in queries]
    assert before == alone
    write(notebook, BOB, "bob")
    assert [search(notebook, query, mode=mode, subject="ann") for query in queries] == before
    # They would change if these counted.
    assert [search(notebook, query, mode=mode) for query in queries] != before
    notebook.erase_subject("bob")
    assert [search(notebook, query, mode=mode, subject="ann") for query in queries] == before
    assert [search(notebook, query, mode=mode) for query in queries] == before
    assert search(notebook, "green tea", mode=mode, subject="bob") == []


@pytest.mark.parametrize("mode", MODES)
def test_pages_are_parts_of_one_list_and_ties_go_by_id(store: Store, mode: SearchMode) -> None:
    notebook = Notebook(store, "notes")
    write(notebook, ["green tea"] * 12 + ["tea", "green", "harbour"], None)
    whole = search(notebook, "green tea", mode=mode)
    assert names(whole)[:12] == sorted(names(whole)[:12])
    assert len({hit[3] for hit in whole[:12]}) == 1
    pages = [search(notebook, "green tea", mode=mode, count=4, offset=start) for start in range(0, 20, 4)]
    assert [hit for page in pages for hit in page] == whole


def test_filters_look_at_the_metadata(store: Store) -> None:
    notebook = Notebook(store, "notes")
    years = [2021, 2022, 2023, 2024]
    payloads = [
        {"text": text, "metadata": {"year": year, "at": {"town": "Kiel"}}}
        for text, year in zip(ANN, years, strict=True)
    ]
    write(notebook, ANN, "ann", payloads)
    write(notebook, BOB, "bob")
    found = search(notebook, "tea", mode="text", where={"year": {"$gte": 2022}, "at": {"town": "Kiel"}})
    assert [(hit[0], hit[2]["text"]) for hit in found] == [("ann-3", ANN[3])]
    assert search(notebook, "tea", mode="text", where={"year": 1999}) == []
    # Scores are those of the notes that the filter leaves.
    alone = Notebook(store, "alone")
    write(alone, ANN, "ann", payloads)
    for mode in MODES:
        assert search(notebook, "green tea", mode=mode, where={"at": {"town": "Kiel"}}) == search(
            alone, "green tea", mode=mode
        )
    for wanted in ({"year": {"$near": 1}}, {"at": {"town": {"$like": "K"}}}, ["year"]):
        with pytest.raises(InputError):
            notebook.search("tea", where=wanted)  # type: ignore[arg-type]


def test_archived_notes_are_found_with_the_same_scores(store: Store) -> None:
    def lengths(texts: Any) -> list[list[float]]:
        return [[len(text) / 10.0] for text in texts]

    notebook = Notebook(store, "notes", nu=0.3)
    texts = [*ANN, *BOB, *(f"{text} again" for text in ANN)]
    notebook.write_many([*embed_texts(lengths, texts)], payloads=list(texts))
    before = {mode: search(notebook, "harbour tea", embed=lengths, mode=mode) for mode in MODES}
    assert notebook.memory is not None
    notebook.memory.prune()
    archive = notebook.memory.version.warranties.archive
    assert len(archive) > 2
    assert {mode: search(notebook, "harbour tea", embed=lengths, mode=mode) for mode in MODES} == before
    weights = {hit.id: hit.weight for hit in notebook.search("harbour tea", embed=lengths, count=99)}
    assert all((weight == 0.0) == (name in archive) for name, weight in weights.items())


def test_a_history_of_edits_scores_like_a_fresh_notebook(store: Store) -> None:
    """Writes, erasures, prunings and compactions: the index that followed them gives the bits of a new one."""
    rng = np.random.default_rng(7)
    vocabulary = ["tea", "harbour", "green", "night", "ann", "walks", "quiet", "paints"]
    notebook = Notebook(store, "notes", nu=0.3)
    kept: dict[str, str] = {}
    indexes = set()
    for number in range(45):
        texts = [" ".join(rng.choice(vocabulary, rng.integers(1, 6))) for _ in range(4)]
        ids = [f"{number}.{place}" for place in range(4)]
        notebook.write_many([*embed_texts(words, texts)], ids=ids, payloads=list(texts))
        kept |= dict(zip(ids, texts, strict=True))
        gone = [str(name) for name in rng.choice([*kept], min(3, len(kept)), replace=False)]
        notebook.erase(gone)
        kept = {name: text for name, text in kept.items() if name not in gone}
        if number % 10 == 9:
            assert notebook.memory is not None
            notebook.memory.prune()
        if number % 5 == 4:
            found = search(notebook, "quiet harbour", mode="text")
            assert {hit[0] for hit in found} <= kept.keys()
            assert notebook.memory is not None
            indexes.add(id(notebook.memory.version.entries))
    assert len(indexes) > 1
    fresh = Notebook(store, "fresh", nu=0.3)
    fresh.write_many([*embed_texts(words, [*kept.values()])], ids=[*kept], payloads=[*kept.values()])
    for mode in MODES:
        for query in ("quiet harbour", "ann paints green tea"):
            assert search(notebook, query, mode=mode) == search(fresh, query, mode=mode)


def test_an_edit_costs_the_notes_that_it_adds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(store, "notes")
    write(notebook, [f"{text} {number}" for number in range(30) for text in ANN], "ann")
    read: list[str] = []
    whole = text_search.terms

    def counted(text: str) -> list[str]:
        read.append(text)
        return whole(text)

    monkeypatch.setattr(text_search, "terms", counted)
    notebook.search("tea")
    assert len(read) == 120
    write(notebook, ["Bob came by"], "bob")
    assert [hit.id for hit in notebook.search("Bob")] == ["bob-0"]
    notebook.erase("ann-5")
    notebook.search("tea")
    assert read[120:] == ["Bob came by"]


def marker() -> str:
    """A word that stands nowhere in this file; whoever asks gets a new string."""
    return "".join(chr(ord("a") + number) for number in (25, 17, 16, 23, 25, 9, 22))


def traces() -> list[str]:
    """What is alive in this process and has the marker: texts, bytes, and arrays with the hash of its term."""
    gc.collect()
    needle, term = marker(), marker()[:5]
    raw, number = needle.encode(), hash(term)
    own = {id(needle), id(term), id(raw), id(number)}
    seen: dict[int, Any] = {}
    layer: list[Any] = gc.get_objects()
    layer.append(sys.modules)
    while layer:
        seen |= {id(each): each for each in layer if type(each) is not FrameType}
        layer = [each for each in gc.get_referents(*layer) if id(each) not in seen]
    # By type: isinstance asks for __class__, which objects of other libraries answer with a warning.
    kinds = {type(each) for each in seen.values()}
    texts, raws, arrays = (
        {kind for kind in kinds if issubclass(kind, of)} for of in (str, (bytes, bytearray), np.ndarray)
    )
    held = texts | raws | arrays | {int}
    found = []
    for each in (each for each in seen.values() if type(each) in held and id(each) not in own):
        kind = type(each)
        if (
            (kind in texts and term in each)
            or (kind in raws and raw[:5] in bytes(each))
            or (kind in arrays and each.dtype == np.int64 and bool((each == number).any()))
            or (kind is int and each == number)
        ):
            found.append(f"{kind.__name__}: {each!r:.60}")
    return found


def remember_and_search(notebook: Notebook) -> None:
    """Notes of Ann and of Zed, whose first has the marker; searched in every mode, so that all is built."""
    write(notebook, ANN, "ann")
    write(notebook, [f"Zed has a {marker()} at home", "Zed walks"], "zed")
    for mode in MODES:
        assert notebook.search(f"home {marker()}", embed=WORDS, mode=mode, count=3)[0].subject == "zed"
        notebook.search("walks home", embed=WORDS, mode=mode, subject="zed", where={})


@pytest.mark.long
def test_an_erased_note_leaves_nothing_in_the_process(store: Store) -> None:
    notebook = Notebook(store, "notes")
    remember_and_search(notebook)
    assert traces()
    notebook.erase_subject("zed")
    assert traces() == []
    assert [hit.subject for hit in notebook.search("harbour tea home")] == ["ann"] * 4
    remember_and_search(Notebook(store, "others"))
    store["others"].delete("zed-0")
    assert traces() == []


ERASE = """
import sys, expunge
with expunge.open(sys.argv[1]) as store:
    store.erase_subject("zed")
"""


@pytest.mark.long
def test_what_another_process_erases_leaves_nothing_here(tmp_path: Path) -> None:
    """Neither in a notebook that is searched afterwards, nor in one that only the store's upkeep looks at."""
    url = f"sqlite:///{tmp_path / 'notes.db'}"
    with expunge.open(url) as store:
        notebook, other = Notebook(store, "notes"), Notebook(store, "others")
        remember_and_search(notebook)
        remember_and_search(other)
        assert traces()
        subprocess.run([sys.executable, "-c", ERASE, url], check=True, timeout=120)  # noqa: S603 — our own script
        assert notebook.search("home", subject="zed") == []
        store.retry_erasures()
        assert traces() == []
        assert other.search("home", subject="zed") == []


def test_searches_beside_edits_see_whole_states(store: Store) -> None:
    """Three threads search while a fourth writes and erases: no error, and pairs are found together or not at all."""
    notebook = Notebook(store, "notes")
    write(notebook, ANN, "ann")
    done = threading.Event()
    problems: list[Any] = []

    def look() -> None:
        try:
            while not done.is_set():
                found = [hit.id for hit in notebook.search("pair", embed=WORDS, mode="text", count=99)]
                if len(found) % 2:
                    problems.append(found)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(25):
        pair = [f"left {number} pair", f"right {number} pair"]
        notebook.write_many([*embed_texts(words, pair)], ids=[f"l{number}", f"r{number}"], payloads=list(pair))
        if number % 2:
            notebook.erase([f"l{number - 1}", f"r{number - 1}"])
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_what_is_wrong_is_an_input_error(store: Store) -> None:
    notebook = Notebook(store, "notes")
    write(notebook, ANN, "ann")
    for wrong in (
        {"count": 0},
        {"offset": -1},
        {"mode": "nearest"},
        {"mode": "meaning", "embed": None},
        {"subject": ""},
        {"embed": lambda texts: [[1.0]] * len(texts), "mode": "hybrid"},
    ):
        with pytest.raises(InputError):
            notebook.search("tea", **{"embed": WORDS, **wrong})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="text"):
        notebook.search(None, embed=WORDS)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_what_has_ended_is_not_found_though_it_is_not_swept_yet(tmp_path: Path, mode: SearchMode) -> None:
    now = [datetime(2031, 1, 1, tzinfo=UTC)]
    with expunge.open(f"sqlite:///{tmp_path / 'notes.db'}", clock=lambda: now[0]) as store:
        notebook = Notebook(store, "notes")
        ends: list[datetime | None] = [now[0] + timedelta(hours=1), None, now[0] + timedelta(hours=3), None]
        notebook.write_many([*embed_texts(words, ANN)], ids=list("abcd"), payloads=list(ANN), expires=ends)
        before = {hit.id for hit in notebook.search("tea harbour", embed=WORDS, mode=mode)}
        assert "a" in before
        now[0] += timedelta(hours=1)
        assert {hit.id for hit in notebook.search("tea harbour", embed=WORDS, mode=mode)} == before - {"a"}
        # Its text is in the notes until then, and the scores of the others are as if it were not.
        left = told(notebook.search("tea harbour", embed=WORDS, mode=mode))
        assert store.retain().applied == {"notes": ("a",)}
        assert told(notebook.search("tea harbour", embed=WORDS, mode=mode)) == left
        now[0] += timedelta(hours=9)
        notebook.erase(["b", "d"])
        assert notebook.search("tea harbour", embed=WORDS, mode=mode) == []
