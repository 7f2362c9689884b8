"""What can be said of an entry or of a state, and proved: certificates, warranties, bounds, proofs of partitions.

Imports solver and problem, and the format of proofs from `verify`. Start with `certificate.py`, then `warranty.py`.
"""
