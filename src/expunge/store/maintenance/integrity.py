"""The check of a whole store against its ledger: everything is recomputed, and the first error is raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import func, select

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint
from expunge.ledger.encoding import Json
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.event import parse_event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier, root_at
from expunge.ledger.note import parse_note
from expunge.ledger.receipt_format import PREDICATE_TYPE, Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import (
    cases,
    checkpoints,
    entries,
    erasures,
    forgotten,
    holds,
    ledger,
    memories,
    mirror_erasures,
    mirror_writes,
    mirrors,
    nodes,
    secrets,
    states,
    store,
)
from expunge.store.backends.tables import leaves as leaves_table
from expunge.store.cases import read_cases
from expunge.store.due_erasures import read_erasures
from expunge.store.encryption import row_mark, subject_tag
from expunge.store.identity import Identity
from expunge.store.key_rotation import started
from expunge.store.key_table import read_keys
from expunge.store.ledger_tables import STRIDE, Leaf, asked_number, node_reader, read_frontier, read_leaves
from expunge.store.legal_holds import read_holds
from expunge.store.maintenance.erased_entries import ErasedEntries
from expunge.store.maintenance.snapshot import snapshot_in_memory
from expunge.store.mirroring.attached_mirror import read_mirrors
from expunge.store.mirroring.copies_owed import read_erasures_owed
from expunge.store.pepper import pepper_hash
from expunge.store.rows import LoadedMemory, kept_slots, load_memory, memory_number, number_of, numbers_of
from expunge.verify.ledger import verify_ledger

__all__ = ["VerifyResult", "verify_store"]


@dataclass(frozen=True)
class VerifyResult:
    """What was checked, and found right.

    ``erasures`` is how many entries the ledger says were erased: *erasures re-applied* holds for all of them.
    """

    memories: int
    entries: int
    leaves: int
    checkpoints: int
    erasures: int


def verify_store(database: Database, identity: Identity) -> VerifyResult:
    """Database, ledger, memories, secrets.

    All rows are first copied into this process's memory. The transaction that reads them ends with the copy: while one
    is open, erased secrets stay in the database's files.
    """
    if errors := database.integrity_errors():
        raise VerificationError(f"the database is damaged: {errors[0]}")
    with snapshot_in_memory(database) as connection:
        _verify_identity(connection, identity)
        leaves = list(read_leaves(connection))
        _verify_tree(connection, leaves)
        head = identity.sign_head(read_frontier(connection)).to_bytes()
        _verify_keys(leaves, identity)
        envelopes = [leaf.envelope for leaf in leaves]
        replayed = verify_ledger(envelopes, head, identity.known("receipts"), identity.log_keys, identity.origin)
        heads = _verify_checkpoints(connection, identity)
        last, dropped, held = _verify_columns(leaves)
        rows = connection.rows(select(memories).order_by(memories.c.number))
        stored = {row.uuid for row in rows}
        if missing := sorted(last.keys() - dropped - stored):
            raise VerificationError(f"the ledger speaks of memory {missing[0]}, which is not in the store")
        count = sum(_verify_memory(connection, row, last, dropped, identity.secret) for row in rows)
        _verify_secrets(connection)
        if {hold.number for hold in read_holds(connection)} != held:
            raise VerificationError("the holds in the store are not those that its ledger tells of")
        _verify_cases(connection, leaves)
        _verify_requested(connection, leaves)
        _verify_mirrors(connection, leaves, replayed.owed)
        erased = ErasedEntries.of(leaf.statement for leaf in leaves).require_none_in(connection)
    return VerifyResult(len(rows), count, len(leaves), heads, erased)


def _verify_identity(connection: CheckedConnection, identity: Identity) -> None:
    """The store is the one that was opened, and gives no number twice."""
    rows = connection.rows(select(store))
    known = (1, identity.uuid, identity.origin, identity.secret, pepper_hash(identity.pepper))
    if [tuple(row) for row in rows] != [known] or read_keys(connection) != identity.keys:
        raise VerificationError("the store is no longer the one that was opened: its identity was altered")
    heads = connection.rows(select(ledger.c.number, ledger.c.next_number))
    largest = connection.value(select(func.coalesce(func.max(holds.c.number), 0)))
    if [row.number for row in heads] != [1] or heads[0].next_number <= largest:
        raise VerificationError("the ledger would give a number again that is taken: its head was altered")


def _verify_keys(leaves: list[Leaf], identity: Identity) -> None:
    """The ledger makes the keys what they are, and each leaf names one that was valid then."""
    timeline = started(identity.keys, (leaf.statement for leaf in leaves))
    for leaf in leaves:
        valid = {key.key_id for key in timeline.keys("receipts")}
        if not valid.intersection(one.key_id for one in parse_envelope(leaf.envelope).signatures):
            raise VerificationError(f"leaf {leaf.index} is signed with a key that was not valid then")
        if leaf.kind in ("key_added", "key_revoked"):
            timeline.follow(leaf.index, parse_event(leaf.statement))
    for use in ("receipts", "heads"):
        stored = {known.key for known in identity.keys if known.use == use and not known.revoked}
        if stored != set(timeline.keys(use)):
            raise VerificationError(f"the keys for {use} in the store are not those that its ledger tells of")


def _verify_tree(connection: CheckedConnection, leaves: list[Leaf]) -> None:
    """Indices without a gap, stored hashes and frontier as the envelopes have them."""
    stored = {(row.level, row.number): row.hash for row in connection.rows(select(nodes))}
    frontier = Frontier()
    for expected, leaf in enumerate(leaves):
        if leaf.index != expected:
            raise VerificationError(f"the ledger has no leaf {expected}")
        frontier, final = frontier.append(leaf_hash(leaf.envelope))
        for node in final:
            if node.level % STRIDE == 0 and stored.pop((node.level, node.index), None) != node.hash:
                raise VerificationError(f"the stored hash of node {node.index} at level {node.level} is wrong")
    if stored:
        raise VerificationError(f"{len(stored)} stored hashes belong to no leaf")
    if frontier != read_frontier(connection):
        raise VerificationError("the stored frontier of the ledger is not that of its leaves")
    latest = max((str(leaf.statement.predicate.get("time")) for leaf in leaves), default=None)
    stored_time = connection.value(select(ledger.c.time))
    if stored_time != (0 if latest is None else int(datetime.fromisoformat(latest).timestamp())):
        raise VerificationError("the stored time of the ledger is not that of its latest leaf")


def _verify_checkpoints(connection: CheckedConnection, identity: Identity) -> int:
    read, size = node_reader(connection), read_frontier(connection).size
    rows = connection.rows(select(checkpoints))
    for row in rows:
        note = parse_note(row.note)
        verify_checkpoint(note, identity.log_keys, identity.origin)
        stated = parse_checkpoint(note.text)
        if stated.size != row.size or stated.size > size or stated.root != root_at(read, stated.size):
            raise VerificationError(f"the ledger does not extend its signed head of {row.size} leaves")
    return len(rows)


def _verify_columns(leaves: list[Leaf]) -> tuple[dict[str, Predicate], set[str], set[int]]:
    """What the columns beside an envelope say is what is in it.

    Returns each memory's last receipt, the memories that were dropped, and the numbers of the holds that are in force.
    """
    last: dict[str, Predicate] = {}
    dropped: set[str] = set()
    held: dict[Json, str | None] = {}
    for leaf in leaves:
        if leaf.statement.predicate_type == PREDICATE_TYPE:
            receipt = parse_predicate(leaf.statement)
            stated: tuple[str, str | None, int | None] = (receipt.outcome, receipt.memory, receipt.edit)
            last[receipt.memory] = receipt
        else:
            event = parse_event(leaf.statement)
            stated = (event.kind, event.memory, None)
            if event.kind == "dropped" and event.memory is not None:
                dropped.add(event.memory)
            elif event.kind == "held":
                held[event.facts["hold"]] = event.memory
            elif event.kind == "released":
                held.pop(event.facts["hold"], None)
        if stated != (leaf.kind, leaf.memory, leaf.edit):
            raise VerificationError(f"leaf {leaf.index} is listed as something else than it is")
    return (
        last,
        dropped,
        {number for number, memory in held.items() if isinstance(number, int) and memory not in dropped},
    )


def _verify_cases(connection: CheckedConnection, leaves: list[Leaf]) -> None:
    """Each leaf is found by its case, and each case that is kept opens what its leaves commit to."""
    stated = {leaf.index: asked_number(leaf.statement) for leaf in leaves}
    if stated != {row.number: row.asked for row in connection.rows(select(leaves_table))}:
        raise VerificationError("a leaf is listed under another case than its own")
    for case in read_cases(connection).values():
        if not case.leaves:
            raise VerificationError("a case is kept that no leaf commits to")
        for index in case.leaves:
            request = cast("Mapping[str, Json]", leaves[index].statement.predicate["request"])
            if (request["case"], request["actor"]) != case.commitments:
                raise VerificationError(f"the case of leaf {index} does not open its commitments")


def _verify_requested(connection: CheckedConnection, leaves: list[Leaf]) -> None:
    """The erasures that wait to be carried out are those that the ledger tells of."""
    waiting: set[Json] = set()
    for leaf in leaves:
        if leaf.kind == "erasure_requested":
            waiting.add(leaf.index)
        elif leaf.kind in ("erasure_cancelled", "subject_erased"):
            facts = parse_event(leaf.statement).facts
            if facts.get("complete", True):
                waiting.discard(facts["requested"])
    if {pending.leaf for pending in read_erasures(connection)} != waiting:
        raise VerificationError("the erasures that wait in the store are not those that its ledger tells of")


def _verify_mirrors(connection: CheckedConnection, leaves: Sequence[Leaf], owed: Mapping[str, tuple[int, ...]]) -> None:
    """The mirrors, and the erasures that each is to follow, are those that the ledger tells of.

    Copies wait for leaves that brought entries; which of these have been written already no leaf tells.
    """
    known = {mirror.commitment: mirror for mirror in read_mirrors(connection)}
    if known.keys() != owed.keys() or connection.value(select(ledger.c.mirrors)) != len(known):
        raise VerificationError("the mirrors in the store are not those that its ledger tells of")
    writes = connection.rows(select(mirror_writes))
    for commitment, mirror in known.items():
        erasures = read_erasures_owed(connection, mirror.number)
        if sorted(erasure.leaf for erasure in erasures) != sorted(owed[commitment]):
            raise VerificationError("the erasures that wait for a mirror are not those that the ledger tells of")
        brought = {mirror.leaf} | {
            leaf.index
            for leaf in leaves[mirror.leaf :]
            if leaf.kind in ("created", "admitted") and leaf.memory is not None and mirror.covers(leaf.memory)
        }
        if not {write.leaf for write in writes if write.mirror == mirror.number} <= brought:
            raise VerificationError("copies wait for a leaf that brought no entry of theirs")
    if {write.mirror for write in writes} - {mirror.number for mirror in known.values()}:
        raise VerificationError("copies wait for a mirror that is not there")


def _verify_memory(
    connection: CheckedConnection, row: Any, last: dict[str, Predicate], dropped: set[str], secret: bytes
) -> int:
    if row.uuid not in last or row.uuid in dropped:
        raise VerificationError(f"the ledger knows no memory {row.name!r}")
    if row.number != memory_number(row.name):
        raise VerificationError(f"{row.name!r} has another number than its name gives it")
    loaded, receipt = load_memory(connection, row.number), last[row.uuid]
    memory, version = loaded.memory, loaded.memory.version
    size = connection.value(select(states.c.size).where(states.c.memory == row.number))
    if size != version.size:
        raise VerificationError(f"{row.name!r} is listed with {size} entries, and has {version.size}")
    _verify_marks(connection, row, loaded, secret)
    if (version.digest, version.edit) != (receipt.state_after, receipt.edit):
        raise VerificationError(
            f"{row.name!r} is at edit {version.edit}; its last receipt is about edit {receipt.edit}"
        )
    if (version.size, len(version.warranties)) != (receipt.after.live, receipt.after.pruned):
        raise VerificationError(f"{row.name!r} does not have the entries that its last receipt counts")
    check = memory.check()
    if not check.passed:
        raise VerificationError(f"{row.name!r} fails the check: residual {check.worst:.3g}")
    return version.size


def _verify_marks(connection: CheckedConnection, row: Any, loaded: LoadedMemory, secret: bytes) -> None:
    """Every entry and record is found by its own subject, so that no erasure passes it by."""
    version, slots = loaded.memory.version, kept_slots(loaded.memory.version)
    owners_of = [version.entries.subjects[slot] for slot in slots.tolist()]
    records, commitments = version.warranties.forgotten, loaded.forgotten.commitments
    subjects_of = {
        entries: dict(zip(numbers_of(version, slots).tolist(), owners_of, strict=True)),
        forgotten: {number_of(digest): records[name].subject for name, digest in commitments.items()},
    }
    for table, owners in subjects_of.items():
        marks = (
            select(table.c.number, table.c.mark, secrets.c.secret)
            .join(secrets, secrets.c.number == table.c.number)
            .where(table.c.memory == row.number)
        )
        for found in connection.rows(marks):
            if found.mark != row_mark(found.secret, subject_tag(secret, owners.get(found.number))):
                raise VerificationError(f"an entry of {row.name!r} has the mark of another subject than its own")


# The tables whose rows have a secret.
_SECRET = (entries, forgotten, holds, cases, erasures, mirrors, mirror_erasures)


def _verify_secrets(connection: CheckedConnection) -> None:
    """No secret outlives what it opens, and nothing is encrypted under a secret that is not there."""
    kept = set(connection.values(select(secrets.c.number)))
    used = {number for table in _SECRET for number in connection.values(select(table.c.number))}
    if lost := used - kept:
        raise VerificationError(f"{len(lost)} rows are encrypted under secrets that are not there")
    if left := kept - used:
        raise VerificationError(f"{len(left)} secrets outlived what they open")
    total = connection.value(select(func.count()).select_from(states))
    if total != connection.value(select(func.count()).select_from(memories)):
        raise VerificationError("a memory has no state")
