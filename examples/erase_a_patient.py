"""Erase a patient from a memory of ICU hours, and show that the memory is as if they had never been there."""

from __future__ import annotations

import tempfile

import numpy as np

import expunge
from expunge import Memory
from expunge.datasets import icu_hours
from expunge.verify import verify_receipt

hours = icu_hours()
patient = hours.subjects[0]

with tempfile.TemporaryDirectory() as folder, expunge.open(f"sqlite:///{folder}/ward.db") as store:
    memory = store.create("icu", **hours.arguments)
    told = memory.delete(subject=patient, dry_run=True)
    print(f"{patient} has {len(told.applied)} of {len(memory)} hours; {memory.deletable} can go at this cap")

    receipt = memory.delete(subject=patient)
    print(f"erased: {len(receipt.applied)} hours, {receipt.outcome}, leaf {receipt.index} of the ledger")

    others = [row for row, subject in enumerate(hours.subjects) if subject != patient]
    never = Memory.fit(hours.keys[others], hours.values[others], sigma=hours.sigma, cap=memory.cap)
    apart = float(np.abs(memory.read(hours.queries) - never.read(hours.queries)).max())
    print(f"a memory that never saw {patient} answers {len(hours.queries)} questions alike: {apart < 1e-9}")

    # Whoever has the public key can check the receipt, offline. It holds no content and no id.
    stated = verify_receipt(receipt.envelope, [store.public_key])
    print(f"the receipt verifies: {stated.action}, {stated.applied.count} entries, {stated.after.live} left")
