"""Real data to try a memory on: two small samples in the package, and loaders of larger open data sets.

>>> from expunge import Memory, datasets
>>> memory = Memory.fit(**datasets.icu_hours().arguments)

The samples need nothing but NumPy; `mimic_iv` and `physionet2019` read clinical data sets that you have, with the
``clinical`` extra, and `locomo` reads conversations, with the ``embeddings`` extra. It imports `expunge.problem` and,
for payloads, `expunge.memory.entries`. Start at `bundled`, then `cohorts`.
"""

from __future__ import annotations

from expunge.datasets.bundled import Sample, conversations, icu_hours, icu_stays
from expunge.datasets.cohorts import mimic_iv, physionet2019
from expunge.datasets.dialogues import Dialogue, locomo
from expunge.datasets.first_hours import icu_first_hours
from expunge.datasets.minilm import embed
from expunge.datasets.recall_model import RecallModel, recall_model
from expunge.datasets.vitals import CHANNELS, Cohort, Stay, distinct_hours

__all__ = [
    "CHANNELS",
    "Cohort",
    "Dialogue",
    "RecallModel",
    "Sample",
    "Stay",
    "conversations",
    "distinct_hours",
    "embed",
    "icu_first_hours",
    "icu_hours",
    "icu_stays",
    "locomo",
    "mimic_iv",
    "physionet2019",
    "recall_model",
]
