"""Checks of single artifacts, offline and independent of what made them.

Every ``verify_*`` returns None or raises a named :class:`~expunge.errors.VerificationError`. Nothing here imports
the solver, the transaction, the memory or a store. One module an artifact; nothing is imported here, so that
checking one does not load what another needs.
"""
