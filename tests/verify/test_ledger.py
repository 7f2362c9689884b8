"""The log replayed: one history a memory, and a name for every break in it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from cosigning import cosign_checkpoint
from expunge.errors import InputError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, parse_checkpoint, sign_checkpoint
from expunge.ledger.envelope import Envelope, parse_envelope, sign_statement
from expunge.ledger.event import EVENT_TYPE, Event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import ExtensionProof, parse_extension_proof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.ledger.statement import Statement, Subject
from expunge.verify import verify_consistency, verify_inclusion, verify_ledger
from expunge.verify.ledger import LedgerSummary
from raising import raises_code

from .alter import Path, document, forge, put
from .cases import LOG_KEYS, LOGGER, ORIGIN, SIGNER, STRANGER, TRUSTED, Case, case, clock, ledger

OTHER = "ab" * 32
WITNESS = NoteKey("witness.example/w1", STRANGER.public, NoteAlgorithm.COSIGNATURE_V1)


def head(envelopes: list[bytes]) -> bytes:
    root = HashTree([leaf_hash(envelope) for envelope in envelopes]).root()
    return sign_checkpoint(Checkpoint(ORIGIN, len(envelopes), root), LOGGER).to_bytes()


def replay(envelopes: list[bytes], **options: Any) -> LedgerSummary:
    """Verify a log whose tree was made right for whatever is in it."""
    return verify_ledger(envelopes, head(envelopes), TRUSTED, LOG_KEYS, ORIGIN, **options)


def instead(made: Case, envelope: bytes) -> list[bytes]:
    envelopes = list(ledger().envelopes)
    envelopes[made.index] = envelope
    return envelopes


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 19, None])
def test_the_log_and_its_prefixes(size: int | None) -> None:
    envelopes = ledger().envelopes[:size]
    if size is not None and size > 0:
        assert head(envelopes) == ledger().heads[size - 1].to_bytes()
    replay(envelopes)


def test_generators_will_do() -> None:
    envelopes = ledger().envelopes
    verify_ledger(iter(envelopes), head(envelopes), iter(TRUSTED), iter(LOG_KEYS), ORIGIN)


def test_a_log_that_is_not_the_heads() -> None:
    envelopes, newest = ledger().envelopes, ledger().heads[-1].to_bytes()
    ward, example = case("ward-rebuilt").index, case("example-created").index
    assert example == ward + 1
    swapped = list(envelopes)
    # Of two memories, so that neither contradicts a leaf of its own.
    swapped[ward], swapped[example] = swapped[example], swapped[ward]
    for wrong, error in (
        (envelopes[:-1], "ledger-size-mismatch"),
        ([*envelopes, sign_statement(foreign(), SIGNER).to_bytes()], "ledger-size-mismatch"),
        (swapped, "ledger-root-mismatch"),
    ):
        with raises_code(error):
            verify_ledger(wrong, newest, TRUSTED, LOG_KEYS, ORIGIN, also={"urn:example:other"})


def test_a_head_that_is_not_the_logs() -> None:
    envelopes = ledger().envelopes
    stranger = NoteKey(ORIGIN, STRANGER.public)
    with raises_code("note-signer-unknown"):
        verify_ledger(envelopes, head(envelopes), TRUSTED, [stranger], ORIGIN)
    with raises_code("checkpoint-origin-mismatch"):
        verify_ledger(envelopes, head(envelopes), TRUSTED, LOG_KEYS, "ledger.example/other")
    size = len(envelopes)
    altered = head(envelopes).replace(b"\n%d\n" % size, b"\n%d\n" % (size + 1))
    assert altered != head(envelopes)
    with raises_code("note-signature-invalid"):
        verify_ledger(envelopes, altered, TRUSTED, LOG_KEYS, ORIGIN)


def test_a_receipt_that_does_not_verify() -> None:
    made = case("ward-decrement")
    sealed = parse_envelope(made.envelope)
    (entry,) = sealed.signatures
    damaged = Envelope(sealed.payload, (replace(entry, signature=bytes(64)),)).to_bytes()
    stranger = forge(made, document(made), key=STRANGER)
    malformed = forge(made, put(document(made), ("edit",), -1))
    for envelope, cause in (
        (damaged, "envelope-signature-invalid"),
        (stranger, "envelope-signer-unknown"),
        (malformed, "receipt-edit-invalid"),
        (made.envelope[:-1], "json-syntax-invalid"),
    ):
        with raises_code("ledger-receipt-invalid", match=f"leaf {made.index}: {cause}") as caught:
            replay(instead(made, envelope))
        assert isinstance(caught.value.__cause__, VerificationError)
        assert caught.value.__cause__.code == cause


def foreign() -> Statement:
    return Statement((Subject("receipts", OTHER),), "urn:example:other", {"summary": 2})


def test_statements_of_another_kind() -> None:
    envelopes = [*ledger().envelopes, sign_statement(foreign(), SIGNER).to_bytes()]
    replay(envelopes, also={"urn:example:other"})
    with raises_code("ledger-receipt-invalid") as caught:
        replay(envelopes)
    assert isinstance(caught.value.__cause__, VerificationError)
    assert caught.value.__cause__.code == "statement-predicate-type-mismatch"
    envelopes[-1] = sign_statement(foreign(), STRANGER).to_bytes()
    with raises_code("ledger-receipt-invalid"):
        replay(envelopes, also={"urn:example:other"})


def event(kind: Any, made: Case | None, state: str = OTHER, **facts: Any) -> bytes:
    """A signed event about the memory of a receipt; without one, about a subject."""
    subject = Subject("subject" if made is None else "state", state)
    memory = None if made is None else document(made)["memory"]
    return sign_statement(Event.at(clock, kind, memory, subject, **facts).to_statement(), SIGNER).to_bytes()


def test_events_agree_with_the_receipts() -> None:
    last = max((one for one in ledger().cases.values() if one.name.startswith("ward-")), key=lambda one: one.index)
    found = document(last)
    state, sizes = found["state"]["after"], found["entries"]["after"]
    older = document(case("ward-created"))["state"]["after"]
    log = list(ledger().envelopes)
    held = event("held", last, state, hold=7, entry=None)
    released = event("released", last, state, hold=7, cause="request")
    dropped = event("dropped", last, state, **sizes, entries=None)
    assert replay([*log, held]).tally.holds_in_force == 2
    tally = replay([*log, held, released, dropped]).tally
    # The other one went with its memory.
    assert (tally.holds_in_force, tally.memories_dropped) == (0, 1)
    for wrong in (
        event("held", last, OTHER, hold=7, entry=None),
        event("held", last, older, hold=7, entry=None),
        event("dropped", last, OTHER, **sizes, entries=None),
        event("dropped", last, state, live=sizes["live"] + 1, pruned=sizes["pruned"], entries=None),
    ):
        with raises_code("ledger-event-mismatch", match=f"leaf {len(log)}, memory"):
            replay([*log, wrong])
    malformed = Statement((Subject("state", state),), EVENT_TYPE, {"event": "held"})
    with raises_code("ledger-receipt-invalid", match="statement-event-invalid"):
        replay([*log, sign_statement(malformed, SIGNER).to_bytes()])


def test_nothing_happens_to_a_memory_that_was_dropped() -> None:
    made = case("ward-decrement")
    found, log = document(made), list(ledger().envelopes)
    state, sizes = found["state"]["after"], found["entries"]["after"]
    dropped = event("dropped", made, state, **sizes, entries=None)
    replay([*log[: made.index + 1], dropped])
    with raises_code("ledger-memory-dropped"):
        replay([*log[: made.index + 1], dropped, *log[made.index + 1 :]])
    for later in (
        event("dropped", made, state, **sizes, entries=None),
        event("held", made, state, hold=7, entry=None),
    ):
        with raises_code("ledger-memory-dropped"):
            replay([*log[: made.index + 1], dropped, later])


def test_a_summary_counts_receipts_that_are_there() -> None:
    made = case("ward-decrement")
    found, log = document(made), list(ledger().envelopes)
    part = {"memory": found["memory"], "outcome": "decrement", "leaf": made.index, "entries": found["applied"]["count"]}

    def summary(**wrong: Any) -> bytes:
        return event("subject_erased", None, memories=[part | wrong], complete=True, requested=None)

    assert replay([*log, summary()]).tally.erasures_complete == 1
    for wrong, error in (
        ({"memory": document(case("example-created"))["memory"]}, "ledger-summary-mismatch"),
        ({"memory": "00000000-0000-4000-8000-000000000000"}, "ledger-memory-unknown"),
        ({"outcome": "certified_zero"}, "ledger-summary-mismatch"),
        ({"leaf": made.index + 1}, "ledger-summary-mismatch"),
        ({"leaf": len(log) + 1}, "ledger-summary-mismatch"),
        ({"entries": part["entries"] + 1}, "ledger-summary-entries"),
    ):
        with raises_code(error):
            replay([*log, summary(**wrong)])


ENTRIES = {"before": {"live": 33, "pruned": 0}, "after": {"live": 32, "pruned": 0}}
ERASED = case("ward-decrement").predicate.applied.commitments[0]
GONE = case("forgetting-renewed").predicate.applied.commitments[0]
NONE = {"commitments": [], "count": 0, "root": None}
# (case, field, value, error): a receipt that is right by itself and does not follow from those before it.
BREAKS: list[tuple[str, str, Any, str]] = [
    ("ward-decrement", "state.before", OTHER, "ledger-state-broken"),
    ("ward-decrement", "state.after", OTHER, "ledger-state-broken"),
    ("ward-decrement", "memory", case("archive-created").predicate.memory, "ledger-creation-missing"),
    ("ward-decrement", "entries", ENTRIES, "ledger-entries-broken"),
    ("ward-decrement", "edit", 2, "ledger-edit-order"),
    ("ward-decrement", "edit", 0, "ledger-edit-order"),
    ("ward-decrement", "edit", 99, "ledger-edit-order"),
    ("ward-decrement", "problem.cap", "0x1.0000000000000p-1", "ledger-problem-changed"),
    ("ward-decrement", "problem.sigma", "0x1.8000000000000p+1", "ledger-problem-changed"),
    ("ward-decrement", "problem.dimension", 4, "ledger-problem-changed"),
    ("ward-decrement", "problem.initial_entries", 31, "ledger-problem-changed"),
    ("ward-rebuilt", "problem.dimension", 4, "ledger-problem-changed"),
    ("example-restored", "state.after", OTHER, "ledger-restoration-mismatch"),
    ("example-restored", "restored_edit", 0, "ledger-restoration-mismatch"),
    ("example-restored", "entries.after.pruned", 0, "ledger-restoration-mismatch"),
    ("ward-rescued-admission", "applied.commitments", [ERASED], "ledger-entry-reused"),
    ("ward-rescued-deletion", "applied.commitments", [ERASED], "ledger-erasure-repeated"),
    ("forgetting-ended", "warranties.ended.commitments", [GONE], "ledger-certificate-unknown"),
    ("forgetting-ended", "warranties.ended", NONE, "ledger-certificate-kept"),
    ("forgetting-ended-notice", "warranties.ended.commitments", [GONE], "ledger-notice-mismatch"),
]


@pytest.mark.parametrize(("name", "field", "value", "error"), BREAKS)
def test_a_receipt_that_does_not_follow(name: str, field: str, value: Any, error: str) -> None:
    made = case(name)
    path: Path = tuple(field.split("."))
    found = put(document(made), path, value)
    if path[-1] == "commitments":
        found = put(found, (*path[:-1], "count"), len(value))
    envelope = forge(made, found, subjects=True)
    with raises_code(error):
        replay(instead(made, envelope))


@pytest.mark.parametrize("part", ["ended", "expired", "renewed"])
def test_a_certificate_that_has_ended_neither_expires_nor_comes_back(part: str) -> None:
    ended = case("forgetting-ended").predicate.ended.commitments
    last = case("forgetting-later")
    listed = {"commitments": [ended[0]], "count": 1, "root": None}
    with raises_code("ledger-certificate-ended"):
        replay(instead(last, forge(last, put(document(last), ("warranties", part), listed))))


def test_a_receipt_left_out() -> None:
    for name in ("ward-decrement", "ward-pruned-archive", "example-admitted-expiring"):
        envelopes = list(ledger().envelopes)
        del envelopes[case(name).index]
        with raises_code("ledger-state-broken"):
            replay(envelopes)


def test_a_leaf_twice_and_a_memory_created_twice() -> None:
    made = case("ward-created")
    with raises_code("ledger-leaf-repeated"):
        replay([*ledger().envelopes, made.envelope])
    request = put(document(made), ("request", "id"), "00000000-0000-4000-8000-000000000000")
    with raises_code("ledger-creation-repeated"):
        replay([*ledger().envelopes, forge(made, request)])


def test_an_erasure_that_a_backup_undid() -> None:
    """A restored memory is in order only when what was erased since the backup is erased again."""
    again = case("example-erased-again").index
    with raises_code("ledger-erasure-undone", match="2 erasures"):
        replay(ledger().envelopes[:again])
    replay(ledger().envelopes[: again + 1])


def test_a_ledger_begins_with_the_creation_of_each_memory() -> None:
    with raises_code("ledger-creation-missing"):
        replay(ledger().envelopes[case("ward-created").index + 1 :])


def test_no_leaf_is_later_than_the_clock_or_a_head_that_was_seen() -> None:
    made, envelopes = int(clock().timestamp()), ledger().envelopes
    replay(envelopes, now=made - 300)
    with raises_code("ledger-time-future"):
        replay(envelopes, now=made - 301)
    half = parse_checkpoint(ledger().heads[9].text)
    replay(envelopes, seen=[(half, made - 300)])
    with raises_code("ledger-time-after-head", match="leaf 0"):
        replay(envelopes, seen=[(half, made - 301)])
    # It is held to be a head of this ledger.
    with raises_code("ledger-root-mismatch"):
        replay(envelopes, seen=[(Checkpoint(ORIGIN, half.size, bytes(32)), made)])
    with raises_code("ledger-size-mismatch"):
        replay(envelopes, seen=[(Checkpoint(ORIGIN, len(envelopes) + 1, half.root), made)])


@pytest.mark.parametrize("name", ["ward-created", "ward-decrement", "archive-admitted-5"])
def test_inclusion(name: str) -> None:
    made, other = case(name), case("ward-noop")
    verify_inclusion(made.envelope, made.inclusion, LOG_KEYS, ORIGIN)
    with raises_code("inclusion-root-mismatch"):
        verify_inclusion(other.envelope, made.inclusion, LOG_KEYS, ORIGIN)
    with raises_code("checkpoint-origin-mismatch"):
        verify_inclusion(made.envelope, made.inclusion, LOG_KEYS, "ledger.example/other")
    with raises_code("cosignature-quorum-missed"):
        verify_inclusion(made.envelope, made.inclusion, LOG_KEYS, ORIGIN, witnesses=[WITNESS], quorum=1)


def test_consistency() -> None:
    whole = ledger()
    for old in (1, 7, len(whole.envelopes)):
        verify_consistency(whole.heads[old - 1].to_bytes(), whole.extension(old), LOG_KEYS, ORIGIN)
    kept = whole.heads[6].to_bytes()
    with raises_code("log-proof-old-size-mismatch"):
        verify_consistency(kept, whole.extension(8), LOG_KEYS, ORIGIN)
    with raises_code("cosignature-quorum-missed"):
        verify_consistency(kept, whole.extension(7), LOG_KEYS, ORIGIN, witnesses=[WITNESS], quorum=1)
    proof = parse_extension_proof(whole.extension(7))
    wrong = ExtensionProof(7, (*proof.path[:-1], bytes(32)), proof.checkpoint).to_bytes()
    with raises_code("consistency-new-root-mismatch"):
        verify_consistency(kept, wrong, LOG_KEYS, ORIGIN)
    forked = sign_checkpoint(Checkpoint(ORIGIN, 7, bytes(32)), STRANGER).to_bytes()
    with raises_code("note-signer-unknown"):
        verify_consistency(forked, whole.extension(7), LOG_KEYS, ORIGIN)


def test_witnesses() -> None:
    envelopes = ledger().envelopes
    made = int(clock().timestamp())
    for seen, error in ((made - 300, None), (made - 301, "ledger-time-after-head")):
        cosigned = cosign_checkpoint(ledger().heads[-1], WITNESS.name, STRANGER, seen).to_bytes()
        with nullcontext() if error is None else raises_code(error):
            verify_ledger(envelopes, cosigned, TRUSTED, LOG_KEYS, ORIGIN, witnesses=[WITNESS], quorum=1)
    with raises_code("cosignature-quorum-missed"):
        replay(envelopes, witnesses=[WITNESS], quorum=1)
    with pytest.raises(InputError):
        replay(envelopes, quorum=1)
    with pytest.raises(InputError, match="without a quorum"):
        replay(envelopes, witnesses=iter([WITNESS]))


def test_whoever_signs_the_leaves_is_no_witness() -> None:
    """Where receipts and heads have keys of their own, neither watches the other."""
    signer = NoteKey("sock.example", SIGNER.public, NoteAlgorithm.COSIGNATURE_V1)
    cosigned = cosign_checkpoint(ledger().heads[-1], signer.name, SIGNER, int(clock().timestamp())).to_bytes()
    with raises_code("witness-is-log"):
        verify_ledger(ledger().envelopes, cosigned, TRUSTED, LOG_KEYS, ORIGIN, witnesses=[signer], quorum=1)
