"""Databases: what a store asks of one, its two implementations, the tables and the version of the tables.

It may import SQLAlchemy and the store's encryption and identity; it handles rows and no memories. Start with
`database.py`.
"""
