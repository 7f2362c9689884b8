"""Ledgers to verify: honest ones from a model and from real stores, and the same with a lie in them."""
