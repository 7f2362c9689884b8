"""Edits of stored memories: one edit as one transaction, its preview, its signed receipt and its repetition.

Imports memories, the store's rows and its ledger tables, and nothing of `Store`. Start with `edit_transaction.py`.
"""
