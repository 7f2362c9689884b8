"""The append-only log of receipts: hash tree, signed heads, signed envelopes.

It imports the tolerances of `expunge.problem` and nothing of solver, memory or store, so a verifier can load it alone.
Start with `envelope.py` and `receipt_format.py`; writing and checking the tree share only
:mod:`expunge.ledger.merkle.hashing`:

========================  =====================================================================
writes                    :mod:`~expunge.ledger.merkle.tree` grows the tree and makes proofs
checks                    :mod:`~expunge.ledger.merkle.tree_proof` folds a proof back into a root
both, one format a file   :mod:`~expunge.ledger.note`, :mod:`~expunge.ledger.checkpoint`,
                          :mod:`~expunge.ledger.merkle.proof_file`, :mod:`~expunge.ledger.statement`,
                          :mod:`~expunge.ledger.envelope`, :mod:`~expunge.ledger.commitment`,
                          :mod:`~expunge.ledger.receipt_format`, :mod:`~expunge.ledger.event`
keys                      :mod:`~expunge.ledger.signing`
========================  =====================================================================

Nothing is imported here, so that loading one format does not load ``cryptography``.
"""
