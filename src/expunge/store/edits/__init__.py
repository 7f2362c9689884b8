"""Edits of stored memories: each is one transaction, with its preview, its signed receipt and its repetition.

It may import memories, the store's rows and its ledger tables, and nothing of `Store`. Start with
`edit_transaction.py`.
"""
