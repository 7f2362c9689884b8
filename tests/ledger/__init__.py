"""Tests of the ledger: the hash tree, its signed heads and the signed envelopes."""
