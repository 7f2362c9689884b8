"""The ledger replayed as a state machine. Rules and codes: ``docs/formats/ledger-replay.md``.

:mod:`~expunge.verify.replay.replay` takes the leaves in order and knows what concerns the whole store;
:mod:`~expunge.verify.replay.memory_history` follows one memory, on :mod:`~expunge.verify.replay.entry_table`.
"""
