"""From an edit to what is signed and handed out: statements for the ledger, and evidence bundles.

Imports memory, certificates, solver, problem and ledger; it signs and stores nothing itself. Start with
`statements.py`.
"""
