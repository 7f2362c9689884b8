"""A real text memory: which turns of a conversation survive, and whether they are the ones that answer.

Keys are sentence embeddings of turns, questions come with the turns that hold their answers, and a policy sees neither
questions nor text. For each budget of 10, 25 and 50% two shares of a question's evidence are measured: what is kept
(*recall*), and what is among the five kept turns most similar to the question (*found*): fewer turns also means fewer
distractors. A memory's measure is the mean over its questions.

- *memorybank*: all 566 exchanges of 15 users are one memory, in the order of the file; a trial is a user's questions.
  It ships with the package, evidence and embeddings included.
- *locomo*: each of ten conversations of two people is a memory, and a trial.

Two arms are added. ``longest`` keeps the longest texts; it sees what the others do not, and shows how much of
"evidence" is length. ``uniform`` is the mean of twenty samples.

- *persons*: everything that one person said is deleted from a fitted memory, and the questions that rest on what
  others said are asked again: the share of their evidence among the five entries that carry the readout
  (`Memory.search`) before and after, and beside it the same for plain similarity search. The state afterwards is
  compared with a fresh solve of the remaining entries at the same cap by another solver (DAQP).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from expunge.audit.context_selection.policy_arms import ARMS, FULL, ArmResult, choices
from expunge.datasets import conversations, locomo
from expunge.memory.memory import Memory
from expunge.selection import Context, matched_budget
from expunge.solver.backends import solve_reference
from expunge.types import IndexArray, Matrix

__all__ = [
    "BUDGETS",
    "SOURCES",
    "PersonDeletion",
    "TextMemory",
    "delete_person",
    "load_memories",
    "measure_memory",
    "persons",
]

SOURCES = ("memorybank", "locomo")
BUDGETS = (0.1, 0.25, 0.5)
SIGMA = 0.6
# The sparsity at which persons are deleted: half of a dialogue must be deletable, and n(1 − ν) entries are.
NU = 0.4
NEAREST, SAMPLES = 5, 20
LONGEST = "longest (sees text)"


@dataclass(frozen=True, eq=False)
class TextMemory:
    """Turns with embeddings (n, d) and lengths; questions with theirs (m, d), the rows that answer and a trial."""

    name: str
    keys: Matrix
    persons: tuple[str, ...]
    lengths: IndexArray
    queries: Matrix
    evidence: tuple[IndexArray, ...]
    trials: IndexArray


@dataclass(frozen=True)
class PersonDeletion:
    """What deleting one person did. Shares are means over ``others`` questions; ``difference`` is of coefficients."""

    person: str
    entries: int
    outcome: str
    others: int
    before: float
    after: float
    similar_before: float
    similar_after: float
    own_left: float
    difference: float


@cache
def load_memories(source: str, path: str | None, folder: str | None = None) -> tuple[TextMemory, ...]:
    """The memories of a source; LoCoMo's need a path, and `folder` may hold a cache of embeddings."""
    if source == "locomo":
        if path is None:
            return ()
        return tuple(
            _memory(
                one.id,
                one.keys,
                one.speakers,
                [len(text) for text in one.texts],
                one.queries,
                one.evidence,
                one.ids,
                np.full(len(one.questions), place),
            )
            for place, one in enumerate(locomo(path, cache=folder))
        )
    sample = conversations()
    people = {name: place for place, name in enumerate(dict.fromkeys(sample.subjects))}
    answered = [place for place, marked in enumerate(sample.evidence) if marked]
    return (
        _memory(
            "memorybank",
            sample.keys,
            sample.subjects,
            [len(payload["query"]) + len(payload["response"]) for payload in sample.payloads],
            sample.queries[answered],
            [sample.evidence[place] for place in answered],
            sample.ids,
            np.array([people[sample.query_subjects[place]] for place in answered]),
        ),
    )


def measure_memory(memory: TextMemory, share: float, regime: str) -> list[ArmResult]:
    """Every arm on one memory, a row for each of its trials."""
    context = Context.of(memory.keys, sigma=SIGMA)
    budget = matched_budget(len(context), share)
    similarity = memory.queries @ memory.keys.T
    rows = []
    for arm, samples in _kept(context, memory, budget):
        measures = np.mean([_evidence(memory, similarity, kept) for kept in samples], axis=0)
        for trial in np.unique(memory.trials).tolist():
            recall, found = measures[:, memory.trials == trial].mean(axis=1).tolist()
            rows.append(ArmResult(regime, arm, trial, len(context), samples[0].size, recall, found=found))
    return rows


def persons(memory: TextMemory) -> tuple[str, ...]:
    """Who said something, in order of first appearance."""
    return tuple(dict.fromkeys(memory.persons))


def delete_person(memory: TextMemory, person: str) -> PersonDeletion:
    """Delete a person's turns from a fitted memory and ask again what rests on the others' turns alone."""
    said = np.array([one == person for one in memory.persons])
    others = [place for place, rows in enumerate(memory.evidence) if not said[rows].any()]
    ids = [str(row) for row in range(len(said))]
    fitted = Memory.fit(memory.keys, np.zeros(len(said)), sigma=SIGMA, nu=NU, ids=ids, subjects=[*memory.persons])
    before = _carried(fitted, memory, others)
    similar_before = _found(memory, np.arange(len(said)), others)
    similar_after = _found(memory, np.flatnonzero(~said), others)
    if int(said.sum()) > fitted.deletable:
        # The cap of the experiment stays.
        return PersonDeletion(
            person, int(said.sum()), "refused", len(others), before, before, similar_before, similar_before, 1.0, 0.0
        )
    outcome = fitted.delete(subject=person).outcome
    fresh = solve_reference(fitted.keys, cap=fitted.cap, sigma=SIGMA, backend="daqp")
    left = float(sum(person == one for one in fitted.subjects))
    return PersonDeletion(
        person,
        int(said.sum()),
        outcome,
        len(others),
        before,
        _carried(fitted, memory, others),
        similar_before,
        similar_after,
        left,
        float(np.abs(fresh.coefficients - fitted.coefficients).max()),
    )


def _memory(
    name: str,
    keys: Matrix,
    people: Sequence[str],
    lengths: Sequence[int],
    queries: Matrix,
    evidence: Sequence[Sequence[str]],
    ids: Sequence[str],
    trials: IndexArray,
) -> TextMemory:
    row = {one: place for place, one in enumerate(ids)}
    marked = tuple(np.array([row[one] for one in names]) for names in evidence)
    return TextMemory(name, keys, tuple(people), np.array(lengths), queries, marked, trials)


def _kept(context: Context, memory: TextMemory, budget: int) -> Iterator[tuple[str, list[IndexArray]]]:
    """Each arm and its choices: one, or several samples."""
    rest = [arm for arm in ARMS if arm != "uniform"]
    for arm, kept in choices(context, budget, np.random.RandomState(0), rest):
        if arm == FULL:
            drawn = [ARMS["uniform"].choose(context, budget, np.random.RandomState(seed)) for seed in range(SAMPLES)]
            yield "uniform", drawn
            yield LONGEST, [np.argsort(-memory.lengths, kind="stable")[:budget]]
        yield arm, [kept]


def _evidence(memory: TextMemory, similarity: Matrix, kept: IndexArray) -> npt.NDArray[np.float64]:
    """Shares of each question's evidence that are kept, and among the kept turns nearest to it, (2, m)."""
    here = np.zeros(len(memory.keys), dtype=bool)
    here[kept] = True
    shares = np.empty((2, len(memory.evidence)))
    for place, rows in enumerate(memory.evidence):
        nearest = kept[np.argsort(-similarity[place, kept], kind="stable")[:NEAREST]]
        shares[:, place] = here[rows].mean(), np.isin(rows, nearest).mean()
    return shares


def _found(memory: TextMemory, kept: IndexArray, questions: Sequence[int]) -> float:
    """Mean share of evidence among the kept turns nearest to each question."""
    if not questions:
        return 0.0
    return float(_evidence(memory, memory.queries @ memory.keys.T, kept)[1][list(questions)].mean())


def _carried(fitted: Memory, memory: TextMemory, questions: Sequence[int]) -> float:
    """Mean share of evidence among the entries that carry the readout at each question."""
    shares = []
    for place in questions:
        hits = {int(hit.id) for hit in fitted.search(memory.queries[place], k=NEAREST)}
        shares.append(np.mean([row in hits for row in memory.evidence[place].tolist()]))
    return float(np.mean(shares)) if shares else 0.0
