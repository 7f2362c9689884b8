"""A witness that cosigns whatever it is given; a real one keeps the heads that it has cosigned."""

from __future__ import annotations

from expunge.ledger.checkpoint import Witness
from expunge.ledger.note import SignedNote
from expunge.ledger.signing import SigningKey


def cosign_checkpoint(note: SignedNote, name: str, key: SigningKey, time: int) -> SignedNote:
    """The note with one more line."""
    return note.with_signature(Witness(name, key).cosignature(note.text, time))
