"""Signed heads in other hands: a time-stamping authority dates them, witnesses cosign them.

The only package beside the service that opens connections of its own, and only to addresses that a caller gives. It
imports the ledger and its verification, and neither memory nor store. Start with `witness_client.py`.
"""
