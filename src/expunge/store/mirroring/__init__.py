"""Mirrors of a store: copies of its entries in other systems, kept in step, and searched after every erasure.

An edit writes, in its own transaction, which of its entries a mirror is still to be given or to lose
(`copies_owed.py`); it never waits for the other system. A pass over a mirror (`mirror_pass.py`) then does what is owed,
and writes what it found of erased entries as a leaf of the ledger. Start with `attached_mirror.py`.
"""
