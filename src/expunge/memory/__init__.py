"""A memory of entries in one process: the verbs of the public API, and the versions that edits publish.

Imports certificates, solver, problem, and commitments and file writing of the ledger. Start with `memory.py`, then
`pending_edit.py` (how an edit is prepared) and `version.py` (what is published).
"""
