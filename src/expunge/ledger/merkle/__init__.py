"""The hash tree of the ledger (RFC 6962): growing it, proving things about it, checking the proofs.

`tree.py` writes and `tree_proof.py` checks; they share `hashing.py` alone. `proof_file.py` is the text that carries a
proof, and imports notes, checkpoints and encodings of the ledger. Start with `tree_proof.py`.
"""
