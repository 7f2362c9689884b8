"""Care for a store as a whole: backups, restoring from them, and the check of every row against the ledger.

It may import the store's rows and its ledger tables, and nothing of `Store`. Start with `backup.py`.
"""
