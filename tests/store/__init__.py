"""Tests of the durable stores: one contract for SQLite and PostgreSQL, crashes, concurrency, erasure on disk."""
