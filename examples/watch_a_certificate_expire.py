"""Forget entries that provably weigh nothing, go on admitting others, and watch their certificates end."""

from __future__ import annotations

import numpy as np

from expunge import AdmissionRefused, Memory

# The smallest case (Example 1 of the paper): the third key weighs nothing, until a far one arrives.
KEYS = [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]]
small = Memory.fit(KEYS, [1.0, 2.0, 9.0], sigma=5.0, cap=1.0, ids=["a", "b", "c"])
small.prune("forget")
(warranty,) = small.warranties()
print(f"{warranty.id} is forgotten; its slack is {warranty.slack:.4f}")
try:
    small.admit([0.0, -10.0], 3.0, id="d", on_expiry="refuse")
except AdmissionRefused as refused:
    print(f"refused: it would end {refused.measured:.0f} certificate; the memory is as it was")
print(f"admitted all the same: {small.admit([0.0, -10.0], 3.0, id='d').details}")
(warranty,) = small.warranties()
print(f"{warranty.id} is {warranty.status}")
print(f"without d it is certified again: {small.delete('d').details}")
small.delete("a")
(warranty,) = small.warranties()
print(f"a was live when c was forgotten, so without a the certificate of c has {warranty.status}")

# Many entries: each keeps one number and two kernel values to live neighbours, and nothing of its content.
rng = np.random.default_rng(7)
memory = Memory.fit(rng.standard_normal((60, 3)), rng.standard_normal(60), sigma=3.0, nu=0.3)
memory.prune("forget", sketch=2)
for number in range(25):
    memory.admit(2.0 * rng.standard_normal(3), 0.0)
    if number in (0, 4, 9, 24):
        valid = sum(row.status == "valid" for row in memory.warranties())
        print(f"after {number + 1:2} admissions {valid} of {len(memory.warranties())} certificates are valid")
