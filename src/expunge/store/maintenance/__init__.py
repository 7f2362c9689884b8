"""Care for a store as a whole: backups, restoring from them, and the check of every row against the ledger.

It may import the layers below the store, and the store's other modules but `Store` itself. Start with `backup.py`.
"""
