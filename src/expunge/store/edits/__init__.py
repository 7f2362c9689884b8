"""Edits of stored memories: each is one transaction, with its preview, its signed receipt and its repetition.

It may import the layers below the store, and the store's other modules but `Store` itself. Start with
`edit_transaction.py`.
"""
