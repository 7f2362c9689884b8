"""The log replayed: one history a memory, and a name for every break in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from expunge.errors import InputError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, cosign_checkpoint, sign_checkpoint
from expunge.ledger.envelope import Envelope, parse_envelope, sign_statement
from expunge.ledger.event import EVENT_TYPE, Event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import ExtensionProof, parse_extension_proof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.ledger.statement import Statement, Subject
from expunge.verify import verify_consistency, verify_inclusion, verify_log
from raising import raises_code

from .alter import DROP, Path, document, forge, put
from .cases import LOG_KEYS, LOGGER, ORIGIN, SIGNER, STRANGER, TRUSTED, Case, case, clock, ledger

OTHER = "ab" * 32
WITNESS = NoteKey("witness.example/w1", STRANGER.public, NoteAlgorithm.COSIGNATURE_V1)


def head(envelopes: list[bytes]) -> bytes:
    root = HashTree([leaf_hash(envelope) for envelope in envelopes]).root()
    return sign_checkpoint(Checkpoint(ORIGIN, len(envelopes), root), LOGGER).to_bytes()


def replay(envelopes: list[bytes], **options: Any) -> None:
    """Verify a log whose tree was made right for whatever is in it."""
    verify_log(envelopes, head(envelopes), TRUSTED, LOG_KEYS, ORIGIN, **options)


def instead(made: Case, envelope: bytes) -> list[bytes]:
    envelopes = list(ledger().envelopes)
    envelopes[made.index] = envelope
    return envelopes


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 20, None])
def test_the_log_and_its_prefixes(size: int | None) -> None:
    envelopes = ledger().envelopes[:size]
    if size is not None and size > 0:
        assert head(envelopes) == ledger().heads[size - 1].to_bytes()
    replay(envelopes)


def test_generators_will_do() -> None:
    envelopes = ledger().envelopes
    verify_log(iter(envelopes), head(envelopes), iter(TRUSTED), iter(LOG_KEYS), ORIGIN)


def test_a_log_that_is_not_the_heads() -> None:
    envelopes, newest = ledger().envelopes, ledger().heads[-1].to_bytes()
    ward, example = case("ward-rebuilt").index, case("example-created").index
    swapped = list(envelopes)
    swapped[ward], swapped[example] = swapped[example], swapped[ward]
    for wrong, error in (
        (envelopes[:-1], "log-size-mismatch"),
        ([*envelopes, sign_statement(foreign(), SIGNER).to_bytes()], "log-size-mismatch"),
        (swapped, "log-root-mismatch"),
    ):
        with raises_code(error):
            verify_log(wrong, newest, TRUSTED, LOG_KEYS, ORIGIN, also={"urn:example:other"})


def test_a_head_that_is_not_the_logs() -> None:
    envelopes = ledger().envelopes
    stranger = NoteKey(ORIGIN, STRANGER.public)
    with raises_code("note-signer-unknown"):
        verify_log(envelopes, head(envelopes), TRUSTED, [stranger], ORIGIN)
    with raises_code("checkpoint-origin-mismatch"):
        verify_log(envelopes, head(envelopes), TRUSTED, LOG_KEYS, "ledger.example/other")
    size = len(envelopes)
    altered = head(envelopes).replace(b"\n%d\n" % size, b"\n%d\n" % (size + 1))
    assert altered != head(envelopes)
    with raises_code("note-signature-invalid"):
        verify_log(envelopes, altered, TRUSTED, LOG_KEYS, ORIGIN)


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
        with raises_code("log-receipt-invalid", match=f"leaf {made.index}: {cause}") as caught:
            replay(instead(made, envelope))
        assert isinstance(caught.value.__cause__, VerificationError)
        assert caught.value.__cause__.code == cause


def foreign() -> Statement:
    return Statement((Subject("receipts", OTHER),), "urn:example:other", {"summary": 2})


def test_statements_of_another_kind() -> None:
    envelopes = [*ledger().envelopes, sign_statement(foreign(), SIGNER).to_bytes()]
    replay(envelopes, also={"urn:example:other"})
    with raises_code("log-receipt-invalid") as caught:
        replay(envelopes)
    assert isinstance(caught.value.__cause__, VerificationError)
    assert caught.value.__cause__.code == "statement-predicate-type-mismatch"
    envelopes[-1] = sign_statement(foreign(), STRANGER).to_bytes()
    with raises_code("log-receipt-invalid"):
        replay(envelopes, also={"urn:example:other"})


def event(kind: Any, made: Case | None, state: str = OTHER, **facts: Any) -> bytes:
    """A signed event about the memory of a receipt; without one, the summary of a subject's erasure."""
    subject = Subject("subject" if made is None else "state", state)
    memory = None if made is None else document(made)["memory"]
    return sign_statement(Event.at(clock, kind, memory, subject, **facts).to_statement(), SIGNER).to_bytes()


def test_events_agree_with_the_receipts() -> None:
    last = max((one for one in ledger().cases.values() if one.name.startswith("ward-")), key=lambda one: one.index)
    found = document(last)
    state, sizes = found["state"]["after"], found["entries"]["after"]
    older = document(case("ward-created"))["state"]["after"]
    log, also = list(ledger().envelopes), {EVENT_TYPE}
    held = event("held", last, state, hold=7)
    dropped = event("dropped", last, state, **sizes)
    replay([*log, held, event("released", last, state, hold=7), dropped], also=also)
    with raises_code("log-receipt-invalid", match="statement-predicate-type-mismatch"):
        replay([*log, held])
    for wrong in (
        event("held", last, OTHER, hold=7),
        event("dropped", last, OTHER, **sizes),
        event("dropped", last, older, **sizes),
        event("dropped", last, state, live=sizes["live"] + 1, pruned=sizes["pruned"]),
    ):
        with raises_code("log-event-mismatch", match=f"leaf {len(log)}, memory"):
            replay([*log, wrong], also=also)
    # The state from before a restoration, as older programs named it where a restore lost a hold.
    replay([*log, event("released", last, older, hold=7)], also=also)
    malformed = Statement((Subject("state", state),), EVENT_TYPE, {"event": "held"})
    with raises_code("log-receipt-invalid", match="statement-event-invalid"):
        replay([*log, sign_statement(malformed, SIGNER).to_bytes()], also=also)


def test_nothing_happens_to_a_memory_that_was_dropped() -> None:
    made = case("ward-decrement")
    found, log, also = document(made), list(ledger().envelopes), {EVENT_TYPE}
    dropped = event("dropped", made, found["state"]["after"], **found["entries"]["after"])
    replay([*log[: made.index + 1], dropped], also=also)
    with raises_code("log-memory-dropped"):
        replay([*log[: made.index + 1], dropped, *log[made.index + 1 :]], also=also)
    for later in (dropped, event("held", made, found["state"]["after"], hold=7)):
        with raises_code("log-memory-dropped"):
            replay([*log[: made.index + 1], dropped, later], also=also)
    # A log may begin after all receipts of a memory.
    replay([dropped], also=also)
    with raises_code("log-memory-dropped"):
        replay([dropped, made.envelope], also=also)


def test_a_summary_counts_receipts_that_are_there() -> None:
    made = case("ward-decrement")
    found, log, also = document(made), list(ledger().envelopes), {EVENT_TYPE}
    part = {"memory": found["memory"], "outcome": "decrement", "leaf": made.index, "entries": found["applied"]["count"]}
    replay([*log, event("subject_erased", None, memories=[part])], also=also)
    for name, wrong in (
        ("memory", "00000000-0000-4000-8000-000000000000"),
        ("outcome", "certified_zero"),
        ("leaf", made.index + 1),
        ("leaf", len(log) + 1),
        ("entries", part["entries"] + 1),
    ):
        with raises_code("log-event-mismatch"):
            replay([*log, event("subject_erased", None, memories=[part | {name: wrong}])], also=also)


ENTRIES = {"before": {"live": 33, "pruned": 0}, "after": {"live": 32, "pruned": 0}}
ERASED = case("ward-decrement").predicate.applied.commitments[0]
GONE = case("forgetting-renewed").predicate.applied.commitments[0]
# (case, field, value, error): a receipt that is right by itself and does not follow from those before it.
BREAKS: list[tuple[str, str, Any, str]] = [
    ("ward-decrement", "state.before", OTHER, "log-state-broken"),
    ("ward-decrement", "state.after", OTHER, "log-state-broken"),
    ("ward-decrement", "memory", case("example-created").predicate.memory, "log-state-broken"),
    ("ward-decrement", "entries", ENTRIES, "log-entries-broken"),
    ("ward-decrement", "edit", 2, "log-edit-order"),
    ("ward-decrement", "edit", 0, "log-edit-order"),
    ("ward-decrement", "edit", 99, "log-edit-order"),
    ("ward-decrement", "problem.cap", "0x1.0000000000000p-1", "log-problem-changed"),
    ("ward-decrement", "problem.sigma", "0x1.8000000000000p+1", "log-problem-changed"),
    ("ward-decrement", "problem.dimension", 4, "log-problem-changed"),
    ("ward-decrement", "problem.initial_entries", 31, "log-problem-changed"),
    ("ward-rebuilt", "problem.sigma", "0x1.8000000000000p+1", "log-problem-changed"),
    ("example-restored", "state.after", OTHER, "log-restoration-unknown"),
    ("example-restored", "restored_edit", 1, "log-restoration-unknown"),
    ("example-restored", "entries.after.pruned", 0, "log-restoration-unknown"),
    ("ward-rescued-admission", "applied.commitments", [ERASED], "log-erasure-undone"),
    ("ward-rescued-deletion", "applied.commitments", [ERASED], "log-erasure-undone"),
    ("example-erased-again", "applied.commitments", [], "log-erasure-undone"),
    ("forgetting-ended", "warranties.ended.commitments", [GONE], "log-erasure-undone"),
    ("forgetting-ended-notice", "warranties.ended.commitments", [GONE], "log-erasure-undone"),
]


@pytest.mark.parametrize(("name", "field", "value", "error"), BREAKS)
def test_a_receipt_that_does_not_follow(name: str, field: str, value: Any, error: str) -> None:
    made = case(name)
    path: Path = tuple(field.split("."))
    envelope = forge(made, put(document(made), path, value), subjects=True)
    with raises_code(error):
        replay(instead(made, envelope))


@pytest.mark.parametrize("part", ["ended", "expired", "renewed"])
def test_a_certificate_that_has_ended_neither_expires_nor_comes_back(part: str) -> None:
    ended = case("forgetting-ended").predicate.ended.commitments
    last = case("forgetting-later")
    listed = {"commitments": [ended[0]], "count": 1}
    with raises_code("log-certificate-ended"):
        replay(instead(last, forge(last, put(document(last), ("warranties", part), listed))))


def test_a_receipt_left_out() -> None:
    for name in ("ward-decrement", "ward-pruned-archive", "example-admitted-expiring"):
        envelopes = list(ledger().envelopes)
        del envelopes[case(name).index]
        with raises_code("log-state-broken"):
            replay(envelopes)


def test_a_memory_created_twice() -> None:
    with raises_code("log-creation-repeated"):
        replay([*ledger().envelopes, case("ward-created").envelope])


def test_an_erasure_that_a_backup_undid() -> None:
    """A restored memory is in order only when what was erased since the backup is erased again."""
    again = case("example-erased-again").index
    with raises_code("log-erasure-undone", match="2 erasures"):
        replay(ledger().envelopes[:again])
    replay(ledger().envelopes[: again + 1])
    # The same for a restoration that does not state the edit, as older ones do not.
    made = case("example-restored")
    older = instead(made, forge(made, put(document(made), ("restored_edit",), DROP)))
    with raises_code("log-erasure-undone", match="2 erasures"):
        replay(older[:again])
    replay(older)


def test_a_log_may_begin_with_a_memory_that_is_older_than_it() -> None:
    replay(ledger().envelopes[case("ward-created").index + 1 :])


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
    cosigned = cosign_checkpoint(ledger().heads[-1], WITNESS.name, STRANGER, 1_700_000_000).to_bytes()
    verify_log(envelopes, cosigned, TRUSTED, LOG_KEYS, ORIGIN, witnesses=[WITNESS], quorum=1)
    with raises_code("cosignature-quorum-missed"):
        replay(envelopes, witnesses=[WITNESS], quorum=1)
    with pytest.raises(InputError):
        replay(envelopes, quorum=1)
    with pytest.raises(InputError, match="without a quorum"):
        replay(envelopes, witnesses=iter([WITNESS]))
