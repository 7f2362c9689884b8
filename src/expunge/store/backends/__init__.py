"""Databases: what a store asks of one, SQLite, PostgreSQL, the tables and their migrations.

Imports SQLAlchemy and nothing of a memory. Start with `database.py`.
"""
