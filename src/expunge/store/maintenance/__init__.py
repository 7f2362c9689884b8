"""What keeps a store safe as a whole: backups, restores and the check of every row against the ledger.

Imports the store's rows and its ledger. Start with `backup.py`.
"""
