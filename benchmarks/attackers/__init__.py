"""Attackers who look for an erased entry. Each has the other entries and the code, and says what else it sees.

`python benchmarks/erasure_attacks.py` plays them at full size and prints a table; tests/attacks plays each once,
small. They use the public API where they can, so that they also run against older versions of the package.
"""
