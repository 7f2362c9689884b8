"""Submits heads to witnesses and takes their cosignatures (c2sp.org/tlog-witness).

A client keeps nothing about a witness: it asks with the old size 0 first, and where the witness has cosigned a head
before, the answer names its size, and the next request proves that the new head extends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from expunge.errors import StoreError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint, verify_cosignatures
from expunge.ledger.encoding import decode_decimal
from expunge.ledger.merkle.proof_file import ExtensionProof
from expunge.ledger.note import NoteKey, NoteSignature, SignedNote, parse_signature_lines
from expunge.witnessing.post import Answer, post

__all__ = ["SIZE_MEDIA_TYPE", "request_cosignatures"]

SIZE_MEDIA_TYPE = "text/x.tlog.size"
# Each conflict means that somebody else submitted a head in between.
_ATTEMPTS = 4


def request_cosignatures(
    url: str,
    head: SignedNote,
    prove: Callable[[int], Sequence[bytes]],
    witnesses: Sequence[NoteKey],
    *,
    log_keys: Sequence[NoteKey],
    timeout: float = 10.0,
) -> tuple[NoteSignature, ...]:
    """Cosignatures on `head` by a witness, verified.

    Parameters
    ----------
    url
        The witness's submission prefix, http or https.
    head
        A head that the log signed.
    prove
        Returns the consistency path from an older size to the head.
    witnesses
        Verifier keys that the witness may sign with. Lines by other keys are dropped.
    log_keys
        The keys of the log; none of them may be a witness's.
    timeout
        Seconds for each request.

    Raises
    ------
    StoreError
        ``server-unreachable``, also where the witness has a fault of its own.
    VerificationError
        ``witness-refused``; ``witness-answer-invalid``; ``consistency-sizes-reversed``, where the witness cosigned a
        larger head; ``cosignature-*``, where a cosignature is false.

    """
    size = parse_checkpoint(head.text).size
    old = 0
    for _ in range(_ATTEMPTS):
        body = ExtensionProof(old, tuple(prove(old)), head).to_bytes()
        answer = post(f"{url.rstrip('/')}/add-checkpoint", body, "text/plain; charset=utf-8", timeout=timeout)
        if answer.status == 200:
            return _cosignatures(url, head, answer, witnesses, log_keys)
        if answer.status != 409:
            raise _refused(url, answer)
        old = _size(url, answer)
        if old > size:
            raise VerificationError(
                f"{url} has cosigned a head of {old} leaves, and this one has {size}: the log was cut off, or the head "
                "is not the newest",
                code="consistency-sizes-reversed",
            )
    raise StoreError(f"{url} had another size each time, {_ATTEMPTS} times", code="server-unreachable")


def _cosignatures(
    url: str, head: SignedNote, answer: Answer, witnesses: Sequence[NoteKey], log_keys: Sequence[NoteKey]
) -> tuple[NoteSignature, ...]:
    try:
        lines = parse_signature_lines(answer.body)
    except VerificationError as problem:
        raise VerificationError(f"{url} answered with {problem}", code="witness-answer-invalid") from None
    known = {(key.name, key.key_id): key for key in witnesses}
    found = tuple(line for line in lines if (line.name, line.key_id) in known)
    if not found:
        named = ", ".join(sorted({line.name for line in lines}))
        raise VerificationError(
            f"{url} cosigned as {named[:200]}, and no given key is one of it", code="witness-answer-invalid"
        )
    signers = list(dict.fromkeys(known[line.name, line.key_id] for line in found))
    verify_cosignatures(SignedNote(head.text, found), signers, 1, log_keys=log_keys, now=int(time.time()))
    return found


def _size(url: str, answer: Answer) -> int:
    text = answer.body.decode("ascii", "replace")
    size = decode_decimal(text.removesuffix("\n"))
    if size is None or answer.media_type != SIZE_MEDIA_TYPE:
        raise VerificationError(
            f"{url} answered 409 without the size that it has cosigned ({SIZE_MEDIA_TYPE})",
            code="witness-answer-invalid",
        )
    return size


def _refused(url: str, answer: Answer) -> VerificationError | StoreError:
    said = " ".join(answer.body.decode("utf-8", "replace").split())[:200]
    text = f"{url} answered {answer.status}{f': {said}' if said else ''}"
    if answer.status >= 500 or answer.status == 429:
        return StoreError(text, code="server-unreachable")
    return VerificationError(text, code="witness-refused")
