"""Databases: what a store asks of one, its two implementations, the tables and the version of the tables.

It may import SQLAlchemy, the store's encryption and identity, and nothing of a memory. Start with `database.py`.
"""
