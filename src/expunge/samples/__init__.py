"""Real data to try a memory on: two small samples in the package, and loaders of larger open data sets.

>>> from expunge import Memory, samples
>>> memory = Memory.fit(**samples.icu_hours().arguments)

The samples need nothing but NumPy. `mimic_iv` and `physionet2019` read clinical data sets that you have, with the
``clinical`` extra; `locomo` reads conversations, with the ``embeddings`` extra.
"""

from __future__ import annotations

from expunge.samples.bundled import Sample, conversations, icu_hours, icu_stays
from expunge.samples.cohorts import mimic_iv, physionet2019
from expunge.samples.dialogues import Dialogue, locomo
from expunge.samples.embedding import embed
from expunge.samples.first_hours import icu_first_hours
from expunge.samples.learned import RecallModel, recall_model
from expunge.samples.vitals import CHANNELS, Cohort, Stay, distinct_hours

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
