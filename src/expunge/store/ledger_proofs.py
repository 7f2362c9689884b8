"""Signed heads of the ledger and the proofs that lead to them."""

from __future__ import annotations

from sqlalchemy import insert, select

from expunge.errors import InputError
from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint
from expunge.ledger.merkle.proof_file import ExtensionProof, InclusionProof
from expunge.ledger.merkle.tree import Frontier, ReadNode, consistency_path, inclusion_path
from expunge.ledger.merkle.tree_proof import verify_consistency
from expunge.ledger.note import SignedNote, parse_note
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import checkpoints
from expunge.store.identity import Identity
from expunge.store.ledger_tables import node_reader, read_frontier

__all__ = ["prove_extension", "prove_inclusion", "sign_checkpoint_of"]


def sign_checkpoint_of(database: Database, identity: Identity) -> SignedNote:
    """The signed head of the ledger as it stands; each is signed once, and kept."""
    with database.reading() as connection:
        frontier = read_frontier(connection)
        known = select(checkpoints.c.note).where(checkpoints.c.size == frontier.size)
        kept = connection.value(known)
    if kept is not None:
        return parse_note(kept)
    note = identity.sign_head(frontier)
    with database.writing(f"{identity.uuid} checkpoints") as connection:
        if connection.value(known) is None:
            connection.execute(insert(checkpoints), {"size": frontier.size, "note": note.to_bytes()})
            connection.commit()
    return note


def prove_inclusion(
    connection: CheckedConnection, identity: Identity, index: int, head: SignedNote | None = None
) -> InclusionProof:
    """Proof that a leaf is in the ledger, with the head that it leads to: a new one, or the earlier `head`."""
    frontier, read = read_frontier(connection), node_reader(connection)
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < frontier.size:
        raise InputError(f"the ledger has leaves 0 to {frontier.size - 1}, not {index!r}")
    if head is None:
        return InclusionProof(index, inclusion_path(read, index, frontier.size), identity.sign_head(frontier))
    size = _check_head(head, identity, frontier, read)
    if index >= size:
        raise InputError(f"that head has {size} leaves, and leaf {index} came later: give a newer one")
    return InclusionProof(index, inclusion_path(read, index, size), head)


def prove_extension(
    connection: CheckedConnection, identity: Identity, old_size: int, head: SignedNote | None = None
) -> ExtensionProof:
    """Proof that the ledger only grew since it had `old_size` leaves, up to a new head, or to the earlier `head`."""
    frontier, read = read_frontier(connection), node_reader(connection)
    size = frontier.size if head is None else _check_head(head, identity, frontier, read)
    if isinstance(old_size, bool) or not isinstance(old_size, int) or not 0 <= old_size <= size:
        raise InputError(f"the ledger has had 0 to {size} leaves, not {old_size!r}")
    path = consistency_path(read, old_size, size)
    return ExtensionProof(old_size, path, identity.sign_head(frontier) if head is None else head)


def _check_head(head: SignedNote, identity: Identity, frontier: Frontier, read: ReadNode) -> int:
    """The size of an earlier head, once it is one of this ledger."""
    verify_checkpoint(head, identity.log_keys, identity.origin)
    stated = parse_checkpoint(head.text)
    grown = consistency_path(read, stated.size, frontier.size) if stated.size <= frontier.size else ()
    verify_consistency(stated.size, stated.root, frontier.size, frontier.root, grown)
    return stated.size
