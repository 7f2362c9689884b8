"""Which turns of a conversation a search finds for a question: LoCoMo, by words, by meaning, by both, and by others.

Each conversation is a notebook with one note per turn. Each question that names evidence in its conversation is asked
there. Recall@k of a question is the share of its evidence among the first k notes; the table has the mean over
questions, with the 95% percentile interval of 10,000 bootstrap resamples of the questions.

- *words*: nearest by hashed words and trigrams, which needs no model.
- *BM25*: the mode ``text``.
- *MiniLM*: the mode ``meaning`` with all-MiniLM-L6-v2.
- *fused*: the mode ``hybrid`` with the same model: what a notebook does by default where the extra is installed.
- *cosine*: numpy, all vectors of the same model. *Chroma*: its index in cosine space, with the same vectors.

Then every notebook is pruned (``prune("archive")``) and asked again. A search finds archived notes too, so answers
should not change; *cosine, live alone* and *Chroma, live alone* show what a search over the notes that stayed live
would find. Intervals are by bootstrap over conversations, whose questions are not independent.

Which half of the data the constants of BM25 and of *fused* were chosen on was not written down. So the first five
conversations are searched over a grid anew, and what is chosen there is held to the last five, beside the constants
that are in use.

    python benchmarks/locomo.py --data locomo10.json

LoCoMo (https://arxiv.org/abs/2402.17753) is under CC BY-NC 4.0. It is read where it lies, and no text of it is copied.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import expunge
from durable import disk_folder
from expunge.datasets import Dialogue, locomo
from expunge.integrations import text_search
from expunge.integrations.embedding import WORDS, Embedder, minilm
from expunge.integrations.note_search import WORDS_SHARE
from expunge.integrations.notebook import Notebook
from expunge.integrations.text_search import TextIndex, query_terms
from expunge.store import Store
from expunge.types import Matrix, Vector
from record import describe, write_result
from selection_results import RESAMPLES

RESULTS = Path(__file__).parent / "results" / "locomo.json"
CATEGORIES = (1, 2, 3, 4, 5)
COUNTS = (5, 10, 25)
MOST = max(COUNTS)
# Letters of a term, k₁ and b of BM25; the share of the words in the mode hybrid.
GRID = ((4, 5, 6), (0.4, 0.6, 0.9, 1.2), (0.0, 0.1, 0.2, 0.4, 0.75))
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)

# From a question's place in its dialogue to the ids that were found, best first.
Search = Callable[[int], list[str]]


class Recall:
    """Recall of each question at each count, by the name of the search, dialogue by dialogue."""

    def __init__(self) -> None:
        self.found: dict[str, dict[int, list[Vector]]] = {}

    def ask(self, name: str, dialogue: Dialogue, search: Search) -> None:
        """Ask every question of a dialogue."""
        rows = self.found.setdefault(name, {count: [] for count in COUNTS})
        answers = [search(place) for place in range(len(dialogue.evidence))]
        for count in COUNTS:
            shares = [share_of(ids[:count], wanted) for ids, wanted in zip(answers, dialogue.evidence, strict=True)]
            rows[count].append(np.array(shares))

    def rows(self) -> list[dict[str, Any]]:
        """The record: mean and interval of each search at each count, of all dialogues and of the last half."""
        return [
            {"search": name}
            | {f"recall@{count}": measured(values) for count, values in by_count.items()}
            | {f"recall@{count}, last half": measured(last_half(values)) for count, values in by_count.items()}
            for name, by_count in self.found.items()
        ]


def share_of(found: Sequence[str], wanted: Sequence[str]) -> float:
    """The share of a question's evidence that was found."""
    return len(set(found) & set(wanted)) / len(wanted)


def last_half(values: list[Any]) -> list[Any]:
    """What is of the last half of the dialogues."""
    return values[len(values) // 2 :]


def measured(values: list[Vector]) -> dict[str, Any]:
    """Mean over all questions, with an interval by bootstrap over dialogues, and the number of questions."""
    sums, sizes = np.array([part.sum() for part in values]), np.array([part.size for part in values])
    drawn = np.random.RandomState(0).randint(0, sums.size, (RESAMPLES, sums.size))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5]).tolist()
    return {"mean": float(sums.sum() / sizes.sum()), "low": low, "high": high, "questions": int(sizes.sum())}


def known_rows(texts: Sequence[str], rows: Matrix) -> Callable[[Sequence[str]], Matrix]:
    """An embedding that looks its texts up: they were all embedded before."""
    places = {text: place for place, text in enumerate(texts)}
    return lambda asked: rows[[places[text] for text in asked]]


def notebook(store: Store, name: str, dialogue: Dialogue, embed: Embedder) -> Notebook:
    """A notebook with one note per turn."""
    notes = Notebook(store, name, embed=embed)
    notes.write_many(
        list(notes.keys_of(dialogue.texts)),
        ids=list(dialogue.ids),
        subjects=list(dialogue.speakers),
        payloads=list(dialogue.texts),
    )
    return notes


def by_notebook(notes: Notebook, dialogue: Dialogue, mode: Any, place: int) -> list[str]:
    """Ids that a notebook finds."""
    return [hit.id for hit in notes.search(dialogue.questions[place], count=MOST, mode=mode)]


def by_cosine(dialogue: Dialogue, rows: Sequence[int], place: int) -> list[str]:
    """Ids of the given rows by cosine: the keys have unit length."""
    order = np.argsort(-(dialogue.keys[list(rows)] @ dialogue.queries[place]), kind="stable")[:MOST]
    return [dialogue.ids[rows[at]] for at in order.tolist()]


@contextmanager
def chroma(folder: Path, dialogue: Dialogue, rows: Sequence[int]) -> Iterator[Search]:
    """A collection of Chroma with the same vectors, those of the given rows."""
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
    made = client.create_collection(dialogue.id, embedding_function=None, metadata={"hnsw:space": "cosine"})
    made.add(ids=[dialogue.ids[row] for row in rows], embeddings=dialogue.keys[list(rows)].astype(np.float32))

    def search(place: int) -> list[str]:
        point = dialogue.queries[place].astype(np.float32)
        found: list[str] = made.query(query_embeddings=[point], n_results=MOST, include=[])["ids"][0]
        return found

    try:
        yield search
    finally:
        client.delete_collection(dialogue.id)


def measure(store: Store, folder: Path, dialogue: Dialogue, before: Recall, after: Recall) -> dict[str, Any]:
    """Ask every question of one dialogue everywhere, before and after pruning."""
    told = [*dialogue.texts, *dialogue.questions]
    model = minilm()
    vectors = known_rows(told, np.vstack([dialogue.keys, dialogue.queries]))
    meaning = notebook(store, dialogue.id, dialogue, Embedder(model.name, model.digest, vectors))
    hashed = notebook(store, f"{dialogue.id} words", dialogue, WORDS)
    archived = {}
    for recall, kept in ((before, "all"), (after, "pruned")):
        recall.ask("words", dialogue, partial(by_notebook, hashed, dialogue, "meaning"))
        recall.ask("BM25", dialogue, partial(by_notebook, meaning, dialogue, "text"))
        recall.ask("MiniLM", dialogue, partial(by_notebook, meaning, dialogue, "meaning"))
        recall.ask("fused", dialogue, partial(by_notebook, meaning, dialogue, "hybrid"))
        if kept == "all":
            recall.ask("cosine", dialogue, partial(by_cosine, dialogue, range(len(dialogue))))
            with chroma(folder / "chroma", dialogue, range(len(dialogue))) as search:
                recall.ask("Chroma", dialogue, search)
            for notes in (meaning, hashed):
                archived[notes.name] = len(store[notes.name].prune("archive").applied)
    live = set(store[meaning.name].ids)
    rows = [row for row, name in enumerate(dialogue.ids) if name in live]
    after.ask("cosine, live alone", dialogue, partial(by_cosine, dialogue, rows))
    with chroma(folder / "chroma", dialogue, rows) as search:
        after.ask("Chroma, live alone", dialogue, search)
    return {"turns": len(dialogue), "archived": archived[meaning.name], "archived of words": archived[hashed.name]}


def recalls(dialogues: Sequence[Dialogue], constants: tuple[int, float, float], shares: Sequence[float]) -> list[float]:
    """Mean recall@25 with other constants: of BM25, then of *fused* for each share of the words in it."""
    text_search.LETTERS, text_search.SATURATION, text_search.LENGTH_SHARE = constants
    found: list[list[float]] = [[] for _ in range(1 + len(shares))]
    for dialogue in dialogues:
        index = TextIndex(lambda payload: None if payload is None else payload.decode())
        index.read_up_to(len(dialogue), [text.encode() for text in dialogue.texts])
        near = dialogue.queries @ dialogue.keys.T
        everything = np.ones(len(dialogue), dtype=bool)
        for question, point, wanted in zip(dialogue.questions, near, dialogue.evidence, strict=True):
            relevance = index.scores(query_terms(question), everything)
            rankings = [np.where(relevance > 0.0, relevance, -1.0)]
            most, close = max(relevance.max(), 1e-300), point - point.min()
            rankings += [share * relevance / most + (1.0 - share) * close / close.max() for share in shares]
            for values, scores in zip(found, rankings, strict=True):
                best = np.argsort(-scores, kind="stable")[:MOST]
                values.append(share_of([dialogue.ids[at] for at in best.tolist() if scores[at] >= 0.0], wanted))
    return [float(np.mean(values)) for values in found]


def tuned(dialogues: Sequence[Dialogue]) -> dict[str, Any]:
    """The best constants on the first half of the dialogues, and what they and those in use reach on the last half."""
    first, last = dialogues[: len(dialogues) // 2], last_half(list(dialogues))
    in_use = (text_search.LETTERS, text_search.SATURATION, text_search.LENGTH_SHARE)
    try:
        reached = {constants: recalls(first, constants, ())[0] for constants in product(*GRID)}
        best = max(reached, key=lambda constants: reached[constants])
        by_share = recalls(first, best, SHARES)[1:]
        share = SHARES[int(np.argmax(by_share))]
        chosen = {"letters": best[0], "k1": best[1], "b": best[2], "share of words": share}
        now = {"letters": in_use[0], "k1": in_use[1], "b": in_use[2], "share of words": WORDS_SHARE}
        rows = []
        for what, constants, weight in (("chosen", best, share), ("in use", in_use, WORDS_SHARE)):
            bm25, fused = recalls(last, constants, [weight])
            rows.append({"constants": what, "first half, BM25": reached.get(constants), "BM25": bm25, "fused": fused})
    finally:
        text_search.LETTERS, text_search.SATURATION, text_search.LENGTH_SHARE = in_use
    return {"grid": len(reached), "chosen": chosen, "in use": now, "rows": rows}


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="LoCoMo's file, locomo10.json")
    parser.add_argument("--cache", type=Path, help="a folder that keeps embeddings between runs")
    parser.add_argument("--limit", type=int, help="conversations to read, for a trial")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    dialogues = locomo(given.data, cache=given.cache, categories=CATEGORIES)[: given.limit]
    before, after = Recall(), Recall()
    sizes = []
    with disk_folder() as folder, expunge.open(f"sqlite:///{folder}/locomo.db") as store:
        for dialogue in dialogues:
            sizes.append(measure(store, Path(folder), dialogue, before, after))
            print(f"{dialogue.id}: {sizes[-1]}", flush=True)
        store.verify()
    content = {
        "machine": describe(),
        "conversations": len(dialogues),
        "turns": sum(size["turns"] for size in sizes),
        "archived": sum(size["archived"] for size in sizes),
        "archived of words": sum(size["archived of words"] for size in sizes),
        "questions": sum(len(dialogue.questions) for dialogue in dialogues),
        "questions without evidence": sum(dialogue.dropped["questions"] for dialogue in dialogues),
        "resamples": RESAMPLES,
        "tuning": tuned(dialogues),
        "before": before.rows(),
        "after": after.rows(),
    }
    print(content["tuning"])
    for when in ("before", "after"):
        for row in content["before" if when == "before" else "after"]:
            cells = [row[f"recall@{count}"] for count in COUNTS]
            shown = "  ".join(f"{cell['mean']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]" for cell in cells)
            print(f"{when:6s} {row['search']:20s} {shown}  of {cells[0]['questions']:,}")
    write_result(given.out, content)


if __name__ == "__main__":
    main()
