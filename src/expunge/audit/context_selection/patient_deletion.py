"""Deleting a patient from a memory of several (paper, App. A; docs/results/protocols.md).

Five patients, at most 48 hours each, an hour kept only if it is more than 0.1 standard units from every kept one of its
patient; ν = 0.5, σ = 2. One patient, drawn at random, is deleted in one transaction. The state is compared with a fresh
solve of the others at the same cap by another solver, at the retained keys, the removed keys and the retained keys
+ 0.02·N(0, I). A patient with more than half of the hours cannot go at this cap: that deletion is refused and counted.

One ``default_rng(0)`` draws, for each trial: the five stays, which of them goes, and the jitter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.datasets import Stay, distinct_hours
from expunge.memory.memory import Memory
from expunge.problem.kernel import kernel_block
from expunge.solver.backends import solve_reference

__all__ = ["TRIALS", "PatientDeletion", "delete_patients"]

TRIALS, PATIENTS, HOURS, APART = 100, 5, 48, 0.1
NU, SIGMA, JITTER = 0.5, 2.0, 0.02


@dataclass(frozen=True)
class PatientDeletion:
    """One deletion: the patient's weight before and after, the others' entries lost, the distance to a fresh solve."""

    trial: int
    entries: int
    removed: int
    outcome: str
    weight_before: float
    weight_after: float | None
    others_lost: int | None
    score_difference: float | None
    coefficient_difference: float | None
    worst_residual: float | None


def delete_patients(stays: Sequence[Stay], trials: int = TRIALS) -> Iterator[PatientDeletion]:
    """Delete one of five patients, again and again."""
    rng = np.random.default_rng(0)
    first: dict[str, Stay] = {}
    for stay in stays:
        first.setdefault(stay.subject, stay)
    patients = list(first.values())
    for trial in range(trials):
        chosen = [patients[place] for place in rng.choice(len(patients), PATIENTS, replace=False)]
        gone = chosen[int(rng.integers(PATIENTS))].subject
        hours = [stay.keys[:HOURS][distinct_hours(stay.keys[:HOURS], APART)] for stay in chosen]
        subjects = [stay.subject for stay, rows in zip(chosen, hours, strict=True) for _ in rows]
        keys = np.vstack(hours)
        memory = Memory.fit(keys, np.zeros(len(keys)), sigma=SIGMA, nu=NU, subjects=subjects)
        theirs = np.array([subject == gone for subject in subjects])
        weight = float(memory.coefficients[theirs].sum())
        jitter = JITTER * rng.standard_normal((int((~theirs).sum()), keys.shape[1]))
        if int(theirs.sum()) > memory.deletable:
            # The cap of the experiment stays.
            yield PatientDeletion(trial, len(keys), int(theirs.sum()), "refused", weight, None, None, None, None, None)
            continue
        outcome = memory.delete(subject=gone).outcome
        fresh = solve_reference(memory.keys, cap=memory.cap, sigma=SIGMA, backend="daqp")
        probes = np.vstack([memory.keys, keys[theirs], memory.keys + jitter])
        reference = 2.0 * kernel_block(probes, memory.keys, SIGMA) @ fresh.coefficients - fresh.offset
        still = np.array([subject == gone for subject in memory.subjects])
        yield PatientDeletion(
            trial,
            len(keys),
            int(theirs.sum()),
            outcome,
            weight,
            float(memory.coefficients[still].sum()),
            int((~theirs).sum()) - int((~still).sum()),
            float(np.abs(memory.score(probes) - reference).max()),
            float(np.abs(memory.coefficients - fresh.coefficients).max()),
            memory.check().worst,
        )
