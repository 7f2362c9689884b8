"""Real data to try a memory on: two small samples in the package, and loaders of two open clinical data sets.

>>> from expunge import Memory, samples
>>> memory = Memory.fit(**samples.icu_hours().arguments)

The samples need nothing but NumPy. `mimic_iv` and `physionet2019` read data sets that you have, with the
``clinical`` extra.
"""

from __future__ import annotations

from expunge.samples.bundled import Sample, conversations, icu_hours
from expunge.samples.cohorts import mimic_iv, physionet2019
from expunge.samples.vitals import CHANNELS, Cohort, Stay, distinct_hours

__all__ = [
    "CHANNELS",
    "Cohort",
    "Sample",
    "Stay",
    "conversations",
    "distinct_hours",
    "icu_hours",
    "mimic_iv",
    "physionet2019",
]
